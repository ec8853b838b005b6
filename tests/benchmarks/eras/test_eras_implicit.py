"""Implicit garden path errors: quantities computed by hand, verdicts on pairs, and metrics from the records."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from pytest_llmprops.benchmarks.eras.implicit import (
    CHAT_MASK,
    MODEL_MASK,
    PairScores,
    Score,
    is_hit,
    is_tie,
    is_wrong,
    occluded,
)
from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.metrics import Metric
from pytest_llmprops.core.requests import Chat, Reply, Request, Sentiment
from pytest_llmprops.core.verdicts import VerdictRecord, record_of
from pytest_llmprops.statistics.intervals import mean_interval
from tests.support.eras_cases import BENCHMARK, first, measured, scorer, verdict_of
from tests.support.records import only_numbers, verdict


def scores(*four: float) -> PairScores:
    return PairScores(*map(Score, four))


def record(paradigm: int, sentiment: str, branching: str, *four: float) -> VerdictRecord:
    """Return the record of a pair with these probabilities."""
    classes = {"+": 1.0, "0": 0.0, "-": -1.0}
    facts = {
        "paradigm": float(paradigm), "right_branching": float(branching == "right"),
        "true_class": classes[sentiment[0]], "canary_class": classes[sentiment[2]],
    }  # fmt: skip
    return verdict("implicit", 0, benchmark="eras", language="zh", values={**scores(*four).values(), **facts})


def rows_of(records: list[VerdictRecord]) -> dict[tuple[str, str], Metric]:
    return {(row.name, row.group): row for row in BENCHMARK.metrics(only_numbers(records))}


# One pair per line: is it wrong, is it a hit?
FIRST = [
    (0.2, 0.8, 0.5, 0.6),  # wrong, hit: 0.6 shrinks to 0.1
    (0.2, 0.8, 0.1, 0.9),  # wrong, no hit: 0.6 grows to 0.8
    (0.8, 0.2, 0.5, 0.5),  # right, hit
    (0.5, 0.5, 0.5, 0.5),  # a tie is right; a distance that stays is no hit
]
SECOND = [
    (0.9, 0.5, 0.6, 0.5),  # wrong for -/0, hit
    (0.4, 0.5, 0.1, 0.5),  # right, no hit
]
PAIRS = [record(1, "+/-", "left", *four) for four in FIRST]
PAIRS += [record(2, "-/0", "right", *four) for four in SECOND]


def test_log_odds_distinguish_saturated_probabilities() -> None:
    """Log odds keep the order and distance of probabilities that both round to 1.0 in 64 bits."""
    low, high = Score(1.0, 40.0), Score(1.0, 50.0)
    assert is_wrong("+/-", PairScores(low, high, low, low))
    assert not is_wrong("+/-", PairScores(high, low, low, low))
    assert not is_wrong("+/-", PairScores(low, low, low, low))
    assert not is_tie(PairScores(high, low, low, low))
    # sigmoid(50) - sigmoid(40) is about e**-40, sigmoid(60) - sigmoid(50) about e**-50
    assert is_hit(PairScores(low, high, Score(1.0, 50.0), Score(1.0, 60.0)))
    assert not is_hit(PairScores(low, high, Score(1.0, 30.0), Score(1.0, 40.0)))


def test_a_reply_without_a_score_is_an_error() -> None:
    """Values that are not probabilities or not finite are errors, not wrong answers."""
    for value in (
        {},
        {"positive": 0.5},
        {"positive": 1.1, "log_odds": 0},
        {"positive": 0.5, "log_odds": math.inf},
    ):
        with pytest.raises(BackendError, match="no sentiment score"):
            Score.of(Reply(value=value))


def test_occluded_character() -> None:
    """The first character of a right-branching site is masked, the third of a left-branching one (figure 4)."""
    assert occluded("学生留心机处理友人", 2, "right", "[MASK]") == "学生[MASK]心机处理友人"
    assert occluded("学生留心机动的友人", 2, "left", "□") == "学生留心□动的友人"


def test_overall_is_the_mean_over_paradigms() -> None:
    """Every paradigm has the same weight, whatever its size; n counts the pairs that a value is a share of."""
    rows = rows_of(PAIRS)
    # Paradigm 01: 2/4, 1/2, 1/2; paradigm 02: 1/2, 1/1, 1/1.
    expected = {
        "pair_accuracy": 0.5, "necessity": 0.75, "sufficiency": 0.75, "gper": 0.375,
        "sentiment_difference": (0.15 - 0.15) / 2,
    }  # fmt: skip
    assert {name: rows[name, "overall"].value for name in expected} == pytest.approx(expected)
    assert rows["sentiment_difference", "+/-"].value == pytest.approx(0.15)
    assert rows["sentiment_difference", "-/0"].value == pytest.approx(-0.15)
    assert rows["necessity", "right"].value == 1.0
    assert {group for name, group in rows if name == "gper"} == {"overall", "left", "right", "+/-", "-/0"}
    assert [rows[n, "overall"].n for n in ("pair_accuracy", "necessity", "sufficiency")] == [6, 3, 3]
    assert all(BENCHMARK.metric_directions[name] == row.direction for (name, _), row in rows.items())


def test_gper_is_of_the_means() -> None:
    """GPER is (1 - mean accuracy) * mean necessity; a paradigm without errors counts for the accuracy only.

    Without a wrong pair GPER is 0, and without a hit sufficiency is undefined.
    """
    # The mean of the paradigms' rates would be 0.625.
    rows = rows_of([*PAIRS[:4], record(2, "+/-", "left", *FIRST[0])])
    assert rows["gper", "overall"].value == pytest.approx(0.75 * 0.75)
    rows = rows_of([*PAIRS[:4], record(2, "+/-", "left", *FIRST[2])])
    assert rows["necessity", "overall"].value == 0.5
    assert rows["gper", "overall"].value == pytest.approx(0.25 * 0.5)
    only_right, only_hit = (rows_of([record(1, "+/-", "left", *four)]) for four in (FIRST[2], FIRST[1]))
    names = ("necessity", "sufficiency", "gper", "authors_necessity", "authors_sufficiency", "authors_gper")
    assert [only_right[name, "overall"].value for name in names] == [None, 0.0, 0.0, None, None, 0.0]
    assert [only_hit[name, "overall"].value for name in names] == [0.0, None, 0.0, 0.0, None, 0.0]
    nothing = rows_of([replace(PAIRS[0], values={})])
    assert {(row.value, row.ci_low, row.n) for row in nothing.values()} == {(None, None, 0)}


def test_intervals_are_over_paradigms() -> None:
    """An interval is that of the mean of one number per paradigm; GPER's is a bootstrap's, and repeatable."""

    def rows(copies: int) -> dict[tuple[str, str], Metric]:
        records = []
        for number in range(12):
            wrong = (0.2, 0.8, 0.5, 0.5 if number % 2 else 0.51)
            chosen = [wrong] * (number % 5) + [(0.7, 0.3, 0.4, 0.4)] * (5 - number % 5)
            records += [record(number, "+/-", "left", *four) for four in chosen] * copies
        return rows_of(records)

    few, many = rows(1), rows(3)
    for name in ("pair_accuracy", "sufficiency", "gper", "sentiment_difference"):
        row = few[name, "overall"]
        assert row.ci_low is not None
        assert row.ci_high is not None
        assert row.value is not None
        assert row.ci_low < row.value < row.ci_high
        assert many[name, "overall"].ci_low == pytest.approx(row.ci_low)
    accuracies = [1 - number % 5 / 5 for number in range(12)]
    limits = few["pair_accuracy", "overall"].ci_low, few["pair_accuracy", "overall"].ci_high
    assert limits == pytest.approx(mean_interval(accuracies, [str(n) for n in range(12)])[:2])
    assert rows(1) == few
    assert rows_of(PAIRS[:4])["gper", "overall"].ci_low is None, "one paradigm"


def test_one_pair_by_the_authors_code() -> None:
    """Accuracy, errors and hits of one pair, from the signed differences for the true word's class."""
    for sentiment, values, correct, error, hit in (
        ("+/-", (0.2, 0.8, 0.5, 0.6), 0, 1, 1),  # 0.6 falls to 0.1
        ("+/-", (0.2, 0.8, 0.1, 0.9), 0, 1, 0),  # 0.6 rises to 0.8
        ("+/-", (0.8, 0.2, 0.5, 0.5), 1, 0, 0),  # -0.6 rises to 0
        ("+/-", (0.8, 0.2, 0.9, 0.1), 1, 0, 1),  # -0.6 falls to -0.8
        ("+/-", (0.5, 0.5, 0.7, 0.7), 1, 1, 1),  # a tie is both right and an error; 0 stays 0
        ("-/0", (0.9, 0.5, 0.6, 0.5), 0, 1, 1),  # for the negative class, 0.4 falls to 0.1
        ("+/-", (0.45, 0.55, 0.9, 0.1), 0, 1, 1),  # 0.1 falls to -0.8: a hit, although the scores move apart
        ("+/-", (0.5, 0.500002, 0.5, 0.500004), 0, 1, 1),  # differences are rounded to five decimals
        ("+/-", (0.5, 0.50002, 0.5, 0.50004), 0, 1, 0),
    ):
        rows = rows_of([record(1, sentiment, "left", *values)])
        assert rows["pair_accuracy", "overall"].value == correct
        necessity = rows["authors_necessity", "overall"]
        assert (necessity.value, necessity.n) == (float(hit) if error else None, error)
        assert rows["authors_sufficiency", "overall"].n == hit


def test_authors_metrics() -> None:
    """Shares are of all pairs, the accuracy in GPER is a mean over paradigms; ``n`` is what a value is a share of."""
    pairs = [record(1, "+/-", "left", 0.2, 0.8, 0.5, 0.6)] * 2
    pairs += [record(2, "-/0", "right", 0.4, 0.5, 0.5, 0.5)]  # right, no hit
    pairs += [record(2, "-/0", "right", 0.6, 0.5, 0.9, 0.5)] * 2  # wrong, no hit
    rows = rows_of(pairs)
    names = ("authors_gper", "authors_necessity", "authors_sufficiency")
    expected = [(1 - (0 + 1 / 3) / 2) * 2 / 4, 2 / 4, 1.0]
    assert [rows[name, "overall"].value for name in names] == pytest.approx(expected)
    assert [rows[name, "overall"].n for name in names] == [5, 4, 2]
    assert rows["authors_sufficiency", "overall"].ci_low is None, (
        "all resamples agree: no interval without width"
    )


def test_a_pair_is_scored_with_its_occlusion(part: Any) -> None:
    """Four sentences are sent: both as they are, and both with the character outside the true word masked."""
    item = first(part, "implicit", "02")
    pair = item["pair"]
    answer = scorer(item, test=0.0, control=-1.0, occluded_test=-0.5, occluded_control=-0.75)
    outcome, asked = measured(item, part.context, "sentiment", answer)
    start = pair.site_start
    masked = [f"{text[:start]}{MODEL_MASK}{text[start + 1 :]}" for text in (pair.test, pair.control)]
    assert [r.text for r in asked if isinstance(r, Sentiment)] == [pair.test, pair.control, *masked]
    assert outcome.verdict is not None
    # -/+: the test sentence scores above its control
    assert (pair.paradigm.sentiment, outcome.verdict.status) == ("-/+", "wrong")
    assert outcome.verdict.values["occluded_test_log_odds"] == -0.5


def test_wrong_sign_of_a_difference(part: Any) -> None:
    """A test sentence that scores lower is wrong for a + word, right for a - word."""
    masked = {"occluded_test": 0.0, "occluded_control": 0.0}
    for paradigm, status, expected, reason in (
        ("01", "wrong", "test not below control (+/-)", "scores below the control"),
        ("02", "correct", "test not above control (-/+)", "scores not above the control"),
    ):
        item = first(part, "implicit", paradigm)
        actual = verdict_of(item, part.context, "sentiment", scorer(item, test=-1, control=0, **masked))
        assert (actual.status, actual.expected) == (status, expected)
        assert reason in actual.reason


def odds(share: float) -> Reply:
    """Return a reply with this probability of A, and the rest for B."""
    top = [{"token": "A", "logprob": math.log(share)}, {"token": "B", "logprob": math.log(1 - share)}]
    return Reply("A", logprobs=({**top[0], "top": top},))


def letters(request: Request) -> Reply:
    """Reply like a chat model that is neutral to masked sentences, and has a score of its own for each other one."""
    assert isinstance(request, Chat)
    share = 0.5 if CHAT_MASK in request.prompt.split("句子：")[1] else 0.6
    return odds(share + 0.001 * (sum(map(ord, request.prompt)) % 97))


def test_how_a_chat_model_is_scored(part: Any) -> None:
    """Log probabilities or a share of samples give the score; the verdict says which, and has both sentences."""
    item = first(part, "implicit", "01")
    verdict = verdict_of(item, part.context, "chat", letters)
    assert verdict.status in ("correct", "wrong")
    assert verdict.values["sampled"] == 0
    assert "log probabilities" in verdict.reason
    assert "occluded_control" in verdict.values
    assert verdict.evidence == {"test": item["pair"].test, "control": item["pair"].control}
    sampling: dict[str, Any] = {"samples": 3, "chat_score": "sampling"}
    outcome, asked = measured(item, part.context, "chat", lambda r: Reply("A"), **sampling)
    sampled = outcome.verdict
    assert sampled is not None
    assert (sampled.status, sampled.values["sampled"], len(asked)) == ("correct", 1, 12)
    assert "repeated sampling" in sampled.reason
    metrics = BENCHMARK.metrics([record_of(item, "eras", "m", sampled, requests=[])])
    assert {m.name: m.value for m in metrics}["sampled_rate"] == 1
    for reply, status in (
        (Reply("嗯", finish_reason="content_filter"), "refused"),
        (Reply("嗯"), "unparsed"),
    ):
        unread = verdict_of(item, part.context, "chat", lambda r, reply=reply: reply, samples=1)  # type: ignore[misc]
        assert (unread.status, unread.evidence, "test" in unread.values) == (status, verdict.evidence, False)


def test_ties_of_a_chat_model_are_right(part: Any) -> None:
    """Four equal scores and even odds are right for every class, stay in the denominator, and are counted."""
    records = []
    for paradigm in ("01", "02", "19", "30"):
        item = first(part, "implicit", paradigm)
        verdict = verdict_of(item, part.context, "chat", lambda request: odds(0.5))
        assert verdict.status == "correct"
        assert "the same as the control sentence" in verdict.reason
        records.append(record_of(item, "eras", "m", verdict, requests=[]))
    rows = {(m.name, m.group): m for m in BENCHMARK.metrics(records)}
    assert rows["pair_accuracy", "overall"].value == 1
    assert (rows["tie_rate", ""].value, rows["tie_rate", ""].n) == (1, 4)
    [remark] = BENCHMARK.remarks(records)
    assert "all 4 implicit pairs are ties" in remark
    decided = record_of(item, "eras", "m", verdict_of(item, part.context, "chat", letters), requests=[])
    assert list(BENCHMARK.remarks([*records, decided])) == []
