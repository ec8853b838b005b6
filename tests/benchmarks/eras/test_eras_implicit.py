"""Implicit garden path errors: every quantity compared with cases computed by hand."""

from __future__ import annotations

import itertools
import math

import pytest

from pytest_llmprops.benchmarks.eras.implicit import (
    HUMAN,
    PairResult,
    PairScores,
    Score,
    count,
    gper,
    human_baseline,
    implicit_metrics,
    is_hit,
    is_wrong,
    occluded,
)
from pytest_llmprops.core.metrics import Metric

PLACE = ("implicit", "zh", "builtin")


def scores(test: float, control: float, *masked: float) -> PairScores:
    return PairScores(Score(test), Score(control), *(Score(p) for p in masked))


def rows_of(pairs: list[PairResult]) -> dict[tuple[str, str], Metric]:
    return {(row.name, row.group): row for row in implicit_metrics(PLACE, pairs)}


# One pair per line: is it wrong, is it a hit?
FIRST = [
    scores(0.2, 0.8, 0.5, 0.6),  # wrong, hit: 0.6 shrinks to 0.1
    scores(0.2, 0.8, 0.1, 0.9),  # wrong, no hit: 0.6 grows to 0.8
    scores(0.8, 0.2, 0.5, 0.5),  # right, hit
    scores(0.5, 0.5, 0.5, 0.5),  # a tie is right; nothing shrinks
]
SECOND = [
    scores(0.9, 0.5, 0.6, 0.5),  # wrong for -/0, hit
    scores(0.4, 0.5, 0.1, 0.5),  # right, no hit
]


@pytest.fixture
def pairs() -> list[PairResult]:
    return [PairResult("01", "+/-", "left", s) for s in FIRST] + [
        PairResult("02", "-/0", "right", s) for s in SECOND
    ]


@pytest.mark.parametrize(
    ("sentiment", "lower_is_wrong"), [("+/-", True), ("+/0", True), ("-/+", False), ("-/0", False)]
)
def test_wrong_by_class(sentiment: str, lower_is_wrong: bool) -> None:
    """A lower test sentence is wrong if the true word is positive, a higher one if it is negative."""
    assert is_wrong(sentiment, scores(0.4, 0.6)) is lower_is_wrong
    assert is_wrong(sentiment, scores(0.6, 0.4)) is not lower_is_wrong
    assert not is_wrong(sentiment, scores(0.5, 0.5))


def test_unknown_class_is_named() -> None:
    """A class that no paradigm has is an error that lists the four."""
    with pytest.raises(ValueError, match=r"\+/-, \+/0, -/0, -/\+"):
        is_wrong("0/+", scores(0.1, 0.2))


def test_log_odds_distinguish_saturated_probabilities() -> None:
    """Log odds keep the order and distance of probabilities that both round to 1.0 in 64 bits."""
    low, high = Score(1.0, 40.0), Score(1.0, 50.0)
    assert is_wrong("+/-", PairScores(low, high))
    assert not is_wrong("+/-", PairScores(high, low))
    assert not is_wrong("+/-", PairScores(low, low))
    # sigmoid(50) - sigmoid(40) is about e**-40, sigmoid(60) - sigmoid(50) about e**-50
    assert is_hit(PairScores(low, high, Score(1.0, 50.0), Score(1.0, 60.0)))
    assert not is_hit(PairScores(low, high, Score(1.0, 30.0), Score(1.0, 40.0)))


def test_hit_compares_probabilities() -> None:
    """With log odds, a hit is decided by the differences of probabilities, not of log odds."""

    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    grid = (-6.0, -2.5, -0.2, 0.0, 0.001, 1.0, 4.0, 7.0)
    for a, b, c, d in itertools.product(grid, repeat=4):
        before, after = abs(sigmoid(a) - sigmoid(b)), abs(sigmoid(c) - sigmoid(d))
        if math.isclose(before, after, abs_tol=1e-12):
            continue
        assert is_hit(PairScores(*(Score(sigmoid(x), x) for x in (a, b, c, d)))) is (after < before)


def test_hit_is_strict_and_needs_occluded_scores() -> None:
    """An unchanged distance is not a hit; a pair without occluded scores has no hit value."""
    assert is_hit(scores(0.2, 0.8, 0.8, 0.2)) is False
    assert is_hit(scores(0.2, 0.8, 0.5, 0.5)) is True
    assert is_hit(scores(0.2, 0.8)) is None


@pytest.mark.parametrize("bad", [float("nan"), -0.1, 1.1])
def test_scores_are_probabilities(bad: float) -> None:
    """Values that are not probabilities or not finite are errors."""
    with pytest.raises(ValueError, match="control"):
        scores(0.5, bad)
    with pytest.raises(ValueError, match="test"):
        PairScores(Score(0.5, math.inf), Score(0.5))


def test_values_round_trip(pairs: list[PairResult]) -> None:
    """The scores can be rebuilt from the flat numbers of a verdict."""
    four = PairScores(Score(0.1, -2.2), Score(0.2, -1.4), Score(0.3, -0.8), Score(0.4, -0.4))
    assert PairScores.of({**four.values(), "sampled": 0.0}) == four
    assert set(four.values()) >= {"test", "control", "occluded_test", "occluded_control", "test_log_odds"}
    assert all(PairScores.of(p.scores.values()) == p.scores for p in pairs)


def test_occluded_character() -> None:
    """The first character of a right-branching site is masked, the third of a left-branching one (figure 4)."""
    assert occluded("学生留心机处理友人", 2, "right", "[MASK]") == "学生[MASK]心机处理友人"
    assert occluded("学生留心机动的友人", 2, "left", "□") == "学生留心□动的友人"
    for start in (-1, 7):
        with pytest.raises(ValueError, match="outside"):
            occluded("学生留心机处理友人", start, "left", "□")
    with pytest.raises(ValueError, match="left or right"):
        occluded("学生留心机", 2, "middle", "□")


def test_counts_of_one_paradigm() -> None:
    """Accuracy 2/4, necessity 1/2, sufficiency 1/2, GPER 1/4, mean difference (60 + 60 - 60 + 0) / 4."""
    one = count(PairResult("01", "+/-", "left", s) for s in FIRST)
    assert (one.pairs, one.wrong, one.hits, one.wrong_hits) == (4, 2, 2, 1)
    assert (one.accuracy, one.necessity, one.sufficiency, one.gper) == (0.5, 0.5, 0.5, 0.25)
    assert one.difference == pytest.approx(15.0)


def test_no_errors_at_all() -> None:
    """Without a wrong pair necessity is undefined, sufficiency 0 and the error rate 0."""
    one = count([PairResult("01", "+/-", "left", scores(0.8, 0.2, 0.5, 0.5))])
    assert (one.accuracy, one.necessity, one.sufficiency, one.gper) == (1.0, None, 0.0, 0.0)


def test_no_hits_and_no_occlusion() -> None:
    """Without hits sufficiency is undefined; without occluded scores all three are."""
    one = count([PairResult("01", "+/-", "left", scores(0.2, 0.8, 0.1, 0.9))])
    assert (one.accuracy, one.necessity, one.sufficiency, one.gper) == (0.0, 0.0, None, 0.0)
    without_occlusion = count([PairResult("01", "+/-", "left", scores(0.2, 0.8))])
    assert (
        without_occlusion.accuracy,
        without_occlusion.necessity,
        without_occlusion.sufficiency,
        without_occlusion.gper,
    ) == (0.0, None, None, None)


def test_pairs_without_occlusion_do_not_dilute_necessity() -> None:
    """Necessity is a share of the wrong pairs that have occluded scores."""
    pairs = [scores(0.2, 0.8), scores(0.2, 0.8, 0.5, 0.5)]
    one = count(PairResult("01", "+/-", "left", s) for s in pairs)
    assert (one.wrong, one.studied_wrong, one.necessity) == (2, 1, 1.0)


def test_overall_error_rate_is_of_the_means() -> None:
    """The overall rate is (1 - mean accuracy) * mean necessity, not the mean of the paradigms' rates."""
    pairs = [PairResult("01", "+/-", "left", s) for s in FIRST]
    pairs += [PairResult("02", "+/-", "left", FIRST[0])]
    # Paradigm 01: accuracy 1/2, necessity 1/2; 02: 0 and 1. The mean of the rates would be 0.625.
    assert rows_of(pairs)["gper", "overall"].value == pytest.approx(0.75 * 0.75)


def test_counts_without_pairs() -> None:
    """Without pairs all quantities are undefined."""
    none = count([])
    assert (none.accuracy, none.necessity, none.sufficiency, none.gper) == (None, None, None, None)


def test_overall_is_the_mean_over_paradigms(pairs: list[PairResult]) -> None:
    """Every paradigm has the same weight regardless of its size; pooled values are separate rows; n counts
    the pairs.
    """
    rows = rows_of(pairs)
    # Paradigm 01: 2/4, 1/2, 1/2; paradigm 02: 1/2, 1/1, 1/1.
    assert rows["pair_accuracy", "overall"].value == pytest.approx(0.5)
    assert rows["necessity", "overall"].value == pytest.approx(0.75)
    assert rows["sufficiency", "overall"].value == pytest.approx(0.75)
    assert rows["gper", "overall"].value == pytest.approx(0.375)
    assert rows["sentiment_difference", "overall"].value == pytest.approx((0.15 - 0.15) / 2)
    assert rows["necessity", "pooled"].value == pytest.approx(2 / 3)
    assert rows["sufficiency", "pooled"].value == pytest.approx(2 / 3)
    assert rows["gper", "pooled"].value == pytest.approx(0.5 * 2 / 3)
    assert rows["sentiment_difference", "+/-"].value == pytest.approx(0.15)
    assert rows["sentiment_difference", "-/0"].value == pytest.approx(-0.15)
    assert rows["necessity", "paradigm 02"].value == 1.0
    assert ("sentiment_difference", "+/0") not in rows
    assert [rows[n, "overall"].n for n in ("pair_accuracy", "necessity", "sufficiency")] == [6, 3, 3]
    assert {row.name: row.direction for row in rows.values()} == {
        "pair_accuracy": "target:0.5",
        "necessity": "lower",
        "sufficiency": "lower",
        "gper": "lower",
        "sentiment_difference": "target:0",
    }


def test_undefined_paradigms_are_left_out_of_a_mean() -> None:
    """A paradigm without errors is left out of the mean necessity but counts for the mean accuracy."""
    pairs = [
        PairResult("01", "+/-", "left", scores(0.8, 0.2, 0.5, 0.5)),
        PairResult("02", "+/-", "left", scores(0.2, 0.8, 0.5, 0.5)),
    ]
    rows = rows_of(pairs)
    assert rows["pair_accuracy", "overall"].value == 0.5
    assert rows["necessity", "overall"].value == 1.0
    assert rows["gper", "overall"].value == 0.5


def test_no_pairs_and_one_paradigm(pairs: list[PairResult]) -> None:
    """Without pairs the rows are empty; with one paradigm, intervals are very wide, and gper has none."""
    empty = rows_of([])
    assert {key[1] for key in empty} == {"overall"}
    assert all(row.value is None and row.ci_low is None and row.n == 0 for row in empty.values())
    one = rows_of(pairs[:4])
    accuracy = one["pair_accuracy", "overall"]
    assert accuracy.value == 0.5
    assert accuracy.ci_low is not None
    assert accuracy.ci_high is not None
    assert accuracy.ci_high - accuracy.ci_low > 0.8
    assert one["gper", "overall"].ci_low is None
    difference = one["sentiment_difference", "overall"]
    assert difference.ci_low is not None
    assert difference.ci_high is not None
    assert difference.ci_high - difference.ci_low > 1.9


def test_intervals_are_over_paradigms() -> None:
    """Intervals are of one number per paradigm: they ignore the pairs per paradigm, contain the value, and are
    repeatable.
    """

    def pair_results(copies: int) -> list[PairResult]:
        outcome = []
        for number in range(12):
            wrong = scores(0.2, 0.8, 0.5, 0.5 if number % 2 else 0.51)
            right = scores(0.7, 0.3, 0.4, 0.4)
            chosen = [wrong] * (number % 5) + [right] * (5 - number % 5)
            outcome += [PairResult(f"{number:02}", "+/-", "left", s) for s in chosen] * copies
        return outcome

    few, many = rows_of(pair_results(1)), rows_of(pair_results(3))
    for name in ("pair_accuracy", "sufficiency", "gper", "sentiment_difference"):
        row = few[name, "overall"]
        assert row.ci_low is not None
        assert row.ci_high is not None
        assert row.value is not None
        assert row.ci_low < row.value < row.ci_high
        assert many[name, "overall"].ci_low == pytest.approx(row.ci_low)
    assert rows_of(pair_results(1)) == few
    # The interval is a little wider than four standard errors of a mean over 12 paradigms.
    shares = [1 - number % 5 / 5 for number in range(12)]
    mean = sum(shares) / 12
    error = math.sqrt(sum((s - mean) ** 2 for s in shares) / 12 / 12)
    row = few["pair_accuracy", "overall"]
    assert row.ci_high is not None
    assert row.ci_low is not None
    assert row.ci_high - row.ci_low == pytest.approx(3.92 * error, rel=0.3)


def test_human_row() -> None:
    """The shares in section 2.4 give the human row of table 2, to its printed decimals."""
    accuracy, rate = human_baseline(0.913, 0.815)
    assert round(rate, 3) == HUMAN["gper"]
    assert accuracy == pytest.approx(HUMAN["pair_accuracy"], abs=0.00051)
    with pytest.raises(ValueError, match="half of same"):
        human_baseline(0.2, 0.9)


@pytest.mark.parametrize(
    ("accuracy", "necessity", "printed"),
    [(41.7, 77.9, 45.4), (52.2, 79.6, 38.0), (43.8, 74.3, 41.8), (49.5, 71.3, 36.0), (59.8, 46.8, 18.8)],
)
def test_error_rate_of_table_2(accuracy: float, necessity: float, printed: float) -> None:
    """The printed GPER follows from the printed accuracy and necessity."""
    outcome = gper(accuracy / 100, necessity / 100)
    assert outcome is not None
    assert 100 * outcome == pytest.approx(printed, abs=0.06)
