"""Confidence intervals of one run: of a proportion, and of an accuracy over clusters.

:func:`mean_interval` is the one place that chooses the interval of an accuracy: summaries, metrics, reports and gates
use it. Its error rate is at most the stated one, for few clusters too; bench/README.md has the measured rates.

Right-or-wrong items that are independent need neither numpy nor scipy, because every run prints their interval, and
importing scipy takes longer than a small run. Tests compare it with statsmodels. The comparison of two runs is in
``statistics/judgement.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from pytest_llmprops.statistics.bounded_mean import TAIL, ClusterSample

#: 97.5% quantile of the normal distribution
_Z = 1.959963984540054


class Interval(NamedTuple):
    """A confidence interval; ``method`` is for example ``clopper-pearson`` or ``gaffke over clusters``."""

    low: float
    high: float
    method: str


def clopper_pearson(successes: float, n: float) -> Interval:
    """Return Clopper and Pearson's exact 95% interval of a proportion (1934); its coverage is never below its level.

    Its limits are quantiles of beta distributions, so that counts may be fractional (effective numbers of items).

    :raises ValueError: unless 0 <= successes <= n and n > 0.
    """
    if n <= 0 or not 0 <= successes <= n:
        raise ValueError(f"clopper_pearson needs 0 <= successes <= n and n > 0, not {successes} of {n}")
    low = _beta_quantile(TAIL, successes, n - successes + 1) if successes else 0.0
    high = 1 - _beta_quantile(TAIL, n - successes, successes + 1) if successes < n else 1.0
    return Interval(low, high, "clopper-pearson")


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Return Wilson's 95% interval of a share."""
    share, z2 = successes / n, _Z * _Z
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    # Exact at the ends, where rounding would leave a tiny difference.
    return centre - half if successes else 0.0, centre + half if successes < n else 1.0


def _beta_quantile(p: float, a: float, b: float) -> float:
    """Return the quantile by Newton's method, or by halving where a step would leave the interval."""
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    low, high, x = 0.0, 1.0, a / (a + b)
    while high - low > 1e-14:
        error = _beta_cdf(x, a, b) - p
        if error < 0:
            low = x
        else:
            high = x
        density = math.exp((a - 1) * math.log(x) + (b - 1) * math.log1p(-x) - log_beta)
        step = error / density if density else 1.0
        if abs(step) < 1e-14:
            return min(max(x - step, low), high)
        x = x - step if low < x - step < high else (low + high) / 2
    return (low + high) / 2


def _beta_cdf(x: float, a: float, b: float) -> float:
    """Return the distribution function of the beta distribution, from its continued fraction (DLMF 8.17.22)."""
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side
        return 1 - _beta_cdf(1 - x, b, a)
    if x <= 0:
        return 0.0
    factor = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    # modified Lentz's method: the fraction is the product of numerator / denominator
    numerator, denominator = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = denominator
    for m in range(1, 100_000):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            numerator, denominator = 1 + term / numerator, 1 / (1 + term * denominator)
            fraction *= numerator * denominator
        if abs(numerator * denominator - 1) < 1e-15:
            break
    return factor * fraction / a


def mean_interval(scores: Sequence[float], clusters: Sequence[str], *, least: float = 0.0) -> Interval:
    """Return the 95% interval of an accuracy: of the mean score per item, over all items that could have been asked.

    For independent items with scores 0 and 1 this is Clopper and Pearson's interval. For fractional scores (averaged
    repeats) it is Gaffke's. If a cluster has several items, it is Gaffke's over clusters, in which a cluster weighs
    as much as its items. See ``statistics/bounded_mean.py``.

    :param clusters: the cluster of each score. :param least: the smallest possible score; the largest is 1.
    :raises ValueError: for no score, or a score outside these limits.
    """
    if not scores or not least <= min(scores) <= max(scores) <= 1:
        raise ValueError(f"mean_interval needs scores from {least:g} to 1, not {list(scores[:5])}")
    single = len(set(clusters)) == len(scores)
    if single and set(scores) <= {least, 1}:
        low, high, method = clopper_pearson(sum(score == 1 for score in scores), len(scores))
        return Interval(least + (1 - least) * low, least + (1 - least) * high, method)
    sample = ClusterSample.of(scores, clusters)
    method = "gaffke" if single else "gaffke over clusters"
    return Interval(sample.lower_limit(least=least), sample.upper_limit(), method)
