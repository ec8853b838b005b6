"""Paired comparisons, checked against scipy, statsmodels, enumeration, textbook cases and simulation."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binomtest, false_discovery_control, multinomial, norm
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from pytest_llmprops.core import paired
from pytest_llmprops.core.bounded_mean import mean_p_value
from pytest_llmprops.core.comparison import (
    detectable_drop,
    detectable_drop_of,
    judge,
    judged_together,
    mcnemar_power,
    times_to_detect,
)
from pytest_llmprops.core.paired import (
    Pairs,
    count_sample,
    drop_interval,
    drop_test,
    holm,
    mcnemar_drop,
    sign_flip_drop,
    times_to_settle_drop,
)
from pytest_llmprops.core.statistics import clopper_pearson

#: airway hyper-responsiveness before and after stem cell transplantation, 21 children (Bentur et al.):
#: Fagerland, Lydersen & Laake (2014), Table 1; 1 pair changed one way, 7 the other
AIRWAYS = (7, 1, 21)


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


@st.composite
def flip_counts(draw: st.DrawFn, most: int = 400) -> tuple[int, int, int]:
    """Draw (losses, gains, n); shrinks to (0, 0, 1)."""
    n = draw(st.integers(1, most))
    losses = draw(st.integers(0, n))
    return losses, draw(st.integers(0, n - losses)), n


def test_pairs_count_what_changed() -> None:
    """Losses, gains, drop and clusters match the scores in any order."""
    pairs = Pairs((1, 1, 0, 1, 0), (1, 0, 1, 0, 0), ("a", "b", "a", "c", "b"))
    assert (pairs.n, pairs.losses, pairs.gains, pairs.cluster_count) == (5, 2, 1, 3)
    assert pairs.drop == pytest.approx(0.2)
    assert pairs.binary
    assert pairs.clustered
    assert pairs.by_cluster() == [[0, -1], [1, 0], [1]]
    # Averaged repeats count by the sign of their difference, and a rounding error is not a difference.
    pairs = Pairs((0.5, 0.1 + 0.2, 1.0), (0.75, 0.3, 0.0), ("a", "b", "c"))
    assert (pairs.losses, pairs.gains, pairs.binary, pairs.clustered) == (1, 1, False, False)
    assert pairs.drop == pytest.approx(0.25)
    nothing = Pairs((), (), ())
    assert (nothing.n, nothing.losses, nothing.clustered, drop_test(nothing).p) == (0, 0, False, 1.0)


IMPOSSIBLE = ((1, 1, 1), (3, 3, 5), (-1, 0, 5), (0, -1, 5), (0, 0, 0))
DROP = partial(detectable_drop, alpha=0.05)
REFUSED: list[tuple[Callable[..., object], tuple[Any, ...], str]] = [
    (Pairs, ((1,), (1, 0), ("a", "b")), "not 1, 2 and 2"),
    (Pairs, ((1, 0), (1, 0), ("a",)), "not 2, 2 and 1"),
    (Pairs, ((1, 2), (1, 0), ("a", "b")), r"\[0, 1\], not 2"),
    (Pairs, ((1,), (-0.1,), ("a",)), r"\[0, 1\], not -0.1"),
    (Pairs, ((1,), (math.nan,), ("a",)), r"\[0, 1\], not nan"),
    (lambda: Pairs((), (), ()).drop, (), "at least one pair"),
    *(
        (count_sample, counts, "{} losses and {} gains among {} pairs".format(*counts))
        for counts in IMPOSSIBLE
    ),
    *((DROP, counts, "{} losses and {} gains among {}".format(*counts)) for counts in IMPOSSIBLE),
    (partial(DROP, alpha=0.0), (0, 0, 5), "not 0.0 and 0.8"),
    (partial(DROP, power=1.0), (0, 0, 5), "not 0.05 and 1.0"),
    (partial(DROP, alpha=0.9), (0, 0, 5), "not 0.9 and 0.8"),
    *((holm, (p_values,), r"p-values must be in \[0, 1\]") for p_values in ([0.1, 1.2], [-0.1], [math.nan])),
]


@pytest.mark.parametrize(("function", "arguments", "message"), REFUSED)
def test_impossible_values_are_refused(
    function: Callable[..., object], arguments: tuple[Any, ...], message: str
) -> None:
    """Unequal lengths, scores outside [0, 1], impossible counts, levels and powers raise a ValueError that says so."""
    with pytest.raises(ValueError, match=message):
        function(*arguments)


@given(flip_counts())
@example((0, 0, 1))
@example((5, 0, 5))
@example((0, 5, 5))
def test_mcnemar_matches_scipy_and_statsmodels(case: tuple[int, int, int]) -> None:
    """The p-value equals scipy's one-sided sign test and, where small, half of statsmodels' two-sided one."""
    losses, gains, n = case
    p = mcnemar_drop(losses, gains)
    if losses + gains:
        assert p == pytest.approx(binomtest(losses, losses + gains, 0.5, alternative="greater").pvalue)
    else:
        assert p == 1
    if losses > gains:
        table = [[n, losses], [gains, 0]]
        assert 2 * p == pytest.approx(mcnemar(table, exact=True).pvalue)


def test_mcnemar_on_the_textbook_case() -> None:
    """Fagerland, Lydersen & Laake (2014), Table 2: exact conditional p = 0.0703, two-sided."""
    losses, gains, _ = AIRWAYS
    assert round(2 * mcnemar_drop(losses, gains), 4) == 0.0703
    assert mcnemar_drop(gains, losses) > 0.99


def _enumerated(sums: list[float]) -> float:
    """Return the share of all sign patterns whose sum reaches the observed one."""
    signs = itertools.product((1, -1), repeat=len(sums))
    reached = [sum(s * d for s, d in zip(sign, sums, strict=True)) >= sum(sums) - 1e-9 for sign in signs]
    return sum(reached) / len(reached)


@given(st.lists(st.integers(-6, 6).map(lambda d: d / 3), max_size=9))
@settings(max_examples=50, deadline=None)
def test_sign_flips_are_enumerated_exactly(sums: list[float]) -> None:
    """With few clusters the p-value is the share of all sign patterns; clusters without a difference add
    none.
    """
    assert sign_flip_drop(sums) == pytest.approx(_enumerated(sums))


@pytest.mark.parametrize(("losses", "gains"), [(20, 10), (34, 20), (15, 15), (60, 90)])
def test_drawn_sign_flips_come_close_to_the_exact_value(losses: int, gains: int) -> None:
    """Beyond 14 clusters the sampled p-value is within four standard errors of the exact one."""
    exact = mcnemar_drop(losses, gains)
    drawn = sign_flip_drop([1.0] * losses + [-1.0] * gains)
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / paired.SIGN_FLIPS))
    assert drawn == sign_flip_drop([1.0] * losses + [-1.0] * gains)
    assert drawn != sign_flip_drop([1.0] * losses + [-1.0] * gains, seed=1)
    assert sign_flip_drop([1.0] * 60) == 1 / paired.SIGN_FLIPS


def test_drop_test_chooses_by_the_pairs() -> None:
    """Right-or-wrong items use McNemar's test; clusters and averaged repeats use sign flips."""
    assert drop_test(independent(8, 1, 30)) == (mcnemar_drop(8, 1), "exact McNemar")
    clustered = differing([[1, 1], [1], [1, 0], [-1], [1], [1]])
    assert drop_test(clustered) == (
        sign_flip_drop([2, 1, 1, -1, 1, 1]),
        "sign-flip permutation over clusters",
    )
    repeats = differing([[0.5], [0.25], [-0.5], [1.0], [0.0]])
    assert drop_test(repeats) == (sign_flip_drop([0.5, 0.25, -0.5, 1.0]), "sign-flip permutation")
    assert drop_test(clustered).p != mcnemar_drop(clustered.losses, clustered.gains)


def test_drop_interval_without_gains_is_clopper_and_pearsons() -> None:
    """If nothing is gained, the upper limit of the drop is the exact limit of the share of losses."""
    for losses, n in ((0, 42), (1, 42), (7, 54), (20, 137)):
        interval = drop_interval(independent(losses, 0, n))
        assert interval.high == pytest.approx(clopper_pearson(losses, n).high, abs=1e-9)
        assert interval.method == "gaffke"


@given(flip_counts())
@example((0, 0, 1))
@example((1, 0, 1))
@example((0, 400, 400))
@settings(max_examples=40, deadline=None)
def test_drop_interval_contains_its_estimate(case: tuple[int, int, int]) -> None:
    """The interval lies in [-1, 1], has a width, contains the observed drop, and mirrors when the models are
    exchanged; a higher level contains a lower one.
    """
    losses, gains, n = case
    low, high, _ = drop_interval(independent(losses, gains, n))
    assert -1 <= low < high <= 1
    assert low - 1e-9 <= (losses - gains) / n <= high + 1e-9
    assert drop_interval(independent(gains, losses, n))[:2] == pytest.approx((-high, -low), abs=1e-9)
    wider = drop_interval(independent(losses, gains, n), level=0.99)
    assert wider.low <= low
    assert high <= wider.high


def _missed(losses: NDArray[np.int64], gains: NDArray[np.int64], n: int, drop: float) -> NDArray[np.float64]:
    """Return p-values of "the drop is at least ``drop``" for arrays of counts."""
    counts = np.stack([losses, gains, n - losses - gains], axis=-1)
    return mean_p_value([-1.0, 1.0, 0.0], 1.0, -drop, least=-1, counts=counts)


@pytest.mark.simulation
@pytest.mark.parametrize("n", [30, 42, 54, 137])
@pytest.mark.parametrize("drop", [0.05, 0.1])
@pytest.mark.parametrize("gained", [0.0, 0.02, 0.06])
def test_the_upper_limit_of_a_drop_holds(n: int, drop: float, gained: float) -> None:
    """At most 2.5% of outcomes have an upper limit at or below the true drop: exact, over all outcomes."""
    losses, gains = np.divmod(np.arange((n + 1) ** 2), n + 1)
    losses, gains = losses[losses + gains <= n], gains[losses + gains <= n]
    rates = [gained + drop, gained, 1 - 2 * gained - drop]
    weights = multinomial.pmf(np.stack([losses, gains, n - losses - gains], axis=-1), n, rates)
    rate = float(weights[_missed(losses, gains, n, drop) <= 0.025].sum())
    assert rate <= 0.025


def test_drop_interval_of_clusters_and_of_repeats() -> None:
    """Clusters weigh as much as their pairs; fractional scores are taken as they are."""
    clusters = [[1.0, 1.0, 0.0], [-1.0], [0.0, 0.5]]
    low, high, method = drop_interval(differing(clusters), level=0.9)
    sums, sizes = np.array([2.0, -1.0, 0.5]), np.array([3.0, 1.0, 2.0])
    weights = np.random.default_rng(4).exponential(size=(400_000, 4))
    ratios = (weights[:, :3] @ sums + 3 * weights[:, 3]) / (weights[:, :3] @ sizes + 3 * weights[:, 3])
    assert high == pytest.approx(np.quantile(ratios, 0.95), abs=0.005)
    assert low < differing(clusters).drop < high
    assert method == "gaffke over clusters"
    repeats = differing([[float(d)] for d in np.random.default_rng(4).uniform(-1, 1, 400)])
    low, high, method = drop_interval(repeats)
    width = 2 * 1.96 * float(np.std(repeats.drops)) / math.sqrt(400)
    assert high - low == pytest.approx(width, rel=0.05)
    assert method == "gaffke"


def test_holm_on_a_worked_example() -> None:
    """Holm (1979) by hand: .01, .04, .03, .005 become 3 x .01, .06 (same as for .03), 2 x .03, 4 x .005."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.6]) == pytest.approx([1.0, 1.0])
    assert holm([0.2]) == pytest.approx([0.2])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(max_examples=20, deadline=None)
def test_holm_orders_and_bounds(p_values: list[float]) -> None:
    """Adjusted values keep the order and lie between p and Bonferroni's value."""
    adjusted = holm(p_values)
    ranked = sorted(zip(p_values, adjusted, strict=True))
    assert all(a[1] <= b[1] + 1e-12 for a, b in itertools.pairwise(ranked))
    assert all(p - 1e-12 <= a <= min(1, p * len(p_values)) + 1e-12 for p, a in ranked)
    assert adjusted[p_values.index(min(p_values))] == pytest.approx(min(1, len(p_values) * min(p_values)))
    assert all(a >= b - 1e-12 for a, b in zip(adjusted, false_discovery_control(p_values), strict=True))


def test_comparisons_that_are_judged_together() -> None:
    """Holm's correction is over both directions of all comparisons, and the detectable drop is that of its level."""
    pairs = [independent(6, 0, 200), independent(0, 12, 200), independent(40, 2, 200), independent(3, 3, 200)]
    alone = [judge(p) for p in pairs]
    assert [r.conclusion for r in alone] == ["drop", "gain", "drop", "no clear difference"]
    together = judged_together(alone)
    assert [r.conclusion for r in together] == ["no clear difference", "gain", "drop", "no clear difference"]
    p_values = [p for r in alone for p in (r.p, 1.0 if r.p_gain is None else r.p_gain)]
    adjusted = multipletests(p_values, method="holm")[1]
    assert [r.p for r in together] == pytest.approx(list(adjusted[::2]))
    for pair, one, all_of_them in zip(pairs, alone, together, strict=True):
        assert all_of_them.detectable == judge(pair, tests=8).detectable
        assert all_of_them.detectable is not None
        assert one.detectable is not None
        assert all_of_them.detectable > one.detectable
    assert judged_together([]) == []


# Power


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


def test_detectable_drop_of_many_pairs_is_the_normal_formula() -> None:
    """For 50,000 pairs with much churn it is within 2% of Connor's (1987) normal approximation."""
    n, drop = 50_000, detectable_drop(5000, 6000, 50_000, alpha=0.05)
    flips = 2 * 5000.5 / 50_001 + drop
    z = norm.isf(0.05) * math.sqrt(flips) + norm.isf(0.2) * math.sqrt(flips - drop**2)
    assert drop == pytest.approx(z / math.sqrt(n), rel=0.02)


@pytest.mark.parametrize(
    ("flips", "n", "alpha"),
    [(0, 1, 0.05), (0, 4, 0.05), (0, 5, 0.05), (0, 9, 0.001), (0, 30, 1e-10), (50, 100, 0.05)],
)
def test_too_few_pairs_or_pure_churn_detect_nothing(flips: int, n: int, alpha: float) -> None:
    """If even the loss of every pair does not reach the power, or every pair flips, no drop is detectable."""
    assert detectable_drop(flips, flips, n, alpha=alpha) == math.inf


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
    """Clusters need more pairs than independent items with the same flips, and so does a higher level."""
    rng = np.random.default_rng(3)
    pairs = differing([[float(d)] * 8 for d in rng.choice([-1, 0, 0, 0, 0, 1], 40)])
    single = independent(pairs.losses, pairs.gains, pairs.n)
    cases = ((pairs, 0.99), (pairs, 0.95), (single, 0.95))
    times = [times_to_settle_drop(p, pairs.drop + 0.03, level) or 0.0 for p, level in cases]
    assert times[0] > times[1] > 3 * times[2] > 0
