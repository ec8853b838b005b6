"""Mined concepts without variations of other word senses: their rows, and the rows of the test set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pytest_llmprops.benchmarks.dtails.tools.mining.concepts import (
    Concept,
    Thresholds,
    surface_forms,
    without_minority_senses,
)
from pytest_llmprops.benchmarks.dtails.tools.mining.occurrences import CorpusRows, Counted, Occurrences
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.protocols import generator

# Select the concepts and sentences of the test set (Barua et al., appendix A.2).
#
# If a language has more than 20 concepts, 20 are drawn from those whose variations are roughly equally
# frequent. Each concept gets 10 sentence pairs, and every variation gets at least one.

Name = TypeVar("Name", bound=Hashable)
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Selection:
    """The size of the test set, and the seed of all random choices.

    :param concepts: Maximum number of concepts per language.
    :param per_concept: Sentence pairs per concept. A concept with more variations than this gets one pair for each.
    :param uniform: Maximum difference of a variation's share from ``1 / k`` for k variations. Applied only if a
        language has more than ``concepts`` concepts.
    """

    concepts: int = 20
    per_concept: int = 10
    uniform: float = 0.20
    seed: int = 0

    def __post_init__(self) -> None:
        if self.concepts < 1:
            raise UsageError(f"{self.concepts} concepts; the test set needs at least 1")
        if self.per_concept < 2:
            raise UsageError(f"{self.per_concept} pairs per concept; use at least 2, one per variation")
        if not 0 <= self.uniform <= 1:
            raise UsageError(f"the maximum deviation is {self.uniform}; it must be a number from 0 to 1")


def is_roughly_uniform(counts: Sequence[int], uniform: float) -> bool:
    """Return True if every variation's share differs from ``1 / len(counts)`` by at most ``uniform``."""
    total = sum(counts)
    return total > 0 and all(abs(n / total - 1 / len(counts)) <= uniform + _ROUNDING for n in counts)


def choose_concepts(
    concepts: Mapping[Name, Sequence[int]], selection: Selection, *, language: str
) -> tuple[Name, ...]:
    """Return the concepts of the test set, in the order of ``concepts``; the draw does not depend on that order.

    :param concepts: For each concept, the number of sentence pairs of each variation.
    """
    if len(concepts) <= selection.concepts:
        return tuple(concepts)
    even = [name for name, counts in concepts.items() if is_roughly_uniform(counts, selection.uniform)]
    if len(even) <= selection.concepts:
        return tuple(even)
    random = generator(selection.seed, "dtails concepts", language)
    drawn = set(random.sample(sorted(even, key=repr), selection.concepts))
    return tuple(name for name in even if name in drawn)


def choose_pairs(
    pairs: Iterable[tuple[int, str]], selection: Selection, *, key: Sequence[str]
) -> tuple[int, ...]:
    """Return the sentence pairs of one concept's test items, as numbers in ascending order.

    First, one pair is drawn for each variation; then, the others are drawn from all remaining pairs. If there are not
    enough pairs, all are returned.

    :param pairs: (number, variation) of each pair of the concept; numbers are unique.
    :param key: The language and concept, for an independent draw per concept.
    """
    random = generator(selection.seed, "dtails pairs", *key)
    by_variation: dict[str, list[int]] = {}
    for number, variation in sorted(pairs):
        by_variation.setdefault(variation, []).append(number)
    chosen = {random.choice(by_variation[variation]) for variation in sorted(by_variation)}
    others = sorted(n for numbers in by_variation.values() for n in numbers if n not in chosen)
    more = min(max(0, selection.per_concept - len(chosen)), len(others))
    return tuple(sorted(chosen | set(random.sample(others, more))))


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
        texts = [text.casefold() for text in occurrences.spellings]
        rows = occurrences.rows
        for line, label, form, sentence in zip(rows.lines, rows.labels, rows.forms, rows.keys, strict=True):
            lemma = before[label]
            if lemma in places:
                item.rows.add(line, places[lemma], form, sentence)
                item.listed.append(texts[form] in listed[lemma])
        if all(item.per_variation):
            mined.append(item)
    return mined


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
