"""Explicit ERAS pairs with segmenters and chat models, one at a time and in batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pytest_llmprops.benchmarks.eras.items import Context
from pytest_llmprops.core.errors import BackendError, DataError
from pytest_llmprops.core.requests import Chat, Reply, Request, Segment
from pytest_llmprops.core.verdicts import Verdict
from tests.support.eras_cases import BENCHMARK, chat, cut, cutter, first, measured, quick, verdict_of


def segmented(request: Request) -> str:
    """Return the text to segment."""
    assert isinstance(request, Segment)
    return request.text


def test_a_left_branching_site(part: Any) -> None:
    """A left-branching pair is wrong if cut between the first two characters but not the last two; else
    right.
    """
    item = first(part, "explicit", "01")
    assert item["pair"].paradigm.branching == "left"
    wrong = verdict_of(item, part.context, "segment", cutter(item, 1, 3))
    assert (wrong.status, wrong.values["canary_token"], wrong.values["canary_swallowed"]) == ("wrong", 1, 0)
    assert "【心机】" in wrong.given
    assert "心机" in wrong.reason
    assert wrong.expected == "信心|机, never 心机"
    swallowed = verdict_of(item, part.context, "segment", cutter(item, 1, 4))
    assert (swallowed.status, swallowed.values["canary_token"], swallowed.values["canary_swallowed"]) == (
        "wrong",
        0,
        1,
    )
    assert "|【心机】智|" in swallowed.given
    for places in ((), (2,), (1, 2), (3,)):
        assert verdict_of(item, part.context, "segment", cutter(item, *places)).status == "correct", places


def test_a_right_branching_site(part: Any) -> None:
    """A right-branching pair follows the mirrored rule."""
    item = first(part, "explicit", "02")
    assert item["pair"].paradigm.branching == "right"
    wrong = verdict_of(item, part.context, "segment", cutter(item, 0, 2))
    assert (wrong.status, wrong.values["canary_token"]) == ("wrong", 1)
    assert "|【信心】|" in wrong.given
    assert verdict_of(item, part.context, "segment", cutter(item, 2)).values["canary_swallowed"] == 1
    for places in ((), (1,), (1, 2)):
        assert verdict_of(item, part.context, "segment", cutter(item, *places)).status == "correct", places


def test_the_control_is_in_the_values(part: Any) -> None:
    """The verdict is the test sentence's; the control's outcome is in the values."""
    item = first(part, "explicit", "02")
    verdict = verdict_of(item, part.context, "segment", cutter(item, 1, control=(2,)))
    assert verdict.status == "correct"
    assert verdict.score == 1.0
    assert (verdict.values["test"], verdict.values["control"]) == (1, 0)
    other = verdict_of(item, part.context, "segment", cutter(item, 2, control=(1,)))
    assert (other.status, other.values["test"], other.values["control"]) == ("wrong", 0, 1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda words: [*words, "啊"], "added '啊'"),
        (lambda words: [words[0][1:], *words[1:]], "dropped"),
        (lambda words: ["甲" + words[0][1:], *words[1:]], "changed"),
        (lambda words: [*words, ""], "empty word"),
        (lambda words: None, "not return a list of words"),
    ],
)
def test_a_segmenter_that_changes_text_is_an_error(part: Any, change: Any, said: str) -> None:
    """Characters changed, dropped or added are an error of the item that names them, never a wrong answer."""
    item = first(part, "explicit", "01")
    outcome, _ = measured(item, part.context, "segment", lambda r: Reply(value=change([r.text])))  # type: ignore[union-attr]
    assert outcome.verdict is None
    assert outcome.error is not None
    assert said in outcome.error.message
    results = BENCHMARK.evaluate_all(
        [item],
        part.context,
        lambda requests: [Reply(value=change([segmented(r)])) for r in requests],
        quick(),
    )
    assert results is not None
    assert isinstance(results[0], BackendError)
    assert said in results[0].message


def test_batch_gives_the_same_verdicts(part: Any) -> None:
    """The batch path gives the same verdicts as single pairs, and errors for the right pairs."""
    items = [i for i in part.items if i.task == "explicit"][::37]

    def words(text: str) -> list[str]:
        return [text[i : i + 2] for i in range(0, len(text), 2)]

    single = [
        verdict_of(i, part.context, "segment", lambda r: Reply(value=words(r.text)))  # type: ignore[union-attr]
        for i in items
    ]
    broken = BackendError("no")

    def serve(requests: Sequence[Request]) -> list[Reply | BackendError]:
        texts = [r.text for r in requests if isinstance(r, Segment)]
        return [broken if t == items[5]["pair"].control else Reply(value=words(t)) for t in texts]

    together = BENCHMARK.evaluate_all(items, part.context, serve, quick())
    assert together is not None
    assert together[5] is broken
    assert [v for n, v in enumerate(together) if n != 5] == [v for n, v in enumerate(single) if n != 5]
    assert {v.status for v in single} == {"correct", "wrong"}


def test_equal_pairs_keep_their_own_outcomes(part: Any) -> None:
    """The outcomes of one paradigm's pairs stay separate although their verdicts share parts."""
    items = [i for i in part.items if i.id.startswith("eras/explicit/02/")][:8]

    def serve(requests: Sequence[Request]) -> list[Reply | BackendError]:
        replies: list[Reply | BackendError] = []
        for number, request in enumerate(requests):
            pair = items[number // 2]["pair"]
            # All four combinations of a correct or wrong test and control sentence.
            right = (number // 2) >> (number % 2) & 1
            replies.append(Reply(value=cut(request.text, pair.site_start + (1 if right else 2))))  # type: ignore[union-attr]
        return replies

    actual = BENCHMARK.evaluate_all(items, part.context, serve, quick())
    assert actual is not None
    values = [v.values for v in actual if isinstance(v, Verdict)]
    assert [(v["test"], v["control"]) for v in values] == [(n & 1, n >> 1 & 1) for n in range(8)]


def test_fast_path_does_not_apply_to_sentiment(part: Any) -> None:
    """Items of the other task are evaluated one by one."""
    assert (
        BENCHMARK.evaluate_all([first(part, "implicit", "01")], part.context, lambda r: [], quick()) is None
    )


def test_traditional_characters(part: Any) -> None:
    """With eras.script the sentences are sent converted, the site keeps its place, and the verdict has the
    converted text.
    """
    pytest.importorskip("opencc")
    item = first(part, "explicit", "01")
    outcome, asked = measured(
        item,
        part.context,
        "segment",
        lambda r: Reply(value=[segmented(r)]),
        script="opencc",
    )
    texts = [r.text for r in asked if isinstance(r, Segment)]
    start = item["pair"].site_start
    assert texts[0][start : start + 3] == "信心機"
    assert len(texts[0]) == len(item["pair"].test)
    assert outcome.verdict is not None
    assert outcome.verdict.expected == "信心|機, never 心機"


def test_a_converter_that_fails_stops_the_run(part: Any) -> None:
    """A converter that is missing or changes the length stops the run with one line that names the setting."""

    def convert(text: str, start: int, name: str) -> str:
        raise DataError("the number of characters changes")

    item = first(part, "explicit", "01")
    outcome, _ = measured(item, Context(convert), "segment", lambda r: Reply(), script="opencc")
    assert outcome.stopped == "eras.script=opencc: the number of characters changes"


def test_a_set_filled_otherwise_stops_the_run(part: Any) -> None:
    """A set that a model filled by absolute scores can be measured only with eras.mlm_score=absolute."""
    item = first(part, "explicit", "01")
    context = Context(part.context.convert, "absolute")
    outcome, _ = measured(item, context, "segment", cutter(item))
    assert outcome.stopped is not None
    assert "eras.mlm_score=absolute" in outcome.stopped
    assert verdict_of(item, context, "segment", cutter(item), mlm_score="absolute").status == "correct"


def test_a_chat_model_segments(part: Any) -> None:
    """A chat model's sentence with spaces is judged like a segmenter's words."""
    item = first(part, "explicit", "01")
    start = item["pair"].site_start
    verdict = verdict_of(item, part.context, "chat", chat(lambda s: " ".join(cut(s, start + 1, start + 3))))
    assert verdict.status == "wrong"
    assert "【心机】" in verdict.given
    assert (verdict.values["test_read"], verdict.values["control_read"]) == (1, 1)
    right = verdict_of(item, part.context, "chat", chat(lambda s: " ".join(s)), temperature=0.5, max_tokens=9)
    assert right.status == "correct"
    _, asked = measured(item, part.context, "chat", chat(lambda s: s), temperature=0.5, max_tokens=9)
    assert {(r.temperature, r.max_tokens) for r in asked if isinstance(r, Chat)} == {(0.5, 9)}


@pytest.mark.parametrize(
    ("reply", "finish", "status", "said"),
    [
        ("我不知道。", "stop", "unparsed", "not the sentence"),
        ("", "stop", "unparsed", "empty"),
        ("学生 有", "length", "unparsed", "cut off"),
        ("", "content_filter", "refused", "content filter"),
    ],
)
def test_reply_that_is_not_a_segmentation(part: Any, reply: str, finish: str, status: str, said: str) -> None:
    """A reply that is not the sentence with spaces is unparsed, a filtered one refused; neither is right."""
    verdict = verdict_of(first(part, "explicit", "01"), part.context, "chat", chat(lambda s: reply, finish))
    assert verdict.status == status
    assert said in verdict.reason
    assert (verdict.values["test"], verdict.values["control"], verdict.values["canary_token"]) == (0, 0, 0)


def test_a_control_that_cannot_be_read(part: Any) -> None:
    """If only the control's reply is unreadable, the test sentence is judged and the control is not correct."""
    item = first(part, "explicit", "01")
    test = item["pair"].test
    verdict = verdict_of(item, part.context, "chat", chat(lambda s: " ".join(s) if s == test else "no"))
    assert verdict.status == "correct"
    assert "control: " in verdict.reason
    assert (verdict.values["test"], verdict.values["control"], verdict.values["control_read"]) == (1, 0, 0)
