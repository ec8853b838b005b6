"""What is left of the concepts once other word senses are gone: their rows, and which of these are asked about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_llmprops.benchmarks.dtails.tools.mining.concepts import (
    Concept,
    Thresholds,
    surface_forms,
    without_minority_senses,
)
from pytest_llmprops.benchmarks.dtails.tools.mining.item_selection import (
    Selection,
    choose_concepts,
    choose_pairs,
)
from pytest_llmprops.benchmarks.dtails.tools.mining.occurrences import Counted, FoundRows, Occurrences


@dataclass(slots=True)
class Found:
    """A concept with the variations that are left, and its rows of these.

    :param dropped: variations of other senses. :param names: lemma -> the variation as files write it.
    :param listed: for each row whether the form in its translation is one that the variation lists.
    """

    concept: Concept
    seen: Occurrences
    dropped: tuple[str, ...]
    names: dict[str, str] = field(default_factory=dict)
    rows: FoundRows = field(default_factory=FoundRows)
    listed: bytearray = field(default_factory=bytearray)

    @property
    def key(self) -> str:
        return f"{self.concept.lemma},{self.concept.tag}"

    @property
    def listing(self) -> list[str]:
        """Names of the variations in alphabetical order, as the authors list them: the order says nothing."""
        return sorted(self.names.values())

    @property
    def per_variation(self) -> list[int]:
        counts = Counter(self.rows.labels)
        return [counts[label] for label in range(len(self.concept.counts))]


def of_one_sense(
    concepts: Sequence[Concept], seen: Mapping[tuple[str, str], Occurrences], forms: int
) -> list[Found]:
    """The concepts with the variations of their own sense, how these are written, and their rows.

    :param forms: most written forms of a variation.
    """
    found = []
    for concept in concepts:
        occurrences = seen[concept.lexeme]
        left, dropped = without_minority_senses(concept, occurrences.senses)
        if left is None:
            continue
        lemmas = {lemma: occurrences.lemmas[lemma] for lemma in left.counts}
        written = surface_forms(
            lemmas, {lemma: occurrences.words[lemma] for lemma in left.counts}, most=forms
        )
        item = Found(left, occurrences, dropped, {lemma: "/".join(written[lemma]) for lemma in left.counts})
        # A form that is not listed could not be found in a translation.
        places = {lemma: place for place, lemma in enumerate(left.counts)}
        before = list(concept.counts)
        listed = {lemma: {form.casefold() for form in written[lemma]} for lemma in left.counts}
        texts = [text.casefold() for text in occurrences.names]
        for line, label, form, sentence in zip(*_columns(occurrences.rows), strict=True):
            lemma = before[label]
            if lemma in places:
                item.rows.add(line, places[lemma], form, sentence)
                item.listed.append(texts[form] in listed[lemma])
        if all(item.per_variation):
            found.append(item)
    return found


def _columns(rows: FoundRows) -> tuple[Any, ...]:
    return rows.lines, rows.labels, rows.forms, rows.keys


def select(found: Sequence[Found], selection: Selection, language: str) -> dict[int, tuple[int, ...]]:
    """Number of the concept -> numbers of its rows in the test set."""
    eligible = {}
    for number, item in enumerate(found):
        rows = list(_eligible(item))
        if {label for _, label in rows} == set(map(str, range(len(item.concept.counts)))):
            eligible[number] = rows
    shares = {found[number].key: found[number].per_variation for number in eligible}
    names = set(choose_concepts(shares, selection, language=language))
    return {
        number: choose_pairs(rows, selection, key=(language, found[number].key))
        for number, rows in eligible.items()
        if found[number].key in names
    }


def _eligible(item: Found) -> Iterator[tuple[int, str]]:
    """(row, variation) of rows that can be asked about: the first of equal sentences, of those that are always
    translated alike; the translation has a listed form."""
    labels: dict[int, set[int]] = {}
    for label, sentence in zip(item.rows.labels, item.rows.keys, strict=True):
        labels.setdefault(sentence, set()).add(label)
    taken: set[int] = set()
    for place, (label, sentence) in enumerate(zip(item.rows.labels, item.rows.keys, strict=True)):
        if item.listed[place] and len(labels[sentence]) == 1 and sentence not in taken:
            taken.add(sentence)
            yield place, str(label)


def numbers(
    counted: Counted, concepts: Sequence[Concept], found: Sequence[Found], thresholds: Thresholds
) -> dict[str, Any]:
    """How many words came through each step, and what is known of every concept, for ``SOURCE.json``."""
    return {
        "links": counted.links,
        "lexemes": len(counted.totals),
        "with_two_variations": _with_two(counted, thresholds.min_count),
        "with_entropy": len(concepts),
        "of_one_sense": len(found),
        "concepts": [
            {
                "concept": item.concept.lemma,
                "pos": item.concept.tag,
                "entropy": round(item.concept.entropy, 6),
                "counts": dict(item.concept.counts),
                "rows": dict(zip(item.names.values(), item.per_variation, strict=True)),
                "other_senses": list(item.dropped),
                "pairs_with_two": item.seen.both,
            }
            for item in found
        ],
    }


def _with_two(counted: Counted, least: int) -> int:
    return sum(sum(n >= least for n in linked.values()) >= 2 for linked in counted.counts.values())


def nothing(counted: Counted, thresholds: Thresholds) -> str:
    """Why no word became a concept, in one line."""
    many = _with_two(counted, thresholds.min_count)
    if not many:
        return (
            f"no concept: none of {len(counted.totals):,} source words has two translations that are aligned with it"
            f" {thresholds.min_count} times; give more text or a lower --min-count"
        )
    return (
        f"no concept: of {many:,} source words with two translations none has an entropy of {thresholds.min_entropy};"
        " give more text or a lower --min-entropy"
    )
