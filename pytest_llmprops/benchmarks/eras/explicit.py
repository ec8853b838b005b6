"""Explicit garden path errors: judge how a segmentation cuts the site, and compute the accuracies.

The rule is the paper's (Li and Hao, section 3.1). A site is three characters x1 x2 x3. In a left-branching
sentence x1 x2 is the true word and x2 x3 the canary word; in a right-branching one, the reverse.
A left-branching site is wrong if it has a boundary between x1 and x2 and none between x2 and x3. A
right-branching site is wrong if it has a boundary between x2 and x3 and none between x1 and x2. All other
segmentations are right. Accuracies are means over paradigms, never over sentences.

So a sentence without any boundary is right, and so is one in which every character is a word. The rule
``segmented`` calls them wrong; see :func:`is_degenerate`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Literal

from pytest_llmprops.benchmarks.eras.settings import EXPLICIT_TASK
from pytest_llmprops.core.metrics import Metric, Place
from pytest_llmprops.core.reading import segmented
from pytest_llmprops.core.segmentation import with_whitespace
from pytest_llmprops.core.statistics import mean_interval

Branching = Literal["left", "right"]
Canary = Literal["none", "token", "swallowed"]

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
class ParadigmFacts:
    """The properties that determine a paradigm's groups; ``sentiment`` is ``+/-``, ``-/0`` …"""

    branching: Branching
    sentiment: str


@dataclass(frozen=True, slots=True)
class ParadigmScore:
    """The shares of one paradigm's sentences that are segmented correctly at the site, in [0, 1].

    :param pairs: Number of pairs. :param both: Share of pairs with both sentences correct.
    """

    paradigm: str
    pairs: int
    test: float
    control: float
    both: float


def paradigm_scores(outcomes: Iterable[tuple[str, bool, bool]]) -> tuple[ParadigmScore, ...]:
    """Return the accuracies of each paradigm (section 3.1), sorted by paradigm.

    :param outcomes: (paradigm, test sentence right, control sentence right) for each pair.
    """
    counts: dict[str, list[int]] = {}
    for paradigm, test, control in outcomes:
        # One counter per combination: neither right, control only, test only, both.
        counts.setdefault(paradigm, [0, 0, 0, 0])[2 * test + control] += 1
    scores = []
    for paradigm, (neither, only_control, only_test, both) in sorted(counts.items()):
        n = neither + only_control + only_test + both
        scores.append(ParadigmScore(paradigm, n, (only_test + both) / n, (only_control + both) / n, both / n))
    return tuple(scores)


def accuracy_rows(
    place: Place, scores: Sequence[ParadigmScore], facts: Mapping[str, ParadigmFacts]
) -> list[Metric]:
    """Return test, control and pair accuracy and the difference as means over paradigms (Table 1).

    Groups: ``overall``, ``left``, ``right`` and the sentiment classes that occur. ``n`` counts pairs.

    The 95% intervals are those of the mean of bounded numbers, one per paradigm
    (:func:`~pytest_llmprops.core.statistics.mean_interval`).

    :param place: Task, language and source of the rows.
    """
    rows: list[Metric] = []
    for group in ("overall", "left", "right", *sorted({facts[s.paradigm].sentiment for s in scores})):
        members = [s for s in scores if group in ("overall", *astuple(facts[s.paradigm]))]
        if members:
            rows += _group_rows(place, group, members)
    return rows


def _group_rows(place: Place, group: str, members: Sequence[ParadigmScore]) -> list[Metric]:
    names = [s.paradigm for s in members]
    n = sum(s.pairs for s in members)
    columns = {
        "test_accuracy": [s.test for s in members],
        "control_accuracy": [s.control for s in members],
        "difference": [s.control - s.test for s in members],
        "both_accuracy": [s.both for s in members],
    }
    rows = []
    for name, direction in EXPLICIT_TASK.items():
        values = columns[name]
        low, high, _ = mean_interval(values, names, least=-1.0 if name == "difference" else 0.0)
        rows.append(Metric(*place, name, sum(values) / len(values), n, group, low, high, direction))
    return rows
