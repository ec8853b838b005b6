"""Benchmarks whose clusters count once (``weighting = "cluster"``): summary, tables, comparison and gate agree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.registration import BenchmarkMetadata
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.files import plain
from pytest_llmprops.records.gate import GateResult
from pytest_llmprops.records.rows import SummaryRow
from pytest_llmprops.reports.allure import run as allure_run
from pytest_llmprops.reports.compare import terminal_lines
from pytest_llmprops.reports.page.content import report_on
from pytest_llmprops.reports.terminal import list_lines, show_lines
from pytest_llmprops.runs.catalog import Listed
from pytest_llmprops.runs.compare import compare
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.runs.summary import summary_rows
from pytest_llmprops.statistics.intervals import mean_interval
from tests.support.eras_records import explicit
from tests.support.gates import gate_of, judged
from tests.support.records import recorded, verdict

#: the paradigms of ERAS: the first 23 branch to the left, the others to the right
LEFT, RIGHT = range(1, 24), range(24, 40)


def pairs(right: Iterable[int], *, model: str = "model", right_pairs: int = 12) -> list[VerdictRecord]:
    """Return explicit ERAS verdicts; all pairs of the paradigms in ``right`` are correct, all others wrong."""
    correct = set(right)
    return [
        explicit(paradigm, number, float(paradigm in correct), 0.0, model=model)
        for paradigm in (*LEFT, *RIGHT)
        for number in range(1 if paradigm in LEFT else right_pairs)
    ]


#: MaxMatch: 20 of 23 left and 6 of 16 right paradigms are correct
MAXMATCH = [*range(1, 21), *range(24, 30)]


def row_of(records: list[VerdictRecord]) -> SummaryRow:
    [row] = summary_rows(records)
    return row


def test_the_accuracy_shown_is_a_mean_over_clusters() -> None:
    """One pair per left paradigm and twelve per right one: 42.8% of the pairs, but 66.7% of the paradigms."""
    row = row_of(pairs(MAXMATCH))
    assert row.accuracy == pytest.approx(92 / 215), "correct / (items - errors), as the record promises"
    assert row.cluster_accuracy == pytest.approx(26 / 39)
    assert row.estimate is not None
    value, low, high = row.estimate
    assert value == row.cluster_accuracy
    scores = [float(paradigm in MAXMATCH) for paradigm in (*LEFT, *RIGHT)]
    assert (low, high) == mean_interval(scores, [str(n) for n in range(39)])[:2], (
        "an interval over 39 paradigms"
    )
    # A benchmark whose items count once has the accuracy of its items, also in clusters.
    other = row_of([replace(r, benchmark="sums") for r in pairs(MAXMATCH)])
    assert (other.cluster_accuracy, other.estimate and other.estimate[0]) == (None, row.accuracy)


def test_every_table_shows_it(tmp_path: Path) -> None:
    """The summary, `runs list`, `compare`, the report and Allure show 66.7%, and none of them 42.8%."""
    run = read_run(recorded(tmp_path / "run", pairs(MAXMATCH)))
    other = read_run(recorded(tmp_path / "other", pairs(MAXMATCH)))
    page = report_on([run], {})
    assert page.table is not None
    shown = {
        "summary": "\n".join(show_lines(run)),
        "list": "\n".join(list_lines([Listed(run.folder, run.facts, "complete")], 200)),
        "compare": "\n".join(terminal_lines(compare([run, other]), 200)),
        "headline": f"{page.title} {page.table.rows[0][1].text}",
        "allure": allure_run.table(run.facts),
    }
    for name, text in shown.items():
        assert "66.7" in text or "0.667" in text, f"{name}: {text}"
        assert "42.8" not in text, f"{name}: {text}"


def test_errors_leave_their_cluster() -> None:
    """A pair in error does not count in its paradigm; a paradigm of errors only does not count at all."""
    records = pairs(MAXMATCH, right_pairs=2)
    failed = [
        replace(r, status="error", score=None) if r.cluster == "eras/39" or r.id.endswith("38/00000") else r
        for r in records
    ]
    assert row_of(failed).cluster_accuracy == pytest.approx(26 / 38)


def accuracy_check(result: GateResult) -> Any:
    [check] = [c for rule in result.rules for c in rule.checks if c.kind == "min_accuracy"]
    return check


def test_the_gate_decides_on_the_mean_over_clusters() -> None:
    """``min_accuracy`` is about the same number and interval as the summary shows."""
    records, row = pairs(MAXMATCH), row_of(pairs(MAXMATCH))
    assert row.estimate is not None
    check = accuracy_check(judged(gate_of({"benchmark": "eras", "min_accuracy": 0.45}), records))
    assert (check.value, check.ci_low, check.ci_high) == pytest.approx(row.estimate)
    assert check.verdict == "met", "the share of pairs, 42.8%, would fail"
    assert "mean of 39 clusters" in check.measured


def test_an_old_record_is_judged_by_the_installed_benchmark() -> None:
    """What the run recorded counts; without a record of the benchmark, the installed class does."""
    gate, records = gate_of({"benchmark": "eras", "min_accuracy": 0.45}), pairs(MAXMATCH)
    facts = plain(BenchmarkMetadata("ERAS", "pairs"))
    assert accuracy_check(judged(gate, records, benchmarks={"eras": facts})).value == pytest.approx(92 / 215)


def test_a_drop_is_a_mean_over_clusters(tmp_path: Path) -> None:
    """Gate and ``llmprops compare`` give the same drop: 3 of 39 paradigms, not 36 of 215 pairs."""
    old, new = pairs(MAXMATCH, model="old"), pairs([*range(1, 21), *range(24, 27)], model="new")
    result = judged(gate_of({"benchmark": "eras", "max_drop": 0.1}), new, old)
    [check] = [c for c in result.rules[0].checks if c.kind == "max_drop"]
    assert check.value == pytest.approx(-3 / 39)
    assert "3 lost and 0 gained of 39 clusters" in check.measured
    same = [[replace(r, model="m") for r in records] for records in (old, new)]
    folders = [recorded(tmp_path / name, r) for name, r in zip(("old", "new"), same, strict=True)]
    runs = [read_run(folder) for folder in folders]
    [contrast] = compare(runs).contrasts
    change, *collapsed = contrast.changes
    assert (change.pairs, change.lost, change.gained) == (215, 36, 0), "counts are of pairs"
    assert {row.member.kind for row in collapsed} == {"cluster"}
    assert change.result is not None
    assert (change.result.lost, change.result.gained, change.result.pairs) == (3, 0, 39)
    assert change.result.difference == pytest.approx(-3 / 39)


def test_a_rule_over_two_benchmarks() -> None:
    """In a rule over several benchmarks, a cluster that counts once counts like one item of the others."""
    others = [verdict("add", n, model="model") for n in range(61)]
    check = accuracy_check(judged(gate_of({"min_accuracy": 0.5}), [*others, *pairs(MAXMATCH)]))
    assert check.value == pytest.approx((61 + 26) / 100)
