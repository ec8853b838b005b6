"""The scores of a baseline and a candidate on the same items.

A *loss* is a pair that the baseline has right and the candidate wrong, a *gain* the reverse. A *difference* is
candidate - baseline, a *drop* its negative. Scores are fractions in [0, 1].
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from pytest_llmprops.core.weighting import by_cluster

#: smaller differences are rounding errors: repeats averaged in another order
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Pairs:
    """Scores of two models on the same items: ``baseline``, ``candidate`` and cluster label, one of each per pair.

    :param noun: what a pair is, for messages: ``cluster`` if the scores are means of clusters.
    :param drops: baseline - candidate of each pair; rounding errors are set to 0. Computed.
    :raises ValueError: if the tuples have different lengths, or a score is outside [0, 1].
    """

    baseline: tuple[float, ...]
    candidate: tuple[float, ...]
    clusters: tuple[str, ...]
    noun: str = "pair"
    # computed once, because every test of a gate reads it several times
    drops: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not len(self.baseline) == len(self.candidate) == len(self.clusters):
            lengths = f"{len(self.baseline)}, {len(self.candidate)} and {len(self.clusters)}"
            raise ValueError(
                f"baseline scores, candidate scores and clusters must be equally many, not {lengths}"
            )
        for score in (*self.baseline, *self.candidate):
            if not 0 <= score <= 1:
                raise ValueError(f"a score must be in [0, 1], not {score}")
        raw = (b - c for b, c in zip(self.baseline, self.candidate, strict=True))
        object.__setattr__(self, "drops", tuple(0.0 if abs(d) < ROUNDING else d for d in raw))

    @property
    def n(self) -> int:
        """Number of pairs."""
        return len(self.baseline)

    @property
    def losses(self) -> int:
        """Pairs on which the candidate scores lower."""
        return sum(d > 0 for d in self.drops)

    @property
    def gains(self) -> int:
        """Pairs on which the candidate scores higher."""
        return sum(d < 0 for d in self.drops)

    @property
    def drop(self) -> float:
        """Mean of baseline - candidate, in [-1, 1]; positive if the candidate is worse.

        :raises ValueError: if there are no pairs.
        """
        if not self.n:
            raise ValueError("a drop needs at least one pair")
        return math.fsum(self.drops) / self.n

    @property
    def binary(self) -> bool:
        """Whether every score is 0 or 1."""
        return all(score in (0, 1) for score in (*self.baseline, *self.candidate))

    @property
    def cluster_count(self) -> int:
        """Number of distinct clusters."""
        return len(set(self.clusters))

    @property
    def clustered(self) -> bool:
        """Whether some cluster has more than one pair."""
        return self.cluster_count < self.n

    def by_cluster(self) -> list[list[float]]:
        """Return the drops of each cluster's pairs, with the clusters in order of first appearance."""
        return list(by_cluster(self.drops, self.clusters).values())
