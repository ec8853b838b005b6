"""Positions chosen, their statistical tests, and repeated runs with different orders."""

from __future__ import annotations

import math
import random

import pytest

from pytest_llmprops.benchmarks.dtails.positions import (
    Positions,
    holm_p_values,
    mean_and_deviation,
    order_dependent,
    position_group,
    positions,
    run_accuracies,
    run_values,
)
from pytest_llmprops.benchmarks.dtails.prompts import shown_order


def verdict(size: int, *runs: tuple[int | None, bool]) -> dict[str, float]:
    values = {"variations": float(size)}
    for number, (place, right) in enumerate(runs, 1):
        values |= run_values(number, place, right)
    return values


def simulated(choose: object, items: int = 150, size: int = 2) -> list[dict[str, float]]:
    """Return verdicts over 3 runs of a chooser that maps shown order (and item number) to a position."""
    verdicts = []
    for item in range(items):
        orders = [shown_order(size, 5, f"item {item}", run) for run in range(3)]
        verdicts.append(verdict(size, *((choose(order, item), False) for order in orders)))  # type: ignore[operator]
    return verdicts


def test_counts_by_number_of_variations() -> None:
    """Positions are counted over items and runs, separately for 2 and 3 variations, without unread runs."""
    by_size = positions(
        [
            verdict(2, (0, True), (1, False), (None, False)),
            verdict(3, (2, True), (2, True), (0, False)),
            verdict(2, (0, False)),
        ]
    )
    assert {size: places.counts for size, places in by_size.items()} == {2: (2, 1), 3: (1, 0, 2)}
    assert by_size[3].n == 3
    assert by_size[3].rates == (1 / 3, 0.0, 2 / 3)
    assert position_group(1, 2) == "1of2"


def test_uniformity_of_two_is_exactly_binomial() -> None:
    """For 8 of 8 choices at one position the p-value is twice the probability of 8 heads."""
    assert Positions((8, 0)).p_value() == pytest.approx(2 / 2**8)
    assert Positions((4, 4)).p_value() == pytest.approx(1.0)


def test_uniformity_of_three_is_chi_square() -> None:
    """Counts 20, 10, 0 have a statistic of 20 with 2 degrees of freedom: p = exp(-10)."""
    assert Positions((20, 10, 0)).p_value() == pytest.approx(math.exp(-10))


def test_too_few_choices_for_chi_square() -> None:
    """With fewer than 5 choices expected per position, or with no choice, there is no p-value."""
    assert math.isnan(Positions((14, 0, 0)).p_value())
    assert not math.isnan(Positions((15, 0, 0)).p_value())
    assert math.isnan(Positions((0, 0)).p_value())
    assert math.isnan(Positions((0, 0)).deviation)
    assert order_dependent({2: Positions((0, 0)), 3: Positions((14, 0, 0))}) == ()


def test_holm_over_numbers_of_variations() -> None:
    """The smaller p-value is doubled if two are tested and unchanged if it is the only one."""
    two, three = Positions((30, 14)), Positions((10, 10, 10))
    assert holm_p_values({2: two, 3: three})[2] == pytest.approx(2 * two.p_value())
    assert holm_p_values({2: two}) == {2: pytest.approx(two.p_value())}
    assert holm_p_values({}) == {}


def test_small_deviations_are_not_named() -> None:
    """A deviation below 0.05 is not named even if it is significant; a deviation of 0.05 is."""
    assert Positions((53000, 47000)).p_value() < 1e-9
    assert order_dependent({2: Positions((53000, 47000))}) == ()
    assert order_dependent({2: Positions((55000, 45000))}) == (2,)


def test_order_dependent_model_is_named() -> None:
    """A model that always takes the first position is named for 2 and for 3 variations."""
    for size in (2, 3):
        assert order_dependent(positions(simulated(lambda order, item: 0, size=size))) == (size,)


def test_order_invariant_model_is_not_named() -> None:
    """A model whose choice of variation ignores the order has uniform positions and is not named."""
    rng = random.Random(0)
    fixed = simulated(lambda order, item: order.index(0), size=3)
    mixed = simulated(lambda order, item: order.index(rng.randrange(2)))
    assert order_dependent(positions([*fixed, *mixed])) == ()


def test_false_alarms_are_rare() -> None:
    """An order-invariant model is named in at most 5% of runs, within sampling error."""
    rng, named = random.Random(1), 0
    for _ in range(40):
        twos = sum(rng.random() < 0.5 for _ in range(120))
        threes = [rng.randrange(3) for _ in range(120)]
        by_size = {2: Positions((twos, 120 - twos)), 3: Positions(tuple(threes.count(k) for k in range(3)))}
        named += bool(order_dependent(by_size))
    assert named <= 6, "5% of 40 is 2, three standard deviations more 6"


def test_mean_and_deviation_over_runs() -> None:
    """Accuracies 1, 0.5 and 0 have mean 0.5 and sample deviation 0.5, and a single run has no deviation."""
    verdicts = [
        verdict(2, (0, True), (0, True), (1, False)),
        verdict(2, (0, True), (None, False), (1, False)),
    ]
    assert run_accuracies(verdicts) == (1.0, 0.5, 0.0)
    assert mean_and_deviation((1.0, 0.5, 0.0)) == pytest.approx((0.5, 0.5))
    assert mean_and_deviation((0.25,)) == (0.25, None)
    assert mean_and_deviation(()) == (None, None)


def test_items_with_fewer_runs() -> None:
    """A run counts only the items that have it."""
    assert run_accuracies([verdict(2, (0, True), (0, False)), verdict(2, (0, False))]) == (0.5, 0.0)
    assert run_accuracies([]) == ()
