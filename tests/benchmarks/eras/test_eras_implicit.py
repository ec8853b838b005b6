"""Implicit garden path errors: quantities computed by hand, verdicts on pairs, and metrics from the records."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest

from pytest_llmprops.benchmarks.eras.implicit import (
    CHAT_MASK,
    MODEL_MASK,
    PairResult,
    PairScores,
    Score,
    count,
    human_baseline,
    implicit_metrics,
    is_hit,
    is_tie,
    is_wrong,
    occluded,
)
from pytest_llmprops.benchmarks.eras.metrics import (
    AuthorsCounts,
    authors_counts,
    authors_metrics,
    authors_values,
)
from pytest_llmprops.benchmarks.eras.settings import AUTHORS, IMPLICIT_TASK
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.metrics import Metric
from pytest_llmprops.core.requests import Chat, Reply, Request, Sentiment
from pytest_llmprops.core.verdicts import Verdict, VerdictRecord, record_of
from pytest_llmprops.statistics.intervals import mean_interval
from tests.support.eras_cases import BENCHMARK, TEST, cutter, first, measured, scorer, verdict_of
from tests.support.records import only_numbers

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
    with pytest.raises(ValueError, match=r"\+/-, \+/0, -/0, -/\+"):
        is_wrong("0/+", scores(0.1, 0.2))


def test_log_odds_distinguish_saturated_probabilities() -> None:
    """Log odds keep the order and distance of probabilities that both round to 1.0 in 64 bits."""
    low, high = Score(1.0, 40.0), Score(1.0, 50.0)
    assert is_wrong("+/-", PairScores(low, high))
    assert not is_wrong("+/-", PairScores(high, low))
    assert not is_wrong("+/-", PairScores(low, low))
    assert not is_tie(PairScores(high, low))
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


@pytest.mark.parametrize(
    ("members", "counts", "rates"),
    [
        (FIRST, (4, 2, 2, 2, 1, pytest.approx(15.0)), (0.5, 0.5, 0.5, 0.25)),
        ([scores(0.8, 0.2, 0.5, 0.5)], (1, 0, 0, 1, 0, pytest.approx(-60)), (1.0, None, 0.0, 0.0)),
        ([scores(0.2, 0.8, 0.1, 0.9)], (1, 1, 1, 0, 0, pytest.approx(60)), (0.0, 0.0, None, 0.0)),
        ([scores(0.2, 0.8)], (1, 1, 0, 0, 0, pytest.approx(60)), (0.0, None, None, None)),
        ([scores(0.2, 0.8), FIRST[0]], (2, 2, 1, 1, 1, pytest.approx(60)), (0.0, 1.0, 1.0, 1.0)),
        ([], (0, 0, 0, 0, 0, 0.0), (None, None, None, None)),
    ],
    ids=["by hand", "nothing wrong", "no hit", "no occlusion", "some without occlusion", "no pairs"],
)
def test_counts_of_one_paradigm(members: list[PairScores], counts: object, rates: object) -> None:
    """Necessity is a share of the wrong pairs with occluded scores, sufficiency one of the hits; of nothing, None."""
    one = count(PairResult("01", "+/-", "left", s) for s in members)
    assert (one.pairs, one.wrong, one.studied_wrong, one.hits, one.wrong_hits, one.difference) == counts
    assert (one.accuracy, one.necessity, one.sufficiency, one.gper) == rates


def test_overall_is_the_mean_over_paradigms(pairs: list[PairResult]) -> None:
    """Every paradigm has the same weight, whatever its size; pooled values are separate rows; n counts the pairs."""
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
    assert {row.name: row.direction for row in rows.values()} == IMPLICIT_TASK


def test_gper_is_of_the_means() -> None:
    """GPER is (1 - mean accuracy) * mean necessity; a paradigm without errors counts for the accuracy only."""
    half = [PairResult("01", "+/-", "left", s) for s in FIRST]
    wrong, right = (PairResult("02", "+/-", "left", s) for s in (FIRST[0], scores(0.8, 0.2, 0.5, 0.5)))
    # The mean of the paradigms' rates would be 0.625.
    assert rows_of([*half, wrong])["gper", "overall"].value == pytest.approx(0.75 * 0.75)
    rows = rows_of([*half, right])
    assert rows["necessity", "overall"].value == 0.5
    assert rows["gper", "overall"].value == pytest.approx(0.25 * 0.5)


def test_intervals_are_over_paradigms(pairs: list[PairResult]) -> None:
    """An interval is that of the mean of one number per paradigm; GPER's is a bootstrap's, and repeatable."""

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
    names = [str(number) for number in range(12)]
    for name, least in (("pair_accuracy", 0.0), ("sentiment_difference", -1.0)):
        values = [few[name, f"paradigm {number:02}"].value or 0.0 for number in range(12)]
        limits = few[name, "overall"].ci_low, few[name, "overall"].ci_high
        assert limits == pytest.approx(mean_interval(values, names, least=least)[:2])
    assert rows_of(pair_results(1)) == few
    assert rows_of(pairs[:4])["gper", "overall"].ci_low is None, "one paradigm"
    empty = rows_of([])
    assert {key[1] for key in empty} == {"overall"}
    assert all(row.value is None and row.ci_low is None and row.n == 0 for row in empty.values())


def test_human_row() -> None:
    """The shares in section 2.4 give the human row of table 2, to its printed decimals."""
    accuracy, rate = human_baseline(0.913, 0.815)
    assert round(rate, 3) == 0.087
    assert accuracy == pytest.approx(0.506, abs=0.00051)
    with pytest.raises(ValueError, match="half of same"):
        human_baseline(0.2, 0.9)


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
        ("+/-", (0.45, 0.55, 0.9, 0.1), 0, 1, 1),  # 0.1 falls to -0.8: a hit, although the scores move apart
        ("+/-", (0.5, 0.500002, 0.5, 0.500004), 0, 1, 1),  # differences are rounded to five decimals
        ("+/-", (0.5, 0.50002, 0.5, 0.50004), 0, 1, 0),
        ("+/-", (0.2, 0.8), 0, 0, 0),  # without occlusion, a pair counts for the accuracy only
    ],
)
def test_one_pair_by_the_authors_code(
    sentiment: str, values: tuple[float, ...], correct: int, error: int, hit: int
) -> None:
    """Accuracy, errors and hits of one pair, from the signed differences for the true word's class."""
    counts = authors_counts([PairResult("01", sentiment, "left", scores(*values))])
    assert counts == AuthorsCounts(1, correct, error, hit, error * hit)


def test_nothing_to_divide_by() -> None:
    """Shares of nothing are undefined; without a wrong pair GPER is 0."""
    nothing = authors_values([])
    assert (nothing.accuracy, nothing.necessity, nothing.sufficiency, nothing.gper) == (None,) * 4
    right = authors_values([AuthorsCounts(3, 3, 0, 0, 0)])
    assert (right.accuracy, right.necessity, right.sufficiency, right.gper) == (1, None, None, 0)


def test_authors_metrics() -> None:
    """Shares are of all pairs, the accuracy in GPER is a mean over paradigms; ``n`` is what a value is a share of."""
    pairs = [PairResult("01", "+/-", "left", scores(0.2, 0.8, 0.5, 0.6))] * 2
    pairs += [PairResult("02", "-/0", "right", scores(0.4, 0.5, 0.5, 0.5))]  # right, no hit
    pairs += [PairResult("02", "-/0", "right", scores(0.6, 0.5, 0.9, 0.5))] * 2  # wrong, no hit
    rows = {row.name: row for row in authors_metrics(PLACE, pairs)}
    assert {row.group for row in rows.values()} == {"overall"}
    assert {name: row.direction for name, row in rows.items()} == AUTHORS
    assert rows["authors_necessity"].value == pytest.approx(2 / 4)
    assert rows["authors_sufficiency"].value == 1
    assert rows["authors_gper"].value == pytest.approx((1 - (0 + 1 / 3) / 2) * 2 / 4)
    assert [rows[n].n for n in ("authors_gper", "authors_necessity", "authors_sufficiency")] == [5, 4, 2]
    assert rows["authors_sufficiency"].ci_low is None, "all resamples agree: no interval without width"
    assert {row.ci_low for row in authors_metrics(PLACE, pairs[:2])} == {None}, "one paradigm"
    assert [row.value for row in authors_metrics(PLACE, [])] == [None, None, None]


def test_authors_intervals_resample_paradigms() -> None:
    """The interval of a share is about four standard errors of a ratio over paradigms wide."""
    pairs: list[PairResult] = []
    for number in range(20):
        members = [FIRST[0]] * (number % 5) + [FIRST[1]] * (4 - number % 5)
        pairs += [PairResult(f"{number:02}", "+/-", "left", s) for s in members]
    [_, row, _] = authors_metrics(PLACE, pairs)
    assert row.name == "authors_necessity"
    assert row.value == pytest.approx(0.5)
    assert row.ci_low is not None
    assert row.ci_high is not None
    error = math.sqrt(sum((n % 5 / 4 - 0.5) ** 2 for n in range(20)) / 20 / 20)
    assert row.ci_high - row.ci_low == pytest.approx(3.92 * error, rel=0.15)
    assert authors_metrics(PLACE, pairs)[1] == row, "repeatable"


def test_a_pair_is_scored_with_its_occlusion(part: Any) -> None:
    """Four sentences are sent: both as they are, and both with the character outside the true word masked."""
    item = first(part, "implicit", "02")
    pair = item["pair"]
    TEST[0] = pair.paradigm.true_word
    answer = scorer(test=0.0, control=-1.0, occluded_test=-0.5, occluded_control=-0.75)
    outcome, asked = measured(item, part.context, "sentiment", answer)
    start = pair.site_start
    masked = [f"{text[:start]}{MODEL_MASK}{text[start + 1 :]}" for text in (pair.test, pair.control)]
    assert [r.text for r in asked if isinstance(r, Sentiment)] == [pair.test, pair.control, *masked]
    assert outcome.verdict is not None
    # -/+: the test sentence scores above its control
    assert (pair.paradigm.sentiment, outcome.verdict.status) == ("-/+", "wrong")
    assert outcome.verdict.values["occluded_test_log_odds"] == -0.5


@pytest.mark.parametrize(
    ("paradigm", "lower", "side", "sentiment"),
    [("01", "wrong", "below", "+/-"), ("02", "correct", "above", "-/+")],
)
def test_wrong_sign_of_a_difference(part: Any, paradigm: str, lower: str, side: str, sentiment: str) -> None:
    """A test sentence that scores lower is wrong for a + word, right for a - word; a tie is right."""
    item = first(part, "implicit", paradigm)
    TEST[0] = item["pair"].paradigm.true_word
    masked = {"occluded_test": 0.0, "occluded_control": 0.0}
    actual = verdict_of(item, part.context, "sentiment", scorer(test=-1, control=0, **masked))
    assert (actual.status, actual.expected) == (lower, f"test not {side} control ({sentiment})")
    assert f"scores {'' if lower == 'wrong' else 'not '}{side} the control" in actual.reason
    assert (
        verdict_of(item, part.context, "sentiment", scorer(test=0, control=0, **masked)).status == "correct"
    )


def letters(request: Request) -> Reply:
    """Reply like a chat model that is neutral to masked sentences, and has a score of its own for each other one."""
    assert isinstance(request, Chat)
    share = 0.5 if CHAT_MASK in request.prompt.split("句子：")[1] else 0.6
    share += 0.001 * (sum(map(ord, request.prompt)) % 97)
    top = [{"token": "A", "logprob": math.log(share)}, {"token": "B", "logprob": math.log(1 - share)}]
    return Reply("A", logprobs=({"token": "A", "logprob": math.log(share), "top": top},))


def test_how_a_chat_model_is_scored(part: Any) -> None:
    """Log probabilities or a share of samples give the score; the verdict says which, and has both sentences."""
    item = first(part, "implicit", "01")
    verdict = verdict_of(item, part.context, "chat", letters)
    assert verdict.status in ("correct", "wrong")
    assert verdict.values["sampled"] == 0
    assert "log probabilities" in verdict.reason
    assert "occluded_control" in verdict.values
    assert verdict.evidence == {"test": item["pair"].test, "control": item["pair"].control}
    outcome, asked = measured(
        item, part.context, "chat", lambda r: Reply("A"), samples=3, chat_score="sampling"
    )
    sampled = outcome.verdict
    assert sampled is not None
    assert (sampled.status, sampled.values["sampled"], len(asked)) == ("correct", 1, 12)
    assert "repeated sampling" in sampled.reason
    for finish, status in (("content_filter", "refused"), ("stop", "unparsed")):
        reply = Reply("嗯", finish_reason=finish)
        unread = verdict_of(item, part.context, "chat", lambda r, reply=reply: reply, samples=1)  # type: ignore[misc]
        assert (unread.status, unread.evidence) == (status, verdict.evidence)
        assert "test" not in unread.values


def test_ties_of_a_chat_model_are_right(part: Any) -> None:
    """Four equal scores and even odds are right for every class, stay in the denominator, and are counted."""

    def undecided(request: Request) -> Reply:
        top = [{"token": letter, "logprob": math.log(0.5)} for letter in "AB"]
        return Reply("A", logprobs=({"token": "A", "logprob": math.log(0.5), "top": top},))

    records = []
    for paradigm in ("01", "02", "19", "30"):
        item = first(part, "implicit", paradigm)
        verdict = verdict_of(item, part.context, "chat", undecided)
        assert verdict.status == "correct"
        assert "the same as the control sentence" in verdict.reason
        records.append(record(item, verdict))
    rows = {(m.name, m.group): m for m in BENCHMARK.metrics(records)}
    assert rows["pair_accuracy", "overall"].value == 1
    assert (rows["tie_rate", ""].value, rows["tie_rate", ""].n) == (1, 4)
    [remark] = BENCHMARK.remarks(records)
    assert "all 4 implicit pairs are ties" in remark
    decided = record(item, verdict_of(item, part.context, "chat", letters))
    assert list(BENCHMARK.remarks([*records, decided])) == []


def record(item: Item, verdict: Verdict) -> VerdictRecord:
    return record_of(item, "eras", "m", verdict, requests=[])


def test_explicit_metrics_follow_from_the_records(part: Any) -> None:
    """Accuracies and rates of canary words are means over paradigms and need only the records' values."""
    records = []
    for paradigm, places, number in (("01", (1, 3), 1), ("02", (1,), 3), ("04", (2,), 2)):
        items = [i for i in part.items if i.id.startswith(f"eras/explicit/{paradigm}/")][:number]
        records += [record(i, verdict_of(i, part.context, "segment", cutter(i, *places))) for i in items]
    rows = {(m.name, m.group): m for m in BENCHMARK.metrics(only_numbers(records))}
    for name in ("test_accuracy", "canary_token_rate", "canary_swallowed_rate"):
        assert rows[name, "overall"].value == pytest.approx(1 / 3)
    assert (rows["test_accuracy", "left"].value, rows["test_accuracy", "right"].value) == (0, 0.5)
    assert (rows["test_accuracy", "+/-"].n, rows["test_accuracy", "-/+"].n) == (1, 5)
    assert all(BENCHMARK.metric_directions[m.name] == m.direction for m in rows.values())


def test_implicit_metrics_follow_from_the_records(part: Any) -> None:
    """Every metric follows from the four scores in the values; sampled pairs are counted."""
    records = []
    for paradigm in ("01", "02"):
        item = first(part, "implicit", paradigm)
        TEST[0] = item["pair"].paradigm.true_word
        answer = scorer(test=0.0, control=1.0, occluded_test=0.0, occluded_control=0.0)
        records.append(record(item, verdict_of(item, part.context, "sentiment", answer)))
    rows = {
        (m.name, m.group): m for m in BENCHMARK.metrics([replace(r, id="x", cluster="x") for r in records])
    }
    # 01 is +/- and wrong, by the canary word; 02 is -/+ and right.
    expected = {"pair_accuracy": 0.5, "necessity": 1, "sufficiency": 0.5, "gper": 0.5}
    assert {name: rows[name, "overall"].value for name in expected} == expected
    assert rows["sentiment_difference", "+/-"].value == pytest.approx(0.7310586 - 0.5)
    assert all(BENCHMARK.metric_directions[m.name] == m.direction for m in rows.values())
    assert ("sampled_rate", "") not in rows
    sampled = record(
        item, verdict_of(item, part.context, "chat", lambda r: Reply("A"), chat_score="sampling")
    )
    assert {m.name: m.value for m in BENCHMARK.metrics([sampled])}["sampled_rate"] == 1
