"""Paired comparisons, checked against scipy, statsmodels, enumeration, textbook cases and simulation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binomtest, multinomial

from pytest_llmprops.statistics import paired
from pytest_llmprops.statistics.bounded_mean import mean_p_value
from pytest_llmprops.statistics.intervals import clopper_pearson
from pytest_llmprops.statistics.judgement import LEVEL, judge, measured
from pytest_llmprops.statistics.paired import (
    Pairs,
    difference_interval,
    direction_test,
    holm,
    mcnemar_drop,
    sign_flip_drop,
)


def independent(losses: int, gains: int, n: int) -> Pairs:
    """Return right-or-wrong pairs with these counts; the other pairs are right in both."""
    rest = (1.0,) * (n - losses - gains)
    baseline = (1.0,) * losses + (0.0,) * gains + rest
    candidate = (0.0,) * losses + (1.0,) * gains + rest
    return Pairs(baseline, candidate, tuple(map(str, range(n))))


def differing(clusters: list[list[float]]) -> Pairs:
    """Return pairs with these drops, by cluster."""
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
    assert pairs.difference == pytest.approx(-0.2)
    assert pairs.binary
    assert pairs.clustered
    assert pairs.by_cluster() == [[0, 1], [-1, 0], [-1]]
    assert pairs.differing == 3
    # Averaged repeats count by the sign of their difference, and a rounding error is not a difference.
    pairs = Pairs((0.5, 0.1 + 0.2, 1.0), (0.75, 0.3, 0.0), ("a", "b", "c"))
    assert (pairs.losses, pairs.gains, pairs.binary, pairs.clustered) == (1, 1, False, False)
    assert pairs.difference == pytest.approx(-0.25)


def test_impossible_values_are_refused() -> None:
    """Unequal lengths, and scores and p-values outside [0, 1], raise a ValueError that says so."""
    refused: list[tuple[Callable[..., object], tuple[Any, ...], str]] = [
        (Pairs, ((1,), (1, 0), ("a", "b")), "not 1, 2 and 2"),
        (Pairs, ((1, 0), (1, 0), ("a",)), "not 2, 2 and 1"),
        (Pairs, ((1, 2), (1, 0), ("a", "b")), r"\[0, 1\], not 2"),
        (Pairs, ((1,), (-0.1,), ("a",)), r"\[0, 1\], not -0.1"),
        (Pairs, ((1,), (math.nan,), ("a",)), r"\[0, 1\], not nan"),
        (direction_test, (Pairs((), (), ()),), "at least one pair"),
        *((holm, (p,), r"p-values must be in \[0, 1\]") for p in ([0.1, 1.2], [-0.1], [math.nan])),
    ]
    for function, arguments, message in refused:
        with pytest.raises(ValueError, match=message):
            function(*arguments)


@given(flip_counts())
@example((0, 0, 1))
@example((5, 0, 5))
@example((0, 5, 5))
def test_mcnemar_is_scipys_sign_test(case: tuple[int, int, int]) -> None:
    """The p-value equals scipy's one-sided sign test, and is 1 if nothing changed."""
    losses, gains, _ = case
    expected = binomtest(losses, losses + gains, alternative="greater").pvalue if losses + gains else 1
    assert mcnemar_drop(losses, gains) == pytest.approx(expected)


@given(st.lists(st.integers(-6, 6).map(lambda d: d / 3), max_size=9))
@settings(max_examples=50)
def test_sign_flips_are_enumerated_exactly(sums: list[float]) -> None:
    """With few clusters the p-value is the share of all sign patterns whose sum reaches the observed one."""
    signs = itertools.product((1, -1), repeat=len(sums))
    reached = [sum(s * d for s, d in zip(sign, sums, strict=True)) >= sum(sums) - 1e-9 for sign in signs]
    assert sign_flip_drop(sums) == pytest.approx(sum(reached) / len(reached))


@pytest.mark.parametrize(("losses", "gains"), [(20, 10), (34, 20), (15, 15), (60, 90)])
def test_drawn_sign_flips_come_close_to_the_exact_value(losses: int, gains: int) -> None:
    """Beyond 14 clusters the sampled p-value is within four standard errors of the exact one."""
    exact = mcnemar_drop(losses, gains)
    drawn = sign_flip_drop([1.0] * losses + [-1.0] * gains)
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / paired.SIGN_FLIPS))
    assert drawn == sign_flip_drop([1.0] * losses + [-1.0] * gains)
    # Values that are too small to be drawn are bounded.
    assert mcnemar_drop(60, 0) < sign_flip_drop([1.0] * 60) < 1e-13
    assert mcnemar_drop(50, 10) < sign_flip_drop([1.0] * 50 + [-1.0] * 10) < 10 * mcnemar_drop(50, 10)


def test_the_pairs_choose_the_test() -> None:
    """Right-or-wrong items use McNemar's test; clusters and averaged repeats use sign flips; gains are tested alike."""
    for losses, gains in ((8, 1), (1, 8)):
        assert direction_test(independent(losses, gains, 30)) == (mcnemar_drop(8, 1), "exact McNemar")
    name = "sign-flip permutation"
    for sign in (1, -1):
        clustered = differing(
            [[sign * d for d in cluster] for cluster in ([1, 1], [1], [1, 0], [-1], [1], [1])]
        )
        assert direction_test(clustered) == (sign_flip_drop([2, 1, 1, -1, 1, 1]), f"{name} over clusters")
        repeats = differing([[sign * d] for d in (0.5, 0.25, -0.5, 1.0, 0.0)])
        assert direction_test(repeats) == (sign_flip_drop([0.5, 0.25, -0.5, 1.0]), name)
    assert direction_test(independent(7, 7, 30)).p == 1


def test_difference_interval_without_gains_is_clopper_and_pearsons() -> None:
    """If nothing is gained, the lower limit is the exact limit of the share of losses."""
    for losses, n in ((0, 42), (1, 42), (7, 54), (20, 137)):
        interval = difference_interval(independent(losses, 0, n))
        assert -interval.low == pytest.approx(clopper_pearson(losses, n).high, abs=1e-9)
        assert interval.method == "gaffke"


@given(flip_counts())
@example((0, 0, 1))
@example((1, 0, 1))
@example((0, 400, 400))
@settings(max_examples=40)
def test_difference_interval_contains_its_estimate(case: tuple[int, int, int]) -> None:
    """The interval lies in [-1, 1], contains the difference, and mirrors for exchanged models."""
    losses, gains, n = case
    low, high, _ = difference_interval(independent(losses, gains, n))
    assert -1 <= low < high <= 1
    assert low - 1e-9 <= (gains - losses) / n <= high + 1e-9
    assert difference_interval(independent(gains, losses, n))[:2] == pytest.approx((-high, -low), abs=1e-9)


def _missed(losses: NDArray[np.int64], gains: NDArray[np.int64], n: int, drop: float) -> NDArray[np.float64]:
    """Return p-values of "the drop is at least ``drop``" for arrays of counts."""
    counts = np.stack([losses, gains, n - losses - gains], axis=-1)
    return mean_p_value([-1.0, 1.0, 0.0], 1.0, -drop, least=-1, counts=counts)


@pytest.mark.parametrize("n", [42, 137])
@pytest.mark.parametrize(("drop", "gained"), [(0.05, 0.0), (0.05, 0.06), (0.1, 0.02)])
def test_the_upper_limit_of_a_drop_holds(n: int, drop: float, gained: float) -> None:
    """At most 2.5% of outcomes have an upper limit at or below the true drop: exact, over all outcomes."""
    losses, gains = np.divmod(np.arange((n + 1) ** 2), n + 1)
    losses, gains = losses[losses + gains <= n], gains[losses + gains <= n]
    rates = [gained + drop, gained, 1 - 2 * gained - drop]
    weights = multinomial.pmf(np.stack([losses, gains, n - losses - gains], axis=-1), n, rates)
    rate = float(weights[_missed(losses, gains, n, drop) <= 0.025].sum())
    assert rate <= 0.025


def test_difference_interval_of_clusters_and_of_repeats() -> None:
    """Clusters weigh as much as their pairs; fractional scores are taken as they are."""
    pairs = differing([[1.0, 1.0, 0.0], [-1.0], [0.0, 0.5]])
    low, high, method = difference_interval(pairs)
    sums, sizes = np.array([2.0, -1.0, 0.5]), np.array([3.0, 1.0, 2.0])
    weights = np.random.default_rng(4).exponential(size=(400_000, 4))
    ratios = (weights[:, :3] @ sums + 3 * weights[:, 3]) / (weights[:, :3] @ sizes + 3 * weights[:, 3])
    assert -low == pytest.approx(np.quantile(ratios, 0.975), abs=0.005)
    assert low < pairs.difference < high
    assert method == "gaffke over clusters"
    repeats = differing([[float(d)] for d in np.random.default_rng(4).uniform(-1, 1, 400)])
    low, high, method = difference_interval(repeats)
    assert high - low == pytest.approx(3.92 * float(np.std(repeats.differences)) / math.sqrt(400), rel=0.05)
    assert method == "gaffke"


def test_holm_on_a_worked_example() -> None:
    """Holm (1979) by hand: .01, .04, .03, .005 become 3 x .01, .06 (same as for .03), 2 x .03, 4 x .005."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.6]) == pytest.approx([1.0, 1.0])
    assert holm([0.2]) == pytest.approx([0.2])
    assert holm([]) == []


# The judgement


def test_worse_and_better_share_one_level() -> None:
    """A single comparison is clear if its one-sided p-value is at most 2.5%, in both directions alike."""
    for lost, gained in ((16, 6), (15, 6), (6, 0), (5, 0), (0, 0), (7, 7)):
        p = mcnemar_drop(lost, gained)
        pairs = independent(lost, gained, 300)
        drop, gain = judge({"": pairs})[""], judge({"": independent(gained, lost, 300)})[""]
        assert drop.p == pytest.approx(min(1.0, 2 * p) if lost > gained else 1.0)
        assert (drop.word == "worse") is (gain.word == "better") is (p <= LEVEL / 2)
        mirrored = (-gain.difference, -gain.high, -gain.low)
        assert (drop.difference, drop.low, drop.high) == pytest.approx(mirrored)
        assert (drop.lost, drop.gained, drop.pairs) == (lost, gained, 300)
        assert drop.largest_drop == -drop.low == pytest.approx(gain.high)


def test_holm_over_comparisons_that_could_be_clear() -> None:
    """Two tests per comparison; a comparison with few differing pairs takes nothing from the others."""
    strong, weak, few = independent(13, 1, 100), independent(10, 1, 100), independent(3, 0, 100)
    alone = judge({"strong": strong})["strong"]
    assert alone.p == pytest.approx(2 * mcnemar_drop(13, 1))
    both = judge({"strong": strong, "weak": weak})
    assert both["strong"].p == pytest.approx(4 * mcnemar_drop(13, 1))
    assert both["weak"].p == pytest.approx(3 * mcnemar_drop(10, 1))
    many = judge({"strong": strong, "weak": weak, **{str(n): independent(3, 0, 100 + n) for n in range(50)}})
    assert [many[name].p for name in ("strong", "weak")] == [both[name].p for name in ("strong", "weak")]
    assert {many[str(n)].word for n in range(50)} == {"no clear difference"}
    assert judge({"few": few})["few"].word == "no clear difference"


@given(st.lists(flip_counts(60), min_size=1, max_size=6))
@settings(max_examples=40)
def test_a_change_that_is_not_clear_has_a_p_value_above_the_level(cases: list[tuple[int, int, int]]) -> None:
    """Word and p-value agree for every comparison, also for those that could not be significant."""
    for change in judge({n: independent(*case) for n, case in enumerate(cases)}).values():
        assert (change.p <= LEVEL) == change.is_clear
        flips = max(change.lost, change.gained), min(change.lost, change.gained)
        assert change.p >= min(1.0, 2 * mcnemar_drop(*flips)) - 1e-12
        assert change.word == "no clear difference" or (change.word == "worse") == (change.difference < 0)


def test_an_unchanged_model_is_seldom_called_worse_or_better() -> None:
    """In at most 5% of pairs of runs, over all comparisons of nested and separate groups of items."""
    rng = np.random.default_rng(5)
    called, runs = 0, 400
    for run in range(runs):
        churn = (0.03, 0.12)[run % 2]
        differences = rng.choice([-1.0, 0.0, 1.0], 300, p=[churn, 1 - 2 * churn, churn])
        groups = [differences, *np.split(differences, 3), *np.split(differences, 10)]
        family = {n: differing([[d] for d in group]) for n, group in enumerate(groups)}
        called += any(change.is_clear for change in judge(family).values())
    # 5% within four standard errors
    assert called / runs <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / runs)
    assert called > 0


def test_changes_that_are_not_judged() -> None:
    """The only task of a benchmark is all of its items, and costs no second test; a measured change has no word."""
    pairs, again = independent(10, 1, 100), independent(10, 1, 100)
    changes = judge({"benchmark": pairs, "task": again})
    assert changes["benchmark"] == changes["task"] == judge({"benchmark": pairs})["benchmark"]
    change = measured(independent(30, 0, 100))
    assert (change.word, change.p, change.is_clear) == ("not judged", 1.0, False)
