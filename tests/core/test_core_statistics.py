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


TEXTBOOK = [
    (81, 263, 0.2527, 0.3676),
    (15, 148, 0.0578, 0.1617),
    (0, 20, 0.0, 0.1684),
    (1, 29, 0.0009, 0.1776),
]


def test_clopper_pearson_on_the_textbook_cases() -> None:
    """The interval matches Newcombe (1998), Table I, method 5, to its four decimals."""
    for successes, n, low, high in TEXTBOOK:
        interval = clopper_pearson(successes, n)
        assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)


def test_clopper_pearson_takes_effective_counts() -> None:
    """Fractional counts give limits between those of the whole counts next to them."""
    low, high, _ = clopper_pearson(7.5, 10)
    assert clopper_pearson(7, 10).low < low < clopper_pearson(8, 10).low
    assert clopper_pearson(7, 10).high < high < clopper_pearson(8, 10).high


IMPOSSIBLE = [(0, 0), (-1, 5), (6, 5), (1, -1)]


def test_clopper_pearson_refuses_impossible_counts() -> None:
    """Impossible counts raise a ValueError that names them."""
    for successes, n in IMPOSSIBLE:
        with pytest.raises(ValueError, match=f"clopper_pearson .* not {successes} of {n}"):
            clopper_pearson(successes, n)


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


WHOLE_CLUSTERS = [
    ([1.0] * 8, "aabbccdd", (4, 4)),
    ([0.0] * 9, "aaabbbccc", (0, 3)),
    ([1.0, 1.0, 0.0, 0.0] * 2, "aabbccdd", (2, 4)),
]


def test_clusters_that_are_wholly_right_or_wrong_count_as_items() -> None:
    """Clusters of equal size whose items all agree get the interval of as many items."""
    for scores, clusters, expected in WHOLE_CLUSTERS:
        low, high, _ = mean_interval(scores, list(clusters))
        assert (low, high) == pytest.approx(clopper_pearson(*expected)[:2], abs=1e-9)


def test_mean_interval_takes_other_limits_of_the_scores() -> None:
    """Differences in [-1, 1] have the interval of (1 + d) / 2 in [0, 1], rescaled."""
    for values, clusters in (([1.0, -1.0, 1.0], "abc"), ([0.5, -1.0, 0.25, 0.0], "abca")):
        low, high, method = mean_interval(values, list(clusters), least=-1)
        scaled = mean_interval([(1 + v) / 2 for v in values], list(clusters))
        assert (low, high) == pytest.approx((2 * scaled.low - 1, 2 * scaled.high - 1), abs=1e-9)
        assert method == scaled.method


IMPOSSIBLE_SCORES = [[], [1.5], [-0.1, 1.0], [math.nan]]


def test_mean_interval_refuses_impossible_scores() -> None:
    """No score, or one outside [0, 1], raises a ValueError."""
    for scores in IMPOSSIBLE_SCORES:
        with pytest.raises(ValueError, match="needs scores from 0 to 1"):
            mean_interval(scores, ["a"] * len(scores))
