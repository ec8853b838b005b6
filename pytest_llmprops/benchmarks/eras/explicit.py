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
from dataclasses import dataclass, replace
from typing import Literal

from pytest_llmprops.benchmarks.eras.items import SentencePair
from pytest_llmprops.benchmarks.eras.paradigms import Branching, Paradigm, paradigm_values
from pytest_llmprops.benchmarks.eras.settings import ErasSettings
from pytest_llmprops.core.benchmark import Ask
from pytest_llmprops.core.reading import segmented
from pytest_llmprops.core.requests import PLANNED, Chat, Reply, Segment
from pytest_llmprops.core.segmentation import boundaries, with_whitespace
from pytest_llmprops.core.verdicts import READ_ALIKE, READ_BY, Verdict

#: The outcome at a site. A wrong one has the canary word as a word of the segmentation (``token``) or inside a longer
#: word (``swallowed``). By the rule ``segmented``, an undecided site in a degenerate segmentation is wrong, too.
Outcome = Literal["right", "token", "swallowed", "degenerate"]
Rule = Literal["paper", "segmented"]

PROMPT = (
    "请把下面的句子切分成词，词与词之间用一个空格隔开。"
    "不要改动、增加或删去任何字，不要解释，只回答切分后的句子。\n\n{text}"
)

#: The request after a reply that cannot be read.
RETRY = "上面的回答无法读取：{problem}。" + PROMPT


def judge_site(edges: Container[int], start: int, branching: Branching) -> Outcome:
    """Judge one site by the word boundaries of :func:`~pytest_llmprops.core.segmentation.boundaries`.

    :param start: Position of x1 in the sentence, from 0.
    """
    # The boundary that divides the true word, the one that would not, and the outer edge of the canary word.
    wrong, right, outer = (1, 2, 3) if branching == "left" else (2, 1, 0)
    if start + wrong not in edges or start + right in edges:
        return "right"
    return "token" if start + outer in edges else "swallowed"


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
    "right": "the canary word {canary} is not cut out",
    "degenerate": "the site is undecided in a degenerate segmentation: {words} words for {characters} characters",
    "token": "the canary word {canary} was segmented as a word",
    "swallowed": "the canary word {canary} is part of a longer word",
}


def judged_site(
    words: Sequence[str], text: str, pair: SentencePair, rule: Rule
) -> tuple[Outcome, frozenset[int]]:
    """Return the outcome at the site of a segmented sentence by ``rule``, and the word boundaries.

    :raises BackendError: if the words do not join to exactly ``text``.
    """
    edges, start = boundaries(words, text), pair.site_start
    outcome = judge_site(edges, start, pair.paradigm.branching)
    is_undecided = (start + 1 in edges) == (start + 2 in edges)
    if rule == "segmented" and is_undecided and is_degenerate(len(words), len(text)):
        outcome = "degenerate"
    return outcome, edges


def judge_pair(
    pair: SentencePair,
    texts: tuple[str, str],
    words: Sequence[Sequence[str]],
    rule: Rule,
    unread: str | None = None,
) -> Verdict:
    """Return the verdict on the words of the test and the control sentence.

    :param texts: Both sentences, as sent. :param unread: The control's reply if it cannot be read: it is incorrect.
    :raises BackendError: if the words do not join to exactly the sentence.
    """
    start, paradigm = pair.site_start, pair.paradigm
    test, edges = judged_site(words[0], texts[0], pair, rule)
    control = judged_site(words[1], texts[1], pair, rule)[0] if unread is None else None
    site, sizes = texts[0][start : start + 3], {"words": len(words[0]), "characters": len(texts[0])}
    given = marked_segmentation(words[0], pair, test) + NEXT
    return Verdict(
        "correct" if test == "right" else "wrong",
        expected_cut(site, paradigm),
        given + (BOUNDARY.join(words[1]) if unread is None else unread),
        _REASONS[test].format(canary=_canary(site, paradigm), **sizes),
        float(test == "right"),
        {
            **_outcome_values(test, control),
            "start": float(start),
            "site_cuts": float((start + 1 in edges) + (start + 2 in edges)),
            **{name: float(size) for name, size in sizes.items()},
            **paradigm_values(paradigm),
        },
    )


def _canary(site: str, paradigm: Paradigm) -> str:
    return site[1:] if paradigm.branching == "left" else site[:2]


def expected_cut(site: str, paradigm: Paradigm) -> str:
    """Return the correct segmentation of the site, and the canary word: ``信心|机, never 心机``."""
    edge = 2 if paradigm.branching == "left" else 1
    return f"{site[:edge]}{BOUNDARY}{site[edge:]}, never {_canary(site, paradigm)}"


def marked_segmentation(words: Sequence[str], pair: SentencePair, outcome: Outcome) -> str:
    """Return the test sentence with word boundaries, and with brackets around a wrongly segmented canary word."""
    line = BOUNDARY.join(words)
    if outcome in ("right", "degenerate"):
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


def _outcome_values(test: Outcome | None, control: Outcome | None) -> dict[str, float]:
    """Return 0 or 1 for each of ``test``, ``control`` (the site is segmented correctly), and the two errors.

    :param test: None if the reply could not be read, which counts as incorrect and has no error type.
        The same holds for ``control``.
    """
    return {
        "test": float(test == "right"),
        "control": float(control == "right"),
        "canary_token": float(test == "token"),
        "canary_swallowed": float(test == "swallowed"),
    }


FILTERED = "a content filter refused"
EMPTY = "the reply is empty"
UNSEGMENTED = "the reply is the sentence without a space between its words"
OTHER = "the reply is not the sentence with spaces between its words, or has several versions of it"
IN_CHINESE = {
    EMPTY: "回答是空的",
    UNSEGMENTED: "句子没有切分",
    OTHER: "其中没有原句的切分，或者有几种不同的切分",
}


def read_segmentation(reply: str, text: str) -> tuple[tuple[str, ...], str]:
    """Return the words of ``text`` in a chat model's reply, and what is wrong if there are none.

    Whitespace in ``text`` is a separate word.
    """
    if words := segmented(reply, text):
        return tuple(with_whitespace(words, text)), ""
    if not any(map(str.isalnum, reply)):
        return (), EMPTY
    return (), UNSEGMENTED if text in reply else OTHER


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """A chat model's answer to the request to segment one sentence.

    :param words: Empty if the reply is filtered or cannot be read. :param problem: Why there are no words.
    :param reply: The reply that counts. :param retried: It is the second reply, because the first could not be read.
    """

    words: tuple[str, ...]
    problem: str
    reply: Reply
    retried: bool

    @classmethod
    def of(cls, reply: Reply, text: str, *, retried: bool) -> ChatAnswer:
        """Return the answer in a reply about the sentence ``text``."""
        words, problem = read_segmentation(reply.text, text)
        if reply.finish_reason == "content_filter":
            words, problem = (), FILTERED
        return cls(words, problem, reply, retried)

    @property
    def reason(self) -> str:
        """The problem of the last reply, in words for the verdict."""
        if self.problem == FILTERED:
            return self.problem
        is_cut = self.reply.finish_reason == "length" and self.reply.text.strip()
        problem = "the reply was cut off before the end of the sentence" if is_cut else self.problem
        return f"{problem}, after one retry" if self.retried else problem


#: Maximum length of an unreadable reply in the request to answer again, in characters.
LONGEST_SENT_BACK = 1_000


async def ask_for_words(text: str, ask: Ask, settings: ErasSettings) -> ChatAnswer:
    """Ask a chat model to segment a sentence, and ask again once if the reply cannot be read."""
    request = Chat.user(
        PROMPT.format(text=text), temperature=settings.temperature, max_tokens=settings.max_tokens
    )
    first = ChatAnswer.of(await ask(request), text, retried=False)
    # Few replies need a second question, so a plan does not count it.
    if first.words or first.problem == FILTERED or first.reply.key == PLANNED:
        return first
    # Servers refuse an empty turn.
    shown = first.reply.text.strip()[:LONGEST_SENT_BACK] or "(empty)"
    again = RETRY.format(problem=IN_CHINESE[first.problem], text=text)
    return ChatAnswer.of(await ask(request.then(shown, again)), text, retried=True)


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
        outcome = judged_site(control.words, texts[1], pair, rule)[0] if control.words else None
        return Verdict(
            "refused" if test.problem == FILTERED else "unparsed",
            expected_cut(site, pair.paradigm),
            NEXT.join(BOUNDARY.join(answer.words) or answer.reply.text.strip() for answer in answers),
            test.reason,
            values={
                **_outcome_values(None, outcome),
                "start": float(pair.site_start),
                **paradigm_values(pair.paradigm),
                **flags,
            },
        )
    unread = None if control.words else control.reply.text.strip()
    verdict = judge_pair(pair, texts, (test.words, control.words), rule, unread)
    reason = verdict.reason if control.words else f"{verdict.reason}; control: {control.reason}"
    # The rules differ only at degenerate sites, which the paper's rule calls right.
    differs = judged_site(test.words, texts[0], pair, "segmented")[0] == "degenerate"
    values = {**verdict.values, **flags, READ_ALIKE: float(not differs)}
    evidence = {READ_BY: "read after one retry" if test.retried else "read at once"}
    return replace(verdict, reason=reason, values=values, evidence=evidence)


async def measure_explicit(
    pair: SentencePair, texts: tuple[str, str], ask: Ask, settings: ErasSettings
) -> Verdict:
    """Return the verdict on a segmenter's or a chat model's words of both sentences.

    :param texts: Both sentences in the script of the settings.
    """
    if "segment" in ask.kinds:
        test, control = await asyncio.gather(*(ask(Segment(text)) for text in texts))
        return judge_pair(pair, texts, (test.value, control.value), settings.rule)
    answers = await asyncio.gather(*(ask_for_words(text, ask, settings) for text in texts))
    return judge_chat(pair, texts, (answers[0], answers[1]), settings.rule)
