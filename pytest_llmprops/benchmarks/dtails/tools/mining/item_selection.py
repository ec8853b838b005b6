"""Select the concepts and sentences of the test set (Barua et al., appendix A.2).

If a language has more than 20 concepts, 20 are drawn from those whose variations are roughly equally frequent. Each
concept gets 10 sentence pairs, and every variation gets at least one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.protocols import generator

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
    """Return whether every variation's share differs from ``1 / len(counts)`` by at most ``uniform``."""
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
