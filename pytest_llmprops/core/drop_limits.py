"""Intervals of a drop, and the number of pairs that would settle one.

The interval is that of the mean of differences in [-1, 1], which are bounded: see ``core/bounded_mean.py``.
"""

from __future__ import annotations

from pytest_llmprops.core.bounded_mean import ClusterSample, times_to_settle
from pytest_llmprops.core.pairs import Pairs
from pytest_llmprops.core.statistics import Interval, check_level, mean_interval

#: counts may be shares of effective items, with rounding errors up to this share
ROUNDING = 1e-9


def sample_of(pairs: Pairs) -> ClusterSample:
    """Return the drops of the pairs by cluster.

    :raises ValueError: if there are no pairs.
    """
    if not pairs.n:
        raise ValueError("an interval of a drop needs at least one pair")
    return ClusterSample.of(pairs.drops, pairs.clusters)


def drop_interval(pairs: Pairs, level: float = 0.95) -> Interval:
    """Return Gaffke's interval of the drop, over clusters if a cluster has several pairs.

    A cluster weighs as much as its pairs. If all pairs are independent and differ by -1 or 1, the interval is that of
    Clopper and Pearson.

    :raises ValueError: if there are no pairs, or unless 0 < level < 1.
    """
    if not pairs.n:
        raise ValueError("an interval of a drop needs at least one pair")
    return mean_interval(pairs.drops, pairs.clusters, level, least=-1, most=1)


def count_sample(losses: float, gains: float, n: float) -> ClusterSample:
    """Return the drops of ``n`` independent right-or-wrong pairs; ``n`` and the counts may be effective numbers.

    :raises ValueError: unless losses, gains >= 0, losses + gains <= n and n > 0.
    """
    if n <= 0 or min(losses, gains) < 0 or losses + gains > n * (1 + ROUNDING):
        raise ValueError(f"there cannot be {losses} losses and {gains} gains among {n} pairs")
    counts = {-1.0: gains, 0.0: n - losses - gains, 1.0: losses}
    present = {value: float(count) for value, count in counts.items() if count > 0}
    return ClusterSample(tuple(present), (1.0,) * len(present), tuple(present.values()))


def times_to_settle_drop(pairs: Pairs, max_drop: float, level: float = 0.95) -> float | None:
    """Return how many times these pairs put the whole interval of the drop on one side of ``max_drop``.

    The estimate assumes that the differences stay as they are. It is None if the drop equals ``max_drop``, which no
    number of pairs settles, or if more than 1,024 times the pairs would be needed.

    :raises ValueError: if there are no pairs.
    """
    check_level(level)
    return times_to_settle(sample_of(pairs), max_drop, (1 - level) / 2, least=-1, most=1)
