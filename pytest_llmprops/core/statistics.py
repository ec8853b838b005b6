"""Confidence intervals of one run.

Closed forms are written in plain Python, because every run prints them and importing scipy takes longer than a small
run. Tests compare them with statsmodels. The comparison of two runs is in ``core/comparison.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

#: in a narrower bootstrap interval, resampling changed only rounding errors
NO_WIDTH = 1e-9

#: numbers that the bootstrap draws at a time; limits its memory (8 bytes each, a few arrays)
_BLOCK = 1_000_000


class Interval(NamedTuple):
    """A confidence interval; ``method`` is for example ``wilson`` or ``cluster bootstrap``."""

    low: float
    high: float
    method: str


def two_sided_z(level: float) -> float:
    """Return the standard normal quantile that leaves (1 - level) / 2 in each tail; 1.96 at 0.95.

    :raises ValueError: unless 0 < level < 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"a confidence level must be between 0 and 1, not {level}")
    return NormalDist().inv_cdf((1 + level) / 2)


def wilson(successes: float, n: float, level: float = 0.95) -> Interval:
    """Return Wilson's score interval of a proportion (Wilson 1927), by default at 95%.

    :raises ValueError: unless 0 <= successes <= n, n > 0 and 0 < level < 1.
    """
    _check_counts("wilson", successes, n)
    z = two_sided_z(level)
    p = successes / n
    denominator = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / denominator
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / denominator
    return Interval(max(0.0, centre - half), min(1.0, centre + half), "wilson")


def clopper_pearson(successes: int, n: int, level: float = 0.95) -> Interval:
    """Return Clopper and Pearson's exact interval of a proportion (1934); its coverage is never below its level.

    :raises ValueError: unless 0 <= successes <= n, n > 0 and 0 < level < 1.
    """
    _check_counts("clopper_pearson", successes, n)
    from scipy.stats import binomtest

    low, high = binomtest(successes, n).proportion_ci(level, method="exact")
    return Interval(float(low), float(high), "clopper-pearson")


def _check_counts(name: str, successes: float, n: float) -> None:
    if n <= 0 or not 0 <= successes <= n:
        raise ValueError(f"{name} needs 0 <= successes <= n and n > 0, not {successes} of {n}")


def binomial_standard_error(p: float, n: int) -> float:
    """Return the standard error of a proportion, sqrt(p (1 - p) / n), as the homophone paper prints it (section 8)."""
    return math.sqrt(p * (1 - p) / n)


def cluster_bootstrap(
    clusters: Sequence[Sequence[float]], *, draws: int = 2000, seed: int = 0, level: float = 0.95
) -> Interval:
    """Return the percentile interval of the mean over all items, from resamples of whole clusters.

    :param clusters: the scores of each cluster's items; at least one item in total.
    """
    import numpy as np

    sums = np.array([math.fsum(c) for c in clusters])
    sizes = np.array([len(c) for c in clusters])
    rng = np.random.default_rng(seed)
    rows = max(1, _BLOCK // len(sums))
    means = np.empty(draws)
    for start in range(0, draws, rows):
        stop = min(start + rows, draws)
        picks = rng.integers(0, len(sums), size=(stop - start, len(sums)))
        means[start:stop] = sums[picks].sum(axis=1) / sizes[picks].sum(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), "cluster bootstrap")


def mean_interval(scores: Sequence[float], clusters: Sequence[str], level: float = 0.95) -> Interval:
    """Return the interval of an accuracy: Wilson, or a cluster bootstrap if a cluster has several items.

    With one cluster, or if all clusters have the same mean, the bootstrap interval has no width and would claim
    certainty. Wilson's interval is then used with each cluster as one item: ``wilson over clusters``.
    """
    grouped: dict[str, list[float]] = {}
    for score, cluster in zip(scores, clusters, strict=True):
        grouped.setdefault(cluster, []).append(score)
    if all(len(members) == 1 for members in grouped.values()):
        return wilson(math.fsum(scores), len(scores), level)
    interval = cluster_bootstrap(list(grouped.values()), level=level)
    if interval.high - interval.low > NO_WIDTH:
        return interval
    mean = math.fsum(scores) / len(scores)
    return wilson(mean * len(grouped), len(grouped), level)._replace(method="wilson over clusters")
