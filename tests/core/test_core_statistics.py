"""Intervals, checked against statsmodels, published figures and simulations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from pytest_llmprops.core.statistics import (
    binomial_standard_error,
    clopper_pearson,
    cluster_bootstrap,
    mean_interval,
    two_sided_z,
    wilson,
)


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int]:
    """Draw (successes, n); shrinks to (0, 1)."""
    n = draw(st.integers(1, 100_000))
    return draw(st.integers(0, n)), n


@given(counts())
@example((0, 1))
@example((1, 1))
@example((200, 200))
def test_wilson_is_statsmodels_wilson(case: tuple[int, int]) -> None:
    """The closed form equals statsmodels' interval up to rounding, for every count."""
    successes, n = case
    low, high, method = wilson(successes, n)
    assert (low, high) == pytest.approx(proportion_confint(successes, n, method="wilson"), abs=1e-12)
    assert method == "wilson"
    assert 0 <= low <= successes / n + 1e-12
    assert successes / n - 1e-12 <= high <= 1


@given(counts(), st.floats(0.5, 0.999))
@example((0, 1), 0.5)
@example((7, 7), 0.999)
def test_intervals_of_any_level_are_statsmodels(case: tuple[int, int], level: float) -> None:
    """Wilson and Clopper-Pearson equal statsmodels' intervals at every level and name their method."""
    successes, n = case
    for interval, name in ((wilson, "wilson"), (clopper_pearson, "beta")):
        low, high, method = interval(successes, n, level)
        expected = proportion_confint(successes, n, alpha=1 - level, method=name)
        assert (low, high) == pytest.approx(expected, abs=1e-9)
        assert method == {"wilson": "wilson", "beta": "clopper-pearson"}[name]
        assert 0 <= low <= successes / n + 1e-9
        assert successes / n - 1e-9 <= high <= 1


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(81, 263, 0.2527, 0.3676), (15, 148, 0.0578, 0.1617), (0, 20, 0.0, 0.1684), (1, 29, 0.0009, 0.1776)],
)
def test_clopper_pearson_on_the_textbook_cases(successes: int, n: int, low: float, high: float) -> None:
    """The interval matches Newcombe (1998), Table I, method 5, to its four decimals."""
    interval = clopper_pearson(successes, n)
    assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)


def test_clopper_pearson_keeps_its_level() -> None:
    """At every rate at least 95% of samples of 30 have an exact interval with the true rate; Wilson's does
    not.
    """
    rates = np.linspace(0.002, 0.5, 250)
    worst = {}
    for interval in (clopper_pearson, wilson):
        held = np.zeros_like(rates)
        for successes in range(31):
            low, high, method = interval(successes, 30)
            weight = math.comb(30, successes) * rates**successes * (1 - rates) ** (30 - successes)
            held += weight * ((low <= rates) & (rates <= high))
        worst[method] = held.min()
    assert worst["clopper-pearson"] >= 0.95 > worst["wilson"]


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95])
def test_impossible_levels_are_refused(level: float) -> None:
    """A confidence level that is not between 0 and 1 raises a ValueError that names it."""
    with pytest.raises(ValueError, match=f"not {level}"):
        two_sided_z(level)
    with pytest.raises(ValueError, match=f"not {level}"):
        wilson(1, 2, level)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_on_the_textbook_cases(successes: int, n: int, low: float, high: float) -> None:
    """The interval matches Newcombe (1998), Table I, method 3, to its four decimals."""
    interval = wilson(successes, n)
    assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (-1, 5), (6, 5), (1, -1)])
def test_wilson_refuses_impossible_counts(successes: int, n: int) -> None:
    """Impossible counts raise a ValueError that names them."""
    for interval in (wilson, clopper_pearson):
        with pytest.raises(ValueError, match=f"{interval.__name__} .* not {successes} of {n}"):
            interval(successes, n)


@pytest.mark.parametrize(
    ("percent", "printed"),
    [(28, 4.5), (63, 4.8), (60, 4.9), (90, 3.0), (82, 3.8), (50, 5.0), (62, 4.9), (83, 3.8)],
)
def test_standard_error_matches_the_homophone_paper(percent: int, printed: float) -> None:
    """The standard errors match all determined cells of the paper's Table 2, with 100 questions each."""
    assert round(100 * binomial_standard_error(percent / 100, 100), 1) == printed


def _clustered(rng: np.random.Generator, clusters: int, size: int) -> list[list[float]]:
    """Return scores that correlate within clusters: each cluster has its own rate, drawn around 0.6."""
    rates = rng.beta(1.2, 0.8, clusters)
    return [rng.binomial(1, rate, size).astype(float).tolist() for rate in rates]


def test_cluster_bootstrap_covers_where_wilson_does_not() -> None:
    """In simulated clusters the interval contains the true mean about 95% of the time; Wilson's far less
    often.
    """
    rng = np.random.default_rng(20)
    covered = naive = 0
    for seed in range(300):
        scores = _clustered(rng, clusters=40, size=6)
        interval = cluster_bootstrap(scores, draws=400, seed=seed)
        covered += interval.low <= 0.6 <= interval.high
        flat = wilson(sum(map(sum, scores)), 240)
        naive += flat.low <= 0.6 <= flat.high
    assert 0.90 <= covered / 300 <= 0.98
    assert naive / 300 < 0.80


def test_cluster_bootstrap_has_the_width_of_the_cluster_means() -> None:
    """With clusters of equal size the interval is that of the mean of the cluster means."""
    scores = _clustered(np.random.default_rng(3), clusters=200, size=4)
    means = [sum(c) / 4 for c in scores]
    interval = cluster_bootstrap(scores, draws=4000)
    expected = 2 * 1.96 * float(np.std(means, ddof=1)) / math.sqrt(200)
    assert interval.high - interval.low == pytest.approx(expected, rel=0.08)
    assert (interval.high + interval.low) / 2 == pytest.approx(float(np.mean(means)), abs=0.01)


def test_cluster_bootstrap_weighs_items_not_clusters() -> None:
    """A cluster is weighted by its number of items: 9 right and 1 wrong is 0.9, not one half."""
    low, high, _ = cluster_bootstrap([[1.0] * 9, [0.0]], level=0.4)
    assert (low, high) == pytest.approx((0.9, 0.9))


def test_cluster_bootstrap_level_orders_intervals() -> None:
    """A higher level gives an interval that contains the lower one's."""
    scores = _clustered(np.random.default_rng(5), clusters=30, size=3)
    wide, narrow = cluster_bootstrap(scores, level=0.99), cluster_bootstrap(scores, level=0.8)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_cluster_bootstrap_is_deterministic() -> None:
    """The same scores and seed give the same interval; another seed moves it."""
    scores = _clustered(np.random.default_rng(7), clusters=25, size=5)
    assert cluster_bootstrap(scores, seed=4) == cluster_bootstrap(scores, seed=4)
    assert cluster_bootstrap(scores, seed=4) != cluster_bootstrap(scores, seed=5)


def test_clusters_that_are_all_alike_leave_no_width() -> None:
    """If resampling changes nothing, both limits equal the mean."""
    low, high, method = cluster_bootstrap([[1.0, 0.0]] * 12)
    assert (low, high, method) == (0.5, 0.5, "cluster bootstrap")


def test_mean_interval_is_wilson_for_independent_items() -> None:
    """Clusters of one item each give Wilson's interval of the scores."""
    assert mean_interval([1, 1, 0, 1], ["a", "b", "c", "d"]) == wilson(3, 4)


def test_mean_interval_resamples_clusters_of_several_items() -> None:
    """One cluster with two items is enough to use the bootstrap, wherever its items are."""
    scores, clusters = [1.0, 0.0, 1.0, 0.0], ["a", "b", "a", "c"]
    interval = mean_interval(scores, clusters)
    assert interval == cluster_bootstrap([[1.0, 1.0], [0.0], [0.0]])
    assert interval.method == "cluster bootstrap"


def test_cluster_bootstrap_does_not_depend_on_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing in blocks, which limits the memory, does not change the draws."""
    scores = _clustered(np.random.default_rng(8), clusters=23, size=3)
    whole = cluster_bootstrap(scores, seed=2)
    monkeypatch.setattr("pytest_llmprops.core.statistics._BLOCK", 23 * 7)
    assert cluster_bootstrap(scores, seed=2) == whole


@pytest.mark.parametrize(
    ("scores", "clusters", "expected"),
    [
        ([1.0] * 8, "aabbccdd", (4, 4)),
        ([1.0, 1.0, 0.0, 1.0] * 3, "aaaabbbbcccc", (2.25, 3)),
        ([1.0, 0.0, 1.0], "aaa", (2 / 3, 1)),
        ([0.1, 0.2, 0.2, 0.1, 0.15], "aabbc", (0.45, 3)),
    ],
)
def test_mean_interval_has_width_where_clusters_are_all_alike(
    scores: list[float], clusters: str, expected: tuple[float, int]
) -> None:
    """Equal cluster means, or a single cluster, give Wilson's interval with one item per cluster."""
    low, high, method = mean_interval(scores, list(clusters))
    assert (low, high) == pytest.approx(wilson(*expected)[:2])
    assert method == "wilson over clusters"
    assert high - low > 0.3


def test_mean_interval_has_a_level() -> None:
    """A lower level gives a shorter interval for items, for clusters, and for identical clusters."""
    for scores, clusters in (
        ([1.0, 0.0] * 6, [str(i) for i in range(12)]),
        ([1.0, 0.0, 0.0] * 4, [*"aabbccddeeff"]),
        ([1.0, 0.0] * 6, [*"aabbccddeeff"]),
    ):
        wide, narrow = mean_interval(scores, clusters), mean_interval(scores, clusters, level=0.6)
        assert wide.low < narrow.low < narrow.high < wide.high
        assert wide.method == narrow.method


def test_mean_interval_needs_a_cluster_for_every_score() -> None:
    """Lists of different lengths are refused."""
    with pytest.raises(ValueError, match="zip"):
        mean_interval([1.0, 0.0], ["a"])
