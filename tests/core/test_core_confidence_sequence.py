"""Betting bounds on the mean of a finite population are fair, cover the mean and are tight."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binomtest

from pytest_llmprops.core.confidence_sequence import SLACK, Bets, Bounds, betting_bounds

ALPHA = 0.05
SAMPLES = 2000
Array = NDArray[np.float64]


def log_evidence_above(values: Array, population: int, mean: float, *, alpha: float) -> Array:
    """Return the log of the largest capital so far that was won against "the mean is ``mean`` or less".

    It is infinite after draws that exclude ``mean`` for certain.
    """
    evidence = Bets.on(values, population, alpha=alpha).log_capital(mean)
    evidence[np.cumsum(values, axis=-1) > population * mean + SLACK] = np.inf
    return np.maximum.accumulate(np.maximum(evidence, 0.0), axis=-1)


def log_evidence_below(values: Array, population: int, mean: float, *, alpha: float) -> Array:
    """Return the evidence that the population's mean is below ``mean``, by mirroring the function above."""
    return log_evidence_above(1 - values, population, 1 - mean, alpha=alpha)


def _binary(size: int, ones: float) -> Array:
    return (np.arange(size) < round(size * ones)).astype(float)


def _differences(size: int, worse: float, better: float) -> Array:
    """Return paired differences -1, 0 and 1, coded as (1 + d) / 2."""
    down, up = round(size * worse), round(size * better)
    return np.repeat([0.0, 1.0, 0.5], [down, up, size - down - up])


POPULATIONS: dict[str, Array] = {
    "binary 0.5": _binary(200, 0.5),
    "binary 0.05": _binary(200, 0.05),
    "binary 0.95": _binary(200, 0.95),
    "three-valued": _differences(200, 0.05, 0.15),
    "three-valued, rare": _differences(300, 0.01, 0.04),
    "skewed": np.random.default_rng(3).uniform(size=200) ** 4,
    "tiny": np.array([0.0, 0.1, 1.0, 1.0, 0.3]),
}


def _permutations(values: Array, count: int, seed: int) -> Array:
    return np.random.default_rng(seed).permuted(np.tile(values, (count, 1)), axis=1)


def _not_above_alpha(misses: int, samples: int) -> bool:
    return bool(binomtest(misses, samples, ALPHA, alternative="greater").pvalue > 0.01)


def _serfling(values: Array, population: int) -> Bounds:
    """Return Hoeffding's interval for draws without replacement (Serfling 1974), valid for a single look."""
    n = len(values)
    half = math.sqrt((1 - (n - 1) / population) * math.log(2 / ALPHA) / (2 * n))
    return Bounds(values.mean() - half, values.mean() + half)


@pytest.mark.parametrize(
    "draws",
    [
        np.array(
            [[float(i in chosen) for i in range(12)] for chosen in itertools.combinations(range(12), 3)]
        ),
        np.array(list(itertools.permutations([0.0, 0.1, 0.5, 0.5, 0.9, 1.0]))),
    ],
    ids=["binary", "several values"],
)
def test_the_game_is_fair(draws: Array) -> None:
    """Over all orders of a population, the capital against the true mean averages 1 after every draw."""
    size, mean = draws.shape[1], float(draws[0].mean())
    for values, null in ((draws, mean), (1 - draws, 1 - mean)):
        capital = np.exp(Bets.on(values, size, alpha=ALPHA).log_capital(null))
        assert capital.mean(axis=0) == pytest.approx(np.ones(size))
        assert capital.std(axis=0).min() > 0.05  # somebody bets


@pytest.mark.parametrize("name", POPULATIONS)
def test_true_mean_is_excluded_in_at_most_alpha(name: str) -> None:
    """In 2,000 random orders, checked after every draw, the mean is excluded at most as often as stated."""
    values = POPULATIONS[name]
    size, mean = len(values), float(values.mean())
    orders = _permutations(values, SAMPLES, seed=11)
    above = log_evidence_above(orders, size, mean, alpha=ALPHA / 2)[:, -1]
    below = log_evidence_below(orders, size, mean, alpha=ALPHA / 2)[:, -1]
    misses = int((np.maximum(above, below) >= math.log(2 / ALPHA)).sum())
    assert _not_above_alpha(misses, SAMPLES), f"{misses} of {SAMPLES}"
    for one_sided in (above, below):
        assert (one_sided >= math.log(2 / ALPHA)).mean() <= ALPHA / 2 + 0.01


@st.composite
def draws_of_a_population(draw: st.DrawFn) -> tuple[list[float], int]:
    """Draw (values drawn, population); shrinks to no values of a population of 1."""
    values = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 1), max_size=40))
    return values, max(1, len(values)) + draw(st.integers(0, 60))


@given(draws_of_a_population())
@example(([], 1))
@example(([1.0], 1))
@example(([0.0] * 40, 40))
@example(([0.1] * 30, 31))
@example(([1.0] * 20 + [0.0] * 20, 41))
@settings(max_examples=60)
def test_bounds_narrow_and_stay_within_the_certain_ones(case: tuple[list[float], int]) -> None:
    """After every draw the bounds are within the certain ones, and widen only after they met."""
    values, population = case
    before = Bounds(0.0, 1.0)
    for n in range(len(values) + 1):
        total = math.fsum(values[:n])
        bounds = betting_bounds(values[:n], population, alpha=ALPHA)
        assert total / population - 1e-12 <= bounds.low <= bounds.high
        assert bounds.high <= (total + population - n) / population + 1e-12
        if before.low < before.high and bounds.low < bounds.high:
            assert before.low <= bounds.low + 1e-12
            assert bounds.high <= before.high + 1e-12
        before = bounds


@pytest.mark.parametrize("seed", range(12))
def test_bound_is_the_last_mean_that_is_too_low(seed: int) -> None:
    """The capital reaches 1 / alpha at the lower bound, and not at the next mean of the grid."""
    rng = random.Random(seed)
    values = [float(rng.random() < rng.choice((0.3, 0.9, 1))) for _ in range(rng.randint(30, 90))]
    low = betting_bounds(values, 100, alpha=ALPHA, side="lower").low
    bets = Bets.on(values, 100, alpha=ALPHA)
    above, beyond = (float(bets.log_capital(low + step / 100_000).max()) for step in (-0.01, 1.01))
    assert above >= math.log(1 / ALPHA) + SLACK > beyond


@given(draws_of_a_population())
@settings(max_examples=60)
def test_bounds_mirror(case: tuple[list[float], int]) -> None:
    """The bounds of 1 - values are 1 - bounds, and a lower bound alone mirrors an upper bound alone."""
    values, population = case
    mirrored = [1 - v for v in values]
    low, high = betting_bounds(values, population, alpha=ALPHA)
    # one step of the grid on which bounds are rounded outwards
    step = 0.002 / population
    assert betting_bounds(mirrored, population, alpha=ALPHA) == pytest.approx((1 - high, 1 - low), abs=step)
    low, high = betting_bounds(values, population, alpha=ALPHA, side="lower")
    other = betting_bounds(mirrored, population, alpha=ALPHA, side="upper")
    assert other == pytest.approx((1 - high, 1 - low), abs=step)


@pytest.mark.parametrize("name", POPULATIONS)
def test_bounds_equal_the_mean_after_all_draws(name: str) -> None:
    """After the last draw both bounds equal the mean, and both tests exclude every other mean."""
    values = POPULATIONS[name]
    size, mean = len(values), math.fsum(values) / len(values)
    for order in _permutations(values, 20, seed=13):
        assert betting_bounds(order, size, alpha=ALPHA) == pytest.approx((mean, mean), abs=1e-12)
    assert log_evidence_above(values, size, mean - 1e-6, alpha=ALPHA)[-1] == math.inf
    assert log_evidence_below(values, size, mean + 1e-6, alpha=ALPHA)[-1] == math.inf


def test_contradicting_bounds_become_one_point() -> None:
    """If the bounds cross, which is very unlikely, both become their midpoint."""
    values = [1.0] * 20 + [0.0] * 40
    low = betting_bounds(values, 200, alpha=ALPHA / 2, side="lower").low
    high = betting_bounds(values, 200, alpha=ALPHA / 2, side="upper").high
    assert low > high
    assert betting_bounds(values, 200, alpha=ALPHA) == ((low + high) / 2, (low + high) / 2)


def test_one_sided_bound_uses_all_of_alpha() -> None:
    """A one-sided bound equals the two-sided bound at twice alpha, and the other end is the certain bound."""
    values = _permutations(_binary(500, 0.6), 1, seed=15)[0, :100]
    low, high = betting_bounds(values, 500, alpha=2 * ALPHA)
    total = values.sum()
    assert betting_bounds(values, 500, alpha=ALPHA, side="lower") == (low, (total + 400) / 500)
    assert betting_bounds(values, 500, alpha=ALPHA, side="upper") == (total / 500, high)


@pytest.mark.parametrize(
    ("population", "draws", "at_most"),
    [
        (_differences(1000, 0.005, 0.005), 50, 0.3),
        (_differences(1000, 0.025, 0.025), 100, 0.3),
        (_differences(1000, 0.025, 0.025), 500, 0.27),
        (_binary(1000, 0.95), 100, 0.45),
        (_binary(1000, 0.95), 750, 0.53),
        (_binary(5000, 0.95), 500, 0.5),
        (_binary(1000, 0.5), 500, 1.03),
    ],
)
def test_bounds_are_tight(population: Array, draws: int, at_most: float) -> None:
    """Mean widths are below Hoeffding's single-look interval for low variance, and close to it otherwise."""
    size = len(population)
    samples = [order[:draws] for order in _permutations(population, 40, seed=16)]
    widths = [b.high - b.low for b in (betting_bounds(s, size, alpha=ALPHA) for s in samples)]
    one_look = [b.high - b.low for b in (_serfling(s, size) for s in samples)]
    assert np.mean(widths) < at_most * np.mean(one_look)


def test_bounds_before_the_first_draw() -> None:
    """Before the first draw the bounds allow any mean."""
    assert betting_bounds([], 10, alpha=ALPHA) == (0.0, 1.0)
    assert log_evidence_above(np.array([]), 10, 0.5, alpha=ALPHA).shape == (0,)


@pytest.mark.parametrize(
    ("values", "population", "alpha", "side", "message"),
    [
        ([0.5, 1.2], 10, 0.05, "both", r"\[0, 1\], not 1.2"),
        ([-0.1], 10, 0.05, "both", r"\[0, 1\], not -0.1"),
        ([math.nan], 10, 0.05, "both", r"\[0, 1\], not nan"),
        ([1.0, 1.0, 1.0], 2, 0.05, "both", "3 values were drawn from a population of 2"),
        ([1.0], 10, 0.0, "both", "alpha must lie between 0 and 1, not 0.0"),
        ([1.0], 10, 1.0, "both", "alpha must lie between 0 and 1, not 1.0"),
        ([1.0], 10, math.nan, "both", "alpha must lie between 0 and 1, not nan"),
        ([], 0, 0.05, "both", "at least 1 value, not 0"),
        ([1.0], 10, 0.05, "left", "both, lower or upper, not 'left'"),
        ([[1.0]], 10, 0.05, "both", "one sequence of draws"),
        (1.0, 10, 0.05, "both", "a sequence of draws"),
    ],
)
def test_wrong_input_is_named(values: object, population: int, alpha: float, side: str, message: str) -> None:
    """Invalid input is refused in one line that says what is wrong."""
    with pytest.raises(ValueError, match=message) as raised:
        betting_bounds(values, population, alpha=alpha, side=side)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)
