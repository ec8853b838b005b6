"""Limits of a bounded mean, checked against their definition, exact intervals and simulation."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binomtest

from pytest_llmprops.statistics.bounded_mean import TAIL, ClusterSample, mean_p_value, times_to_settle


def singles(scores: list[float]) -> ClusterSample:
    """Return a sample of independent items."""
    return ClusterSample.of(scores, [str(n) for n in range(len(scores))])


def in_clusters(clusters: list[list[float]]) -> ClusterSample:
    """Return a sample of these clusters."""
    scores = [score for members in clusters for score in members]
    return ClusterSample.of(scores, [str(n) for n, members in enumerate(clusters) for _ in members])


@given(st.integers(1, 2000), st.data())
@settings(max_examples=40)
def test_right_or_wrong_items_have_clopper_and_pearsons_limits(n: int, data: st.DataObject) -> None:
    """For scores 0 and 1 the limits are quantiles of beta distributions, for any number of items."""
    right = data.draw(st.integers(0, n))
    sample = singles([1.0] * right + [0.0] * (n - right))
    low = beta.ppf(TAIL, right, n - right + 1) if right else 0.0
    high = beta.ppf(1 - TAIL, right + 1, n - right) if right < n else 1.0
    assert sample.lower_limit(least=0) == pytest.approx(low, abs=1e-9)
    assert sample.upper_limit() == pytest.approx(high, abs=1e-9)


@pytest.mark.parametrize("scores", [[0.2, 0.9, 0.9], [0.0, 0.5, 1.0, 1.0, 0.25], [0.7] * 6, [0.97]])
def test_limits_are_those_of_the_papers_definition(scores: list[float]) -> None:
    """Learned-Miller & Thomas (2019): the upper limit is a quantile of 1 - the sum of u_(i) (z_(i+1) - z_(i))."""
    rng = np.random.default_rng(1)
    z = np.sort([*scores, 1.0])
    u = np.sort(rng.random((400_000, len(scores))), axis=1)
    expected = np.quantile(1 - u @ np.diff(z), 1 - TAIL)
    limit = singles(scores).upper_limit()
    assert limit == pytest.approx(expected, abs=0.003)
    assert singles([1 - s for s in scores]).lower_limit(least=0) == pytest.approx(1 - limit)


def test_limits_weigh_clusters_by_their_items() -> None:
    """With clusters of different sizes, the limit is that of the Bayesian bootstrap of whole clusters."""
    clusters = [[1.0] * 9, [0.0], [1.0, 0.0, 0.5], [1.0, 1.0]]
    sums, sizes = np.array([sum(c) for c in clusters]), np.array([len(c) for c in clusters])
    weights = np.random.default_rng(2).exponential(size=(400_000, 5))
    ratios = weights[:, :4] @ sums / (weights[:, :4] @ sizes + 9 * weights[:, 4])
    sample = in_clusters(clusters)
    assert sample.lower_limit(least=0) == pytest.approx(np.quantile(ratios, TAIL), abs=0.003)
    assert (sample.items, sample.mean) == (15, 12.5 / 15)


def test_equal_clusters_are_counted() -> None:
    """Equal clusters are one entry, and repeats averaged in another order are equal."""
    sample = in_clusters([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.0, 0.0, 0.6 + 1e-16], [1.0]])
    assert list(sample.counts) == [3, 1]
    twice = in_clusters([[0.6, 0.0, 0.0]] * 6 + [[1.0]] * 2)
    assert sample.times(2).lower_limit(least=0) == pytest.approx(twice.lower_limit(least=0))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@example([0.0])
@example([1.0])
@example([0.0] * 12)
@settings(max_examples=60)
def test_limits_hold_the_mean_and_mirror(scores: list[float]) -> None:
    """The limits are in [0, 1] on both sides of the mean, mirror each other, and are where the p-value is 2.5%."""
    sample = singles(scores)
    low, high = sample.lower_limit(least=0), sample.upper_limit()
    assert 0 <= low <= sample.mean + 1e-9
    assert sample.mean - 1e-9 <= high <= 1
    mirrored = singles([1 - s for s in scores])
    assert mirrored.upper_limit() == pytest.approx(1 - low, abs=1e-7)
    if low > 1e-6:
        assert sample.p_above(low, least=0) == pytest.approx(TAIL, abs=1e-6)


def test_several_samples_at_once() -> None:
    """Rows of sums have the p-values of the single samples."""
    totals = np.random.default_rng(3).integers(0, 6, (7, 9))
    p = mean_p_value(totals, 5.0, 0.3, least=0)
    assert p.shape == (7,)
    for row, value in zip(totals, p, strict=True):
        assert value == pytest.approx(float(mean_p_value(row, np.full(9, 5.0), 0.3, least=0)))
        clusters = [[1.0] * right + [0.0] * (5 - right) for right in row.tolist()]
        assert value == pytest.approx(in_clusters(clusters).p_above(0.3, least=0), abs=1e-8)


def test_the_error_rate_holds_for_clusters_of_different_sizes() -> None:
    """The mean is per item, also if large clusters are easier or harder than small ones."""
    for accuracies in ((0.95, 0.9, 0.7), (0.5, 0.9, 0.99), (0.9, 0.9, 0.9)):
        rng, kinds = np.random.default_rng(6), np.arange(12) % 3
        sizes, rates = np.array([1, 5, 20])[kinds], np.array(accuracies)[kinds]
        right = rng.binomial(sizes, rng.beta(rates / 2, (1 - rates) / 2, (3000, 12)))
        mean = float((sizes * rates).sum() / sizes.sum())
        for totals, true, least in ((right, mean, 0.0), (-right, -mean, -1.0)):
            missed = int((mean_p_value(totals, sizes, true, least=least) <= TAIL).sum())
            assert binomtest(missed, 3000, TAIL, alternative="greater").pvalue > 0.01


@pytest.mark.parametrize(("limit", "side"), [(0.55, 1), (0.85, -1)])
def test_times_to_settle_settles(limit: float, side: int) -> None:
    """With that many times the clusters the interval excludes the limit; with a tenth fewer it does not.

    If the mean is the limit, or too close to it, no number of times is returned; 1 is enough if it is settled.
    """
    sample = in_clusters([[1.0, 1.0, 0.0], [1.0, 0.0], [1.0] * 4, [0.0, 1.0]])
    times = times_to_settle(sample, limit, least=0)
    assert times is not None
    assert times > 1
    for factor, is_excluded in ((times, True), (0.9 * times, False)):
        larger = sample.times(factor)
        low, high = larger.lower_limit(least=0), larger.upper_limit()
        assert (low >= limit if side > 0 else high <= limit) is is_excluded
    for close in (0.5, 0.5001):
        assert times_to_settle(singles([1.0, 0.0]), close, least=0) is None
    assert times_to_settle(singles([1.0] * 50), 0.5, least=0) == 1


@pytest.mark.parametrize("values", [21, 100_000])
def test_ten_thousand_items_are_fast(values: int) -> None:
    """An interval over 10,000 items with fractional scores takes less than 3 seconds of CPU time."""
    scores = np.random.default_rng(5).integers(0, values, 10_000) / values
    sample = singles(scores.tolist())
    start = time.process_time()
    assert sample.lower_limit(least=0) < sample.mean < sample.upper_limit()
    assert time.process_time() - start < 3
