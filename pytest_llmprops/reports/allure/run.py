"""The files of an Allure results folder for the whole run: environment, categories, metrics, summary."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_llmprops.core.numbers import percent
from pytest_llmprops.core.texts import visible
from pytest_llmprops.core.verdicts import Group, VerdictRecord
from pytest_llmprops.records.files import plain
from pytest_llmprops.records.gate import Check, GateResult
from pytest_llmprops.records.run import ModelMetadata, RunMetadata
from pytest_llmprops.reports.allure.case import COUNTEREXAMPLE, EXPECTATION, FAULT
from pytest_llmprops.reports.columns import columns_of
from pytest_llmprops.reports.gate import gate_lines, loss_text
from pytest_llmprops.reports.terminal import summary_lines
from pytest_llmprops.runs.benchmark_metadata import headline, title_of
from pytest_llmprops.runs.summary import pooled_accuracy

ENVIRONMENT = "environment.properties"
CATEGORIES = "categories.json"
METRICS = "llmprops-perf.json"
GLOBALS = "llmprops-globals.json"
TABLE = "llmprops-results-attachment.csv"
SUMMARY = "llmprops-summary-attachment.txt"
GATE = "llmprops-gate-attachment.json"
GATE_TEXT = "llmprops-gate-attachment.txt"
#: key of the environment with the run's id
RUN = "Run"
#: keys of the environment with the line of the decision, and with the accuracy on the headline tasks
DECISION, ACCURACY = "Decision", "Accuracy"
MOST_LOSSES = 3
EARLIER = "Results of earlier runs"


def categories() -> list[dict[str, Any]]:
    """Return the content of ``categories.json``: kinds of failures, matched by the beginnings of their messages.

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


def environment(facts: RunMetadata, earlier: int = 0) -> dict[str, str]:
    """Return the decision and the accuracies, as on the first screen of a report, then what the run measured.

    :param facts: ``run.json``. :param earlier: number of result files of earlier runs in the folder.
    """
    entries: dict[str, str] = {}
    if facts.gate is not None:
        entries[DECISION] = facts.gate.line
        if facts.gate.losses:
            entries["Lost"] = "; ".join(map(loss_text, facts.gate.losses[:MOST_LOSSES]))
    counted = headline(facts.summary, facts)
    if (share := pooled_accuracy(counted)) is not None:
        entries[ACCURACY] = percent(share)
    for measured, name in dict.fromkeys((row.model, row.benchmark) for row in counted):
        rows = [row for row in counted if (row.model, row.benchmark) == (measured, name)]
        if len(rows) < len(counted) and (share := pooled_accuracy(rows)) is not None:
            of = f" of {measured}" if len(facts.models) > 1 else ""
            entries[f"{ACCURACY}{of} on {title_of(name, facts)}"] = percent(share)
    for label, model in facts.models.items():
        entries[f"Model {label}"] = _model(model)
    for role, model in facts.helpers.items():
        entries[f"Helper {role}"] = _model(model)
    for name, protocol in facts.measured_protocols.items():
        settings = ", ".join(f"{k} {v}" for k, v in protocol.settings.items())
        entries[f"Protocol {name}"] = f"{protocol.name} ({settings})" if settings else protocol.name
    options = facts.options
    entries["Items"] = str(options.get("source", ""))
    if options.get("limit"):
        entries["Items"] += f", {options['limit']} of each task and language"
    entries["Seed"] = str(options.get("seed", 0))
    for label, texts in facts.deviations.items():
        entries[f"Forced by the API of {label}"] = "; ".join(texts)
    calls = facts.calls
    if calls.requests:
        entries["Calls"] = f"{calls.sent} made, {calls.cache_hits} replies from the store"
    entries["Started"] = facts.started
    entries["Complete"] = "yes" if facts.complete else "no"
    for name in ("pytest-llmprops", "pytest", "python"):
        if facts.versions.get(name):
            entries[f"Version {name}"] = facts.versions[name]
    if facts.git is not None:
        entries["Commit"] = facts.git.commit[:12] + (" (changed)" if facts.git.dirty else "")
    entries[RUN] = facts.run_id
    if earlier:
        entries[EARLIER] = f"{earlier} in this folder: give --clean-alluredir to remove them"
    return entries


def _model(model: ModelMetadata) -> str:
    parts = [model.spec]
    served = [name for name in model.served_as or () if name != model.spec]
    if served:
        parts.append("served as " + ", ".join(served))
    revision = model.identity.get("revision") if isinstance(model.identity, Mapping) else None
    if revision:
        parts.append(f"revision {revision}")
    return "; ".join(parts)


def properties(values: Mapping[str, str]) -> str:
    """Return ``values`` in the format of Java's properties files."""
    return "".join(f"{_escaped(k, ' =:')}={_escaped(v, '')}\n" for k, v in values.items())


def _escaped(text: str, more: str) -> str:
    text = visible(" ".join(text.split())).replace("\\", "\\\\")
    for character in more:
        text = text.replace(character, "\\" + character)
    return text


def read_properties(text: str) -> dict[str, str]:
    """Read a text that :func:`properties` returned."""
    values = {}
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
            values[key] = current
    return values


def metrics(facts: RunMetadata) -> list[dict[str, Any]]:
    """Return accuracies in percent as Allure's metrics, of which it shows a trend over runs."""
    start, stop = map(_milliseconds, (facts.started, facts.finished))
    return [
        {
            "id": f"{facts.run_id}/{key}",
            "key": key,
            "value": round(100 * row.estimate[0], 2),
            "start": start,
            "stop": stop,
        }
        for row in facts.summary
        if row.estimate is not None and (key := "/".join(row.group))
    ]


def _milliseconds(time: str | None) -> int:
    return int(1000 * datetime.fromisoformat(time).timestamp()) if time else 0


def quality_gate(gate: GateResult) -> list[dict[str, Any]]:
    """Return results of Allure's quality gate: one for the decision, and one per check.

    :param gate: the gate's result from ``run.json``.
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


def table(facts: RunMetadata) -> str:
    """Return the rows of the summary as CSV, with accuracies in percent; the page shows it as a table."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    sizes, others = columns_of("allure", facts.summary)
    names = [[column.key for column in columns] for columns in (sizes, others)]
    writer.writerow([*Group._fields, *names[0], "accuracy", "from", "to", *names[1]])
    for row in facts.summary:
        shares = row.estimate or (None, None, None)
        percent = ["" if share is None else f"{100 * share:.1f}" for share in shares]
        left, right = ([c.value([row]) for c in columns] for columns in (sizes, others))
        writer.writerow([*row.group, *left, *percent, *right])
    return visible(out.getvalue())


def _check(check: Check) -> str:
    lines: list[str] = [check.verdict]
    lines += [
        f"{name}: {text}" for name in ("required", "measured", "reason") if (text := getattr(check, name))
    ]
    return "\n".join(lines)


def run_files(
    facts: RunMetadata,
    records: Sequence[VerdictRecord],
    folder: Path,
    *,
    notes: Iterable[str] = (),
    earlier: int = 0,
) -> dict[str, str]:
    """Return the files for the whole run: name -> text.

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
        files[GATE_TEXT] = visible("\n".join(gate_lines(gate, details=True))) + "\n"
        files[GATE] = _json(plain(gate))
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
