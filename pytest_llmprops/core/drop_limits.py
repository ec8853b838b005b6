"""Intervals of a drop, and the number of pairs that would settle one."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from pytest_llmprops.core.pairs import Pairs
from pytest_llmprops.core.statistics import NO_WIDTH, Interval, cluster_bootstrap, two_sided_z

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats: TypeAlias = NDArray[np.float64]

#: resamples of the bootstrap interval of a drop
DRAWS = 10_000

#: with fewer clusters a percentile bootstrap interval is too short: with 5, its coverage is about 85%
FEWEST_CLUSTERS = 10


def paired_limits(
    losses: ArrayLike, gains: ArrayLike, n: ArrayLike, level: float = 0.95
) -> tuple[Floats, Floats]:
    """Return the lower and upper limits of (losses - gains) / n, broadcast over arrays of counts.

    The adjusted Wald interval of Bonett & Price (2012), *J. Educ. Behav. Stat.* 37, 479-488: one loss, one gain
    and two pairs are added, and the limits are clipped to [-1, 1].
    """
    import numpy as np

    pairs = np.asarray(n, dtype=np.float64) + 2
    lost, gained = (np.asarray(losses) + 1) / pairs, (np.asarray(gains) + 1) / pairs
    half = two_sided_z(level) * np.sqrt((lost + gained - (lost - gained) ** 2) / pairs)
    return np.clip(lost - gained - half, -1, 1), np.clip(lost - gained + half, -1, 1)


def paired_interval(losses: float, gains: float, n: float, level: float = 0.95) -> Interval:
    """Return the interval of the drop (losses - gains) / n on independent pairs; see :func:`paired_limits`.

    :raises ValueError: unless losses, gains >= 0, losses + gains <= n, n > 0 and 0 < level < 1.
    """
    # The counts may be shares of clusters or of effective items, with rounding errors.
    if n <= 0 or min(losses, gains) < 0 or losses + gains > n + NO_WIDTH * n:
        raise ValueError(
            f"paired_interval: there cannot be {losses} losses and {gains} gains among {n} pairs"
        )
    low, high = paired_limits(losses, gains, n, level)
    return Interval(float(low), float(high), "Bonett-Price")


@lru_cache(maxsize=64)
def drop_interval(pairs: Pairs, level: float = 0.95) -> Interval:
    """Return the interval of the drop: Bonett-Price for independent binary pairs, otherwise a bootstrap over clusters.

    With fewer than 10 clusters, or if resampling changes nothing, a bootstrap interval is too short. The Bonett-Price
    interval is then used with clusters as pairs, each lost or gained by its share of the drop: its variance
    E|D| - E(D)^2 is never below the variance between the clusters.

    Results are cached: several checks of one gate rule show the same interval, and a bootstrap takes time.

    :raises ValueError: if there are no pairs.
    """
    if pairs.binary and not pairs.clustered:
        return paired_interval(pairs.losses, pairs.gains, pairs.n, level)
    clusters = pairs.by_cluster()
    if len(clusters) >= FEWEST_CLUSTERS:
        interval = cluster_bootstrap(clusters, draws=DRAWS, level=level)
        if interval.high - interval.low > NO_WIDTH:
            return interval if pairs.clustered else interval._replace(method="bootstrap")
    sums = [math.fsum(differences) * len(clusters) / pairs.n for differences in clusters]
    lost, gained = math.fsum(s for s in sums if s > 0), -math.fsum(s for s in sums if s < 0)
    return paired_interval(lost, gained, len(clusters), level)._replace(method="Bonett-Price over clusters")


def pairs_to_settle(pairs: Pairs, max_drop: float, level: float = 0.95) -> int | None:
    """Return the number of pairs with which the whole interval of the drop would be on one side of ``max_drop``.

    The estimate assumes the same churn and the same drop: the half width of an interval falls with the square root of
    the number of pairs. The result is at least one more than the present number. It is None if the estimated drop
    equals ``max_drop``, which no number of pairs settles.

    :raises ValueError: if there are no pairs.
    """
    distance = max_drop - pairs.drop
    if abs(distance) <= 1e-9:
        return None
    interval = drop_interval(pairs, level)
    half = interval.high - pairs.drop if distance > 0 else pairs.drop - interval.low
    return max(pairs.n + 1, math.ceil(pairs.n * (half / distance) ** 2))
