"""Explicit garden path errors: judge how a segmentation cuts the site, and compute the accuracies.

The rule is the paper's (Li and Hao, section 3.1). A site is three characters x1 x2 x3. In a left-branching
sentence x1 x2 is the true word and x2 x3 the canary word; in a right-branching one, the reverse.
A left-branching site is wrong if it has a boundary between x1 and x2 and none between x2 and x3. A
right-branching site is wrong if it has a boundary between x2 and x3 and none between x1 and x2. All other
segmentations are right. Accuracies are means over paradigms, never over sentences.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Literal

from pytest_llmprops.benchmarks.eras.settings import EXPLICIT_TASK
from pytest_llmprops.core.metrics import Metric, Place
from pytest_llmprops.core.segmentation import boundaries, with_whitespace
from pytest_llmprops.core.statistics import mean_interval

Branching = Literal["left", "right"]
Canary = Literal["none", "token", "swallowed"]

PROMPT = (
    "请把下面的句子切分成词，词与词之间用一个空格隔开。"
    "不要改动、增加或删去任何字，不要解释，只回答切分后的句子。\n\n{text}"
)


@dataclass(frozen=True, slots=True)
class SiteOutcome:
    """The outcome of a segmentation at one site.

    :param right: Right by the paper's rule. :param canary: ``token`` if the canary word is exactly a word of
        the segmentation, ``swallowed`` if the site is wrong and the canary word is part of a longer word.
    """

    right: bool
    canary: Canary


_RIGHT = SiteOutcome(True, "none")
_TOKEN = SiteOutcome(False, "token")
_SWALLOWED = SiteOutcome(False, "swallowed")


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


def judge_words(words: Sequence[str], text: str, start: int, branching: Branching) -> SiteOutcome:
    """Judge one site of a segmented sentence.

    :raises BackendError: if the words do not join to exactly ``text``.
    """
    return judge_site(boundaries(words, text), start, branching)


@dataclass(frozen=True, slots=True)
class ChatSegmentation:
    """A chat model's reply, read as a segmentation: the words, or no words and the problem."""

    words: tuple[str, ...]
    problem: str = ""


_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "「": "」", "『": "』", "`": "`"}


def read_segmentation(reply: str, text: str) -> ChatSegmentation:
    """Read a reply that should be ``text`` with spaces (or slashes) between its words.

    A code fence or a pair of quotes around the whole reply is removed, unless ``text`` itself has those quotes.
    Full-width spaces are spaces. Replies with anything else are not read. A reply that repeats the sentence
    without any space is not read either: the model did not follow the instruction, and an unsegmented
    sentence would count as right by the rule. Whitespace in ``text`` is a separate word.
    """
    line = _unwrapped(reply.strip(), text)
    if not line:
        return ChatSegmentation((), "the reply is empty")
    if "\n" in line or "\r" in line:
        return ChatSegmentation((), "the reply has more than one line")
    words = line.split() if "/" in text else line.replace("/", " ").split()
    characters = "".join(text.split())
    if "".join(words) != characters:
        return ChatSegmentation((), "the reply is not the sentence with spaces between its words")
    if len(words) == len(text.split()) and len(characters) > len(words):
        return ChatSegmentation((), "the reply is the sentence without a space between its words")
    return ChatSegmentation(tuple(with_whitespace(words, text)))


def _unwrapped(reply: str, text: str) -> str:
    """Return ``reply`` without a surrounding code fence or pair of quotes."""
    if len(reply) >= 6 and reply.startswith("```") and reply.endswith("```"):
        first, newline, rest = reply[3:-3].partition("\n")
        # The fence's first line may name a language.
        has_name = newline and first.strip().isascii() and len(first.split()) <= 1
        reply = (rest if has_name else reply[3:-3]).strip()
    quoted = len(reply) >= 2 and _QUOTES.get(reply[0]) == reply[-1]
    if quoted and not text.strip().startswith(reply[0]):
        reply = reply[1:-1].strip()
    return reply


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
    place: Place,
    scores: Sequence[ParadigmScore],
    facts: Mapping[str, ParadigmFacts],
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
