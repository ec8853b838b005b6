"""Parts of the Allure report other than cases: environment, categories, metrics, summary and gate."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.core.gate_results import GateResult
from pytest_llmprops.core.run_metadata import RunMetadata
from pytest_llmprops.core.texts import visible
from pytest_llmprops.reports.allure import run, site

CHECK = {
    "kind": "min_accuracy",
    "required": "at least 80%",
    "measured": "50.0% (31.3 to 68.7)",
    "verdict": "failed",
    "reason": "the lower limit is below 80%",
}
GATE_JSON: dict[str, Any] = {
    "decision": "fail",
    "passed": False,
    "file": "gate.toml",
    "baseline": None,
    "line": "gate: fail, rhyme is too low",
    "reasons": ["one reason"],
    "notes": ["one note"],
    "rules": [
        {"name": "rhyme", "verdict": "failed", "items": 30, "checks": [CHECK]},
        {"name": "end", "verdict": "met", "items": 30, "checks": [CHECK | {"verdict": "met", "reason": ""}]},
    ],
}
ROW = {
    "model": "m", "benchmark": "htest", "task": "rhyme", "language": "en", "source": "builtin", "items": 4,
    "clusters": 4, "errors": 0, "correct": 1, "wrong": 2, "refused": 1, "unparsed": 0, "accuracy": 0.25,
    "ci_low": 0.05, "ci_high": 0.7, "ci_method": "wilson",
}  # fmt: skip
FACTS_JSON: dict[str, Any] = {
    "run_id": "run-1",
    "started": "2026-01-02T03:04:05+00:00",
    "finished": "2026-01-02T03:05:05+00:00",
    "complete": True,
    "models": {
        "m": {"spec": "hf:m", "served_as": ["m-0613"], "identity": {"revision": "abc"}, "pinned": True}
    },
    "helpers": {"reader": {"spec": "gpt-4o"}},
    "protocols": {"htest": {"name": "quick", "settings": {"k": 14}}},
    "options": {"source": "builtin", "limit": 4, "seed": 7},
    "versions": {"python": "3.11", "pytest": "9"},
    "git": {"commit": "0123456789abcdef", "dirty": True},
    "deviations": {"m": ["no temperature"]},
    "calls": {},
    "summary": [ROW, ROW | {"task": "end", "accuracy": None, "ci_low": None, "ci_high": None}],
    "metrics": [],
}
GATE = GateResult.from_json(GATE_JSON)
FACTS = RunMetadata.from_json(FACTS_JSON, "run-1")


@given(st.dictionaries(st.text(min_size=1).filter(str.strip), st.text()))
def test_properties_are_read_back(values: dict[str, str]) -> None:
    """All keys and values read back, with white space and control characters replaced."""

    def plain(text: str) -> str:
        return visible(" ".join(text.split()))

    text = run.properties(values)
    assert text.count("\n") == len(values)
    assert run.read_properties(text) == {plain(k): plain(v) for k, v in values.items()}


def test_environment_names_what_was_measured() -> None:
    """The environment has the model with revision and served name, protocol, items, seed and versions."""
    known = run.environment(FACTS)
    assert known["Model m"] == "hf:m; served as m-0613; revision abc"
    assert known["Helper reader"] == "gpt-4o"
    assert known["Protocol htest"] == "quick (k 14)"
    assert known["Items"] == "builtin, 4 of each task and language"
    assert (known["Seed"], known["Run"], known["Version pytest"]) == ("7", "run-1", "9")
    assert known["Forced by the API of m"] == "no temperature"
    assert known["Commit"] == "0123456789ab (changed)"
    assert run.EARLIER not in known
    assert run.environment(FACTS, earlier=3)[run.EARLIER].startswith("3 ")


def test_environment_and_heading_name_only_measured_benchmarks() -> None:
    """Benchmarks without a case, which ``-k`` deselected, are in neither; without any verdict, all are."""
    protocols = dict.fromkeys(("htest", "homophones", "eras", "oracle"), FACTS.protocols["htest"])
    facts = replace(FACTS, protocols=protocols, not_served={"eras": {"m": 3}})
    known = run.environment(facts)
    assert [name for name in known if name.startswith("Protocol ")] == ["Protocol htest", "Protocol eras"]
    assert site.report_name(known) == "m · H-TEST, ERAS · run-1"
    empty = run.environment(replace(facts, summary=(), not_served={}))
    assert sum(name.startswith("Protocol ") for name in empty) == 4


def test_categories_begin_with_their_kind() -> None:
    """Each category matches only the messages of its kind."""
    rows = run.categories()
    for row in rows:
        # allure-pytest puts the kind of error before the message of a search.
        message = re.sub(r"\((.*)\)\?", r"\1", row["messageRegex"]).lstrip("^") + "wrong: refused: text"
        assert [r["name"] for r in rows if re.search(r["messageRegex"], message)] == [row["name"]]


def test_files_of_a_run_hold_the_gate() -> None:
    """Summary, table and gate are global attachments whose files exist."""
    files = run.run_files(replace(FACTS, gate=GATE), [], Path("runs/run-1"), notes=["a note"])
    shown = json.loads(files[run.GLOBALS])
    assert [a["name"] for a in shown["attachments"]] == [
        "results by task", "run summary", "gate: fail", "gate as JSON",
    ]  # fmt: skip
    assert all(a["source"] in files for a in shown["attachments"])
    assert GateResult.from_json(json.loads(files[run.GATE])) == GATE
    assert files[run.GATE_TEXT].endswith("gate decision: gate: fail, rhyme is too low\n")
    assert "FAILED" in files[run.GATE_TEXT]
    assert "note: a note" in files[run.SUMMARY]
    rows = list(csv.DictReader(files[run.TABLE].splitlines()))
    assert (rows[0]["task"], rows[0]["accuracy"], rows[0]["from"], rows[0]["to"]) == (
        "rhyme",
        "25.0",
        "5.0",
        "70.0",
    )
    assert rows[1]["accuracy"] == ""
    assert shown["errors"] == []


def test_files_of_a_stopped_run_without_a_gate() -> None:
    """Without a gate the report shows none; the reason for the stop is a global error."""
    files = run.run_files(replace(FACTS, stopped="wrong key"), [], Path("runs/run-1"))
    assert run.GATE not in files
    [error] = json.loads(files[run.GLOBALS])["errors"]
    assert error["message"] == "the run stopped: wrong key"


def test_metrics_are_accuracies_in_percent() -> None:
    """Each task with an accuracy is a metric with the same key in every run."""
    [metric] = run.metrics(FACTS)
    assert (metric["key"], metric["value"]) == ("m/htest/rhyme/en/builtin", 25.0)
    assert metric["stop"] - metric["start"] == 60_000


def test_quality_gate_has_one_row_per_check_and_one_for_the_decision() -> None:
    """The gate's decision comes first; each check shows the requirement and the measurement."""
    decision, *checks = run.quality_gate(GATE)
    assert (decision["success"], decision["message"]) == (False, GATE.line)
    assert [(c["rule"], c["success"]) for c in checks] == [
        ("rhyme: min_accuracy", False),
        ("end: min_accuracy", True),
    ]
    assert "required: at least 80%\nmeasured: 50.0%" in checks[0]["message"]
    assert {"expected", "actual", "testResults"} <= decision.keys()
