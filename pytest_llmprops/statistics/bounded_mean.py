"""Limits of the mean of bounded scores that hold for few clusters.

Clusters are a sample of the clusters that could have been asked. The mean is per item: the sum of all scores divided
by the number of items, so that a large cluster weighs more than a small one. The sizes are those of the benchmark:
the limits say nothing about clusters larger than the largest one here. A variance that is estimated from a few
clusters cannot bound this mean. If each of ten clusters fails wholly with probability 0.1, a third of all samples
show no failed cluster, and so no variance. The limits here use only that every score lies between two known values.

**The limit.** Gaffke's lower limit is a quantile of

    (G_1 T_1 + ... + G_K T_K + G_0 S least) / (G_1 S_1 + ... + G_K S_K + G_0 S)

where T_k is the sum of the scores of cluster k, S_k its number of items, S the largest of these numbers, and the G
are independent standard exponential variables. This is a Bayesian bootstrap of whole clusters with one more cluster,
of the largest size, that has the worst score everywhere. The upper limit is its mirror image.

For single items with scores 0 and 1 the limits are those of Clopper and Pearson, which are exact. For other scores
it is a conjecture that they hold; it is proved in special cases, and no counterexample is known. ``bench.gate_rates``
measures it next to other methods.

Sources: Gaffke, "Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
variable", *Math. Methods Statist.* 14 (2005), 451-467; Learned-Miller & Thomas, "A new confidence interval for the
mean of a bounded random variable" (arXiv 1905.06208). The weights by cluster size follow from the same test: the
numbers T_k - m S_k have the mean 0 if m is the true mean per item.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

#: the first distance of the integral's points, and the error of the probability below which it is not halved again
_STEP, _ERROR = 0.3, 1e-12
#: numbers per array of the integral: as fast as larger arrays, and little memory
_BLOCK = 100_000
#: numbers per array, and points of a row, up to which a search evaluates several points at once
_SMALL, _MOST_POINTS = 4096, 63
#: the integral ends where its terms are below exp of this
_NEGLIGIBLE = -32.0
#: clusters whose sums differ by less are equal: repeats averaged in another order
_DIGITS = 12
#: the error rate of each side of a 95% interval
TAIL = 0.025
#: no more than this many times the present sample is proposed
_MOST_TIMES = 1024.0


def by_cluster(scores: Iterable[float], clusters: Iterable[str]) -> dict[str, list[float]]:
    """Return the scores of each cluster, in order of first appearance.

    :raises ValueError: unless there are as many clusters as scores.
    """
    groups: dict[str, list[float]] = {}
    for score, cluster in zip(scores, clusters, strict=True):
        groups.setdefault(cluster, []).append(score)
    return groups


def cluster_means(scores: Sequence[float], clusters: Sequence[str]) -> tuple[list[float], list[str]]:
    """Return the mean score of each cluster, and the clusters, in order of first appearance."""
    groups = by_cluster(scores, clusters)
    return [math.fsum(members) / len(members) for members in groups.values()], list(groups)


def mean_p_value(
    totals: ArrayLike, sizes: ArrayLike, mean: float, *, least: float, counts: ArrayLike = 1.0
) -> Floats:
    """Return Gaffke's p-value of "the mean per item is at most ``mean``"; a small one says that it is larger.

    :param totals: sums of the scores of clusters, shape (..., clusters): several samples at once.
    :param sizes: numbers of items of these clusters. The arguments are broadcast.
    :param least: the smallest possible score.
    :param counts: how often each cluster occurs; may be fractional, or 0.
    """
    import numpy as np

    totals, sizes, counts = np.broadcast_arrays(
        np.asarray(totals, dtype=np.float64), np.asarray(sizes, dtype=np.float64), counts
    )
    largest = sizes.max(axis=-1, keepdims=True)
    weights = np.concatenate([totals - mean * sizes, largest * (least - mean)], axis=-1)
    shapes = np.concatenate([counts, np.ones_like(largest)], axis=-1).astype(np.float64)
    weights = np.where(shapes > 0, weights, 0.0)
    lead = weights.shape[:-1]
    weights, shapes = weights.reshape(-1, weights.shape[-1]), shapes.reshape(-1, weights.shape[-1])
    # The integral converges fast for the smaller tail; the other one is its complement.
    below = (weights * shapes).sum(axis=-1) < 0
    tail = _lower_tail(np.where(below[:, None], -weights, weights), shapes)
    return np.asarray(np.where(below, 1 - tail, tail).reshape(lead))


def _lower_tail(weights: Floats, shapes: Floats) -> Floats:
    """Return P(sum of weights * Gamma(shapes) <= 0), per row.

    The cumulant generating function is K(s) = -sum of shapes * log(1 - weights s). The probability is the integral of
    -exp(K(s)) / (2 pi i s) over a vertical line left of 0. The line through the saddle point makes the integrand
    smooth and without cancellation, and the trapezoidal rule in sinh(x) converges exponentially. On this line,
    1 - w (s + iy) is (1 - w s) (1 - it) with the real number t = w y / (1 - w s): real functions give its logarithm in
    a tenth of the time that numpy's complex one takes.
    """
    import numpy as np

    least, most = weights.min(axis=-1), weights.max(axis=-1)
    tail = np.where(most > 0, 0.0, 1.0)
    rows = (least < 0) & (most > 0)
    if not rows.any():
        return tail
    # scaled so that the saddle point lies in (-1, 0)
    a, shape = weights[rows] / -least[rows, None], shapes[rows]
    points = min(_MOST_POINTS, max(1, _SMALL // a.size))

    def is_left(s: Floats) -> Flags:
        slopes = a[:, :, None] / (1 - a[:, :, None] * s[:, None])
        return np.asarray((shape[:, :, None] * slopes).sum(axis=1) < 1 / s)

    s = _last(is_left, np.full(len(a), -1.0), np.zeros(len(a)), points, bits=20)
    slopes = a / (1 - a * s[:, None])
    width = 1 / np.sqrt((shape * slopes**2).sum(axis=-1) + 1 / s**2)

    def is_inside(x: Floats) -> Flags:
        y = width[:, None] * np.sinh(x)
        logs = (shape[:, :, None] * np.log1p((slopes[:, :, None] * y[:, None]) ** 2)).sum(axis=1)
        return np.asarray(x - logs / 2 - np.log1p((y / s[:, None]) ** 2) / 2 > _NEGLIGIBLE)

    high = _last(is_inside, np.zeros(len(a)), np.full(len(a), 40.0), points, bits=12)
    scale = (shape * np.log1p(-a * s[:, None])).sum(axis=-1)

    def terms(x: Floats) -> Floats:
        """Return the sum of the integrand at the points ``x``, shape (rows, points), per row."""
        y = width[:, None] * np.sinh(x)
        # exp(K(s + iy)) in polar form
        angle, size = np.zeros_like(y), np.zeros_like(y) - scale[:, None]
        step = max(1, _BLOCK // y.size)
        for first in range(0, a.shape[-1], step):
            part = slice(first, first + step)
            t = slopes[:, part, None] * y[:, None]
            angle += (shape[:, part, None] * np.arctan(t)).sum(axis=1)
            size -= (shape[:, part, None] / 2 * np.log1p(t**2)).sum(axis=1)
        real = -(s[:, None] * np.cos(angle) + y * np.sin(angle)) / (s[:, None] ** 2 + y**2)
        return np.asarray((np.exp(size) * real * np.cosh(x)).sum(axis=-1) * width / np.pi)

    count = math.ceil(high.max() / _STEP)
    step = high / count
    first = -np.exp(-scale) * width / (np.pi * s)  # terms at 0
    value = step * (first / 2 + terms(step[:, None] * np.arange(1, count + 1)))
    while True:
        finer = (value + step * terms(step[:, None] * (np.arange(count) + 0.5))) / 2
        # Half the distance squares the relative error.
        is_coarse = (finer - value) ** 2 > _ERROR * (np.abs(finer) + _ERROR)
        value, step, count = finer, step / 2, 2 * count
        if not is_coarse.any():
            break
    tail[rows] = value
    return tail


def _last(holds: Callable[[Floats], Flags], low: Floats, high: Floats, points: int, *, bits: int) -> Floats:
    """Return where ``holds`` ends in each row, between ``low``, where it holds, and ``high``.

    :param holds: function of points of shape (rows, points); it holds up to a point of the row, and not after it.
    :param points: points at once; more need fewer calls of numpy, which take most of the time for few rows.
    :param bits: how often the interval is halved.
    """
    import numpy as np

    shares = np.arange(1, points + 1) / (points + 1)
    for _ in range(math.ceil(bits / math.log2(points + 1))):
        width = high - low
        low = low + holds(low[:, None] + width[:, None] * shares).sum(axis=-1) * width / (points + 1)
        high = low + width / (points + 1)
    return (low + high) / 2


@dataclass(frozen=True, slots=True)
class ClusterSample:
    """A sample of clusters: their sums of scores and numbers of items; equal clusters are one entry.

    :param counts: how often each entry occurs; fractional in a sample that is scaled up.
    """

    totals: tuple[float, ...]
    sizes: tuple[float, ...]
    counts: tuple[float, ...]

    @classmethod
    def of(cls, scores: Iterable[float], clusters: Iterable[str]) -> ClusterSample:
        """Return the sample of these items, given the score and the cluster of each."""
        grouped = by_cluster(scores, clusters).values()
        sums = Counter((round(math.fsum(m), _DIGITS), float(len(m))) for m in grouped)
        entries = sorted(sums.items())
        return cls(
            tuple(total for (total, _), _ in entries),
            tuple(size for (_, size), _ in entries),
            tuple(float(count) for _, count in entries),
        )

    @property
    def items(self) -> float:
        return math.fsum(size * count for size, count in zip(self.sizes, self.counts, strict=True))

    @property
    def mean(self) -> float:
        total = math.fsum(total * count for total, count in zip(self.totals, self.counts, strict=True))
        return total / self.items

    def times(self, factor: float) -> ClusterSample:
        """Return a sample with the same clusters, each ``factor`` times as often."""
        return replace(self, counts=tuple(factor * count for count in self.counts))

    def negated(self) -> ClusterSample:
        """Return the sample with all scores negated."""
        return replace(self, totals=tuple(-total for total in self.totals))

    def p_above(self, mean: float, *, least: float) -> float:
        """Return the p-value of "the mean is at most ``mean``", if no score is below ``least``."""
        return float(mean_p_value(self.totals, self.sizes, mean, least=least, counts=self.counts))

    def lower_limit(self, *, least: float) -> float:
        """Return the mean at which :meth:`p_above` is 2.5%: the lower limit of the 95% interval."""
        return _lower_limit(self, least)

    def upper_limit(self) -> float:
        """Return the upper limit of the 95% interval, if no score is above 1."""
        return -_lower_limit(self.negated(), -1)


@lru_cache(maxsize=256)
def _lower_limit(sample: ClusterSample, least: float) -> float:
    """Return :meth:`ClusterSample.lower_limit`; checks of one gate ask for the same limit several times."""
    import numpy as np
    from scipy.optimize import brentq

    totals, sizes, counts = map(np.array, (sample.totals, sample.sizes, sample.counts))
    highest = float((totals / sizes).max())
    if highest <= least:
        return least

    normal = NormalDist()
    quantile = normal.inv_cdf(TAIL)

    @lru_cache
    def excess(mean: float) -> float:
        # Compared as normal quantiles, which are nearly linear in the mean: the search takes half as many integrals.
        p = float(mean_p_value(totals, sizes, mean, least=least, counts=counts))
        return normal.inv_cdf(min(max(p, 1e-300), 1 - 1e-16)) - quantile

    # Look near the normal approximation first: every evaluation is an integral.
    mean, largest = sample.mean, float(sizes.max())
    items = sample.items + largest
    error = math.sqrt(float((counts * (totals - mean * sizes) ** 2).sum())) / items
    guess = mean - (mean - least) * largest / items + quantile * error
    low, high = max(least, guess - error), min(highest, guess + error)
    if not (low < high and excess(low) < 0 < excess(high)):
        low, high = least, highest
    return float(brentq(excess, low, high, xtol=1e-12))


def times_to_settle(sample: ClusterSample, limit: float, *, least: float) -> float | None:
    """Return how many times the sample its 95% interval needs to exclude ``limit``, if scores stay as they are.

    :param least: the smallest possible score; the largest is 1.
    :returns: from 1 to 1,024, at most 1% too many; None if the mean is the limit, or if more would be needed.
    """
    distance = sample.mean - limit
    if abs(distance) <= 10.0**-_DIGITS:
        return None
    sample, limit, least = (sample, limit, least) if distance > 0 else (sample.negated(), -limit, -1.0)

    def settles(factor: float) -> bool:
        return sample.times(factor).p_above(limit, least=least) <= TAIL

    low = high = 1.0
    while not settles(high):
        if high >= _MOST_TIMES:
            return None
        low, high = high, 2 * high
    while high - low > 0.01 * low:
        middle = (low + high) / 2
        low, high = (low, middle) if settles(middle) else (middle, high)
    return high
