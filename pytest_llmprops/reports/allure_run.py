"""What the Allure results folder holds beside the cases: environment, categories, metrics, the run's summary."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_llmprops.core.gate_results import Check, GateResult
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.run_facts import ModelFacts, RunFacts
from pytest_llmprops.core.texts import visible
from pytest_llmprops.reports.allure_case import COUNTEREXAMPLE, EXPECTATION, FAULT
from pytest_llmprops.reports.gate import gate_lines
from pytest_llmprops.reports.terminal import summary_lines

ENVIRONMENT = "environment.properties"
CATEGORIES = "categories.json"
METRICS = "llmprops-perf.json"
GLOBALS = "llmprops-globals.json"
TABLE = "llmprops-results-attachment.csv"
SUMMARY = "llmprops-summary-attachment.txt"
GATE = "llmprops-gate-attachment.json"
GATE_TEXT = "llmprops-gate-attachment.txt"
#: key of the environment under which the run's id stands
RUN = "Run"
EARLIER = "Results of earlier runs"


def categories() -> list[dict[str, Any]]:
    """``categories.json``: what kinds of failures there are, told apart by how their messages begin.

    A wrong verdict that is reported as an expected failure has Allure's status ``skipped``.
    """
    answers = ["failed", "skipped"]
    kinds = [
        ("Wrong answers", answers, "wrong"),
        ("Refusals", answers, "refused"),
        ("Unreadable replies", answers, "unparsed"),
        ("Counterexamples", answers, COUNTEREXAMPLE),
        ("Backend errors", ["broken", "failed"], "backend error"),
        ("Faults in benchmark code", ["broken", "failed"], FAULT),
        ("Unmet expectations", ["failed"], EXPECTATION),
    ]
    return [
        {"name": name, "matchedStatuses": statuses, "messageRegex": f"^{prefix}: "}
        for name, statuses, prefix in kinds
    ]


def environment(facts: RunFacts, earlier: int = 0) -> dict[str, str]:
    """Model and protocol, and whatever else tells this run from another.

    :param facts: ``run.json``. :param earlier: number of result files that lay in the folder before.
    """
    found: dict[str, str] = {}
    for label, model in facts.models.items():
        found[f"Model {label}"] = _model(model)
    for role, model in facts.helpers.items():
        found[f"Helper {role}"] = _model(model)
    for name, protocol in facts.protocols.items():
        settings = ", ".join(f"{k} {v}" for k, v in protocol.settings.items())
        found[f"Protocol {name}"] = f"{protocol.name} ({settings})" if settings else protocol.name
    options = facts.options
    found["Items"] = str(options.get("source", ""))
    if options.get("limit"):
        found["Items"] += f", {options['limit']} of each task and language"
    found["Seed"] = str(options.get("seed", 0))
    for label, texts in facts.deviations.items():
        found[f"Forced by the API of {label}"] = "; ".join(texts)
    calls = facts.calls
    if calls.requests:
        found["Calls"] = f"{calls.sent} made, {calls.cache_hits} replies from the store"
    found["Started"] = facts.started
    found["Complete"] = "yes" if facts.complete else "no"
    for name in ("pytest-llmprops", "pytest", "python"):
        if facts.versions.get(name):
            found[f"Version {name}"] = facts.versions[name]
    if facts.git is not None:
        found["Commit"] = facts.git.commit[:12] + (" (changed)" if facts.git.dirty else "")
    found[RUN] = facts.run_id
    if earlier:
        found[EARLIER] = f"{earlier} in this folder: give --clean-alluredir to leave them out"
    return found


def _model(model: ModelFacts) -> str:
    parts = [model.spec]
    served = [name for name in model.served_as or () if name != model.spec]
    if served:
        parts.append("served as " + ", ".join(served))
    revision = model.identity.get("revision") if isinstance(model.identity, Mapping) else None
    if revision:
        parts.append(f"revision {revision}")
    return "; ".join(parts)


def properties(values: Mapping[str, str]) -> str:
    """``values`` in the format of Java's properties files."""
    return "".join(f"{_escaped(k, ' =:')}={_escaped(v, '')}\n" for k, v in values.items())


def _escaped(text: str, more: str) -> str:
    text = visible(" ".join(text.split())).replace("\\", "\\\\")
    for character in more:
        text = text.replace(character, "\\" + character)
    return text


def read_properties(text: str) -> dict[str, str]:
    """Inverse of :func:`properties`, of the files that it writes."""
    found = {}
    for line in text.splitlines():
        key, value, current = "", None, ""
        characters = iter(line)
        for c in characters:
            if c == "\\":
                current += next(characters, "")
            elif c == "=" and value is None:
                key, value, current = current, "", ""
            else:
                current += c
        if key:
            found[key] = current
    return found


def metrics(facts: RunFacts) -> list[dict[str, Any]]:
    """Accuracies in percent for the page's metrics, whose trend Allure keeps between runs."""
    start, stop = map(_milliseconds, (facts.started, facts.finished))
    return [
        {
            "id": f"{facts.run_id}/{key}",
            "key": key,
            "value": round(100 * row.accuracy, 2),
            "start": start,
            "stop": stop,
        }
        for row in facts.summary
        if row.accuracy is not None and (key := "/".join(row.group))
    ]


def _milliseconds(time: str | None) -> int:
    return int(1000 * datetime.fromisoformat(time).timestamp()) if time else 0


def quality_gate(gate: GateResult) -> list[dict[str, Any]]:
    """The gate's rules as results of Allure's quality gate: one a check, and one for the decision.

    :param gate: the gate's result, as under ``gate`` in ``run.json``.
    """
    rows = []
    for rule in gate.rules:
        for check in rule.checks:
            rows.append(
                {
                    "success": check.verdict == "met",
                    "expected": visible(check.required),
                    "actual": visible(check.measured),
                    "rule": visible(f"{rule.name}: {check.kind}"),
                    "message": visible(_check(check)),
                    "testResults": [],
                }
            )
    decision = {
        "success": gate.passed,
        "expected": "pass",
        "actual": gate.decision,
        "rule": "decision",
        "message": visible(gate.line),
        "testResults": [],
    }
    return [decision, *rows]


def table(facts: RunFacts) -> str:
    """The summary's rows as CSV, which the page shows as a table; accuracies in percent."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = ("model", "benchmark", "task", "language", "source", "items")
    counts = ("wrong", "refused", "unparsed", "errors")
    writer.writerow([*columns, "accuracy", "from", "to", *counts])
    for row in facts.summary:
        shares = (row.accuracy, row.ci_low, row.ci_high)
        percent = ["" if share is None else f"{100 * share:.1f}" for share in shares]
        writer.writerow([*(getattr(row, n) for n in columns), *percent, *(getattr(row, n) for n in counts)])
    return visible(out.getvalue())


def _check(check: Check) -> str:
    lines: list[str] = [check.verdict]
    lines += [
        f"{name}: {text}" for name in ("required", "measured", "reason") if (text := getattr(check, name))
    ]
    return "\n".join(lines)


def run_files(
    facts: RunFacts,
    records: Sequence[VerdictRecord],
    folder: Path,
    *,
    notes: Iterable[str] = (),
    earlier: int = 0,
) -> dict[str, str]:
    """File name -> text of everything that is written once a run.

    :param facts: ``run.json`` at the end. :param records: lines of ``verdicts.jsonl``.
    :param folder: the run record's folder.
    """
    summary = "\n".join(summary_lines(facts, records, folder, notes)).strip("\n") + "\n"
    files = {
        ENVIRONMENT: properties(environment(facts, earlier)),
        CATEGORIES: _json(categories()),
        METRICS: _json(metrics(facts)),
        TABLE: table(facts),
        SUMMARY: summary,
    }
    now = _milliseconds(facts.finished)
    attachments = [
        _attachment("results by task", TABLE, "text/csv", now),
        _attachment("run summary", SUMMARY, "text/plain", now),
    ]
    errors = []
    gate = facts.gate
    if gate is not None:
        files[GATE_TEXT] = visible("\n".join(gate_lines(gate))) + "\n"
        files[GATE] = _json(gate.to_json())
        attachments.append(_attachment(f"gate: {gate.decision}", GATE_TEXT, "text/plain", now))
        attachments.append(_attachment("gate as JSON", GATE, "application/json", now))
    if facts.stopped:
        errors.append({"message": visible(f"the run stopped: {facts.stopped}"), "timestamp": now})
    files[GLOBALS] = _json({"attachments": attachments, "errors": errors})
    return files


def _attachment(name: str, source: str, kind: str, now: int) -> dict[str, Any]:
    return {"name": name, "source": source, "type": kind, "timestamp": now}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"
