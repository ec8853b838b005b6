"""Gates on runs with several samples per item: items are the observations, whatever the number of samples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pytest_llmprops.core.gate_results import Check
from pytest_llmprops.core.records import VerdictRecord
from tests.support.gates import DrawnRun, check_of, gate_of, judged
from tests.support.recorded import verdict

ITEMS, SAMPLES, UPGRADES = 40, 5, 200


def width(check: Check) -> float:
    """Return the width of a check's interval."""
    assert check.ci_low is not None
    assert check.ci_high is not None
    return check.ci_high - check.ci_low


def run_of(probabilities: np.ndarray, rng: np.random.Generator, model: str) -> list[VerdictRecord]:
    """Return a run in which the samples of each item are correct with its probability."""
    correct = rng.random((len(probabilities), SAMPLES)) < probabilities[:, None]
    return [
        verdict(f"{item:04d}", "correct" if right else "wrong", model=model, sample=sample)
        for item, row in enumerate(correct.tolist())
        for sample, right in enumerate(row)
    ]


def uneven(mean: float, rng: np.random.Generator) -> np.ndarray:
    """Return the probabilities of items that differ much: most of the variance is between items."""
    return rng.beta(0.3 * mean, 0.3 * (1 - mean), ITEMS)


def as_items(records: list[VerdictRecord]) -> list[VerdictRecord]:
    """Return the samples as if each were an independent item."""
    return [replace(r, id=f"{r.id}-{r.sample}", cluster=f"{r.id}-{r.sample}", sample=0) for r in records]


def accepted(rule: dict[str, Any], upgrades: list[tuple[list[VerdictRecord], list[VerdictRecord]]]) -> float:
    """Return the share of upgrades that the gate passes."""
    gate = gate_of(rule)
    return sum(judged(gate, *pair).decision == "pass" for pair in upgrades) / len(upgrades)


@pytest.mark.simulation
def test_min_accuracy_at_the_limit_passes_as_rarely_as_stated() -> None:
    """At a true accuracy of the limit, at most 2.5% pass; samples counted as items would pass far more often."""
    rng = np.random.default_rng(0)
    runs: list[tuple[list[VerdictRecord], list[VerdictRecord]]] = [
        (run_of(uneven(0.8, rng), rng, "new"), []) for _ in range(UPGRADES)
    ]
    rule = {"min_accuracy": 0.8}
    rate = accepted(rule, runs)
    counted_as_items = accepted(rule, [(as_items(run), []) for run, _ in runs[:80]])
    assert rate <= 0.025 + 3 * (0.025 * 0.975 / UPGRADES) ** 0.5
    assert counted_as_items > 0.05


@pytest.mark.simulation
def test_max_drop_at_the_limit_passes_as_rarely_as_stated() -> None:
    """At a true drop of the limit, at most 2.5% pass; samples counted as items would pass far more often."""
    rng = np.random.default_rng(1)
    upgrades = []
    for _ in range(UPGRADES):
        before = np.full(ITEMS, 0.9)
        # a quarter of the items is lost wholly, and the drop over all possible items is 22.5 points
        after = np.where(rng.random(ITEMS) < 0.25, 0.0, before)
        upgrades.append((run_of(after, rng, "new"), run_of(before, rng, "old")))
    rule = {"max_drop": 0.225}
    rate = accepted(rule, upgrades)
    counted_as_items = accepted(rule, [(as_items(ours), as_items(theirs)) for ours, theirs in upgrades[:80]])
    assert rate <= 0.025 + 3 * (0.025 * 0.975 / UPGRADES) ** 0.5
    assert counted_as_items > 0.05


@pytest.mark.simulation
def test_equal_models_are_rarely_refused() -> None:
    """Two runs of one model whose samples differ show no significant drop in at least 95% of the comparisons."""
    rng = np.random.default_rng(2)
    gate = gate_of({"no_regression": True})
    failed = 0
    for _ in range(100):
        probabilities = uneven(0.7, rng)
        runs = (run_of(probabilities, rng, "new"), run_of(probabilities, rng, "old"))
        failed += judged(gate, *runs).decision == "fail"
    assert failed / 100 <= 0.05 + 3 * (0.05 * 0.95 / 100) ** 0.5


def test_more_samples_make_a_comparison_sharper() -> None:
    """With samples that differ, five repeats give a narrower interval than one; n is the number of items."""
    rng = np.random.default_rng(3)
    probabilities = np.full(ITEMS, 0.7)
    ours, theirs = run_of(probabilities, rng, "new"), run_of(probabilities, rng, "old")
    gate = gate_of({"max_drop": 0.5})
    five = check_of(judged(gate, ours, theirs), "max_drop")
    once = check_of(judged(gate, *([r for r in run if r.sample == 0] for run in (ours, theirs))), "max_drop")
    assert width(five) < width(once) / 1.5
    assert judged(gate, ours, theirs).rules[0].items == ITEMS


@pytest.mark.parametrize("rule", [{"min_accuracy": 0.3}, {"max_drop": 0.9}], ids=["accuracy", "drop"])
def test_a_drawn_run_counts_the_errors_of_samples(rule: dict[str, Any]) -> None:
    """In a run that draws its items, errors of drawn samples count in part, and those of the baseline are known."""
    items = 400
    ours = [verdict(f"{n:04d}", model="new", sample=s) for n in range(items) for s in range(4)]
    theirs = [replace(r, model="old") for r in ours]
    paired = "max_drop" in rule
    drawn = DrawnRun(gate_of({**rule, "max_errors": 0.01}, sequential=True), ours, theirs if paired else None)
    first = list(dict.fromkeys(r.id for r in drawn.order))[:200]
    records = [r for r in ours if r.id in first]
    assert drawn.after(records).decision == "pass"
    # three of four samples of 20 drawn items: 15 items' worth of 400
    broken = [replace(r, status="error") if r.id in first[:20] and r.sample else r for r in records]
    result = drawn.after(broken)
    assert result.decision == "invalid"
    check = check_of(result, "max_errors")
    assert check.value == pytest.approx(15 / items)
    assert check.measured == "3.8%, 15 of 400"
    if paired:
        lost = {r.id for r in ours[: 4 * 20]}
        faulty = [replace(r, status="error") if r.id in lost and r.sample else r for r in theirs]
        known = DrawnRun(gate_of({**rule, "max_errors": 0.01}, sequential=True), ours, faulty)
        assert check_of(known.after(records), "max_errors").value == pytest.approx(15 / items)
