"""The frequency baseline: always the concept's most common variation (Barua et al., section 4).

It is *in-sample*: which variation is most common is counted on the same rows that it is scored on, over the whole
file of a language, so it is no model that could be had before the test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Baseline:
    """``right`` of ``n`` rows have their concept's most common label; ``concepts`` have been counted."""

    right: int
    n: int
    concepts: int

    @property
    def accuracy(self) -> float | None:
        """A fraction in [0, 1]; None without rows."""
        return self.right / self.n if self.n else None


def frequency_baseline(rows: Iterable[tuple[Hashable, Hashable]]) -> Baseline:
    """The baseline of one language.

    :param rows: (concept, label) of every row of its file. A concept is told apart by its variations too, where
        two words share a spelling; an item's cluster is such a name.
    """
    labels: dict[Hashable, Counter[Hashable]] = {}
    for concept, label in rows:
        labels.setdefault(concept, Counter())[label] += 1
    # Which of equally common labels is taken changes nothing: each is right as often.
    right = sum(max(counts.values()) for counts in labels.values())
    return Baseline(right, sum(counts.total() for counts in labels.values()), len(labels))
