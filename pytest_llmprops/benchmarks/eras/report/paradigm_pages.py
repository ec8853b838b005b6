"""One page per ERAS paradigm: which models make the garden path error, in which sentences, and how they cut them."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_llmprops.benchmarks.eras.explicit import judge_site
from pytest_llmprops.benchmarks.eras.implicit import count
from pytest_llmprops.benchmarks.eras.items import EXPLICIT, TASKS
from pytest_llmprops.benchmarks.eras.judging import facts_of, pair_result
from pytest_llmprops.benchmarks.eras.report.segmenters import segmentations
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.reports.kit.blocks import (
    MOST_PAGES,
    Block,
    Cell,
    Fold,
    Note,
    Page,
    Table,
    counted,
    cut_text,
    linked_pages,
    outcome_label,
    visible,
)
from pytest_llmprops.reports.kit.series import Measured, Series

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
        """True if the line has cuts; otherwise it has scores."""
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
    """Return True if a verdict has an outcome at the site or scores, and says what paradigm it is on."""
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
    test, control = _cut_sentences(record) if line.is_segmenter else _scored_sentences(record)
    if not is_judged(record):
        reason = cut_text(record.reason, LONGEST)
    else:
        reason = "control wrong" if line.is_segmenter and not record.values["control"] else ""
    return PairOutcome(line.series.index, line.name, record.status, test, control, reason)


def _cut_sentences(record: VerdictRecord) -> tuple[Sentence, Sentence]:
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


def _scored_sentences(record: VerdictRecord) -> tuple[Sentence, Sentence]:
    texts = [record.evidence.get(name) for name in ("test", "control")]
    test, control = (
        Sentence(text=cut_text(text, LONGEST) if isinstance(text, str) else "", score=record.values.get(name))
        for name, text in zip(("test", "control"), texts, strict=True)
    )
    if is_judged(record):
        return test, control
    # Without scores, the replies are all that is known.
    return Sentence(text=test.text or cut_text(record.given, LONGEST)), Sentence(text=control.text)


#: Maximum pairs, cuts and scripts on a page; a run's record has all of them.
MOST_PAIRS, MOST_CUTS, MOST_SITES = 40, 24, 4
FOLDER = "eras"
TEMPLATE = "pytest_llmprops.benchmarks.eras.report:paradigm.html.jinja"
_MEANINGS = {
    "none": "the canary word is not cut out",
    "token": "the canary word is a word",
    "swallowed": "the canary word is inside a longer word",
    "degenerate": "the canary word is not cut out, in a degenerate segmentation",
}
#: Source and cluster, which identify a paradigm.
Key = tuple[str, str]
#: The verdicts of each line on one paradigm.
Verdicts = Mapping[Line, Sequence[VerdictRecord]]


def paradigm_pages(measured: Measured) -> list[tuple[ParadigmContent, Page | None]]:
    """Return every paradigm, by source and number, with its page; None after :data:`MOST_PAGES`.

    A page has a bounded number of pairs. Those that most models get wrong come first.
    """
    lines = [
        Line(s, task)
        for task in TASKS
        for s in measured.series
        if any(row.task == task for row in measured.rows(s))
    ]
    paradigms: dict[Key, dict[Line, list[VerdictRecord]]] = {}
    for line in lines:
        for record in measured.records(line.series):
            if record.task == line.task:
                of_paradigm = paradigms.setdefault((record.source, record.cluster), {})
                of_paradigm.setdefault(line, []).append(record)
    several = len({source for source, _ in paradigms}) > 1
    contents = []
    for (source, cluster), verdicts in sorted(paradigms.items()):
        content = _content(source, cluster, verdicts)
        name = content.number + (f"-{source}" if several else "")
        title = f"{content.sites[0] if content.sites else ''} paradigm {content.number}".strip()
        contents.append((name, title, content))
    pages = linked_pages(FOLDER, TEMPLATE, contents, MOST_PAGES)
    return [(content, page) for (_, _, content), page in zip(contents, pages, strict=True)]


def paradigm_table(pages: Sequence[tuple[ParadigmContent, Page | None]]) -> list[Block]:
    """Return a folded table of the paradigms with each model's accuracies and links to the pages."""
    sources = {content.source for content, _ in pages}
    segmenters, classifiers = (
        dict.fromkeys((row.series, row.name) for content, _ in pages for row in getattr(content, name))
        for name in ("segmenters", "classifiers")
    )
    rows = []
    for content, page in pages:
        cells = [Cell(f"{FOLDER}/{content.number}", page=page.path if page else "")]
        cells += [Cell(content.source)] if len(sources) > 1 else []
        cells += [Cell(content.rule), Cell(content.branching), Cell(content.sentiment)]
        by_segmenter = {(row.series, row.name): row for row in content.segmenters}
        by_classifier = {(row.series, row.name): row for row in content.classifiers}
        for model in segmenters:
            segmenter = by_segmenter.get(model)
            cells += _numbers([segmenter.test, segmenter.control] if segmenter else [None, None])
        for model in classifiers:
            classifier = by_classifier.get(model)
            cells += _numbers([classifier.accuracy, classifier.difference] if classifier else [None, None])
        rows.append(tuple(cells))
    columns = [("Paradigm", False), *([("Items from", False)] if len(sources) > 1 else [])]
    columns += [("Site, canary word", False), ("Branching", False), ("Sentiment", False)]
    columns += [c for _, name in segmenters for c in ((f"{name}: test", True), ("Control", True))]
    columns += [c for _, name in classifiers for c in ((f"{name}: accuracy", True), ("Diff.", True))]
    note = (
        "Percent of sentences with a correctly segmented site; for sentiment, percent of correct pairs (best at 50) and"
        f" control minus test. Each paradigm links to a page in the folder {FOLDER} next to this report."
    )
    blocks: list[Block] = [Table("Paradigms", tuple(columns), tuple(rows), note)]
    without = sum(page is None for _, page in pages)
    if without:
        text = f"{counted(without, 'paradigm')} without a page: a report has at most {MOST_PAGES} pages."
        blocks.append(Note(text, "warn"))
    title = f"Paradigm by paradigm: which models cut out the canary word, and where ({len(pages):,})"
    return [Fold(title, tuple(blocks))] if rows else []


def _numbers(values: Iterable[float | None]) -> list[Cell]:
    return [Cell("–") if value is None else Cell(f"{100 * value:.1f}", value) for value in values]


def _content(source: str, cluster: str, verdicts: Verdicts) -> ParadigmContent:
    first = next((r for records in verdicts.values() for r in records if is_judged(r)), None)
    facts = facts_of(first.values) if first else None
    cuts, sites = _cuts(verdicts, facts.branching if facts else "left")
    votes = _votes(verdicts)
    chosen = heapq.nsmallest(MOST_PAIRS, votes, key=lambda number: (-votes[number], number))
    number = cluster.rpartition("/")[2] or cluster
    rule = next(
        (r.expected for line, rs in verdicts.items() if line.is_segmenter for r in rs if r.expected), ""
    )
    return ParadigmContent(
        number=cut_text(number, LONGEST),
        source=source,
        sites=tuple(sites[:MOST_SITES]),
        rule=cut_text(rule, LONGEST),
        branching=facts.branching if facts else "",
        sentiment=facts.sentiment if facts else "",
        segmenters=tuple(_segmenter(line, rs) for line, rs in verdicts.items() if line.is_segmenter),
        classifiers=tuple(_classifier(line, rs) for line, rs in verdicts.items() if not line.is_segmenter),
        cuts=tuple(cuts[:MOST_CUTS]),
        more_cuts=max(len(cuts) - MOST_CUTS, 0),
        pairs=tuple(_pairs(verdicts, chosen)),
        total=len(votes),
    )  # fmt: skip


def _pair_number(record: VerdictRecord) -> str:
    return record.id.rpartition("/")[2]


def _votes(verdicts: Verdicts) -> dict[str, int]:
    """Return for each pair how many models get it wrong; one wrong only in the test sentence counts twice."""
    votes: dict[str, int] = {}
    for records in verdicts.values():
        for record in records:
            missed = 0
            if record.status == "wrong":
                missed = 1 + bool(record.values.get("control") == 1 and "start" in record.values)
            number = _pair_number(record)
            votes[number] = votes.get(number, 0) + missed
    return votes


def _pairs(verdicts: Verdicts, chosen: Sequence[str]) -> Iterable[Pair]:
    wanted: dict[str, list[tuple[Line, VerdictRecord]]] = {number: [] for number in chosen}
    for line, records in verdicts.items():
        for record in records:
            # Samples of one item are counted, but only the first is shown.
            if record.sample == 0 and (members := wanted.get(_pair_number(record))) is not None:
                members.append((line, record))
    for number, members in wanted.items():
        yield Pair(number, tuple(pair_outcome(line, record) for line, record in members))


def _cuts(verdicts: Verdicts, branching: str) -> tuple[list[Cut], list[str]]:
    """Return the cuts of the test sentences' sites, the most frequent first, and the sites."""
    counts: list[Counter[tuple[str, str]]] = []
    for line, records in verdicts.items():
        if line.is_segmenter:
            counts.append(Counter(cut for r in records if is_judged(r) and (cut := _cut(r, branching))))
    totals = sum(counts, Counter[tuple[str, str]]())
    sites = dict.fromkeys(text.strip("…").replace("|", "") for text, _ in totals)
    cuts = [
        Cut(
            text,
            _MEANINGS[canary],
            "correct" if canary == "none" else "wrong",
            tuple(count[text, canary] / (count.total() or 1) for count in counts),
        )
        for (text, canary), _ in totals.most_common()
    ]
    return cuts, list(sites)


def _cut(record: VerdictRecord, branching: str) -> tuple[str, str] | None:
    """Return the cut site of the test sentence, ``…信心|机…``, and what becomes of the canary word."""
    start = site_start(record)
    words = cut_words(record)
    sentence = "".join(words)
    if start > len(sentence) - 3:
        return None
    edges, at = {0}, 0
    for word in words:
        at += len(word)
        edges.add(at)
    text = "" if start in edges else "…"
    for place in range(start, start + 3):
        text += sentence[place] + ("|" if place + 1 in edges and place < start + 2 else "")
    text += "" if start + 3 in edges else "…"
    canary = judge_site(edges, start, "right" if branching == "right" else "left").canary
    return text, "degenerate" if canary == "none" and record.status == "wrong" else canary


def _others(records: Sequence[VerdictRecord]) -> str:
    """Return the numbers of verdicts that are neither correct nor wrong, in words."""
    counts = Counter(r.status for r in records if not is_judged(r))
    return ", ".join(f"{count:,} {visible(status)}" for status, count in counts.items())


def _mean(records: Sequence[VerdictRecord], name: str) -> float | None:
    values = [r.values[name] for r in records if name in r.values]
    return sum(values) / len(values) if values else None


def _segmenter(line: Line, records: Sequence[VerdictRecord]) -> SegmenterRow:
    # A reply that could not be read counts as wrong, as in the metrics; its verdict has values too.
    with_values = [r for r in records if "test" in r.values]
    return SegmenterRow(
        line.series.index,
        line.name,
        len(with_values),
        _mean(with_values, "test"),
        _mean(with_values, "control"),
        _mean(with_values, "canary_token"),
        _mean(with_values, "canary_swallowed"),
        _others(records),
    )


def _classifier(line: Line, records: Sequence[VerdictRecord]) -> ClassifierRow:
    counts = count(pair_result(r.values) for r in records if is_judged(r))
    return ClassifierRow(
        line.series.index,
        line.name,
        counts.pairs,
        counts.accuracy,
        counts.difference / 100 if counts.pairs else None,
        counts.gper,
        _others(records),
    )
