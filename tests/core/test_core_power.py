"""Power of a comparison, checked against simulation, hand-worked cases and statsmodels."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, norm

from pytest_llmprops.core.bounded_mean import mean_p_value
from pytest_llmprops.core.comparison import (
    detectable_drop,
    detectable_drop_of,
    mcnemar_power,
    times_to_detect,
)
from pytest_llmprops.core.paired import (
    Pairs,
    count_sample,
    drop_interval,
    drop_test,
    mcnemar_drop,
    times_to_settle_drop,
)


def independent(losses: int, gains: int, n: int) -> Pairs:
    """Return right-or-wrong pairs with these counts; the other pairs are right in both."""
    rest = (1.0,) * (n - losses - gains)
    baseline = (1.0,) * losses + (0.0,) * gains + rest
    candidate = (0.0,) * losses + (1.0,) * gains + rest
    return Pairs(baseline, candidate, tuple(map(str, range(n))))


def differing(clusters: list[list[float]]) -> Pairs:
    """Return pairs with these differences, by cluster."""
    flat = [(d, str(i)) for i, cluster in enumerate(clusters) for d in cluster]
    baseline = tuple(max(d, 0.0) for d, _ in flat)
    candidate = tuple(max(-d, 0.0) for d, _ in flat)
    return Pairs(baseline, candidate, tuple(label for _, label in flat))


def _found(drop: float, churn: float, n: int, alpha: float) -> int:
    """Return how many of 4,000 simulated comparisons reject."""
    rates = [churn + drop, churn, 1 - 2 * churn - drop]
    drawn = np.random.default_rng(17).multinomial(n, rates, size=4000)
    return int(np.sum(mcnemar_drop(drawn[:, 0], drawn[:, 1]) <= alpha))


@pytest.mark.parametrize(
    ("losses", "gains", "n", "alpha"),
    [(1, 28, 100, 0.05), (0, 0, 20, 0.05), (6, 5, 60, 0.01), (40, 45, 400, 0.05), (0, 3, 1500, 0.0125)],
)
def test_detectable_drop_has_its_power_in_simulation(losses: int, gains: int, n: int, alpha: float) -> None:
    """At the detectable drop 80% of simulated comparisons reject; at half of it clearly fewer do."""
    drop = detectable_drop(losses, gains, n, alpha=alpha)
    churn = (min(losses, gains) + 0.5) / (n + 1)
    assert binomtest(_found(drop, churn, n, alpha), 4000, 0.80).pvalue > 0.001
    assert _found(drop / 2, churn, n, alpha) < 0.55 * 4000


def test_power_is_the_sum_over_all_outcomes() -> None:
    """The power equals a plain sum over every possible pair of counts."""
    n, churn, drop = 12, 0.06, 0.4
    total = 0.0
    for losses in range(n + 1):
        for gains in range(n + 1 - losses):
            if mcnemar_drop(losses, gains) <= 0.05:
                ways = math.comb(n, losses) * math.comb(n - losses, gains)
                tied = (1 - 2 * churn - drop) ** (n - losses - gains)
                total += ways * (churn + drop) ** losses * churn**gains * tied
    assert mcnemar_power(drop, churn, n, 0.05) == pytest.approx(total, abs=1e-8)


def test_detectable_drop_without_churn_is_nearly_a_count_of_losses() -> None:
    """With hardly any churn a rejection takes five losses: P(Bin(n, d) >= 5) = 80% gives nearly the same
    drop.
    """
    n = 5000
    drop = detectable_drop(0, 0, n, alpha=0.05)
    assert binom.sf(4, n, drop) == pytest.approx(0.8, abs=0.12)


def test_detectable_drop_of_many_pairs_is_the_normal_formula() -> None:
    """For 50,000 pairs with much churn it is within 2% of Connor's (1987) normal approximation."""
    n, drop = 50_000, detectable_drop(5000, 6000, 50_000, alpha=0.05)
    flips = 2 * 5000.5 / 50_001 + drop
    z = norm.isf(0.05) * math.sqrt(flips) + norm.isf(0.2) * math.sqrt(flips - drop**2)
    assert drop == pytest.approx(z / math.sqrt(n), rel=0.02)


@pytest.mark.parametrize(("n", "alpha"), [(1, 0.05), (4, 0.05), (5, 0.05), (9, 0.001), (30, 1e-10)])
def test_too_few_pairs_detect_nothing(n: int, alpha: float) -> None:
    """If even the loss of every pair does not reach the power, no drop is detectable."""
    assert detectable_drop(0, 0, n, alpha=alpha) == math.inf


def test_nothing_is_detectable_in_pure_churn() -> None:
    """If every pair flips one way or the other, no drop is detectable."""
    assert detectable_drop(50, 50, 100, alpha=0.05) == math.inf


def test_ten_pairs_cannot_show_twenty_points() -> None:
    """For 10 pairs that all agree, only a drop of half of them or more is detectable."""
    assert 0.5 < detectable_drop(0, 0, 10, alpha=0.05) < 0.8


@given(st.integers(5, 300), st.integers(0, 40), st.sampled_from([0.05, 0.01]))
@example(8, 0, 0.05)
@settings(max_examples=30, deadline=None)
def test_detectable_drop_falls_with_n_and_grows_with_churn(n: int, churn: int, alpha: float) -> None:
    """Twice the pairs detect a smaller drop; more churn, a lower alpha or more power needs a larger one."""
    assume(2 * churn <= n)
    drop = detectable_drop(churn, churn, n, alpha=alpha)
    twice = detectable_drop(2 * churn, 2 * churn, 2 * n, alpha=alpha)
    assert twice < drop or drop == twice == math.inf
    assert detectable_drop(churn + 1, churn + 1, n + 2, alpha=alpha) >= drop * n / (n + 2) - 1e-3
    assert detectable_drop(churn, churn, n, alpha=alpha / 2) >= drop - 1e-4
    assert detectable_drop(churn, churn, n, alpha=alpha, power=0.95) > drop or drop == math.inf
    assert detectable_drop(churn, n - churn, n, alpha=alpha) == drop


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"losses": 3, "gains": 3, "n": 5}, "3 losses and 3 gains among 5"),
        ({"losses": -1, "gains": 0, "n": 5}, "-1 losses"),
        ({"losses": 0, "gains": 0, "n": 0}, "among 0 pairs"),
        ({"losses": 0, "gains": 0, "n": 5, "alpha": 0.0}, "not 0.0 and 0.8"),
        ({"losses": 0, "gains": 0, "n": 5, "power": 1.0}, "not 0.05 and 1.0"),
        ({"losses": 0, "gains": 0, "n": 5, "alpha": 0.9}, "not 0.9 and 0.8"),
    ],
)
def test_detectable_drop_refuses_impossible_arguments(arguments: dict[str, Any], message: str) -> None:
    """Impossible counts, levels and powers raise a ValueError that names them."""
    with pytest.raises(ValueError, match=message):
        detectable_drop(**{"alpha": 0.05, **arguments})


def test_detectable_drop_is_fast() -> None:
    """The time grows far more slowly than the number of pairs: 200,000 pairs take less than a second."""
    detectable_drop(0, 0, 50, alpha=0.05)
    start = time.process_time()
    detectable_drop(10_000, 10_000, 200_000, alpha=0.05)
    assert time.process_time() - start < 1


def test_detectable_drop_of_independent_pairs() -> None:
    """Right-or-wrong items get the detectable drop of McNemar's test for their counts."""
    expected = detectable_drop(3, 9, 80, alpha=0.02, power=0.9)
    assert detectable_drop_of(independent(3, 9, 80), alpha=0.02, power=0.9) == expected


@pytest.mark.simulation
@pytest.mark.parametrize("count", [5, 6, 8, 10, 12, 16, 30])
@pytest.mark.parametrize("gained", [0.0, 0.02])
def test_clusters_pass_a_drop_of_the_detectable_size_in_at_most_one_of_five(
    count: int, gained: float
) -> None:
    """If clusters of 20 are wholly lost with probability 0.1, the detectable drop is 0.1 or less in at most 20% of
    samples, although most samples of few clusters show hardly any variance.
    """
    rng = np.random.default_rng(count)
    kinds = rng.choice(3, p=[0.1, gained, 0.9 - gained], size=(3000, count))
    lost = np.where(kinds == 0, 20, np.where(kinds == 1, -20, rng.binomial(20, 0.01, kinds.shape)))
    drop = 0.1 - gained + 0.01 * (0.9 - gained)
    met = int((mean_p_value(-lost, 20.0, -drop, least=-1) <= 0.2).sum())
    assert binomtest(met, 3000, 0.2, alternative="greater").pvalue > 0.01


def test_detectable_drop_of_clusters_is_an_upper_limit() -> None:
    """It is the upper limit of a one-sided 80% interval over clusters, if that is above the value of the items."""
    pairs = differing([[1.0] * 20] * 2 + [[0.0] * 20] * 10)
    assert detectable_drop_of(pairs, alpha=0.05) == pytest.approx(drop_interval(pairs, level=0.6).high)
    assert detectable_drop_of(pairs, alpha=0.05) > 5 * detectable_drop(40, 0, 240, alpha=0.05)


@pytest.mark.parametrize(("up", "down"), [(0.2, -0.2), (0.2, -0.4)])
def test_fractional_differences_count_as_fractions_of_a_flip(up: float, down: float) -> None:
    """If all repeats differ a little, in either direction, there is still a detectable drop."""
    pairs = differing([[up], [down]] * 100)
    drop = detectable_drop_of(pairs, alpha=0.05)
    assert drop == pytest.approx(detectable_drop(20, 20, 200, alpha=0.05))
    assert detectable_drop(100, 100, 200, alpha=0.05) == math.inf


def test_detectable_drop_of_clusters_is_not_less_than_that_of_items() -> None:
    """The detectable drop of clusters that happen to vary little is that of their items."""
    pairs = differing([[1.0, -1.0, 0.0], [0.0, 0.0, 0.0]] * 9 + [[1.0, 0.0, 0.0]])
    assert detectable_drop_of(pairs, alpha=0.05) == detectable_drop(10, 9, 57, alpha=0.05)


@pytest.mark.parametrize(("detect", "fewest"), [(0.1, 16), (0.05, 32), (0.2, 8)])
def test_the_least_number_of_clusters(detect: float, fewest: int) -> None:
    """Without any difference, 1 - 0.2^(1 / clusters) must be at most ``detect``: 16 clusters for 10 points."""
    for count in (fewest - 1, fewest):
        pairs = differing([[0.0] * 40] * count)
        assert (detectable_drop_of(pairs, alpha=0.05) <= detect) == (count >= fewest)
        assert detectable_drop_of(pairs, alpha=0.05) == pytest.approx(1 - 0.2 ** (1 / count))


@pytest.mark.parametrize(("count", "finite"), [(1, False), (4, False), (12, True)])
def test_too_few_clusters_detect_nothing(count: int, finite: bool) -> None:
    """With 4 clusters no sign pattern is significant at 5%, however many items they contain."""
    pairs = differing([[0.1 * (i % 3)] * 50 for i in range(count)])
    assert math.isfinite(detectable_drop_of(pairs, alpha=0.05)) == finite
    worst = drop_test(differing([[1.0] * 50] * count)).p
    assert (worst <= 0.05) == finite


def test_one_large_cluster_can_show_hardly_any_drop() -> None:
    """If one cluster has most of the pairs and is lost, hardly any drop is excluded."""
    pairs = differing([[1.0] * 30] + [[0.0]] * 11)
    assert detectable_drop(30, 0, 41, alpha=0.05) < 0.2
    assert 0.85 < detectable_drop_of(pairs, alpha=0.05) <= 1


@pytest.mark.parametrize("clustered", [False, True])
def test_times_to_detect_is_enough(clustered: bool) -> None:
    """With that many times the pairs the drop is detectable; with four fifths of them it is not."""
    clusters = [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0]] + [[0.0] * 3] * 6
    if not clustered:
        clusters = [[d] for cluster in clusters for d in cluster]
    times = times_to_detect(differing(clusters), 0.05, alpha=0.05)
    assert times is not None
    assert times > 5
    for copies, enough in ((math.ceil(1.02 * times), True), (int(0.85 * times), False)):
        assert (detectable_drop_of(differing(clusters * copies), alpha=0.05) <= 0.05) == enough


def test_times_to_detect_of_a_drop_that_is_there() -> None:
    """If the clusters themselves drop by more, no number of them excludes that drop."""
    pairs = differing([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]] * 3)
    assert times_to_detect(pairs, 0.1, alpha=0.05) is None
    assert times_to_detect(pairs, 0.4, alpha=0.05) is not None


@pytest.mark.parametrize(
    ("losses", "gains", "max_drop"), [(16, 10, 0.05), (30, 18, 0.10), (20, 6, 0.05), (20, 20, 0.02)]
)
def test_times_to_settle_a_drop_settles(losses: int, gains: int, max_drop: float) -> None:
    """With that many similar pairs the interval excludes the margin; with a tenth fewer it does not."""
    times = times_to_settle_drop(independent(losses, gains, 200), max_drop)
    assert times is not None
    assert times > 1

    def settled(factor: float) -> bool:
        sample = count_sample(losses * factor, gains * factor, 200 * factor)
        return sample.p_below(max_drop, most=1) <= 0.025 or sample.p_above(max_drop, least=-1) <= 0.025

    assert settled(1.01 * times)
    assert not settled(0.9 * times)


def test_times_to_settle_a_drop_on_the_margin() -> None:
    """If the estimate equals the margin, no number of pairs settles it; a settled drop needs no more pairs."""
    assert times_to_settle_drop(independent(12, 2, 100), 0.1) is None
    assert times_to_settle_drop(independent(12, 2, 100), 0.11) is not None
    assert times_to_settle_drop(independent(0, 30, 100), 0.05) == 1


def test_times_to_settle_a_drop_of_clusters() -> None:
    """Clusters need more pairs than the same number of independent items with the same flips, and so does a higher
    level.
    """
    rng = np.random.default_rng(3)
    clusters = [[float(d)] * 8 for d in rng.choice([-1, 0, 0, 0, 0, 1], 40)]
    pairs = differing(clusters)
    margin = pairs.drop + 0.03
    ours, naive, strict = (
        times_to_settle_drop(p, margin, level)
        for p, level in (
            (pairs, 0.95),
            (independent(pairs.losses, pairs.gains, pairs.n), 0.95),
            (pairs, 0.99),
        )
    )
    assert ours is not None
    assert naive is not None
    assert strict is not None
    assert strict > ours > 3 * naive
