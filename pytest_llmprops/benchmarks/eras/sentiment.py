"""Sentiment of pairs, by a classifier or a chat model: log probabilities of two answers, or repeated samples.

The question to a chat model offers two letters, because a letter is one token in every tokenizer; 正面 and 负面 are
not. A letter's position may bias all answers in one direction, but then it shifts all four sentences of a pair equally.
"""

from __future__ import annotations

import asyncio
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from pytest_llmprops.benchmarks.eras.implicit import (
    CHAT_MASK,
    MODEL_MASK,
    PairScores,
    Score,
    is_tie,
    is_wrong,
    occluded,
)
from pytest_llmprops.benchmarks.eras.items import SentencePair
from pytest_llmprops.benchmarks.eras.paradigms import paradigm_values
from pytest_llmprops.benchmarks.eras.settings import ErasSettings
from pytest_llmprops.core.benchmark import Ask
from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.reading import stated
from pytest_llmprops.core.requests import Chat, Reply, Sentiment
from pytest_llmprops.core.verdicts import Verdict

Way = Literal["auto", "logprobs", "sampling"]
Answer = Literal["positive", "negative"]

PROMPT = (
    "下面这句话表达的情感是正面的还是负面的？句中的“" + CHAT_MASK + "”代表一个被遮住的字。\n"
    "句子：{text}\n"
    "A. 正面\n"
    "B. 负面\n"
    "请只回答一个字母：A 或 B。"
)
#: Alternatives requested per token: the maximum of the OpenAI API.
ALTERNATIVES = 20
#: A one-letter reply needs few tokens; some models write a line end or a punctuation mark before it.
MAX_TOKENS = 4
#: Room for a few words of reasoning before a sampled answer.
SAMPLE_TOKENS = 32
#: Servers write this value for "no number".
_NO_NUMBER = -9999.0
#: Largest sum of the probabilities of different tokens; above 1 because servers round logarithms.
_MAX_TOTAL = 1.02
_TOKENS: Mapping[str, Answer] = {
    "A": "positive",
    "正": "positive",
    "正面": "positive",
    "B": "negative",
    "负": "negative",
    "负面": "negative",
}
#: Description of each way, for tables and verdicts.
NOTES: Mapping[str, str] = {
    "logprobs": "by the log probabilities of the two answers",
    "sampling": "by repeated sampling: share of positive answers, coarse, with many ties",
}


@dataclass(frozen=True, slots=True)
class ChatScores:
    """A chat model's scores for the sentences of a pair.

    :param scores: One score per sentence, in order; fewer unless ``status`` is ``scored``.
    :param status: ``scored``, ``refused`` (a content filter) or ``unparsed`` (no answer could be read).
    :param way: ``logprobs`` or ``sampling``. :param values: ``sampled`` (0 or 1), and how many replies have an answer
        (``read``), were refused (``refused``), or have none (``unread``), for all sentences.
    :param replies: The replies' texts.
    """

    scores: tuple[Score, ...]
    status: Literal["scored", "refused", "unparsed"]
    way: Literal["logprobs", "sampling"]
    values: Mapping[str, float]
    replies: tuple[str, ...]


def question(text: str, *, sample: int | None = None) -> Chat:
    """Return the question about a sentence: greedy with log probabilities, or sample ``sample`` at temperature 1."""
    prompt = PROMPT.format(text=text)
    if sample is None:
        return Chat.user(prompt, temperature=0.0, max_tokens=MAX_TOKENS, logprobs=ALTERNATIVES)
    return Chat.user(prompt, temperature=1.0, max_tokens=SAMPLE_TOKENS, sample=sample)


async def score_pair(texts: Sequence[str], ask: Ask, *, way: Way = "auto", samples: int = 10) -> ChatScores:
    """Score the two or four sentences of a pair, all in the same way.

    :param way: ``auto`` uses log probabilities, or samples if no reply has any. ``logprobs`` and ``sampling``
        force one way. :param samples: Replies per sentence when sampling.
    :raises BackendError: for log probabilities that are missing (with ``logprobs``, or from some replies only),
        and for those that :func:`read_logprobs` cannot use.
    :raises ValueError: unless samples is at least 1.
    """
    if samples < 1:
        raise ValueError("samples must be at least 1")
    if way != "sampling":
        replies = await asyncio.gather(*(ask(question(text)) for text in texts))
        answered = [r for r in replies if r.finish_reason != "content_filter"]
        # If a filter refuses every reply, nothing is known about the server's log probabilities: do not sample.
        if way == "logprobs" or not answered or any(r.logprobs for r in answered):
            return _chat_scores("logprobs", [[reply] for reply in replies])
    replies = await asyncio.gather(*(ask(question(text, sample=i)) for text in texts for i in range(samples)))
    starts = range(0, len(replies), samples)
    return _chat_scores("sampling", [replies[start : start + samples] for start in starts])


def _chat_scores(way: Literal["logprobs", "sampling"], replies: Sequence[Sequence[Reply]]) -> ChatScores:
    """Return the scores in the replies about each sentence."""
    scores: list[Score] = []
    read = refused = 0
    for some in replies:
        answered = [r for r in some if r.finish_reason != "content_filter"]
        refused += len(some) - len(answered)
        if way == "logprobs":
            found = [score for r in answered if (score := read_logprobs(r)) is not None]
            scores += found
            read += len(found)
            continue
        answers = [answer for r in answered if (answer := read_answer(r.text)) is not None]
        read += len(answers)
        if answers:
            scores.append(Score(answers.count("positive") / len(answers)))
    texts = tuple(r.text for some in replies for r in some)
    unread = len(texts) - read - refused
    status: Literal["scored", "refused", "unparsed"] = "refused" if refused >= unread else "unparsed"
    counts = {"sampled": way == "sampling", "read": read, "refused": refused, "unread": unread}
    values = {name: float(number) for name, number in counts.items()}
    return ChatScores(tuple(scores), "scored" if len(scores) == len(replies) else status, way, values, texts)


#: The two answers and a third one, as a reply may name them.
_FORMS = (
    ("A", "正面", "正向", "积极", "褒义", "positive"),
    ("B", "负面", "负向", "消极", "贬义", "negative"),
    ("C", "中性", "中立", "正负", "褒贬", "neutral", "mixed"),
)


def read_answer(text: str) -> Answer | None:
    """Return the answer of a sampled reply, a letter or a word; None for both, neither or only a negated one."""
    if (whole := _answer_of(text)) is not None:
        return whole
    chosen = stated(text, _FORMS)
    return "positive" if chosen == 0 else "negative" if chosen == 1 else None


def read_logprobs(reply: Reply) -> Score | None:
    """Return the score from the alternatives of the first answer token; None if they contain neither answer.

    The probabilities of an answer's tokens are summed: with and without a space, letter or word. The score's
    probability is the positive answer's share of both sums; the log odds are the difference of their logarithms.
    Two equally probable answers are a score of even odds. But if all tokens, including others than the answers,
    have the same value, or if the values are too large to be probabilities, the server made them up.

    :raises BackendError: for log probabilities that are missing, made up or infinite, or of one answer only.
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
        raise _error("contain a value that is not the logarithm of a probability")
    answers = {token: _answer_of(token) for token in named}
    is_uniform = len(numbers) > 1 and len(set(numbers)) == 1
    if is_uniform and (None in answers.values() or len(numbers) * math.exp(numbers[0]) > _MAX_TOTAL):
        raise _error("are all equal, for every token: the server does not return the model's own")
    positive = _sum(value for token, value in named.items() if answers[token] == "positive")
    negative = _sum(value for token, value in named.items() if answers[token] == "negative")
    if positive is None and negative is None:
        return None
    if positive is None or negative is None:
        missing = "A (正面)" if positive is None else "B (负面)"
        raise _error(f"lack the answer {missing} among the {len(numbers)} alternatives returned")
    log_odds = positive - negative
    return Score(1 / (1 + math.exp(-log_odds)) if log_odds > -700 else 0.0, log_odds)


def _error(problem: str) -> BackendError:
    return BackendError(f"the log probabilities of the two answers {problem}", kind="logprobs")


def _first_answer(entries: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the first token that is not only whitespace."""
    return next((entry for entry in entries if str(entry["token"]).strip()), None)


def _answer_of(token: str) -> Answer | None:
    plain = unicodedata.normalize("NFKC", token).strip(" \t\r\n\u2581\u0120.。:：,，、)(*\"'“”「」")
    return _TOKENS.get(plain)


def _sum(values: Iterable[float]) -> float | None:
    """Return the log of the sum of probabilities, given their logs; None without any."""
    logs = list(values)
    if not logs:
        return None
    peak = max(logs)
    return peak + math.log(math.fsum(math.exp(value - peak) for value in logs))


def judge_scores(
    pair: SentencePair,
    texts: tuple[str, str],
    scores: PairScores,
    way: str,
    values: Mapping[str, float] = MappingProxyType({}),
) -> Verdict:
    """Return the verdict on a pair's four scores; ``way`` says how they were measured.

    :param texts: Both sentences, as sent; kept as evidence, because the scores do not show them.
    :param values: Further values of the verdict.
    """
    wrong, side = is_wrong(pair.paradigm.sentiment, scores), _wrong_side(pair)
    relation = f"{side} the" if wrong else "the same as the" if is_tie(scores) else f"not {side} the"
    return Verdict(
        "wrong" if wrong else "correct",
        f"test not {side} control ({pair.paradigm.sentiment})",
        f"test {scores.test.positive:.6f}, control {scores.control.positive:.6f}",
        f"the test sentence scores {relation} control sentence ({way})",
        float(not wrong),
        {**scores.values(), **paradigm_values(pair.paradigm), **values},
        {"test": texts[0], "control": texts[1]},
    )


def _wrong_side(pair: SentencePair) -> str:
    return "below" if pair.paradigm.true_class == "+" else "above"


def judge_chat_scores(pair: SentencePair, texts: tuple[str, str], result: ChatScores) -> Verdict:
    """Return the verdict on a chat model's scores of the four sentences; for ``texts`` see :func:`judge_scores`."""
    way = NOTES[result.way]
    if result.status == "scored":
        return judge_scores(pair, texts, PairScores(*result.scores), way, result.values)
    reason = "a content filter refused" if result.status == "refused" else "no answer could be read"
    return Verdict(
        result.status,
        f"test not {_wrong_side(pair)} control ({pair.paradigm.sentiment})",
        " / ".join(dict.fromkeys(text.strip() for text in result.replies))[:400],
        f"{reason} for at least one sentence of the pair ({way})",
        values={**result.values, **paradigm_values(pair.paradigm)},
        evidence={"test": texts[0], "control": texts[1]},
    )


async def measure_implicit(
    pair: SentencePair, texts: tuple[str, str], ask: Ask, settings: ErasSettings
) -> Verdict:
    """Return the verdict on the sentiment of both sentences, as they are and occluded.

    :param texts: Both sentences in the script of the settings.
    """
    classifier = "sentiment" in ask.kinds
    mask = MODEL_MASK if classifier else CHAT_MASK
    sentences = [*texts, *(occluded(text, pair.site_start, pair.paradigm.branching, mask) for text in texts)]
    if classifier:
        replies = await asyncio.gather(*(ask(Sentiment(text)) for text in sentences))
        return judge_scores(pair, texts, PairScores(*map(Score.of, replies)), "by the classifier")
    result = await score_pair(sentences, ask, way=settings.chat_score, samples=settings.samples)
    return judge_chat_scores(pair, texts, result)
