"""Forecasts of a gate: simulated candidates get the decisions of the gate's own checks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_llmprops.runs.gate import checks, forecast
from pytest_llmprops.runs.gate.data import Terms
from pytest_llmprops.runs.gate.file import Rule
from pytest_llmprops.runs.gate.forecast import DROPS, Rates
from pytest_llmprops.statistics.judgement import judge
from pytest_llmprops.statistics.paired import Pairs
from tests.support.commands import one_error, output
from tests.support.gates import facts_of, gate_of, in_clusters, judged, repeated
from tests.support.recorded import verdicts
from tests.support.records import recorded

Capture = pytest.CaptureFixture[str]
FACTS = facts_of("old")
pytestmark = pytest.mark.usefixtures("working_folder")


@pytest.mark.parametrize(
    ("items", "size", "repeats", "drop", "margin"),
    [(120, 1, 1, 0.06, 0.12), (120, 10, 1, 0.1, 0.3), (40, 4, 3, 0.1, 0.3)],
)
def test_decisions_are_those_of_the_gate(
    items: int, size: int, repeats: int, drop: float, margin: float
) -> None:
    """Every simulated candidate gets the verdict of the gate's check on the same sums of differences."""
    rule = Rule("rule", {}, max_drop=margin)
    own = forecast.rule_items(rule, in_clusters("c" * items, size), Terms.of(FACTS), 0.05, repeats)
    drawn = forecast.candidates(np.random.default_rng(3), own, drop, 25)
    failed, met = forecast.decide_rule(rule, own, drawn, (), tests=1)
    verdicts_ = []
    for counts in drawn.counts:
        sums = np.repeat(drawn.totals, counts)
        # A cluster's items share its sum, which is all that counts.
        pairs = Pairs(
            tuple(float(max(-total, 0)) / size for total in sums for _ in range(size)),
            tuple(float(max(total, 0)) / size for total in sums for _ in range(size)),
            tuple(str(n) for n in range(len(sums)) for _ in range(size)),
        )
        verdicts_.append(checks.max_drop(rule, pairs, judge({"all": pairs})["all"]).verdict)
    assert met.tolist() == [v == "met" for v in verdicts_]
    # Of clusters, the forecast has the normal approximation of the test.
    differing = sum(flag != (v == "failed") for flag, v in zip(failed.tolist(), verdicts_, strict=True))
    assert differing <= (0 if size == repeats == 1 else 2)


@pytest.mark.parametrize(("size", "repeats"), [(1, 3), (10, 1), (7, 2)])
def test_candidates_have_the_drop_and_the_churn(size: int, repeats: int) -> None:
    """Mean and variance of a unit's sum follow from drop, churn and repeats."""
    drop, churn = 0.05, 0.06
    shares = forecast.unit_shares(size, repeats, churn, drop)
    totals = np.arange(-size * repeats, size * repeats + 1) / repeats
    assert shares.sum() == pytest.approx(1)
    assert shares @ totals == pytest.approx(-drop * size)
    # An item that is lost in all samples has no churn; the number of lost items varies between clusters.
    lost = size * drop * (1 - drop) * (1 + (size - 1) * forecast.CORRELATION)
    variance = size * (1 - drop) * 2 * churn / repeats + lost
    assert shares @ totals**2 - (drop * size) ** 2 == pytest.approx(variance)
    drawn = forecast.candidates(
        np.random.default_rng(1),
        forecast.RuleItems(40 * size, {size: 40}, False, 1.0, repeats, churn, 0),
        drop,
    )
    assert set(drawn.counts.sum(axis=1)) == {40}


def test_clusters_that_count_once_have_their_means() -> None:
    """Where each cluster counts once, sums and sizes are divided by the size."""
    own = forecast.RuleItems(25, {5: 3, 10: 1}, True, 1.0, 1, 0.06, 0)
    drawn = forecast.candidates(np.random.default_rng(1), own, 0.05)
    assert (drawn.totals.min(), drawn.totals.max(), set(drawn.sizes)) == (-1, 1, {1.0})


def test_churn_is_measured_from_repeats() -> None:
    """With 1 of 4 samples correct, one of two samples is correct and the other is not in half of the pairs."""
    [rule] = forecast.forecast(gate_of({"max_drop": 0.1}), repeated([1] * 50, 4), FACTS).rules
    assert (rule.items.items, rule.items.repeats) == (50, 4)
    assert rule.items.churn == pytest.approx(1 * 3 / (4 * 3))
    [assumed] = forecast.forecast(gate_of({"max_drop": 0.1}), repeated([1] * 50, 1), FACTS, churn=0.07).rules
    assert (assumed.items.repeats, assumed.items.churn) == (1, 0.07)


def test_rates_of_one_rule_and_of_the_gate() -> None:
    """A gate passes less often than each of its rules; worse candidates fail more often."""
    records = [replace(r, task=f"t{n % 2}") for n, r in enumerate(verdicts("c" * 200))]
    plan = forecast.forecast(gate_of(*({"task": f"t{n}", "max_drop": 0.1} for n in range(2))), records, FACTS)
    assert len(plan.whole) == len(DROPS)
    for rates in (*plan.whole, *(rates for rule in plan.rules for rates in rule.rates)):
        assert sum(rates) == pytest.approx(1)
    assert all(w.passed <= min(r.rates[n].passed for r in plan.rules) for n, w in enumerate(plan.whole))
    failed = [rates.failed for rates in plan.whole]
    assert failed == sorted(failed)
    assert plan.whole[0].passed > 0.75
    assert plan.whole[-1].failed > 0.8


def test_repeats_make_an_unchanged_model_pass() -> None:
    """A model that samples passes in 90% of runs with ten repeats; without differences, few items stay too few."""
    gate = gate_of({"max_drop": 0.1})
    once, often = (
        forecast.forecast(gate, verdicts("c" * 100), FACTS, churn=0.2, repeats=n).whole[0].passed
        for n in (1, 10)
    )
    assert once < 0.8
    assert often >= 0.9
    few = forecast.forecast(gate_of({"max_drop": 0.1, "min_items": 5}), verdicts("c" * 10), FACTS, churn=0.0)
    assert few.whole[0] == Rates(0.0, 0.0, 1.0)


@pytest.mark.parametrize(("each", "size"), [("task", 1), ("cluster", 30)])
def test_no_collapse_is_simulated(each: str, size: int) -> None:
    """An unchanged model meets the rule, one that is far worse fails it, as the gate decides on simulated verdicts."""
    rng = np.random.default_rng(1)
    records = [
        replace(r, task=f"t{n // size % 3}", language=("en", "zh", "es")[n // size % 3])
        for n, r in enumerate(in_clusters("c" * 180, size))
    ]
    gate = gate_of({"no_collapse": 0.15, "each": each})
    [rule] = forecast.forecast(gate, records, FACTS, drops=(0.0, 0.2)).rules
    for rates, drop in zip(rule.rates, (0.0, 0.2), strict=True):
        decisions = []
        for _ in range(40):
            # The same drop in all clusters: the number of lost items varies less than in the forecast.
            ours = [replace(r, model="new", status="wrong") if rng.random() < drop + 0.03 else replace(r, model="new")
                    for r in records]  # fmt: skip
            theirs = [replace(r, status="wrong") if rng.random() < 0.03 else r for r in records]
            decisions.append(judged(gate, ours, theirs).decision)
        assert rates.passed == pytest.approx(decisions.count("pass") / 40, abs=0.25)
        assert rates.inconclusive == 0
    # Both requirements of a rule must be met.
    strict = gate_of({"no_collapse": 0.15, "each": each, "max_drop": 0.01})
    assert forecast.forecast(strict, records, FACTS).whole[0].passed < 0.1
    [none] = forecast.forecast(gate, verdicts("ccccc"), FACTS).rules
    assert none.rates[0].passed == 0


def test_min_accuracy_follows_the_baseline() -> None:
    """A limit far below the baseline's accuracy is met, one above it fails, and one at it is inconclusive."""
    records = verdicts("c" * 160 + "w" * 40)
    for limit, index in ((0.6, 0), (0.95, 1), (0.8, 2)):
        [rule] = forecast.forecast(gate_of({"min_accuracy": limit}), records, FACTS).rules
        assert rule.rates[0][index] > 0.9
    # Shares have no rates, and a gate of these alone has no forecast.
    plan = forecast.forecast(gate_of({"max_refused": 0.1}), records, FACTS)
    assert (plan.rules[0].rates, plan.whole) == ((), ())


def write_gate(text: str) -> None:
    Path("gate.toml").write_text(f"[[rule]]\n{text}\nmax_drop = 0.1\n", encoding="utf-8")


def test_plan_prints_rates_and_calls(capsys: Capture) -> None:
    """Each rule and the whole gate have a row; rules on metrics are not simulated; impossible rules are named."""
    records = [
        replace(r, task="add" if n < 200 else "few", requests=("k",))
        for n, r in enumerate(verdicts("c" * 240))
    ]
    recorded(Path("base"), records, calls={"requests": 480, "cost_usd": 3.0})
    write_gate("task = 'few'\nmax_drop = 0.02\n[[rule]]\ntask = 'add'")
    text = " ".join(output(capsys, "gate", "--plan", "gate.toml", "--baseline", "base").split())
    assert "unchanged 2 points worse 5 points worse 10 points worse" in text
    assert "add 200 3.0% 100 / 0 / 0" in text
    assert "few 40 3.0% 0 / 0 / 100" in text
    assert "the whole gate 0 / " in text
    assert "IMPOSSIBLE few: 40 pairs without a difference are too few to rule out a drop of 2 points" in text
    assert "about 240 calls, 1.50 USD" in text


def test_plan_without_a_baseline_uses_the_built_in_items(capsys: Capture) -> None:
    """The items are those of the benchmarks that the rules name. Wrong arguments are one line that says the fix."""
    write_gate("benchmark = 'eras'\ntask = 'explicit'")
    planned = output(capsys, "gate", "--plan", "gate.toml", "--churn", "0.01")
    assert "780 in 39 clusters   1.0%" in planned
    for words, message in (
        ("base --plan gate.toml", "takes no RUN"),
        ("--gate gate.toml", "needs the RUN"),
        ("--plan gate.toml --churn 0.6", "--churn 0.6: must be from 0 to 0.4"),
    ):
        assert message in one_error(capsys, "gate", *words.split())
