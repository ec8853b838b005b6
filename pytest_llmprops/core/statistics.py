"""Intervals. Closed forms stand here in plain Python, because every run prints them and importing
scipy or statsmodels would cost more time than a small run; the tests hold them to statsmodels' values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

Z95 = 1.959963984540054


class Interval(NamedTuple):
    """A confidence interval; ``method`` is ``wilson`` or ``cluster bootstrap``."""

    low: float
    high: float
    method: str


def wilson(successes: float, n: int, z: float = Z95) -> Interval:
    """Wilson's score interval of a proportion (Wilson 1927), by default at 95%.

    :raises ValueError: unless 0 <= successes <= n and n > 0.
    """
    if n <= 0 or not 0 <= successes <= n:
        raise ValueError(f"wilson needs 0 <= successes <= n and n > 0, not {successes} of {n}")
    p = successes / n
    denominator = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / denominator
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / denominator
    return Interval(max(0.0, centre - half), min(1.0, centre + half), "wilson")


def binomial_standard_error(p: float, n: int) -> float:
    """Standard error of a proportion, sqrt(p (1 - p) / n), as the homophone paper prints it (section 8)."""
    return math.sqrt(p * (1 - p) / n)


def cluster_bootstrap(
    clusters: Sequence[Sequence[float]], *, draws: int = 2000, seed: int = 0, level: float = 0.95
) -> Interval:
    """Percentile interval of the mean over all items when whole clusters are resampled.

    :param clusters: the scores of each cluster's items; at least one item in all.
    """
    import numpy as np

    sums = np.array([math.fsum(c) for c in clusters])
    sizes = np.array([len(c) for c in clusters])
    rng = np.random.default_rng(seed)
    picks = rng.integers(0, len(sums), size=(draws, len(sums)))
    means = sums[picks].sum(axis=1) / sizes[picks].sum(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), "cluster bootstrap")


def mean_interval(scores: Sequence[float], clusters: Sequence[str]) -> Interval:
    """95% interval of an accuracy: Wilson, or a cluster bootstrap where a cluster has several items."""
    grouped: dict[str, list[float]] = {}
    for score, cluster in zip(scores, clusters, strict=True):
        grouped.setdefault(cluster, []).append(score)
    if all(len(members) == 1 for members in grouped.values()):
        return wilson(math.fsum(scores), len(scores))
    return cluster_bootstrap(list(grouped.values()))
