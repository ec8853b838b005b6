"""Errors and missing items cannot hide a candidate's failures from a gate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scipy.stats import binom

from pytest_llmprops.core.records import VerdictRecord
from tests.support.gates import DrawnRun, gate_of, judged
from tests.support.recorded import verdicts

#: 1,000 items, of which the baseline answers 900 correctly
OLD = "c" * 900 + "w" * 100


def new(statuses: str) -> list[VerdictRecord]:
    return verdicts(statuses, model="new")


def with_errors(at: range, statuses: str = OLD) -> str:
    return "".join("e" if n in at else letter for n, letter in enumerate(statuses))


@pytest.mark.simulation
@pytest.mark.parametrize("rule", [{"no_regression": True}, {"max_drop": 0.01}, {"min_accuracy": 0.873}])
def test_errors_on_items_of_the_baseline_are_not_met(rule: dict[str, Any]) -> None:
    """Ten errors on items that the baseline answers correctly may be ten losses, so the rule is open.

    On items that the baseline fails, they can hide no loss.
    """
    gate = gate_of(rule)
    hiding = judged(gate, new(with_errors(range(10))), verdicts(OLD))
    assert (hiding.decision, hiding.passed) == ("inconclusive", False)
    (check,) = [c for c in hiding.rules[0].checks if c.kind in rule]
    assert "not if the candidate fails the 10 items in error or missing" in check.reason
    assert "(sums/0000, sums/0001, sums/0002, …): measure them again" in check.reason
    elsewhere = judged(gate, new(with_errors(range(900, 910))), verdicts(OLD))
    assert elsewhere.decision == "pass"
    assert judged(gate, new(OLD), verdicts(OLD)).decision == "pass"


def test_missing_items_count_like_errors() -> None:
    """An item that one run lacks, and an error of the baseline, may hide a loss as well."""
    gate = gate_of({"no_regression": True})
    assert judged(gate, new(OLD)[10:], verdicts(OLD)).decision == "inconclusive"
    assert judged(gate, new(OLD)[:-10], verdicts(OLD)).decision == "pass"
    lost = "w" * 10 + OLD[10:]
    assert judged(gate, new(lost), verdicts(with_errors(range(10)))).decision == "inconclusive"
    assert judged(gate, new(lost), verdicts(OLD)[10:]).decision == "inconclusive"
    assert judged(gate, new(OLD), verdicts(with_errors(range(10)))).decision == "pass"


def test_errors_of_samples_count_too() -> None:
    """If only some samples of an item are errors, these are the ones that may hide failures."""
    gate = gate_of({"max_drop": 0.05, "max_errors": 1.0})
    old = [replace(r, sample=s) for r in verdicts("c" * 200) for s in range(2)]
    ours = [replace(r, model="new") for r in old]
    hiding = [replace(r, status="error") if r.sample and r.id < "sums/0040" else r for r in ours]
    assert judged(gate, ours, old).decision == "pass"
    assert judged(gate, hiding, old).decision == "inconclusive"


def test_errors_alone_never_fail_a_rule() -> None:
    """A rule fails on the answers only; a failed rule stays failed, and shares are plain counts."""
    old = verdicts(OLD)
    assert judged(gate_of({"max_drop": 0.0}), new(with_errors(range(10))), old).decision == "inconclusive"
    failing = judged(gate_of({"max_drop": 0.01}), new("w" * 100 + with_errors(range(110, 120))[100:]), old)
    assert failing.decision == "fail"
    share = judged(gate_of({"max_refused": 0.0}), new(with_errors(range(10))))
    point = judged(gate_of({"min_accuracy": 0.898, "basis": "point"}), new(with_errors(range(10))))
    assert (share.decision, point.decision) == ("pass", "pass")


def test_sequential_gate_is_not_met_early_either() -> None:
    """With errors on lost items, no look meets the rule, and the whole run is inconclusive."""
    gate = gate_of({"max_drop": 0.02, "max_errors": 0.05}, sequential=True)
    old, ours = "c" * 400, with_errors(range(16), "c" * 400)
    clean, hiding = (DrawnRun(gate, new(statuses), verdicts(old)) for statuses in (old, ours))
    looks = range(50, 401, 50)
    assert any(clean.after(n).decision == "pass" for n in looks)
    assert not any(hiding.after(n).passed for n in looks)
    result = hiding.after(400, ended=True)
    assert (result.decision, result.rules[0].partial) == ("inconclusive", False)


def test_missing_items_of_a_sequential_run_are_not_those_to_be_drawn() -> None:
    """Items that are not drawn yet count as answered; those that the run lacks count as lost from the start."""
    gate = gate_of({"max_drop": 0.05, "max_errors": 0.05}, sequential=True)
    whole = DrawnRun(gate, new("c" * 400), verdicts("c" * 400))
    lacking = DrawnRun(gate, new("c" * 400)[16:], verdicts("c" * 400))
    assert any(whole.after(n).decision == "pass" for n in range(50, 350, 50))
    assert not any(lacking.after(n).passed for n in (*range(50, 384, 50), 384))


@pytest.mark.simulation
def test_rate_of_wrong_acceptances_holds() -> None:
    """A candidate that loses ``max_drop`` of the items and whose errors are losses passes at most 2.5% of the time.

    The decision depends on the number of losses only, so the rate is a sum over the binomial distribution.
    """
    n, margin = 400, 0.05
    gate = gate_of({"max_drop": margin})
    accepted = hidden = 0.0
    for lost in range(25):
        errors = min(lost, n // 100)
        ours = new("e" * errors + "w" * (lost - errors) + "c" * (n - lost))
        chance = float(binom.pmf(lost, n, margin))
        accepted += chance * judged(gate, ours, verdicts("c" * n)).passed
        left = new("w" * (lost - errors) + "c" * (n - lost))
        hidden += chance * judged(gate, left, verdicts("c" * (n - errors))).passed
    # Without the errors, as if they had never been items, the rate is several times as high.
    assert accepted <= 0.05
    assert hidden > 3 * accepted
