"""Intervals, checked against statsmodels, published figures and simulations."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from pytest_llmprops.statistics.bounded_mean import ClusterSample
from pytest_llmprops.statistics.intervals import clopper_pearson, mean_interval


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int]:
    """Draw (successes, n); shrinks to (0, 1)."""
    n = draw(st.integers(1, 100_000))
    return draw(st.integers(0, n)), n


@given(counts())
@example((0, 1))
@example((200, 200))
def test_clopper_pearson_is_statsmodels(case: tuple[int, int]) -> None:
    """The interval equals statsmodels' at every count, and names its method."""
    successes, n = case
    low, high, method = clopper_pearson(successes, n)
    expected = proportion_confint(successes, n, alpha=0.05, method="beta")
    assert (low, high) == pytest.approx(expected, abs=1e-10)
    assert method == "clopper-pearson"
    assert 0 <= low <= successes / n + 1e-12
    assert successes / n - 1e-12 <= high <= 1


def test_clopper_pearson_takes_effective_counts() -> None:
    """Fractional counts give limits between those of the whole counts next to them."""
    low, high, _ = clopper_pearson(7.5, 10)
    assert clopper_pearson(7, 10).low < low < clopper_pearson(8, 10).low
    assert clopper_pearson(7, 10).high < high < clopper_pearson(8, 10).high


def test_impossible_values_are_refused() -> None:
    """Impossible counts raise a ValueError that names them; so do no score, or one outside [0, 1]."""
    for successes, n in ((0, 0), (-1, 5), (6, 5), (1, -1)):
        with pytest.raises(ValueError, match=f"clopper_pearson .* not {successes} of {n}"):
            clopper_pearson(successes, n)
    for scores in ([], [1.5], [-0.1, 1.0], [math.nan]):
        with pytest.raises(ValueError, match="needs scores from 0 to 1"):
            mean_interval(scores, ["a"] * len(scores))


def test_mean_interval_of_fractional_scores() -> None:
    """Averaged repeats get Gaffke's interval, which is shorter than that of right-or-wrong items of the same mean."""
    names = [str(n) for n in range(20)]
    low, high, method = mean_interval([0.5] * 10 + [0.75] * 10, names)
    assert method == "gaffke"
    whole = clopper_pearson(12.5, 20)
    assert whole.low < low < 0.625 < high < whole.high


def test_mean_interval_of_clusters() -> None:
    """One cluster with two items is enough to use the interval over clusters, wherever its items are."""
    scores, clusters = [1.0, 0.0, 1.0, 0.0], ["a", "b", "a", "c"]
    sample = ClusterSample.of(scores, clusters)
    limits = sample.lower_limit(least=0), sample.upper_limit()
    low, high, method = mean_interval(scores, clusters)
    assert (low, high) == pytest.approx(limits)
    assert method == "gaffke over clusters"


@pytest.mark.parametrize("wrong", range(4))
def test_items_in_clusters_never_have_the_shorter_interval(wrong: int) -> None:
    """99 of 100 items in ten clusters get a wider interval than 99 of 100 independent items."""
    scores = [0.0] * wrong + [1.0] * (100 - wrong)
    single = mean_interval(scores, [str(n) for n in range(100)])
    for size in (2, 5, 10, 20):
        clustered = mean_interval(scores, [str(n // size) for n in range(100)])
        assert clustered.low < single.low - 0.01
        assert clustered.high >= single.high


def test_mean_interval_takes_other_limits_of_the_scores() -> None:
    """Differences in [-1, 1] have the interval of (1 + d) / 2 in [0, 1], rescaled."""
    for values, clusters in (([1.0, -1.0, 1.0], "abc"), ([0.5, -1.0, 0.25, 0.0], "abca")):
        low, high, method = mean_interval(values, list(clusters), least=-1)
        scaled = mean_interval([(1 + v) / 2 for v in values], list(clusters))
        assert (low, high) == pytest.approx((2 * scaled.low - 1, 2 * scaled.high - 1), abs=1e-9)
        assert method == scaled.method
