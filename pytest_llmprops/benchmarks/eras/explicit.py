"""Explicit garden path errors: ask for a segmentation, judge how it cuts the site, and compute the accuracies.

The rule is the paper's (Li and Hao, section 3.1). A site is three characters x1 x2 x3. In a left-branching
sentence x1 x2 is the true word and x2 x3 the canary word; in a right-branching one, the reverse.
A left-branching site is wrong if it has a boundary between x1 and x2 and none between x2 and x3. A
right-branching site is wrong if it has a boundary between x2 and x3 and none between x1 and x2. All other
segmentations are right. Accuracies are means over paradigms, never over sentences.

So a sentence without any boundary is right, and so is one in which every character is a word. The rule
``segmented`` calls them wrong; see :func:`is_degenerate`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from pytest_llmprops.benchmarks.eras.items import SentencePair, known_boundaries
from pytest_llmprops.benchmarks.eras.paradigms import Branching, Paradigm, paradigm_values
from pytest_llmprops.benchmarks.eras.settings import ErasSettings
from pytest_llmprops.core.benchmark import Ask
from pytest_llmprops.core.reading import segmented
from pytest_llmprops.core.requests import PLANNED, Chat, Reply, Segment
from pytest_llmprops.core.segmentation import boundaries, with_whitespace
from pytest_llmprops.core.verdicts import READ_ALIKE, READ_BY, Verdict

Canary = Literal["none", "token", "swallowed"]
Rule = Literal["paper", "segmented"]

PROMPT = (
    "请把下面的句子切分成词，词与词之间用一个空格隔开。"
    "不要改动、增加或删去任何字，不要解释，只回答切分后的句子。\n\n{text}"
)

#: The request after a reply that cannot be read.
RETRY = "上面的回答无法读取：{problem}。" + PROMPT


@dataclass(frozen=True, slots=True)
class SiteOutcome:
    """The outcome of a segmentation at one site.

    :param right: Right by the rule. :param canary: ``token`` if the canary word is exactly a word of
        the segmentation, ``swallowed`` if the site is wrong and the canary word is part of a longer word.
    """

    right: bool
    canary: Canary


_RIGHT = SiteOutcome(True, "none")
_TOKEN = SiteOutcome(False, "token")
_SWALLOWED = SiteOutcome(False, "swallowed")
#: By the rule ``segmented``: no boundary inside the site, or both, in a degenerate segmentation.
DEGENERATE = SiteOutcome(False, "none")


def judge_site(edges: Container[int], start: int, branching: Branching) -> SiteOutcome:
    """Judge one site by the word boundaries of :func:`~pytest_llmprops.core.segmentation.boundaries`.

    :param start: Position of x1 in the sentence, from 0.
    """
    if branching == "left":
        if start + 1 not in edges or start + 2 in edges:
            return _RIGHT
        return _TOKEN if start + 3 in edges else _SWALLOWED
    if start + 2 not in edges or start + 1 in edges:
        return _RIGHT
    return _TOKEN if start in edges else _SWALLOWED


#: Words per character of a sentence. With less than the first or more than the second number, a segmentation is
#: degenerate. jieba (with and without its hidden Markov model), PKUSEG, MaxMatch with the MSR words, THULAC and SnowNLP
#: give .44 to .91, on all sentences of the built-in and the published paradigms; 5 of 32,760 are outside the range.
SENTENCE_RANGE = (0.4, 0.9)
#: The same for the mean of a run. These segmenters give .61 to .68.
RUN_RANGE = (0.5, 0.8)


def is_degenerate(words: int, characters: int) -> bool:
    """Return True if a sentence has fewer or more words than any segmenter gives."""
    return not SENTENCE_RANGE[0] * characters <= words <= SENTENCE_RANGE[1] * characters


#: Marks between words, around the canary word of a wrong segmentation, and between the two sentences.
BOUNDARY, OPEN, CLOSE, NEXT = "|", "【", "】", " / "
_REASONS = {
    "none": "the canary word {canary} is not cut out",
    "degenerate": "the site is undecided in a degenerate segmentation: {words} words for {characters} characters",
    "token": "the canary word {canary} was segmented as a word",
    "swallowed": "the canary word {canary} is part of a longer word",
}


@dataclass(frozen=True, slots=True)
class Cutting:
    """How a sentence is cut.

    :param site_cuts: Number of boundaries inside the site, 0 to 2. :param words: Number of words.
    :param characters: Length of the sentence. :param gold: Number of boundaries that the paradigm determines (see
        :func:`known_boundaries`). :param gold_cut: How many of them are cut.
    """

    site_cuts: int
    words: int
    characters: int
    gold: int
    gold_cut: int

    def values(self) -> dict[str, float]:
        return {name: float(number) for name, number in asdict(self).items()}


def judged_site(
    words: Sequence[str], text: str, pair: SentencePair, rule: Rule
) -> tuple[SiteOutcome, frozenset[int]]:
    """Return the outcome at the site of a segmented sentence by ``rule``, and the word boundaries.

    :raises BackendError: if the words do not join to exactly ``text``.
    """
    edges, start = boundaries(words, text), pair.site_start
    outcome = judge_site(edges, start, pair.paradigm.branching)
    is_undecided = (start + 1 in edges) == (start + 2 in edges)
    if rule == "segmented" and is_undecided and is_degenerate(len(words), len(text)):
        outcome = DEGENERATE
    return outcome, edges


class SegmentJudge:
    """Judge segmented pairs. Equal parts of verdicts are built once, because there may be 200,000 pairs."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._known: dict[tuple[object, ...], Verdict] = {}

    def judge(
        self,
        pair: SentencePair,
        texts: tuple[str, str],
        words: Sequence[Sequence[str]],
        unread: str | None = None,
    ) -> Verdict:
        """Return the verdict on the words of the test and the control sentence.

        :param texts: Both sentences, as sent. :param unread: The control's reply if it cannot be read: it is incorrect.
        :raises BackendError: if the words do not join to exactly the sentence.
        """
        start = pair.site_start
        test, edges = judged_site(words[0], texts[0], pair, self._rule)
        control = judged_site(words[1], texts[1], pair, self._rule)[0] if unread is None else None
        gold = known_boundaries(pair)
        cutting = Cutting(
            (start + 1 in edges) + (start + 2 in edges),
            len(words[0]),
            len(texts[0]),
            len(gold),
            sum(place in edges for place in gold),
        )
        given = marked_segmentation(words[0], pair, test) + NEXT
        given += BOUNDARY.join(words[1]) if unread is None else unread
        site = texts[0][start : start + 3]
        key = (pair.paradigm.id, start, site, test, control, cutting)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Verdict(
                "correct" if test.right else "wrong",
                expected_cut(site, pair.paradigm),
                "",
                _reason(test, pair, site, cutting.words, cutting.characters),
                float(test.right),
                {
                    **outcome_values(test, control),
                    "start": float(start),
                    **cutting.values(),
                    **paradigm_values(pair.paradigm),
                },
            )
        return Verdict(known.status, known.expected, given, known.reason, known.score, known.values)


def _reason(outcome: SiteOutcome, pair: SentencePair, site: str, words: int, characters: int) -> str:
    canary = site[1:] if pair.paradigm.branching == "left" else site[:2]
    name = "degenerate" if outcome == DEGENERATE else outcome.canary
    return _REASONS[name].format(canary=canary, words=words, characters=characters)


def expected_cut(site: str, paradigm: Paradigm) -> str:
    """Return the correct segmentation of the site, and the canary word: ``信心|机, never 心机``."""
    if paradigm.branching == "left":
        return f"{site[:2]}{BOUNDARY}{site[2]}, never {site[1:]}"
    return f"{site[0]}{BOUNDARY}{site[1:]}, never {site[:2]}"


def marked_segmentation(words: Sequence[str], pair: SentencePair, outcome: SiteOutcome) -> str:
    """Return the test sentence with word boundaries, and with brackets around a wrongly segmented canary word."""
    line = BOUNDARY.join(words)
    if outcome.canary == "none":
        return line
    # The canary word contains no boundary mark, so only the marks before it shift its position in the line.
    start = pair.site_start + (1 if pair.paradigm.branching == "left" else 0)
    end = marks = 0
    for word in words:
        if end + len(word) > start:
            break
        end, marks = end + len(word), marks + 1
    start += marks * len(BOUNDARY)
    return f"{line[:start]}{OPEN}{line[start : start + 2]}{CLOSE}{line[start + 2 :]}"


def outcome_values(test: SiteOutcome | None, control: SiteOutcome | None) -> dict[str, float]:
    """Return 0 or 1 for each of ``test``, ``control`` (the site is segmented correctly), and the two errors.

    The errors at the test site are ``canary_token`` and ``canary_swallowed``; see :class:`SiteOutcome`.

    :param test: None if the reply could not be read, which counts as incorrect and has no error type.
        The same holds for ``control``.
    """
    return {
        "test": float(test is not None and test.right),
        "control": float(control is not None and control.right),
        "canary_token": float(test is not None and test.canary == "token"),
        "canary_swallowed": float(test is not None and test.canary == "swallowed"),
    }


@dataclass(frozen=True, slots=True)
class ChatSegmentation:
    """A chat model's reply, read as a segmentation: the words, or no words and the problem."""

    words: tuple[str, ...]
    problem: str = ""


EMPTY = "the reply is empty"
UNSEGMENTED = "the reply is the sentence without a space between its words"
OTHER = "the reply is not the sentence with spaces between its words, or has several versions of it"
_IN_CHINESE = {
    EMPTY: "回答是空的",
    UNSEGMENTED: "句子没有切分",
    OTHER: "其中没有原句的切分，或者有几种不同的切分",
}


def retry_prompt(problem: str, text: str) -> str:
    """Return the request for another segmentation of ``text``, with the problem of the last reply."""
    return RETRY.format(problem=_IN_CHINESE[problem], text=text)


def read_segmentation(reply: str, text: str) -> ChatSegmentation:
    """Read the segmentation of ``text`` in a chat model's reply. Whitespace in ``text`` is a separate word."""
    if words := segmented(reply, text):
        return ChatSegmentation(tuple(with_whitespace(words, text)))
    if not any(map(str.isalnum, reply)):
        return ChatSegmentation((), EMPTY)
    return ChatSegmentation((), UNSEGMENTED if text in reply else OTHER)


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """A chat model's answer to the request to segment one sentence.

    :param reply: The reply that counts. :param retried: It is the second reply, because the first could not be read.
    """

    reply: Reply
    result: ChatSegmentation
    retried: bool

    @property
    def is_filtered(self) -> bool:
        """True if a content filter refused."""
        return self.reply.finish_reason == "content_filter"

    @property
    def words(self) -> tuple[str, ...]:
        """The words; empty if the reply is filtered or cannot be read."""
        return () if self.is_filtered else self.result.words

    @property
    def problem(self) -> str:
        """Why there are no words."""
        if self.is_filtered:
            return "a content filter refused"
        is_cut = self.reply.finish_reason == "length" and self.reply.text.strip()
        problem = "the reply was cut off before the end of the sentence" if is_cut else self.result.problem
        return f"{problem}, after one retry" if self.retried else problem


#: Maximum length of an unreadable reply in the request to answer again, in characters.
LONGEST_SENT_BACK = 1_000


async def ask_for_words(text: str, ask: Ask, settings: ErasSettings) -> ChatAnswer:
    """Ask a chat model to segment a sentence, and ask again once if the reply cannot be read."""
    request = Chat.user(
        PROMPT.format(text=text), temperature=settings.temperature, max_tokens=settings.max_tokens
    )
    first = ChatAnswer(reply := await ask(request), read_segmentation(reply.text, text), retried=False)
    # Few replies need a second question, so a plan does not count it.
    if first.words or first.is_filtered or reply.key == PLANNED:
        return first
    # Servers refuse an empty turn.
    shown = reply.text.strip()[:LONGEST_SENT_BACK] or "(empty)"
    reply = await ask(request.then(shown, retry_prompt(first.result.problem, text)))
    return ChatAnswer(reply, read_segmentation(reply.text, text), retried=True)


def judge_chat(
    pair: SentencePair, texts: tuple[str, str], answers: tuple[ChatAnswer, ChatAnswer], rule: Rule
) -> Verdict:
    """Return the verdict on a chat model's segmentations of both sentences.

    If the reply for the test sentence is refused or cannot be read, so is the pair. A control reply that
    cannot be read counts as incorrect.
    """
    test, control = answers
    flags = {
        "test_read": float(bool(test.words)),
        "control_read": float(bool(control.words)),
        "test_retried": float(test.retried),
        "control_retried": float(control.retried),
    }
    if not test.words:
        site = texts[0][pair.site_start : pair.site_start + 3]
        return Verdict(
            "refused" if test.is_filtered else "unparsed",
            expected_cut(site, pair.paradigm),
            NEXT.join(BOUNDARY.join(answer.words) or answer.reply.text.strip() for answer in answers),
            test.problem,
            values={
                **outcome_values(None, _outcome(control, texts[1], pair, rule)),
                "start": float(pair.site_start),
                **paradigm_values(pair.paradigm),
                **flags,
            },
        )
    unread = None if control.words else control.reply.text.strip()
    verdict = SegmentJudge(rule).judge(pair, texts, (test.words, control.words), unread)
    reason = verdict.reason if control.words else f"{verdict.reason}; control: {control.problem}"
    # The rules differ only at degenerate sites, which the paper's rule calls right.
    differs = judged_site(test.words, texts[0], pair, "segmented")[0] == DEGENERATE
    values = {**verdict.values, **flags, READ_ALIKE: float(not differs)}
    evidence = {READ_BY: "read after one retry" if test.retried else "read at once"}
    return replace(verdict, reason=reason, values=values, evidence=evidence)


def _outcome(answer: ChatAnswer, text: str, pair: SentencePair, rule: Rule) -> SiteOutcome | None:
    return judged_site(answer.words, text, pair, rule)[0] if answer.words else None


async def measure_explicit(
    pair: SentencePair, texts: tuple[str, str], ask: Ask, settings: ErasSettings
) -> Verdict:
    """Return the verdict on a segmenter's or a chat model's words of both sentences.

    :param texts: Both sentences in the script of the settings.
    """
    if "segment" in ask.kinds:
        test, control = await asyncio.gather(*(ask(Segment(text)) for text in texts))
        return SegmentJudge(settings.rule).judge(pair, texts, (test.value, control.value))
    answers = await asyncio.gather(*(ask_for_words(text, ask, settings) for text in texts))
    return judge_chat(pair, texts, (answers[0], answers[1]), settings.rule)
