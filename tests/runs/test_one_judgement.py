"""Gate, compare and report agree on every pair of runs, and seldom call an unchanged model worse or better."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_llmprops.core.field_types import RecordStatus
from pytest_llmprops.core.numbers import point_range, points
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.files import from_plain, plain
from pytest_llmprops.records.gate import GateResult
from pytest_llmprops.reports.compare import terminal_lines
from pytest_llmprops.reports.gate import gate_lines
from pytest_llmprops.reports.kit.generic import change_cells
from pytest_llmprops.reports.kit.series import Measured, series_of
from pytest_llmprops.reports.page.findings import finding
from pytest_llmprops.runs.compare import compare
from pytest_llmprops.runs.gate.decide import decide
from pytest_llmprops.runs.reader import Run
from pytest_llmprops.runs.summary import summary_rows
from tests.support.gates import facts_of, gate_of
from tests.support.recorded import verdict

PAIRS = 300
GATE = gate_of(
    {"benchmark": "homophones", "max_drop": 0.1, "no_collapse": 0.15, "each": "language", "min_items": 1},
    {"benchmark": "htest", "max_drop": 0.1, "no_collapse": 0.15, "each": "task", "min_items": 1},
)
LINES = [("homophones", "asked", code) for code in ("en", "zh")] + [("homophones", "word_only", "en")]
LINES += [("htest", task, "en") for task in ("rhyme", "palindrome", "uppercase")]


def pair_of_runs(rng: np.random.Generator, folder: Path, *, is_unchanged: bool) -> tuple[Run, Run]:
    """Return two runs of random size, churn, clusters and repeats."""
    churn, repeats = rng.choice([0.0, 0.03, 0.06, 0.12]), int(rng.choice([1, 1, 3]))
    records: tuple[list[VerdictRecord], list[VerdictRecord]] = ([], [])
    for benchmark, task, language in LINES:
        drop = 0.0 if is_unchanged else float(rng.choice([0.0, 0.0, 0.05, 0.3, -0.2]))
        size = int(rng.choice([1, 1, 4]))
        for n in range(int(rng.integers(24, 60))):
            first = verdict(f"{task}/{language}/{n}", benchmark=benchmark, task=task, language=language)
            first = replace(first, cluster=f"{task}/{language}/{n // size}")
            usual = rng.random() < 0.7
            after = usual ^ (rng.random() < abs(drop) and usual == (drop > 0))
            for sample in range(repeats):
                for model, right, into in zip(("old", "new"), (usual, after), records, strict=True):
                    is_right = right ^ (rng.random() < churn / 2)
                    status: RecordStatus = "correct" if is_right else "wrong"
                    into.append(replace(first, model=model, status=status, sample=sample))
    old, new = (
        Run(folder, facts_of(model, summary=[plain(row) for row in summary_rows(rows)]), tuple(rows))
        for model, rows in zip(("old", "new"), records, strict=True)
    )
    return old, new


def check_agreement(old: Run, new: Run) -> GateResult:
    """Check that sign, word and numbers of each part are the same in gate, compare and report."""
    result = decide(GATE, new.facts, new.records, old)
    assert result.decision != "invalid", result.line
    recorded = {(c.benchmark, c.kind, c.name): c for c in result.changes}
    [contrast] = (comparison := compare([old, new])).contrasts
    text = " ".join(" ".join(terminal_lines(comparison, 400, limit=0)).split())
    clear = {(c.benchmark, c.kind, c.name) for c in result.changes if c.word != "no clear difference"}
    shown = set()
    for row in contrast.changes:
        change = row.result
        assert change is not None
        assert f"{points(change.difference)} {point_range(change.low, change.high)} " in text
        if change.word == "not judged":
            assert row.member.name == "word_only/en/builtin"
            continue
        assert (change.difference < 0, change.difference > 0) >= (
            change.word == "worse",
            change.word == "better",
        )
        if row.member.kind == "all":
            continue
        one = recorded[row.member]
        assert (one.word, one.difference, one.ci_low, one.ci_high, one.p) == (
            change.word, change.difference, change.low, change.high, change.p,
        )  # fmt: skip
        shown.add((change.difference, change.low, change.p))
    # What compare leaves out is the same change as a row that it has.
    assert {(recorded[key].difference, recorded[key].ci_low, recorded[key].p) for key in clear} <= shown
    for loss in result.losses:
        assert loss.word == "worse"
        assert loss.difference < 0
    for rule, judged in zip(GATE.rules, result.rules, strict=True):
        whole = recorded[rule.where["benchmark"], "benchmark", rule.where["benchmark"]]
        drop, collapse = (c for c in judged.checks if c.kind in ("max_drop", "no_collapse"))
        assert (drop.value, drop.ci_low, drop.ci_high) == (whole.difference, whole.ci_low, whole.ci_high)
        assert drop.verdict == (
            "met" if -whole.ci_low <= 0.1 else "failed" if whole.word == "worse" else "inconclusive"
        )
        members = [c for c in result.changes if (c.benchmark, c.kind) == (whole.benchmark, rule.each)]
        collapsed = any(m.word == "worse" and -m.difference > 0.15 for m in members)
        assert collapse.verdict == ("failed" if collapsed else "met")
        series = series_of([old, new])
        measured = Measured(whole.benchmark, series)
        words = {"worse": "does worse than", "better": "does better than"}
        sentence = finding(measured)
        assert words.get(whole.word, "do not clearly differ") in sentence
        assert f"({points(whole.difference)} points, {point_range(whole.ci_low, whole.ci_high)})" in sentence
        for place in measured.places:
            part = recorded.get((whole.benchmark, "part", "/".join(place)))
            if part is not None:
                numbers = f"{points(part.difference)} ({point_range(part.ci_low, part.ci_high)}), {part.word}"
                assert change_cells(measured, place)[0].text == numbers
    assert any(line.startswith("  LOST") for line in gate_lines(result)) == bool(result.losses)
    return from_plain(GateResult, plain(result))


@pytest.mark.timeout(600)
def test_outputs_agree_on_random_pairs_of_runs(tmp_path: Path) -> None:
    """No output has another sign, word or number for a part; at most 5% of unchanged models are called anything."""
    rng = np.random.default_rng(11)
    called = 0
    for n in range(PAIRS):
        old, new = pair_of_runs(rng, tmp_path, is_unchanged=n % 2 == 0)
        result = check_agreement(old, new)
        called += n % 2 == 0 and any(change.word != "no clear difference" for change in result.changes)
    assert called <= 0.05 * PAIRS / 2
