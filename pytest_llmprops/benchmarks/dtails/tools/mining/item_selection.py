"""Which concepts and sentences are asked about (Barua et al., appendix A.2).

A language with more than 20 concepts keeps those whose variations are roughly as frequent as each other, and 20
of these are drawn; each concept gets 10 sentence pairs, every variation at least one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.seeds import generator

Name = TypeVar("Name", bound=Hashable)
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Selection:
    """How much is selected, and the seed of every draw.

    :param concepts: a language with more than this many is thinned out, to at most as many.
    :param per_concept: sentence pairs a concept. One with more variations than that gets one pair for each.
    :param uniform: largest difference of a variation's relative frequency from ``1 / k``, k variations.
    """

    concepts: int = 20
    per_concept: int = 10
    uniform: float = 0.20
    seed: int = 0

    def __post_init__(self) -> None:
        if self.concepts < 1:
            raise UsageError(f"{self.concepts} concepts; the test set needs at least 1")
        if self.per_concept < 2:
            raise UsageError(f"{self.per_concept} pairs a concept; every variation needs one, so at least 2")
        if not 0 <= self.uniform <= 1:
            raise UsageError(f"the largest deviation is {self.uniform}; it must be a number from 0 to 1")


def is_roughly_uniform(counts: Sequence[int], uniform: float) -> bool:
    """Whether no variation's share of the counts is more than ``uniform`` away from ``1 / len(counts)``."""
    total = sum(counts)
    return total > 0 and all(abs(n / total - 1 / len(counts)) <= uniform + _ROUNDING for n in counts)


def choose_concepts(
    concepts: Mapping[Name, Sequence[int]], selection: Selection, *, language: str
) -> tuple[Name, ...]:
    """The concepts of the test set, in their order in ``concepts``; the draw does not depend on that order.

    :param concepts: for each concept, how many sentence pairs each variation has.
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
    """The sentence pairs of one concept's test items, as numbers in rising order.

    First one pair of each variation is drawn, then others from all that are left, whatever their variation. All
    are taken where there are not enough.

    :param pairs: (number, variation) of each pair of the concept; numbers are unique.
    :param key: names the language and concept, so that concepts are drawn independently.
    """
    random = generator(selection.seed, "dtails pairs", *key)
    by_variation: dict[str, list[int]] = {}
    for number, variation in sorted(pairs):
        by_variation.setdefault(variation, []).append(number)
    chosen = {random.choice(by_variation[variation]) for variation in sorted(by_variation)}
    others = sorted(n for numbers in by_variation.values() for n in numbers if n not in chosen)
    more = min(max(0, selection.per_concept - len(chosen)), len(others))
    return tuple(sorted(chosen | set(random.sample(others, more))))
