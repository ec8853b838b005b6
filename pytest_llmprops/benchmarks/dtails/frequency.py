"""The frequency baseline: always choose the concept's most common variation (Barua et al., section 4).

The baseline is *in-sample*: the most common variation is counted on the rows that it is scored on, over the whole file
of a language. It could not be known before the test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Baseline:
    """The number of rows with their concept's most common label (``right``), of all rows, and of concepts."""

    right: int
    n: int
    concepts: int

    @property
    def accuracy(self) -> float | None:
        """The share of right rows in [0, 1]; None without rows."""
        return self.right / self.n if self.n else None


def frequency_baseline(rows: Iterable[tuple[Hashable, Hashable]]) -> Baseline:
    """Return the baseline of one language.

    :param rows: (concept, label) of every row of the language's file. The concept must be unique for words with the
        same spelling but different variations, such as an item's cluster.
    """
    labels: dict[Hashable, Counter[Hashable]] = {}
    for concept, label in rows:
        labels.setdefault(concept, Counter())[label] += 1
    # Ties do not matter: equally common labels are right equally often.
    right = sum(max(counts.values()) for counts in labels.values())
    return Baseline(right, sum(counts.total() for counts in labels.values()), len(labels))
