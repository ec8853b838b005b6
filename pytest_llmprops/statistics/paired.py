"""Paired differences of two runs: means over clusters, exact tests, and intervals.

A *loss* is a pair that the baseline has right and the candidate wrong, a *gain* the reverse. A *difference* is
candidate - baseline, so that a drop is negative. Scores are fractions in [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, overload

from pytest_llmprops.statistics.bounded_mean import by_cluster
from pytest_llmprops.statistics.intervals import Interval, mean_interval

#: smaller differences are rounding errors: repeats averaged in another order
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Pairs:
    """Scores of two models on the same items: ``baseline``, ``candidate`` and cluster label, one of each per pair.

    :param noun: what a pair is, for messages: ``cluster`` if the scores are means of clusters.
    :param differences: candidate - baseline of each pair; rounding errors are set to 0. Computed.
    :raises ValueError: if the tuples have different lengths, or a score is outside [0, 1].
    """

    baseline: tuple[float, ...]
    candidate: tuple[float, ...]
    clusters: tuple[str, ...]
    noun: str = "pair"
    # computed once, because every test of a gate reads it several times
    differences: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not len(self.baseline) == len(self.candidate) == len(self.clusters):
            lengths = f"{len(self.baseline)}, {len(self.candidate)} and {len(self.clusters)}"
            raise ValueError(
                f"baseline scores, candidate scores and clusters must be equally many, not {lengths}"
            )
        for score in (*self.baseline, *self.candidate):
            if not 0 <= score <= 1:
                raise ValueError(f"a score must be in [0, 1], not {score}")
        raw = (c - b for b, c in zip(self.baseline, self.candidate, strict=True))
        object.__setattr__(self, "differences", tuple(0.0 if abs(d) < ROUNDING else d for d in raw))

    @property
    def n(self) -> int:
        return len(self.baseline)

    @property
    def losses(self) -> int:
        """Pairs on which the candidate scores lower."""
        return sum(d < 0 for d in self.differences)

    @property
    def gains(self) -> int:
        """Pairs on which the candidate scores higher."""
        return sum(d > 0 for d in self.differences)

    @property
    def difference(self) -> float:
        """Mean of candidate - baseline, in [-1, 1]; negative if the candidate is worse.

        :raises ValueError: if there are no pairs.
        """
        if not self.n:
            raise ValueError("a difference needs at least one pair")
        return math.fsum(self.differences) / self.n

    @property
    def binary(self) -> bool:
        return all(score in (0, 1) for score in (*self.baseline, *self.candidate))

    @property
    def cluster_count(self) -> int:
        """Number of distinct clusters."""
        return len(set(self.clusters))

    @property
    def clustered(self) -> bool:
        """True if some cluster has more than one pair."""
        return self.cluster_count < self.n

    def by_cluster(self) -> list[list[float]]:
        """Return the differences of each cluster's pairs, with the clusters in order of first appearance."""
        return list(by_cluster(self.differences, self.clusters).values())

    @property
    def differing(self) -> int:
        """Number of clusters, or of independent pairs, whose differences do not add up to 0."""
        return sum(abs(math.fsum(differences)) >= ROUNDING for differences in self.by_cluster())


# scipy is imported where it is used, because most runs compare nothing.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats: TypeAlias = NDArray[np.float64]

#: for up to 14 clusters all sign flips are enumerated; for more, this many are drawn
SIGN_FLIPS = 2**14

#: P(sum of random signs with weights >= x standard deviations) is at most this times that of a normal variable
TAIL_FACTOR = 3.18


class DirectionTest(NamedTuple):
    """One-sided p-value of a difference in its own direction, and the name of the test."""

    p: float
    method: str


@overload
def mcnemar_drop(losses: int, gains: int) -> float: ...
@overload
def mcnemar_drop(losses: ArrayLike, gains: ArrayLike) -> Floats: ...


def mcnemar_drop(losses: ArrayLike, gains: ArrayLike) -> float | Floats:
    """Return the p-value of the one-sided exact McNemar test of a drop.

    It is P(Bin(losses + gains, 1/2) >= losses), and 1 if there are neither losses nor gains.

    The conditional test of McNemar (1947); see Fagerland, Lydersen & Laake (2014), section 4. Broadcasts over
    arrays of counts.
    """
    import numpy as np
    from scipy.special import bdtrc

    lost, gained = np.asarray(losses, dtype=np.int64), np.asarray(gains, dtype=np.int64)
    p = bdtrc(lost - 1, lost + gained, 0.5)
    return p if np.ndim(p) else float(p)


def sign_flip_drop(drops: Sequence[float]) -> float:
    """Return the p-value of a one-sided sign-flip permutation test of a drop, on the sums by cluster.

    If the models are equally good, both signs of a cluster's difference are equally likely (Good 2005,
    *Permutation, Parametric and Bootstrap Tests of Hypotheses*, section 3.2). The p-value is the share of sign
    patterns whose sum is at least the observed one. Up to 14 clusters that differ, all patterns are counted. For
    more clusters, 16,384 patterns are drawn; the observed one is among them, so that p is never 0. Smaller values than
    1/16,384, which corrections for many tests need, are a bound: 3.18 times the tail of the normal distribution
    (Bentkus & Dzindzalieta 2015, *Bernoulli* 21, 1205-1237).

    :param drops: sum of baseline - candidate of each cluster.
    """
    import numpy as np
    from scipy.special import ndtr

    sums = np.array([d for d in drops if abs(d) >= ROUNDING])
    # Equal sums must tie although their rounding errors differ.
    least = sums.sum() - 1e-9
    if 2 ** len(sums) <= SIGN_FLIPS:
        patterns = np.arange(2 ** len(sums))[:, None] >> np.arange(len(sums)) & 1
        return float(np.mean(np.where(patterns, -sums, sums).sum(axis=1) >= least))
    rng = np.random.default_rng(0)
    reached, left = 1, SIGN_FLIPS - 1
    while left:
        size = min(left, 1 + 10**6 // len(sums))
        flips = rng.integers(0, 2, (size, len(sums)), dtype=np.bool_)
        reached += int(np.sum(np.where(flips, sums, -sums).sum(axis=1) >= least))
        left -= size
    bound = TAIL_FACTOR * ndtr(-sums.sum() / math.sqrt(sums @ sums))
    return float(min(reached / SIGN_FLIPS, bound))


def direction_test(pairs: Pairs) -> DirectionTest:
    """Test for a drop, or for a gain if the candidate scores higher; p is 1 without a difference.

    Independent binary pairs have McNemar's exact test, others sign flips of clusters (or items).

    :raises ValueError: if there are no pairs.
    """
    if pairs.binary and not pairs.clustered:
        fewer, more = sorted((pairs.losses, pairs.gains))
        p, name = mcnemar_drop(more, fewer), "exact McNemar"
    else:
        sign = 1 if pairs.difference > 0 else -1
        p = sign_flip_drop([sign * math.fsum(differences) for differences in pairs.by_cluster()])
        name = f"sign-flip permutation{' over clusters' if pairs.clustered else ''}"
    return DirectionTest(p if pairs.difference else 1.0, name)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for multiple tests (Holm 1979), in their order.

    :raises ValueError: if a p-value is outside [0, 1].
    """
    if any(not 0 <= p <= 1 for p in p_values):
        raise ValueError(f"p-values must be in [0, 1], not {list(p_values)}")
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def difference_interval(pairs: Pairs) -> Interval:
    """Return Gaffke's 95% interval of the difference, over clusters if a cluster has several pairs.

    The differences are bounded, in [-1, 1]: see ``statistics/bounded_mean.py``. A cluster weighs as much as its pairs.
    If all pairs are independent and differ by -1 or 1, the interval is that of Clopper and Pearson.

    :raises ValueError: if there are no pairs.
    """
    if not pairs.n:
        raise ValueError("an interval of a difference needs at least one pair")
    return mean_interval(pairs.differences, pairs.clusters, least=-1)
