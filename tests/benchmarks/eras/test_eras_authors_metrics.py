"""Necessity, sufficiency and GPER as the authors' code computes them: cases computed by hand."""

from __future__ import annotations

import math

import pytest

from pytest_llmprops.benchmarks.eras.implicit import PairResult, PairScores, Score, is_hit
from pytest_llmprops.benchmarks.eras.metrics import (
    AuthorsCounts,
    authors_counts,
    authors_metrics,
    authors_values,
)
from pytest_llmprops.benchmarks.eras.settings import AUTHORS
from pytest_llmprops.core.metrics import Metric

PLACE = ("implicit", "zh", "builtin")


def scores(test: float, control: float, *masked: float) -> PairScores:
    return PairScores(Score(test), Score(control), *(Score(p) for p in masked))


def one(sentiment: str, *values: float) -> AuthorsCounts:
    return authors_counts([PairResult("01", sentiment, "left", scores(*values))])


@pytest.mark.parametrize(
    ("sentiment", "values", "correct", "error", "hit"),
    [
        ("+/-", (0.2, 0.8, 0.5, 0.6), 0, 1, 1),  # 0.6 falls to 0.1
        ("+/-", (0.2, 0.8, 0.1, 0.9), 0, 1, 0),  # 0.6 rises to 0.8
        ("+/-", (0.8, 0.2, 0.5, 0.5), 1, 0, 0),  # -0.6 rises to 0
        ("+/-", (0.8, 0.2, 0.9, 0.1), 1, 0, 1),  # -0.6 falls to -0.8
        ("+/-", (0.5, 0.5, 0.7, 0.7), 1, 1, 1),  # a tie is both right and an error; 0 stays 0
        ("-/0", (0.9, 0.5, 0.6, 0.5), 0, 1, 1),  # for the negative class, 0.4 falls to 0.1
        ("-/+", (0.5, 0.9, 0.5, 0.6), 1, 0, 0),  # -0.4 rises to -0.1
    ],
)
def test_one_pair(sentiment: str, values: tuple[float, ...], correct: int, error: int, hit: int) -> None:
    """Accuracy, errors and hits of one pair, from the signed differences for the true word's class."""
    assert one(sentiment, *values) == AuthorsCounts(1, correct, error, hit, error * hit)


def test_a_hit_may_grow_beyond_zero() -> None:
    """A difference that changes its sign is a hit, even if the scores move apart."""
    values = (0.45, 0.55, 0.9, 0.1)  # 0.1 falls to -0.8
    assert one("+/-", *values).error_hits == 1
    assert is_hit(scores(*values)) is False, "by the paper's text it is none"


def test_differences_are_rounded_to_five_decimals() -> None:
    """A change below the fifth decimal is no change; so a model with extreme scores has many hits."""
    assert one("+/-", 0.5, 0.500002, 0.5, 0.500004).hits == 1
    assert one("+/-", 0.5, 0.50002, 0.5, 0.50004).hits == 0


def test_extreme_scores_are_ordered_by_log_odds() -> None:
    """Two probabilities that both round to 1 are not a tie if their log odds differ."""
    low, high, even = Score(1.0, 40.0), Score(1.0, 50.0), Score(0.5, 0.0)
    right = authors_counts([PairResult("01", "+/-", "left", PairScores(high, low, even, even))])
    assert (right.correct, right.errors) == (1, 0)


def test_pairs_without_occlusion_count_for_the_accuracy_only() -> None:
    """Without occluded scores, a pair is neither an error nor a hit of the occlusion study."""
    assert one("+/-", 0.2, 0.8) == AuthorsCounts(1, 0, 0, 0, 0)


def test_shares_are_of_all_pairs_and_the_accuracy_is_a_mean() -> None:
    """A paradigm with more pairs weighs more in necessity and sufficiency, not in the accuracy of GPER."""
    values = authors_values([AuthorsCounts(2, 1, 1, 1, 1), AuthorsCounts(8, 2, 6, 4, 3)])
    assert values.accuracy == pytest.approx((1 / 2 + 2 / 8) / 2)
    assert values.necessity == pytest.approx(4 / 7)
    assert values.sufficiency == pytest.approx(4 / 5)
    assert values.gper == pytest.approx((1 - 3 / 8) * 4 / 7)


def test_nothing_to_divide_by() -> None:
    """Shares of nothing are undefined; without a wrong pair GPER is 0."""
    nothing = authors_values([])
    assert (nothing.accuracy, nothing.necessity, nothing.sufficiency, nothing.gper) == (None,) * 4
    right = authors_values([AuthorsCounts(3, 3, 0, 0, 0)])
    assert (right.accuracy, right.necessity, right.sufficiency, right.gper) == (1, None, None, 0)


def rows_of(pairs: list[PairResult]) -> dict[str, Metric]:
    rows = authors_metrics(PLACE, pairs)
    assert {row.group for row in rows} == {"overall"}
    return {row.name: row for row in rows}


def test_metric_rows() -> None:
    """There is one row per quantity; ``n`` is the number of pairs that it is a share of."""
    pairs = [PairResult("01", "+/-", "left", scores(0.2, 0.8, 0.5, 0.6))] * 2
    pairs += [PairResult("02", "-/0", "right", scores(0.4, 0.5, 0.5, 0.5))]  # right, no hit
    pairs += [PairResult("02", "-/0", "right", scores(0.6, 0.5, 0.9, 0.5))]  # wrong, no hit
    rows = rows_of(pairs)
    assert {name: row.direction for name, row in rows.items()} == AUTHORS
    assert rows["authors_necessity"].value == pytest.approx(2 / 3)
    assert rows["authors_sufficiency"].value == 1
    assert rows["authors_gper"].value == pytest.approx((1 - 1 / 4) * 2 / 3)
    assert [rows[n].n for n in ("authors_gper", "authors_necessity", "authors_sufficiency")] == [4, 3, 2]
    assert rows["authors_sufficiency"].ci_low is None, "all resamples agree: no interval without width"
    assert rows_of(pairs[:2])["authors_necessity"].ci_low is None, "one paradigm"
    assert [row.value for row in rows_of([]).values()] == [None, None, None]


def test_intervals_resample_paradigms() -> None:
    """The interval of a share is about four standard errors of a ratio over paradigms wide."""
    pairs: list[PairResult] = []
    hit, miss = scores(0.2, 0.8, 0.5, 0.6), scores(0.2, 0.8, 0.1, 0.9)
    for number in range(20):
        hits = number % 5
        pairs += [PairResult(f"{number:02}", "+/-", "left", s) for s in [hit] * hits + [miss] * (4 - hits)]
    row = rows_of(pairs)["authors_necessity"]
    assert row.value == pytest.approx(0.5)
    assert row.ci_low is not None
    assert row.ci_high is not None
    error = math.sqrt(sum((n % 5 / 4 - 0.5) ** 2 for n in range(20)) / 20 / 20)
    assert row.ci_high - row.ci_low == pytest.approx(3.92 * error, rel=0.15)
    assert rows_of(pairs)["authors_necessity"] == row, "repeatable"
