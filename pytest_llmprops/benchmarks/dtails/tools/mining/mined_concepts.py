"""Mined concepts without variations of other word senses: their rows, and the rows of the test set."""

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
from pytest_llmprops.benchmarks.dtails.tools.mining.occurrences import CorpusRows, Counted, Occurrences


@dataclass(slots=True)
class MinedConcept:
    """A concept with its remaining variations and their rows.

    :param occurrences: All occurrences, including dropped variations. :param dropped: Variations of other senses.
    :param names: The variations as files write them, by lemma.
    :param listed: For each row, whether the variation lists the form in the translation.
    """

    concept: Concept
    occurrences: Occurrences
    dropped: tuple[str, ...]
    names: dict[str, str] = field(default_factory=dict)
    rows: CorpusRows = field(default_factory=CorpusRows)
    listed: bytearray = field(default_factory=bytearray)

    @property
    def key(self) -> str:
        return f"{self.concept.lemma},{self.concept.tag}"

    @property
    def listing(self) -> list[str]:
        """Names of the variations in alphabetical order, as in the authors' lists."""
        return sorted(self.names.values())

    @property
    def per_variation(self) -> list[int]:
        counts = Counter(self.rows.labels)
        return [counts[label] for label in range(len(self.concept.counts))]


def of_one_sense(
    concepts: Sequence[Concept], seen: Mapping[tuple[str, str], Occurrences], forms: int
) -> list[MinedConcept]:
    """Return the concepts with the variations of one sense, their written forms and their rows.

    :param forms: Maximum number of written forms of a variation.
    """
    mined = []
    for concept in concepts:
        occurrences = seen[concept.lexeme]
        kept, dropped = without_minority_senses(concept, occurrences.senses)
        if kept is None:
            continue
        lemmas = {lemma: occurrences.lemmas[lemma] for lemma in kept.counts}
        written = surface_forms(
            lemmas, {lemma: occurrences.words[lemma] for lemma in kept.counts}, most=forms
        )
        names = {lemma: "/".join(written[lemma]) for lemma in kept.counts}
        item = MinedConcept(kept, occurrences, dropped, names)
        # A form that the variation does not list cannot be matched in a model's translation.
        places = {lemma: place for place, lemma in enumerate(kept.counts)}
        before = list(concept.counts)
        listed = {lemma: {form.casefold() for form in written[lemma]} for lemma in kept.counts}
        texts = [text.casefold() for text in occurrences.names]
        for line, label, form, sentence in zip(*_columns(occurrences.rows), strict=True):
            lemma = before[label]
            if lemma in places:
                item.rows.add(line, places[lemma], form, sentence)
                item.listed.append(texts[form] in listed[lemma])
        if all(item.per_variation):
            mined.append(item)
    return mined


def _columns(rows: CorpusRows) -> tuple[Any, ...]:
    return rows.lines, rows.labels, rows.forms, rows.keys


def select(mined: Sequence[MinedConcept], selection: Selection, language: str) -> dict[int, tuple[int, ...]]:
    """Return the indexes of the test set's rows, by index of the concept."""
    eligible = {}
    for number, item in enumerate(mined):
        rows = list(_eligible(item))
        if {label for _, label in rows} == set(map(str, range(len(item.concept.counts)))):
            eligible[number] = rows
    shares = {mined[number].key: mined[number].per_variation for number in eligible}
    names = set(choose_concepts(shares, selection, language=language))
    return {
        number: choose_pairs(rows, selection, key=(language, mined[number].key))
        for number, rows in eligible.items()
        if mined[number].key in names
    }


def _eligible(item: MinedConcept) -> Iterator[tuple[int, str]]:
    """Yield (row, variation) of the rows that can be in the test set.

    The translation has a listed form. Of equal sentences, the first one is taken, if all have the same variation.
    """
    labels: dict[int, set[int]] = {}
    for label, sentence in zip(item.rows.labels, item.rows.keys, strict=True):
        labels.setdefault(sentence, set()).add(label)
    taken: set[int] = set()
    for place, (label, sentence) in enumerate(zip(item.rows.labels, item.rows.keys, strict=True)):
        if item.listed[place] and len(labels[sentence]) == 1 and sentence not in taken:
            taken.add(sentence)
            yield place, str(label)


def numbers(
    counted: Counted, concepts: Sequence[Concept], mined: Sequence[MinedConcept], thresholds: Thresholds
) -> dict[str, Any]:
    """Return how many words passed each step, and the counts of every concept, for ``SOURCE.json``."""
    return {
        "links": counted.links,
        "lexemes": len(counted.totals),
        "with_two_variations": _with_two(counted, thresholds.min_count),
        "with_entropy": len(concepts),
        "of_one_sense": len(mined),
        "concepts": [
            {
                "concept": item.concept.lemma,
                "pos": item.concept.tag,
                "entropy": round(item.concept.entropy, 6),
                "counts": dict(item.concept.counts),
                "rows": dict(zip(item.names.values(), item.per_variation, strict=True)),
                "other_senses": list(item.dropped),
                "pairs_with_two": item.occurrences.both,
            }
            for item in mined
        ],
    }


def _with_two(counted: Counted, least: int) -> int:
    return sum(sum(n >= least for n in linked.values()) >= 2 for linked in counted.counts.values())


def no_concept_message(counted: Counted, thresholds: Thresholds) -> str:
    """Return why no word became a concept, in one line."""
    count = _with_two(counted, thresholds.min_count)
    if not count:
        return (
            f"no concept: none of {len(counted.totals):,} source words has two translations that are each aligned"
            f" {thresholds.min_count} times; use more text or a lower --min-count"
        )
    return (
        f"no concept: none of {count:,} source words with two translations has an entropy of at least"
        f" {thresholds.min_entropy}; use more text or a lower --min-entropy"
    )
