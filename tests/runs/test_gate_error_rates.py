"""Gates keep their stated error rates: a reduced form of ``bench.gate_rates``, and rates without simulation."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, binomtest

from bench.gate_rates import Setup, decisions, rates
from pytest_llmprops.runs.gate import checks
from pytest_llmprops.runs.gate.file import Rule
from pytest_llmprops.statistics.judgement import judge
from pytest_llmprops.statistics.paired import Pairs

#: rates above the stated one by chance alone are as unlikely as this
CHANCE = 1e-3


def draw(
    rng: np.random.Generator, samples: int, clusters: int, size: int, mean: float, icc: float
) -> NDArray[np.int64]:
    """Return how many items of each cluster are correct, shape (samples, clusters).

    :param icc: the intraclass correlation; the accuracies of clusters have a beta distribution.
    """
    shape = (samples, clusters)
    if icc in (0, 1):
        shares = np.full(shape, mean) if icc == 0 else (rng.random(shape) < mean).astype(float)
    else:
        scale = (1 - icc) / icc
        shares = rng.beta(scale * mean, scale * (1 - mean), shape)
    return rng.binomial(size, shares)


def _at_most(stated: float, found: float, of: int) -> bool:
    return bool(binomtest(round(found * of), of, stated, alternative="greater").pvalue > CHANCE)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("setup", "churn", "margin"),
    [
        (Setup("300 items", 300), 0.03, 0.05),
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


@pytest.mark.parametrize(("size", "icc"), [(1, 0.0), (5, 0.3), (20, 1.0)])
def test_min_accuracy_at_its_limit(size: int, icc: float) -> None:
    """At a true accuracy of exactly the limit, at most 2.5% of samples meet it, in clusters too."""
    clusters = {1: 100, 5: 40, 20: 20}[size]
    right = draw(np.random.default_rng(7), 400, clusters, size, 0.9, icc)
    met = sum(_accuracy_verdict(0.9, row, size) == "met" for row in right.tolist())
    assert _at_most(0.025, met / 400, 400)


def _accuracy_verdict(limit: float, right: list[int], size: int) -> str:
    scores = [float(item < count) for count in right for item in range(size)]
    clusters = [str(n) for n in range(len(right)) for _ in range(size)]
    return checks.accuracy(Rule("rule", {}, min_accuracy=limit), scores, clusters).verdict


def _whole_clusters(failed: int, clusters: int, size: int) -> Pairs:
    """Return pairs in clusters, of which some are lost as a whole."""
    candidate = [float(n >= failed * size) for n in range(clusters * size)]
    names = tuple(str(n // size) for n in range(clusters * size))
    return Pairs((1.0,) * clusters * size, tuple(candidate), names)


def test_clusters_that_fail_wholly_have_exact_rates() -> None:
    """Rates over the number of failed clusters of 40, without simulation: at most 2.5% pass a drop of the margin."""
    rule = Rule("rule", {}, max_drop=0.1)

    def verdict(failed: int) -> str:
        pairs = _whole_clusters(failed, 40, 20)
        return checks.max_drop(rule, pairs, judge({"all": pairs})["all"]).verdict

    rate = sum(binom.pmf(failed, 40, 0.1) for failed in range(41) if verdict(failed) == "met")
    assert rate == pytest.approx(0.9**40)
    assert 0.01 < rate <= 0.025


@pytest.mark.timeout(300)
def test_more_items_make_no_decision_worse() -> None:
    """A model within the margin passes more often with more items, and one beyond it more rarely."""
    for drop, is_within in ((0.01, True), (0.06, False)):
        shares = [rates(decisions(Setup("", n), 0.03, drop, 15))[0] for n in (100, 400, 1000)]
        assert shares == sorted(shares, reverse=not is_within)
        assert (shares[-1] > 0.9) is is_within
