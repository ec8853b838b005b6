"""A chat model's sentiment: the log probabilities of two answers, or the share of repeated samples.

The question offers two letters, because a letter is one token in every tokenizer, which 正面 and 负面 are
not. A letter's position may pull all answers one way; that moves all four sentences of a pair alike.
"""

from __future__ import annotations

import asyncio
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pytest_llmprops.benchmarks.eras.implicit import CHAT_MASK, PairScores, Score
from pytest_llmprops.core.benchmark import Ask
from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Reply

Way = Literal["auto", "logprobs", "sampling"]
Answer = Literal["positive", "negative"]

PROMPT = (
    "下面这句话表达的情感是正面的还是负面的？句中的“" + CHAT_MASK + "”代表一个被遮住的字。\n"
    "句子：{text}\n"
    "A. 正面\n"
    "B. 负面\n"
    "请只回答一个字母：A 或 B。"
)
#: alternatives asked for at each token: as many as the OpenAI API gives
ALTERNATIVES = 20
#: a reply that is one letter needs few tokens; some models put a line end or a mark before it
MAX_TOKENS = 4
#: a sample may think a little before it answers
SAMPLE_TOKENS = 32
#: servers write this for "no number"
_NO_NUMBER = -9999.0
_TOKENS: Mapping[str, Answer] = {
    "A": "positive",
    "正": "positive",
    "正面": "positive",
    "B": "negative",
    "负": "negative",
    "负面": "negative",
}
#: what a table says of each way
NOTES: Mapping[str, str] = {
    "logprobs": "by the log probabilities of the two answers",
    "sampling": "by repeated sampling: share of positive answers, coarse, with many ties",
}


@dataclass(frozen=True, slots=True)
class ChatScores:
    """What a chat model gave for the sentences of a pair.

    :param scores: one score a sentence, in order; empty unless ``status`` is ``scored``.
    :param status: ``scored``, ``refused`` (a content filter) or ``unparsed`` (no answer could be read).
    :param way: ``logprobs`` or ``sampling``. :param read: replies that were read, of all sentences.
    :param refused: replies refused. :param unread: replies without an answer. :param given: the replies' texts.
    """

    scores: tuple[Score, ...]
    status: Literal["scored", "refused", "unparsed"]
    way: Literal["logprobs", "sampling"]
    read: int
    refused: int
    unread: int
    given: tuple[str, ...]

    def values(self) -> dict[str, float]:
        """Flat numbers for a verdict: the scores, and how they were had; ``sampled`` 0 or 1."""
        found = PairScores(*self.scores).values() if self.scores else {}
        found["sampled"] = float(self.way == "sampling")
        return found | {
            "read": float(self.read),
            "refused": float(self.refused),
            "unread": float(self.unread),
        }


def question(text: str, *, sample: int | None = None) -> Chat:
    """The question for one sentence: greedy with log probabilities, or the ``sample``-th at temperature 1."""
    prompt = PROMPT.format(text=text)
    if sample is None:
        return Chat.user(prompt, temperature=0.0, max_tokens=MAX_TOKENS, logprobs=ALTERNATIVES)
    return Chat.user(prompt, temperature=1.0, max_tokens=SAMPLE_TOKENS, sample=sample)


async def score_pair(texts: Sequence[str], ask: Ask, *, way: Way = "auto", samples: int = 10) -> ChatScores:
    """Score the two or four sentences of a pair, all in the same way.

    :param way: ``logprobs`` and ``sampling`` force one; ``auto`` samples where the server gives none of the
        replies log probabilities. :param samples: replies a sentence when sampling.
    :raises BackendError: for log probabilities that are missing (``logprobs``, or from some replies only), all
        equal, infinite, or the same for all sentences.
    :raises ValueError: unless samples is at least 1.
    """
    if samples < 1:
        raise ValueError("samples must be at least 1")
    if way != "sampling":
        replies = await asyncio.gather(*(ask(question(text)) for text in texts))
        filtered = [r for r in replies if r.finish_reason == "content_filter"]
        answered = [r for r in replies if r.finish_reason != "content_filter"]
        # A filter that refuses everything says nothing about log probabilities.
        if way == "logprobs" or not answered or any(r.logprobs for r in answered):
            return _by_logprobs(replies, len(filtered))
    return await _by_sampling(texts, ask, samples)


def _by_logprobs(replies: Sequence[Reply], refused: int) -> ChatScores:
    scores = [read_logprobs(r) for r in replies if r.finish_reason != "content_filter"]
    found = tuple(score for score in scores if score is not None)
    unread = len(scores) - len(found)
    given = tuple(r.text for r in replies)
    if refused or unread:
        status: Literal["refused", "unparsed"] = "refused" if refused else "unparsed"
        return ChatScores((), status, "logprobs", len(found), refused, unread, given)
    if len(found) > 1 and len(set(found)) == 1:
        raise _error("are the same for all sentences of the pair")
    return ChatScores(found, "scored", "logprobs", len(found), 0, 0, given)


async def _by_sampling(texts: Sequence[str], ask: Ask, samples: int) -> ChatScores:
    asked = [ask(question(text, sample=i)) for text in texts for i in range(samples)]
    replies = await asyncio.gather(*asked)
    refused = [r.finish_reason == "content_filter" for r in replies]
    answers = [None if no else read_answer(r.text) for r, no in zip(replies, refused, strict=True)]
    scores: list[Score] = []
    for start in range(0, len(answers), samples):
        read = [answer for answer in answers[start : start + samples] if answer is not None]
        if read:
            scores.append(Score(read.count("positive") / len(read)))
    number = sum(answer is not None for answer in answers)
    unread = len(answers) - number - sum(refused)
    status: Literal["scored", "refused", "unparsed"] = "scored"
    if len(scores) < len(texts):
        status = "refused" if sum(refused) >= unread else "unparsed"
    given = tuple(r.text for r in replies)
    kept = tuple(scores) if status == "scored" else ()
    return ChatScores(kept, status, "sampling", number, sum(refused), unread, given)


def read_answer(text: str) -> Answer | None:
    """The answer that a sampled reply gives, by letter or word; None for both, neither, or a negated one.

    What stands before ``</think>`` is not read.
    """
    plain = unicodedata.normalize("NFKC", text).rpartition("</think>")[2]
    if re.search(r"[不非没无][是为]?有?[正负]面", plain):
        return None
    found = re.findall(r"(?<![A-Za-z])[AB](?![A-Za-z])|正面|负面", plain)
    answers = {_TOKENS[piece] for piece in found}
    return answers.pop() if len(answers) == 1 else None


def read_logprobs(reply: Reply) -> Score | None:
    """The score that the first answer token's alternatives give; None where neither answer is among them.

    The tokens of an answer are summed: with and without a space, letter or word. The probability is that
    of the positive answer among both, the log odds are the difference of the two logarithms.

    :raises BackendError: for log probabilities that are missing, all equal or infinite, or of one answer only.
    """
    entry = _first_answer(reply.logprobs or ())
    if entry is None:
        raise _error(
            "are missing from the reply; score by repeated sampling instead (eras.chat_score=sampling)"
        )
    named = {str(entry["token"]): entry["logprob"]}
    named |= {str(other["token"]): other["logprob"] for other in entry.get("top") or ()}
    numbers = list(named.values())
    if not all(isinstance(n, int | float) and math.isfinite(n) and _NO_NUMBER < n <= 1e-6 for n in numbers):
        raise _error("hold a value that is no logarithm of a probability")
    if len(numbers) > 1 and len(set(numbers)) == 1:
        raise _error("are all equal")
    positive = _sum(value for token, value in named.items() if _answer_of(token) == "positive")
    negative = _sum(value for token, value in named.items() if _answer_of(token) == "negative")
    if positive is None and negative is None:
        return None
    if positive is None or negative is None:
        lacking = "A (正面)" if positive is None else "B (负面)"
        raise _error(f"lack the answer {lacking} among the {len(numbers)} alternatives given")
    log_odds = positive - negative
    return Score(1 / (1 + math.exp(-log_odds)) if log_odds > -700 else 0.0, log_odds)


def _error(what: str) -> BackendError:
    return BackendError(f"the log probabilities of the two answers {what}", kind="logprobs")


def _first_answer(entries: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The first token that is more than white space."""
    return next((entry for entry in entries if str(entry["token"]).strip()), None)


def _answer_of(token: str) -> Answer | None:
    plain = unicodedata.normalize("NFKC", token).strip(" \t\r\n\u2581\u0120.。:：,，、)(*\"'“”「」")
    return _TOKENS.get(plain)


def _sum(values: Iterable[float]) -> float | None:
    """Logarithm of the sum of probabilities given as logarithms; None without any."""
    logs = list(values)
    if not logs:
        return None
    peak = max(logs)
    return peak + math.log(math.fsum(math.exp(value - peak) for value in logs))
