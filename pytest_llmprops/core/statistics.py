"""Intervals of one run. Closed forms stand here in plain Python, because every run prints them and importing
scipy would cost more time than a small run; the tests hold them to statsmodels' values.
The comparison of two runs is in ``core/comparison.py``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

#: a bootstrap interval narrower than this says that resampling changed nothing but rounding
NO_WIDTH = 1e-9

#: numbers drawn at a time by the bootstrap, which bounds its memory (8 bytes each, a few arrays)
_BLOCK = 1_000_000


class Interval(NamedTuple):
    """A confidence interval; ``method`` names how it was made, e.g. ``wilson`` or ``cluster bootstrap``."""

    low: float
    high: float
    method: str


def two_sided_z(level: float) -> float:
    """Standard normal quantile that leaves (1 - level) / 2 in each tail; 1.96 at 0.95.

    :raises ValueError: unless 0 < level < 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"a confidence level lies between 0 and 1, not {level}")
    return NormalDist().inv_cdf((1 + level) / 2)


def wilson(successes: float, n: float, level: float = 0.95) -> Interval:
    """Wilson's score interval of a proportion (Wilson 1927), by default at 95%.

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
    """Clopper and Pearson's exact interval of a proportion (1934): never below its level, so never too short.

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
    rows = max(1, _BLOCK // len(sums))
    means = np.empty(draws)
    for start in range(0, draws, rows):
        stop = min(start + rows, draws)
        picks = rng.integers(0, len(sums), size=(stop - start, len(sums)))
        means[start:stop] = sums[picks].sum(axis=1) / sizes[picks].sum(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), "cluster bootstrap")


def mean_interval(scores: Sequence[float], clusters: Sequence[str], level: float = 0.95) -> Interval:
    """Interval of an accuracy, by default at 95%: Wilson, or a cluster bootstrap where a cluster has several items.

    The bootstrap has no width where there is one cluster or all have the same mean. As that would claim
    certainty, Wilson's interval then stands in, with each cluster counted as one item: ``wilson over clusters``.
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
