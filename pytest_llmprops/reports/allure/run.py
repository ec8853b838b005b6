"""The files of an Allure results folder for the whole run: environment, categories, summary."""

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
from pytest_llmprops.reports.gate import gate_lines, loss_text
from pytest_llmprops.reports.tables import columns_of
from pytest_llmprops.reports.terminal import summary_lines
from pytest_llmprops.runs.benchmark_metadata import headline, title_of
from pytest_llmprops.runs.summary import pooled_accuracy

ENVIRONMENT = "environment.properties"
CATEGORIES = "categories.json"
GLOBALS = "llmprops-globals.json"
TABLE = "llmprops-results-attachment.csv"
SUMMARY = "llmprops-summary-attachment.txt"
GATE = "llmprops-gate-attachment.json"
GATE_TEXT = "llmprops-gate-attachment.txt"
#: what ``reports.allure.site`` builds pages with; Allure does not read it
SITE = "llmprops-site.json"
MOST_LOSSES = 3
#: labels that repeat others or name the machine
HIDDEN = ("host", "thread", "framework", "language", "package", "parentSuite", "suite", "subSuite")


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
        entries["Decision"] = facts.gate.line
        if facts.gate.losses:
            entries["Lost"] = "; ".join(map(loss_text, facts.gate.losses[:MOST_LOSSES]))
    counted = headline(facts.summary, facts)
    if (share := pooled_accuracy(counted)) is not None:
        entries["Accuracy"] = percent(share)
    for measured, name in dict.fromkeys((row.model, row.benchmark) for row in counted):
        rows = [row for row in counted if (row.model, row.benchmark) == (measured, name)]
        if len(rows) < len(counted) and (share := pooled_accuracy(rows)) is not None:
            of = f" of {measured}" if len(facts.models) > 1 else ""
            entries[f"Accuracy{of} on {title_of(name, facts)}"] = percent(share)
    for label, model in facts.models.items():
        entries[f"Model {label}"] = _model(model)
    for role, model in facts.helpers.items():
        entries[f"Helper {role}"] = _model(model)
    for name, protocol in facts.measured_protocols.items():
        settings = ", ".join(f"{k} {v}" for k, v in protocol.settings.items())
        entries[f"Protocol {name}"] = f"{protocol.name} ({settings})" if settings else protocol.name
    limit = f", {facts.options['limit']} of each task and language" if facts.options.get("limit") else ""
    entries["Items"] = f"{facts.options.get('source', '')}{limit}"
    entries["Seed"] = str(facts.options.get("seed", 0))
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
    entries["Run"] = facts.run_id
    if earlier:
        entries["Results of earlier runs"] = (
            f"{earlier} in this folder: give --clean-alluredir to remove them"
        )
    return entries


def _model(model: ModelMetadata) -> str:
    served = ", ".join(name for name in model.served_as or () if name != model.spec)
    revision = model.identity.get("revision") if isinstance(model.identity, Mapping) else None
    parts = (model.spec, served and f"served as {served}", revision and f"revision {revision}")
    return "; ".join(filter(None, parts))


def properties(values: Mapping[str, str]) -> str:
    """Return ``values`` in the format of Java's properties files."""
    return "".join(f"{_escaped(k, ' =:')}={_escaped(v, '')}\n" for k, v in values.items())


def _escaped(text: str, more: str) -> str:
    text = visible(" ".join(text.split())).replace("\\", "\\\\")
    for character in more:
        text = text.replace(character, "\\" + character)
    return text


def _milliseconds(time: str | None) -> int:
    return int(1000 * datetime.fromisoformat(time).timestamp()) if time else 0


def quality_gate(gate: GateResult) -> list[dict[str, Any]]:
    """Return results of Allure's quality gate: one for the decision, and one per check.

    :param gate: the gate's result from ``run.json``.
    """
    names = ("success", "expected", "actual", "rule", "message")
    rows: list[tuple[Any, ...]] = [(gate.passed, "pass", gate.decision, "decision", visible(gate.line))]
    for rule in gate.rules:
        for check in rule.checks:
            name = f"{rule.name}: {check.kind}"
            texts = (check.required, check.measured, name, _check(check))
            rows.append((check.verdict == "met", *map(visible, texts)))
    return [{**dict(zip(names, row, strict=True)), "testResults": []} for row in rows]


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


def heading(facts: RunMetadata) -> str:
    """Return the report's heading: the decision of a gate, or models and benchmarks, and the run's id."""
    if facts.gate is not None:
        return f"{facts.gate.line} · {facts.run_id}"
    parts = (facts.models, [title_of(name, facts) for name in facts.measured_protocols], [facts.run_id])
    return visible(" · ".join(filter(None, map(", ".join, parts))))


def site(facts: RunMetadata, earlier: int = 0) -> dict[str, Any]:
    """Return what ``reports.allure.site`` needs: Allure's configuration, its quality gate, and the headline figure.

    The tree groups by benchmark, task and language, and first by model if there are several.
    """
    tree = [*(["parentSuite"] if len(facts.models) > 1 else []), "epic", "feature", "story"]
    options = {
        "groupBy": tree,
        "defaultSortBy": "status,asc",
        "stepTreeExpansion": "expanded",
        "singleFile": True,
    }
    # All messages differ, so grouping by message would give one group per case.
    by_place = {"groupByMessage": False, "groupBy": [{"label": "epic"}, {"label": "feature"}]}
    return {
        "config": {
            "name": heading(facts),
            "plugins": {"awesome": {"options": options}, "agent": {"enabled": False}},
            "hideLabels": [label for label in HIDDEN if label not in tree],
            "categories": [category | by_place for category in categories()],
        },
        "gate": None if facts.gate is None else quality_gate(facts.gate),
        "accuracy": pooled_accuracy(headline(facts.summary, facts)),
        "earlier": earlier,
    }


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
        SITE: _json(site(facts, earlier)),
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
