"""A page for each DTAiLS concept: its variations, the rules given, its sentences, and what each model chose."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_llmprops.benchmarks.dtails.report.choices import TRANSLATE, Told, concept_of, told
from pytest_llmprops.benchmarks.dtails.report.concept_page import Concept, Outcome, Pick, Sentence, rules_of
from pytest_llmprops.benchmarks.dtails.report.lines import Line
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.reports.kit.blocks import Block, Cell, Fold, Note, Page, Table
from pytest_llmprops.reports.kit.series import Measured
from pytest_llmprops.reports.kit.text import counted, file_name, language, percent

#: pages at most, and sentences on one; a run's record has the rest
MOST_PAGES, MOST_SENTENCES = 400, 60
#: characters of a sentence or translation that a page shows
LONGEST = 1_000
FOLDER = "dtails"
Record = VerdictRecord
#: source, language, cluster
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Summary:
    """A concept's row in the report: ``shares`` is each line's mean score, None where it was not asked."""

    word: str
    language: str
    source: str
    variations: int
    sentences: int
    shares: tuple[float | None, ...]


def concept_pages(measured: Measured, lines: Sequence[Line]) -> list[tuple[Summary, Page | None]]:
    """Every concept, in order of first appearance, with its page; None for those after :data:`MOST_PAGES`."""
    found: dict[Key, list[list[Record]]] = {}
    for number, line in enumerate(lines):
        for record in measured.records(line.series, [line.task]):
            found.setdefault(concept_of(record), [[] for _ in lines])[number].append(record)
    order = {code: n for n, code in enumerate(dict.fromkeys(code for _, code, _ in measured.places))}
    keys = sorted(found, key=lambda key: (order.get(key[1], len(order)), key[0]))
    paths = _paths(keys)
    pages = []
    for number, key in enumerate(keys):
        members = [
            [(record, told(record, measured.logged(line.series))) for record in records]
            for line, records in zip(lines, found[key], strict=True)
        ]
        summary = _summary(key, members)
        page = None
        if number < MOST_PAGES:
            around = (
                paths[n] if 0 <= n < min(len(keys), MOST_PAGES) else "" for n in (number - 1, number + 1)
            )
            content = _concept(summary, lines, members, *(path.rpartition("/")[2] for path in around))
            page = Page(
                paths[number], f"{summary.word}, {language(summary.language)}", "concept.html.jinja", content
            )
        pages.append((summary, page))
    return pages


def concept_table(pages: Sequence[tuple[Summary, Page | None]], lines: Sequence[Line]) -> list[Block]:
    """The concepts with each model's share of right choices, leading to their pages."""
    sources = {summary.source for summary, _ in pages}
    rows = []
    for summary, page in pages:
        cells = [Cell(summary.word, page=page.path if page else ""), Cell(language(summary.language))]
        cells += [Cell(summary.source)] if len(sources) > 1 else []
        cells.append(Cell(f"{summary.variations}" if summary.variations else "–", summary.variations))
        cells.append(Cell(f"{summary.sentences}", summary.sentences))
        cells += [Cell(percent(share), share) for share in summary.shares]
        rows.append(tuple(cells))
    columns = [("Concept", False), ("Language", False)]
    columns += [("Items from", False)] if len(sources) > 1 else []
    columns += [("Variations", True), ("Sentences", True)]
    columns += [(f"{line.name}{', translates' if line.task == TRANSLATE else ''}", True) for line in lines]
    note = f"Each concept leads to a page in the folder {FOLDER} beside this report."
    blocks: list[Block] = [Table("Concepts", tuple(columns), tuple(rows), note)]
    without = sum(page is None for _, page in pages)
    if without:
        blocks.append(
            Note(
                f"{counted(without, 'concept')} without a page: there are {MOST_PAGES} pages at most.", "warn"
            )
        )
    title = f"Concept by concept: rules, sentences, and what each model chose ({len(pages):,})"
    return [Fold(title, tuple(blocks))] if rows else []


def _paths(keys: Sequence[Key]) -> list[str]:
    """A file for each concept, that no other has on any disk, whatever the case of its letters."""
    taken: set[str] = set()
    paths = []
    several = len({source for source, _, _ in keys}) > 1
    for source, code, cluster in keys:
        slug = cluster.removeprefix(f"dtails/{code}/")
        name = file_name(f"{code}-{slug}" + (f"-{source}" if several else ""))[:80]
        tries = [name, *(f"{name}-{n}" for n in range(2, len(keys) + 2))]
        chosen = next(one for one in tries if one.casefold() not in taken)
        taken.add(chosen.casefold())
        paths.append(f"{FOLDER}/{chosen}.html")
    return paths


def _word(key: Key, members: Iterable[tuple[Record, Told]]) -> str:
    """The concept as the prompts have it, else as the items' names do."""
    return next((one.concept for _, one in members if one.concept), key[2].rpartition("/")[2] or key[2])


def _summary(key: Key, members: Sequence[Sequence[tuple[Record, Told]]]) -> Summary:
    every = [pair for part in members for pair in part]
    shares = []
    for part in members:
        scores = [record["score"] for record, _ in part if record["score"] is not None]
        shares.append(sum(scores) / len(scores) if scores else None)
    count = max((one.count for _, one in every), default=0)
    return Summary(
        _word(key, every), key[1], key[0], count, len({_base(record) for record, _ in every}), tuple(shares)
    )


def _base(record: Record) -> str:
    """The id of the item without its task."""
    base: str = record["id"].partition("+")[0]
    return base


def _concept(
    summary: Summary,
    lines: Sequence[Line],
    members: Sequence[Sequence[tuple[Record, Told]]],
    before: str,
    after: str,
) -> Concept:
    by_sentence: dict[str, list[tuple[Line, Record, Told]]] = {}
    for line, part in zip(lines, members, strict=True):
        for record, one in part:
            by_sentence.setdefault(_base(record), []).append((line, record, one))
    shown = list(by_sentence.items())[:MOST_SENTENCES]
    return Concept(
        word=summary.word,
        language=language(summary.language),
        # Goes into an attribute that browsers choose fonts by; a run's record may hold anything.
        code=summary.language if re.fullmatch("[a-z]{2,3}", summary.language) else "",
        source=summary.source,
        variations=_variations(by_sentence),
        count=summary.variations,
        rules=rules_of(zip(lines, members, strict=True)),
        sentences=tuple(_sentence(base, parts) for base, parts in shown),
        left_out=len(by_sentence) - len(shown),
        notes=tuple(_notes(lines, members)),
        before=before,
        after=after,
    )


def _variations(
    by_sentence: Mapping[str, Sequence[tuple[Line, Record, Told]]],
) -> tuple[tuple[str, int], ...]:
    """Each variation with the number of sentences in which it is right, most first."""
    right: dict[str, int] = {}
    for parts in by_sentence.values():
        expected = next((record["expected"] for _, record, _ in parts if record["expected"]), "")
        if expected:
            right[expected] = right.get(expected, 0) + 1
    for parts in by_sentence.values():
        for name in (name for _, _, one in parts for name in one.names):
            right.setdefault(name, 0)
    return tuple(sorted(right.items(), key=lambda pair: -pair[1]))


def _sentence(base: str, parts: Sequence[tuple[Line, Record, Told]]) -> Sentence:
    return Sentence(
        base,
        _cut(next((one.sentence for _, _, one in parts if one.sentence), "")),
        next((record["expected"] for _, record, _ in parts if record["expected"]), ""),
        tuple(_outcome(line, record, one) for line, record, one in parts),
    )


def _outcome(line: Line, record: Record, one: Told) -> Outcome:
    status = record["status"]
    picks = tuple(
        Pick(
            "correct" if choice.right else "wrong" if choice.position else "none",
            choice.position,
            choice.shown,
            choice.retried,
        )
        for choice in one.choices
    )
    translates = line.task == TRANSLATE
    # Every run's own outcome stands there; words are needed for what has none, and for how a word was found.
    said = translates or status not in ("correct", "wrong")
    unknown = bool(picks) and not all(choice.shown for choice in one.choices)
    return Outcome(
        series=line.series.index,
        name=line.name,
        status=status,
        picks=picks,
        given=_cut(record["given"]) if unknown else "",
        reason=_cut(record["reason"]) if said else "",
        translation=_cut(one.translation) if translates and one.translation is not None else "",
        translates=translates,
    )


def _notes(lines: Sequence[Line], members: Sequence[Sequence[tuple[Record, Told]]]) -> Iterable[str]:
    for line, part in zip(lines, members, strict=True):
        asked = [one for record, one in part if record["status"] != "error"]
        known = [one for one in asked if one.sentence and all(choice.shown for choice in one.choices)]
        if len(known) < len(asked):
            unread = sum(one.rules_read is False for one in asked if not one.sentence)
            missing = len(asked) - len(known) - unread
            if missing > 0:
                yield (
                    f"{line.name}: the record lacks the prompts of {counted(missing, 'item')} (requests.jsonl is"
                    " missing or cut, or of another version), so what the verdicts know is shown: positions and"
                    " outcomes, but no order of the list and no rules."
                )


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text) - LONGEST:,} characters more)"
