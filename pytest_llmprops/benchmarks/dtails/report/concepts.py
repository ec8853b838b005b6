"""One page per DTAiLS concept: its variations, rules and sentences, and what each model chose."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_llmprops.benchmarks.dtails.evidence import SelectionEvidence, TranslationEvidence
from pytest_llmprops.benchmarks.dtails.items import TRANSLATE
from pytest_llmprops.benchmarks.dtails.positions import runs_of
from pytest_llmprops.benchmarks.dtails.report.figures import Line
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
    joined,
    language,
    linked_pages,
    outcome_label,
    percent,
)
from pytest_llmprops.reports.kit.series import Measured

#: Source, language and cluster, which identify a concept.
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Member:
    """One verdict on one sentence of a concept, with its evidence; the evidence of a schema 1 record is empty."""

    line: Line
    record: VerdictRecord
    evidence: SelectionEvidence | TranslationEvidence

    @classmethod
    def of(cls, line: Line, record: VerdictRecord) -> Member:
        """Return the verdict of ``line`` with its evidence read."""
        kind = TranslationEvidence if line.task == TRANSLATE else SelectionEvidence
        return cls(line, record, kind.from_json(record.evidence))

    @property
    def key(self) -> Key:
        return self.record.source, self.record.language, self.record.cluster

    @property
    def base(self) -> str:
        """The item's id without its task."""
        return self.record.id.partition("+")[0]

    @property
    def selection(self) -> SelectionEvidence:
        """The evidence of a choice; empty for a translation."""
        return self.evidence if isinstance(self.evidence, SelectionEvidence) else SelectionEvidence()


@dataclass(frozen=True, slots=True)
class Pick:
    """One run's choice.

    :param status: ``correct``, ``wrong`` or ``none``. :param position: From 1; None without a choice.
    :param shown: The variations in the order shown; empty if the record does not have it.
    """

    status: str
    position: int | None
    shown: tuple[str, ...] = ()
    retried: bool = False

    @property
    def label(self) -> str:
        """A text such as ``✗ wrong, position 2``, which says the same as the colour."""
        position = f", position {self.position}" if self.position else ""
        retry = ", after a retry" if self.retried else ""
        label = "? no choice read" if self.status == "none" else outcome_label(self.status)
        return f"{label}{position}{retry}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one model did with one sentence.

    :param answer: What the model chose; empty if the orders shown are known.
    """

    series: int
    name: str
    status: str
    picks: tuple[Pick, ...]
    answer: str
    reason: str
    translation: str
    is_translation: bool

    @property
    def label(self) -> str:
        return outcome_label(self.status)


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a concept; ``text`` is empty if the record does not have it."""

    id: str
    text: str
    expected: str
    outcomes: tuple[Outcome, ...]

    @property
    def runs(self) -> int:
        """The number of columns for choices in its table."""
        return max([1, *(len(outcome.picks) for outcome in self.outcomes)])


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules in prompts as (variation, rule, number of its example sentences), or the problem that prevented them.

    :param sentences: The number of examples in the prompt for the rules, in words. Without examples, the numbers of
        the rules are None.
    """

    who: str
    sentences: str
    rules: tuple[tuple[str, str, int | None], ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Concept:
    """A concept's page and its row in the report.

    :param variations: (name, number of sentences in which it is right). :param count: Number of variations.
    :param total: Number of sentences, including those not shown.
    :param shares: Each line's mean score; None if the concept was not asked.
    """

    word: str
    language: str
    code: str
    source: str
    variations: tuple[tuple[str, int], ...]
    count: int
    rules: tuple[Rules, ...]
    sentences: tuple[Sentence, ...]
    total: int
    shares: tuple[float | None, ...]
    notes: tuple[str, ...]


#: Maximum sentences and sets of rules per page; a run's record has all of them.
MOST_SENTENCES, MOST_RULES = 60, 30
#: Maximum characters of a sentence or translation on a page.
LONGEST = 1_000
FOLDER = "dtails"
TEMPLATE = "pytest_llmprops.benchmarks.dtails.report:concept.html.jinja"


def concept_pages(measured: Measured, lines: Sequence[Line]) -> list[tuple[Concept, Page | None]]:
    """Return every concept, by language and name, with its page; None after :data:`MOST_PAGES`."""
    concepts: dict[Key, list[Member]] = {}
    for line in lines:
        for record in measured.records(line.series, [line.task]):
            member = Member.of(line, record)
            concepts.setdefault(member.key, []).append(member)
    order = {code: n for n, code in enumerate(dict.fromkeys(code for _, code, _ in measured.places))}
    keys = sorted(concepts, key=lambda key: (order.get(key[1], len(order)), key[0]))
    several = len({source for source, _, _ in keys}) > 1
    contents = []
    for key in keys:
        source, code, cluster = key
        name = f"{code}-{cluster.removeprefix(f'dtails/{code}/')}" + (f"-{source}" if several else "")
        concept = _concept(key, lines, concepts[key])
        contents.append((name, f"{concept.word}, {concept.language}", concept))
    pages = linked_pages(FOLDER, TEMPLATE, contents, MOST_PAGES)
    return [(concept, page) for (_, _, concept), page in zip(contents, pages, strict=True)]


def concept_table(pages: Sequence[tuple[Concept, Page | None]], lines: Sequence[Line]) -> list[Block]:
    """Return a table of the concepts with each model's share of right choices and links to the pages."""
    sources = {concept.source for concept, _ in pages}
    rows = []
    for concept, page in pages:
        cells = [Cell(concept.word, page=page.path if page else ""), Cell(concept.language)]
        cells += [Cell(concept.source)] if len(sources) > 1 else []
        cells.append(Cell(f"{concept.count}" if concept.count else "–", concept.count))
        cells.append(Cell(f"{concept.total}", concept.total))
        cells += [Cell(percent(share), share) for share in concept.shares]
        rows.append(tuple(cells))
    columns = [("Concept", False), ("Language", False)]
    columns += [("Items from", False)] if len(sources) > 1 else []
    columns += [("Variations", True), ("Sentences", True)]
    columns += [(f"{line.name}{', translates' if line.task == TRANSLATE else ''}", True) for line in lines]
    note = f"Each concept links to a page in the folder {FOLDER} next to this report."
    blocks: list[Block] = [Table("Concepts", tuple(columns), tuple(rows), note)]
    without = sum(page is None for _, page in pages)
    if without:
        text = f"{counted(without, 'concept')} without a page: a report has at most {MOST_PAGES} pages."
        blocks.append(Note(text, "warn"))
    title = f"Concept by concept: rules, sentences, and what each model chose ({len(pages):,})"
    return [Fold(title, tuple(blocks))] if rows else []


def _concept(key: Key, lines: Sequence[Line], members: Sequence[Member]) -> Concept:
    source, code, cluster = key
    by_sentence: dict[str, list[Member]] = {}
    for member in members:
        by_sentence.setdefault(member.base, []).append(member)
    shown = list(by_sentence.items())[:MOST_SENTENCES]
    return Concept(
        word=next((m.evidence.concept for m in members if m.evidence.concept), cluster.rpartition("/")[2] or cluster),
        language=language(code),
        # For the attribute ``lang``, by which browsers choose fonts. Checked, because a record may have any text.
        code=code if re.fullmatch("[a-z]{2,3}", code) else "",
        source=source,
        variations=_variations(by_sentence),
        count=max((_count(m.record.values, "variations") for m in members), default=0),
        rules=tuple(_rules(lines, members)),
        sentences=tuple(_sentence(base, parts) for base, parts in shown),
        total=len(by_sentence),
        shares=tuple(_share([m.record for m in members if m.line is line]) for line in lines),
        notes=tuple(_notes(lines, members)),
    )  # fmt: skip


def _share(records: Sequence[VerdictRecord]) -> float | None:
    scores = [record.score for record in records if record.score is not None]
    return sum(scores) / len(scores) if scores else None


def _variations(by_sentence: Mapping[str, Sequence[Member]]) -> tuple[tuple[str, int], ...]:
    """Return each variation with the number of sentences in which it is right, in descending order."""
    right = Counter(expected for members in by_sentence.values() if (expected := _expected(members)))
    for members in by_sentence.values():
        for member in members:
            right.update(dict.fromkeys(member.selection.variations, 0))
    return tuple(right.most_common())


def _expected(members: Sequence[Member]) -> str:
    return next((m.record.expected for m in members if m.record.expected), "")


def _rules(lines: Sequence[Line], members: Sequence[Member]) -> Iterator[Rules]:
    """Yield the rules that the models got or wrote; equal rules of several models once, with their names."""
    models: dict[Rules, list[str]] = {}
    for line in lines:
        if line.rules in ("", "none"):
            continue
        who = "Own rules of" if line.rules == "own" else f"Rules of {line.rules}, given to"
        own = [member for member in members if member.line is line]
        # A verdict has only the rules of the right variation and of those chosen.
        kept = {rule.variation: rule for member in own for rule in member.selection.rules}
        totals = [_count(m.record.values, "sentences") for m in own if m.selection.rules]
        if kept:
            total = totals[0]
            texts = tuple((name, rule.text, rule.sentences if total else None) for name, rule in kept.items())
            counts = (
                f"sentences: {total:,}" if total else "sentences: 0 (no examples in the prompt for rules)"
            )
            models.setdefault(Rules(who, counts, texts), []).append(line.model)
        for problem in {m.record.reason: None for m in own if not m.record.values.get("rules_read", 1.0)}:
            models.setdefault(Rules(who, "", (), problem), []).append(line.model)
    for rules, names in list(models.items())[:MOST_RULES]:
        yield replace(rules, who=f"{rules.who} {joined(list(dict.fromkeys(names)))}")


def _sentence(base: str, members: Sequence[Member]) -> Sentence:
    text = next((m.evidence.sentence for m in members if m.evidence.sentence), "")
    return Sentence(base, cut_text(text, LONGEST), _expected(members), tuple(map(_outcome, members)))


def _outcome(member: Member) -> Outcome:
    line, record, picks = member.line, member.record, tuple(_picks(member))
    is_translation = line.task == TRANSLATE
    # The picks show right and wrong choices; other statuses and translations need the reason in words.
    has_reason = is_translation or record.status not in ("correct", "wrong")
    has_orders = all(pick.shown for pick in picks)
    translation = member.evidence.translation if isinstance(member.evidence, TranslationEvidence) else ""
    return Outcome(
        series=line.series.index,
        name=line.name,
        status=record.status,
        picks=picks,
        answer="" if has_orders else cut_text(record.given, LONGEST),
        reason=cut_text(record.reason, LONGEST) if has_reason else "",
        translation=cut_text(translation, LONGEST),
        is_translation=is_translation,
    )


def _picks(member: Member) -> Iterator[Pick]:
    values, shown = member.record.values, member.selection.shown
    # If a model's own rules could not be read, nothing was asked, and every run counts as not right.
    for run in range(runs_of(values) if values.get("rules_read", 1.0) else 0):
        mark = f"run{run + 1}_"
        position = _count(values, f"{mark}position") or None
        status = "correct" if values[f"{mark}right"] else "wrong" if position else "none"
        order = shown[run] if run < len(shown) else ()
        yield Pick(status, position, order, bool(values.get(f"{mark}retried")))


def _count(values: Mapping[str, object], name: str) -> int:
    """Return a value as a number of things; 0 if it is missing or not a valid number."""
    value = values.get(name)
    return int(value) if isinstance(value, int | float) and 0 <= value < 1e9 else 0


def _notes(lines: Sequence[Line], members: Sequence[Member]) -> Iterator[str]:
    for line in lines:
        missing = sum(
            m.line is line and m.record.status != "error" and not m.record.evidence for m in members
        )
        if missing:
            yield (
                f"{line.name}: the record has no evidence for {counted(missing, 'item')} (records of schema 1 have"
                " none). Positions and outcomes are shown, but not the order of the list or the rules."
            )
