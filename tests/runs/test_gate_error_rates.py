"""Gates keep their stated error rates: a reduced form of ``bench.gate_rates``, and rates without simulation."""

from __future__ import annotations

import pytest
from scipy.stats import binom, binomtest

from bench.gate_rates import Setup, decisions, rates
from pytest_llmprops.runs.gate import checks
from pytest_llmprops.runs.gate.file import Rule
from pytest_llmprops.statistics.judgement import judge
from pytest_llmprops.statistics.paired import Pairs

#: rates above the stated one by chance alone are as unlikely as this
CHANCE = 1e-3


def _at_most(stated: float, found: float, of: int) -> bool:
    return bool(binomtest(round(found * of), of, stated, alternative="greater").pvalue > CHANCE)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("setup", "churn", "margin"),
    [
        (Setup("300 items", 300), 0.12, 0.10),
        (Setup("100 items, 3 repeats", 100, repeats=3), 0.06, 0.10),
        (Setup("39 clusters of 5", 39, 5), 0.06, 0.15),
        (Setup("5 rules of 60 items", 300, rules=5), 0.06, 0.15),
    ],
    ids=lambda value: value.name if isinstance(value, Setup) else str(value),
)
def test_rates_of_whole_gates(setup: Setup, churn: float, margin: float) -> None:
    """At a drop of the margin at most 2.5% pass; an unchanged model fails in 2.5%, and is called in 5%, at most."""
    upgrades = 60
    passed, *_ = rates(decisions(setup, churn, margin, upgrades, margin))
    assert _at_most(0.025, passed, upgrades)
    _, failed, called = rates(decisions(setup, churn, 0.0, upgrades, margin))
    assert _at_most(0.025, failed, upgrades)
    assert _at_most(0.05, called, upgrades)


def test_clusters_that_fail_wholly_have_exact_rates() -> None:
    """Rates over the number of failed clusters of 40, without simulation: at most 2.5% pass a drop of the margin."""
    rule, clusters = Rule("rule", {}, max_drop=0.1), tuple(str(n // 20) for n in range(800))

    def verdict(failed: int) -> str:
        pairs = Pairs((1.0,) * 800, tuple(float(n >= failed * 20) for n in range(800)), clusters)
        return checks.max_drop(rule, pairs, judge({"all": pairs})["all"]).verdict

    rate = sum(binom.pmf(failed, 40, 0.1) for failed in range(41) if verdict(failed) == "met")
    assert rate == pytest.approx(0.9**40)
    assert 0.01 < rate <= 0.025
