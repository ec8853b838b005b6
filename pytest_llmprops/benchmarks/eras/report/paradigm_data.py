"""The data of a paradigm's page: ``paradigm.html.jinja`` shows it."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_llmprops.benchmarks.eras.items import EXPLICIT
from pytest_llmprops.benchmarks.eras.report.pair import segmentations
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.reports.kit.pages import cut_text, outcome_label
from pytest_llmprops.reports.kit.series import Series

#: Maximum characters of a sentence or reply on a page.
LONGEST = 300
_JUDGED = ("correct", "wrong")
_FAR = 10**9
_NEEDED = {"test", "control", "paradigm", "right_branching", "true_class", "canary_class"}
#: Marks in the sentences of a verdict (benchmarks/eras/judging.py).
_BOUNDARY, _CANARY_MARKS = "|", str.maketrans("", "", "【】")


# Compared by identity, because a series cannot be hashed.
@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One task of one series: a segmenter's cuts or a classifier's scores."""

    series: Series
    task: str

    @property
    def name(self) -> str:
        """The model's label."""
        return self.series.starred

    @property
    def is_segmenter(self) -> bool:
        """Whether the line has cuts; otherwise it has scores."""
        return self.task == EXPLICIT


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a segmented sentence: its characters before, in and after the site."""

    before: str
    site: str
    after: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence as a model saw or cut it.

    :param words: The words; empty without a segmentation. :param text: The text without words, if any.
    :param score: A classifier's probability of the positive class.
    """

    words: tuple[Word, ...] = ()
    text: str = ""
    score: float | None = None


@dataclass(frozen=True, slots=True)
class PairOutcome:
    """What one model did with one pair.

    :param reason: Why there is no outcome, or that the control is wrong too; otherwise empty.
    """

    series: int
    name: str
    status: str
    test: Sentence
    control: Sentence
    reason: str

    @property
    def label(self) -> str:
        """The status with its sign."""
        return outcome_label(self.status)


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair with all models' outcomes."""

    number: str
    outcomes: tuple[PairOutcome, ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """One way to cut the site of the test sentence.

    :param text: The site with its boundaries; ``…`` where a word continues outside the site.
    :param meaning: What becomes of the canary word. :param status: ``correct`` or ``wrong``.
    :param shares: Share of each segmenter's test sentences, in the order of the page's ``segmenters``.
    """

    text: str
    meaning: str
    status: str
    shares: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SegmenterRow:
    """A segmenter's shares of sentences in one paradigm; None if no reply could be judged.

    :param pairs: Number of judged pairs, with all samples. :param others: Number of each other status.
    """

    series: int
    name: str
    pairs: int
    test: float | None
    control: float | None
    token: float | None
    swallowed: float | None
    others: str


@dataclass(frozen=True, slots=True)
class ClassifierRow:
    """A classifier's results in one paradigm. ``difference`` is control minus test probability (positive class).

    :param accuracy: Share of right pairs, best at 0.5.
    """

    series: int
    name: str
    pairs: int
    accuracy: float | None
    difference: float | None
    gper: float | None
    others: str


@dataclass(frozen=True, slots=True)
class ParadigmContent:
    """A paradigm's page and its row in the report.

    :param sites: The site, once per script. :param rule: Its right segmentation and the canary word.
    :param branching: ``left`` or ``right``; empty if no verdict says it. :param sentiment: True class/canary class.
    :param segmenters, classifiers: Models with verdicts, in the report's order.
    :param more_cuts: Number of cuts that are not shown. :param total: Number of pairs, including those not shown.
    """

    number: str
    source: str
    sites: tuple[str, ...]
    rule: str
    branching: str
    sentiment: str
    segmenters: tuple[SegmenterRow, ...]
    classifiers: tuple[ClassifierRow, ...]
    cuts: tuple[Cut, ...]
    more_cuts: int
    pairs: tuple[Pair, ...]
    total: int


def is_judged(record: VerdictRecord) -> bool:
    """Return whether a verdict has an outcome at the site or scores, and says what paradigm it is on."""
    return record.status in _JUDGED and record.values.keys() >= _NEEDED


def cut_words(record: VerdictRecord) -> tuple[str, ...]:
    """Return the words of the test sentence in a segmenter's verdict, without the marks of a canary word."""
    test, _ = segmentations(record)
    return tuple(test.translate(_CANARY_MARKS).split(_BOUNDARY))


def site_start(record: VerdictRecord) -> int:
    """Return the position of the site in both sentences, from 0; far behind every sentence if there is none."""
    start = record.values.get("start", -1)
    return int(start) if 0 <= start < _FAR else _FAR


def pair_outcome(line: Line, record: VerdictRecord) -> PairOutcome:
    """Return what a model did with a pair."""
    test, control = _cuts(record) if line.is_segmenter else _scores(record)
    if not is_judged(record):
        reason = cut_text(record.reason, LONGEST)
    else:
        reason = "control wrong" if line.is_segmenter and not record.values["control"] else ""
    return PairOutcome(line.series.index, line.name, record.status, test, control, reason)


def _cuts(record: VerdictRecord) -> tuple[Sentence, Sentence]:
    test, control = segmentations(record)
    if not is_judged(record):
        return Sentence(text=cut_text(test, LONGEST)), Sentence(text=cut_text(control, LONGEST))
    start = site_start(record)
    is_read = bool(record.values.get("control_read", 1))
    return (
        Sentence(_words(cut_words(record), start)),
        Sentence(_words(control.split(_BOUNDARY), start))
        if is_read
        else Sentence(text=cut_text(control, LONGEST)),
    )


def _words(words: tuple[str, ...] | list[str], start: int) -> tuple[Word, ...]:
    """Return words with the site marked, up to :data:`LONGEST` characters."""
    parts, at = [], 0
    for word in words:
        first, last = (min(max(place - at, 0), len(word)) for place in (start, start + 3))
        parts.append(Word(word[:first], word[first:last], word[last:]))
        at += len(word)
        if at > LONGEST:
            break
    return tuple(parts)


def _scores(record: VerdictRecord) -> tuple[Sentence, Sentence]:
    texts = [record.evidence.get(name) for name in ("test", "control")]
    test, control = (
        Sentence(text=cut_text(text, LONGEST) if isinstance(text, str) else "", score=record.values.get(name))
        for name, text in zip(("test", "control"), texts, strict=True)
    )
    if is_judged(record):
        return test, control
    # Without scores, the replies are all that is known.
    return Sentence(text=test.text or cut_text(record.given, LONGEST)), Sentence(text=control.text)
