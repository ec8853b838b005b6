"""Implicit ERAS pairs, and the metrics of both tasks computed from the records."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from pytest_llmprops.benchmarks.eras.implicit import CHAT_MASK, MODEL_MASK
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.requests import Chat, Reply, Request, Sentiment
from pytest_llmprops.core.verdicts import Verdict, record_of
from tests.support.eras_cases import BENCHMARK, TEST, cutter, first, measured, scorer, verdict_of
from tests.support.records import only_numbers


def test_a_pair_is_scored_with_its_occlusion(part: Any) -> None:
    """Four sentences are sent: both as they are, and both with the character outside the true word masked."""
    item = first(part, "implicit", "02")
    pair = item["pair"]
    TEST[0] = pair.paradigm.true_word
    answer = scorer(test=0.0, control=-1.0, occluded_test=-0.5, occluded_control=-0.75)
    outcome, asked = measured(item, part.context, "sentiment", answer)
    texts = [r.text for r in asked if isinstance(r, Sentiment)]
    start = pair.site_start
    assert texts[:2] == [pair.test, pair.control]
    assert texts[2] == f"{pair.test[:start]}{MODEL_MASK}{pair.test[start + 1 :]}"
    assert outcome.verdict is not None
    # -/+: the test sentence scores above its control
    assert pair.paradigm.sentiment == "-/+"
    assert outcome.verdict.status == "wrong"
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
    """Return a chat model that is neutral to masked sentences and more positive to longer sentences
    otherwise.
    """
    assert isinstance(request, Chat)
    share = 0.5 if CHAT_MASK in request.prompt.split("句子：")[1] else 0.6
    share += 0.001 * (sum(map(ord, request.prompt)) % 97)
    top = [{"token": "A", "logprob": math.log(share)}, {"token": "B", "logprob": math.log(1 - share)}]
    return Reply("A", logprobs=({"token": "A", "logprob": math.log(share), "top": top},))


def test_a_chat_model_is_scored_by_log_probabilities(part: Any) -> None:
    """The log probabilities of the two answers give the score, and the verdict says so."""
    verdict = verdict_of(first(part, "implicit", "01"), part.context, "chat", letters)
    assert verdict.status in ("correct", "wrong")
    assert verdict.values["sampled"] == 0
    assert "log probabilities" in verdict.reason
    assert "occluded_control" in verdict.values


def test_verdict_has_the_sentences_as_evidence(part: Any) -> None:
    """Scores do not show the sentences, so a report takes them from the evidence; they are as sent."""
    item = first(part, "implicit", "01")
    verdict = verdict_of(item, part.context, "chat", letters)
    assert verdict.evidence == {"test": item["pair"].test, "control": item["pair"].control}
    unread = verdict_of(item, part.context, "chat", lambda r: Reply("?"))
    assert unread.status == "unparsed"
    assert unread.evidence == verdict.evidence


def test_a_chat_model_without_log_probabilities_is_sampled(part: Any) -> None:
    """Without log probabilities the share of positive answers counts; eras.samples is the number of replies."""
    item = first(part, "implicit", "01")
    outcome, asked = measured(
        item, part.context, "chat", lambda r: Reply("A"), samples=3, chat_score="sampling"
    )
    assert outcome.verdict is not None
    assert outcome.verdict.status == "correct"
    assert len(asked) == 12
    assert outcome.verdict.values["sampled"] == 1
    assert "repeated sampling" in outcome.verdict.reason


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


@pytest.mark.parametrize(("finish", "status"), [("content_filter", "refused"), ("stop", "unparsed")])
def test_a_chat_model_that_does_not_answer(part: Any, finish: str, status: str) -> None:
    """A refused or unreadable sentence leaves the pair without a score."""
    item = first(part, "implicit", "01")
    verdict = verdict_of(item, part.context, "chat", lambda r: Reply("嗯", finish_reason=finish), samples=1)
    assert verdict.status == status
    assert "test" not in verdict.values


def record(item: Item, verdict: Verdict) -> VerdictRecord:
    return record_of(item, "eras", "m", verdict, requests=[])


def test_explicit_metrics_are_means_over_paradigms(part: Any) -> None:
    """Accuracies are averages over paradigms regardless of size, and need only the records' values."""
    records = []
    for paradigm, places, number in (("01", (1, 3), 1), ("02", (1,), 3), ("04", (2,), 2)):
        items = [i for i in part.items if i.id.startswith(f"eras/explicit/{paradigm}/")][:number]
        records += [record(i, verdict_of(i, part.context, "segment", cutter(i, *places))) for i in items]
    rows = {(m.name, m.group): m for m in BENCHMARK.metrics(only_numbers(records))}
    assert rows["test_accuracy", "overall"].value == pytest.approx(1 / 3)
    assert rows["control_accuracy", "overall"].value == 1
    assert rows["difference", "overall"].value == pytest.approx(2 / 3)
    assert (rows["test_accuracy", "left"].value, rows["test_accuracy", "right"].value) == (0, 0.5)
    assert (rows["test_accuracy", "+/-"].n, rows["test_accuracy", "-/+"].n) == (1, 5)
    assert rows["canary_token_rate", "overall"].value == pytest.approx(1 / 3)
    assert rows["canary_swallowed_rate", "overall"].value == pytest.approx(1 / 3)
    assert all(BENCHMARK.metric_directions[m.name] == m.direction for m in rows.values())


def test_implicit_metrics_follow_from_the_records(part: Any) -> None:
    """GPER and the other metrics follow from the four scores in the values; the methods of measuring are
    counted.
    """
    records = []
    for paradigm, control in (("01", 1.0), ("02", 1.0)):
        item = first(part, "implicit", paradigm)
        TEST[0] = item["pair"].paradigm.true_word
        answer = scorer(test=0.0, control=control, occluded_test=0.0, occluded_control=0.0)
        records.append(record(item, verdict_of(item, part.context, "sentiment", answer)))
    rows = {
        (m.name, m.group): m for m in BENCHMARK.metrics([replace(r, id="x", cluster="x") for r in records])
    }
    # 01 is +/- and wrong, by the canary word; 02 is -/+ and right.
    assert rows["pair_accuracy", "overall"].value == 0.5
    assert rows["pair_accuracy", "overall"].direction == "target:0.5"
    assert (rows["necessity", "overall"].value, rows["sufficiency", "overall"].value) == (1, 0.5)
    assert rows["gper", "overall"].value == 0.5
    assert rows["sentiment_difference", "+/-"].value == pytest.approx(0.7310586 - 0.5)
    assert all(BENCHMARK.metric_directions[m.name] == m.direction for m in rows.values())
    assert ("sampled_rate", "") not in rows
    chat_item = first(part, "implicit", "04")
    sampled = record(
        chat_item, verdict_of(chat_item, part.context, "chat", lambda r: Reply("A"), chat_score="sampling")
    )
    assert {m.name: m.value for m in BENCHMARK.metrics([sampled])}["sampled_rate"] == 1
