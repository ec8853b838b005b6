"""Sentiment of chat models: log probabilities of two answers, repeated sampling, and replies without a score."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from pytest_llmprops.benchmarks.eras.implicit import PairScores
from pytest_llmprops.benchmarks.eras.sentiment import ChatScores, read_answer, read_logprobs, score_pair
from pytest_llmprops.core.benchmark import Ask
from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.models.fake import FakeModel

TEXTS = ("好", "坏", "好□", "坏□")


def entry(top: Mapping[str, float], token: str = "") -> dict[str, Any]:
    token = token or max(top, key=lambda t: top[t])
    listed = [{"token": t, "logprob": p} for t, p in top.items()]
    return {"token": token, "logprob": top[token], "top": listed}


def reply(top: Mapping[str, float]) -> Reply:
    return Reply("A", logprobs=(entry(top),))


def scored(respond: Any, texts: Sequence[str] = TEXTS, **settings: Any) -> tuple[ChatScores, FakeModel]:
    """Call ``score_pair`` with the public fake model in place of a server."""
    model = FakeModel(respond)

    async def ask(request: Any, role: str = "subject") -> Reply:
        result: Reply | BackendError
        [result] = await model.chat([request])
        if isinstance(result, BackendError):
            raise result
        return result

    return asyncio.run(score_pair(texts, cast("Ask", ask), **settings)), model


def by_text(chat: Chat) -> Reply:
    """More positive for 好 than for 坏, and a little different when masked."""
    odds = (2.0 if "：好" in chat.prompt else -1.0) + (0.5 if "□\n" in chat.prompt else 0.0)
    return reply(
        {"A": math.log(0.9) - math.log1p(math.exp(-odds)), "B": math.log(0.9) - math.log1p(math.exp(odds))}
    )


def test_scores_from_log_probabilities() -> None:
    """Four questions, one per sentence, give the four log odds; nothing is sampled."""
    result, model = scored(by_text)
    assert (result.status, result.way) == ("scored", "logprobs")
    assert [s.log_odds for s in result.scores] == pytest.approx([2.0, -1.0, 2.5, -0.5])
    assert result.scores[0].positive == pytest.approx(1 / (1 + math.exp(-2)))
    assert len(model.requests) == 4
    assert all(request.logprobs == 20 and request.temperature == 0 for request in model.requests)
    four = PairScores(*result.scores)
    assert PairScores.of({**four.values(), **result.values}) == four
    assert result.values == {"sampled": 0.0, "read": 4.0, "refused": 0.0, "unread": 0.0}


def test_forms_of_an_answer() -> None:
    """Spaces, marks, full-width letters and the word itself are forms of the same answer, and are added.

    Other tokens are ignored; the answer is the first token that is not white space.
    """
    cases: list[tuple[list[dict[str, float]], float]] = [
        *(([{form: -0.5, "B": -1.5}], 1.0) for form in ("A", "▁A", "ĠA", "Ａ", "A.", "正面", "(A)")),
        ([{"A": math.log(0.2), " A": math.log(0.3), "B": math.log(0.25), "a": math.log(0.1)}], math.log(2)),
        ([{"\n": -0.1, "A": -3.0}, {"A": -0.2, "B": -2.2}], 2.0),
        # Two answers that are exactly as probable as each other are a score, not an error.
        ([{"A": -0.7, "B": -0.7, "我": -3.7}], 0.0),
    ]
    for tokens, odds in cases:
        score = read_logprobs(Reply("A", logprobs=tuple(map(entry, tokens))))
        assert score is not None
        assert score.log_odds == pytest.approx(odds)
        assert score.positive == pytest.approx(1 / (1 + math.exp(-odds)))


def test_invalid_log_probabilities() -> None:
    """Made-up, infinite, impossible and one-sided log probabilities are a one-line error."""
    for top, says in (
        ({"A": -1.5, "B": -1.5, "C": -1.5}, "all equal, for every token"),
        ({"A": 0.0, "B": 0.0}, "all equal, for every token"),
        ({"A": -0.1, "B": math.nan}, "not the logarithm"),
        ({"A": -0.1, "B": -9999.0}, "not the logarithm"),
        ({"A": 0.7, "B": -1.0}, "not the logarithm"),
        ({"A": -0.1, "C": -2.0}, "B (负面)"),
        ({"B": -0.1, "C": -2.0}, "A (正面)"),
    ):
        with pytest.raises(BackendError, match=f"^[^\\n]*{re.escape(says)}[^\\n]*$"):
            read_logprobs(reply(top))


def test_missing_log_probabilities() -> None:
    """A reply without log probabilities is an error that names sampling; both halves of a pair are scored alike."""
    for logprobs in (None, (), ({"token": " ", "logprob": -0.1, "top": []},)):
        with pytest.raises(BackendError, match=r"missing.*sampling"):
            read_logprobs(Reply("A", logprobs=logprobs))
    with pytest.raises(BackendError, match="missing"):
        scored(lambda chat: Reply("A") if "坏□" in chat.prompt else by_text(chat))
    with pytest.raises(BackendError, match="missing"):
        scored(lambda chat: Reply("A"), way="logprobs")


def test_content_filter_is_refused() -> None:
    """One filtered sentence makes the pair refused, with log probabilities and with sampling."""
    filtered = Reply("", finish_reason="content_filter")
    result, _ = scored(lambda chat: filtered if "坏□" in chat.prompt else by_text(chat))
    assert (result.status, result.values["refused"], result.values["read"]) == ("refused", 1, 3)
    # If all are refused, nothing is known about log probabilities, and nothing is sampled.
    every, model = scored(lambda chat: filtered)
    assert (every.status, every.values["refused"], len(model.requests)) == ("refused", 4, 4)
    always, _ = scored(lambda chat: filtered, way="sampling", samples=2)
    assert (always.status, always.values["refused"]) == ("refused", 8)


def test_sampling_without_log_probabilities() -> None:
    """If the server returns no log probabilities, the pair is sampled with numbered samples; the values say so."""

    def respond(chat: Chat) -> str:
        share = 0.75 if "：好" in chat.prompt else 0.25
        return "A" if chat.sample < 4 * share else "B"

    result, model = scored(respond, samples=4)
    assert (result.way, result.status) == ("sampling", "scored")
    assert [s.positive for s in result.scores] == [0.75, 0.25, 0.75, 0.25]
    assert all(s.log_odds is None for s in result.scores)
    sampled = [request for request in model.requests if not request.logprobs]
    assert (len(model.requests), len(sampled)) == (4 + 16, 16)
    assert {(r.sample, r.temperature) for r in sampled} == {(n, 1.0) for n in range(4)}
    assert (result.values["sampled"], result.values["read"]) == (1.0, 16.0)


def test_unreadable_samples_are_counted() -> None:
    """Unreadable samples are counted and left out of the share; a sentence with no readable sample is unparsed."""
    replies = ["A", "不知道", "B", "A", "B", "B", "B", "？"]
    result, _ = scored(replies, TEXTS[:2], way="sampling", samples=4)
    assert [s.positive for s in result.scores] == [pytest.approx(2 / 3), 0.0]
    assert [result.values[name] for name in ("read", "unread", "refused")] == [6, 2, 0]
    nothing, _ = scored(["A", "B", "？", "！"], TEXTS[:2], way="sampling", samples=2)
    assert nothing.status == "unparsed"
    # With log probabilities, too, another answer is neither a score nor an error.
    other, _ = scored(lambda chat: reply({"我": -0.5, "抱": -1.5}))
    assert (other.status, other.scores, other.values["unread"]) == ("unparsed", (), 4)
    with pytest.raises(ValueError, match="at least 1"):
        scored(["A"], samples=0)


def test_reading_a_sampled_reply() -> None:
    """What a reply states, begins with or only names is its answer; both, neither or a negated one is not."""
    for text, answer in {
        "A": "positive", "A. 正面": "positive", "A. 负面": None, "带有消极的色彩": "negative",
        '{"answer": "A", "reason": "没有负面的词"}': "positive", "不是消极，而是积极": "positive",
        "不应选 A，因为没有任何正面的词，选 B": "negative", "B\n\n句子：她得了奖。\n答案：A": "negative",
        "既不积极也不消极": None, "中性": None, "情感是正面的还是负面的？": None,
    }.items():  # fmt: skip
        assert read_answer(text) == answer, text
