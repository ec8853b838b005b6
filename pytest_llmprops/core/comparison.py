"""Is a candidate model worse than the baseline on the same items? Tests and intervals of the paired difference.

A *loss* is a pair that the baseline has right and the candidate wrong, a *gain* the reverse. A *difference* is
candidate - baseline, a *drop* its negative. Scores are fractions in [0, 1]. :func:`judge` is the one place where two
runs are judged: gates, ``llmprops compare`` and reports use it.
Every "no clear difference" comes with the smallest drop that these pairs can show, so that a small sample is not
mistaken for a safe model. scipy is imported where it is used, because most runs compare nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, overload

from pytest_llmprops.core.power import detectable_drop as detectable_drop
from pytest_llmprops.core.statistics import NO_WIDTH, Interval, cluster_bootstrap, two_sided_z

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats: TypeAlias = NDArray[np.float64]

#: significance level of a drop, and of a gain: one-sided
ALPHA = 0.05

#: if the pairs cannot show a drop of this size, a comparison without a drop is inconclusive
DETECT = 0.10

Conclusion = Literal["drop", "gain", "no clear difference", "inconclusive"]

#: smaller differences are rounding errors: repeats averaged in another order
ROUNDING = 1e-12

#: for up to 14 clusters all sign flips are enumerated; for more, this many are drawn
SIGN_FLIPS = 2**14

#: resamples of the bootstrap interval of a drop
DRAWS = 10_000

#: with fewer clusters a percentile bootstrap interval is too short: with 5, its coverage is about 85%
FEWEST_CLUSTERS = 10


@dataclass(frozen=True, slots=True)
class Pairs:
    """Scores of two models on the same items: ``baseline``, ``candidate`` and cluster label, one of each per pair.

    :raises ValueError: if the tuples have different lengths, or a score is outside [0, 1].
    """

    baseline: tuple[float, ...]
    candidate: tuple[float, ...]
    clusters: tuple[str, ...]

    def __post_init__(self) -> None:
        if not len(self.baseline) == len(self.candidate) == len(self.clusters):
            lengths = f"{len(self.baseline)}, {len(self.candidate)} and {len(self.clusters)}"
            raise ValueError(
                f"baseline scores, candidate scores and clusters must be equally many, not {lengths}"
            )
        for score in (*self.baseline, *self.candidate):
            if not 0 <= score <= 1:
                raise ValueError(f"a score must be in [0, 1], not {score}")

    @property
    def n(self) -> int:
        """Number of pairs."""
        return len(self.baseline)

    @property
    def drops(self) -> tuple[float, ...]:
        """Baseline - candidate of each pair; rounding errors are set to 0."""
        raw = (b - c for b, c in zip(self.baseline, self.candidate, strict=True))
        return tuple(0.0 if abs(d) < ROUNDING else d for d in raw)

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
        grouped: dict[str, list[float]] = {}
        for difference, cluster in zip(self.drops, self.clusters, strict=True):
            grouped.setdefault(cluster, []).append(difference)
        return list(grouped.values())


@dataclass(frozen=True, slots=True)
class PairedResult:
    """The result of a comparison of two runs on the same items.

    :param conclusion: ``drop`` or ``gain`` if its one-sided test is significant. Otherwise ``no clear
        difference``, or ``inconclusive`` if the pairs are too few to show the drop that matters.
    :param difference: candidate - baseline, in [-1, 1], with the limits of its interval.
    :param p: one-sided p-value of a drop.
    :param detectable: smallest drop that these pairs can show with 80% power; None if they cannot show any.
    """

    conclusion: Conclusion
    pairs: int
    losses: int
    gains: int
    difference: float
    low: float
    high: float
    interval_method: str
    p: float
    test_method: str
    detectable: float | None


class DropTest(NamedTuple):
    """One-sided p-value of "the candidate is not worse", and the name of the test."""

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


def sign_flip_drop(cluster_differences: Sequence[float], *, seed: int = 0) -> float:
    """Return the p-value of a one-sided sign-flip permutation test of a drop, on each cluster's sum of differences.

    If the models are equally good, both signs of a cluster's difference are equally likely (Good 2005,
    *Permutation, Parametric and Bootstrap Tests of Hypotheses*, section 3.2). The p-value is the share of sign
    patterns whose sum is at least the observed one. Up to 14 clusters that differ, all patterns are counted. For
    more clusters, 16,384 patterns are drawn; the observed one is among them, so that p is never 0.
    """
    import numpy as np
    from scipy.stats import monte_carlo_test, permutation_test

    sums = np.array([d for d in cluster_differences if abs(d) >= ROUNDING])
    if len(sums) < 2:  # scipy requires two
        return 0.5 if sums.sum() > 0 else 1.0

    def total(values: Floats, axis: int) -> Floats:
        # Equal sums must tie although their rounding errors differ: scipy's tolerance is relative to the sum.
        rounded: Floats = np.round(values.sum(axis=axis), 9)
        return rounded

    if 2 ** len(sums) <= SIGN_FLIPS:
        exact = permutation_test(
            (sums,), total, permutation_type="samples", alternative="greater", n_resamples=SIGN_FLIPS
        )
        return float(exact.pvalue)
    rng = np.random.default_rng(seed)

    def flipped(size: tuple[int, ...]) -> Floats:
        return np.where(rng.integers(0, 2, size, dtype=np.bool_), sums, -sums)

    # permutation_test draws from the same null distribution but is 30 times slower: it shuffles index arrays.
    drawn = monte_carlo_test(
        sums, flipped, total, alternative="greater", n_resamples=SIGN_FLIPS - 1, batch=1 + 10**6 // len(sums)
    )
    return float(drawn.pvalue)


def drop_test(pairs: Pairs) -> DropTest:
    """Test for a drop: exact McNemar for independent binary pairs, otherwise sign flips of clusters (or items)."""
    if pairs.binary and not pairs.clustered:
        return DropTest(mcnemar_drop(pairs.losses, pairs.gains), "exact McNemar")
    p = sign_flip_drop([math.fsum(differences) for differences in pairs.by_cluster()])
    return DropTest(p, "sign-flip permutation over clusters" if pairs.clustered else "sign-flip permutation")


def judge(
    pairs: Pairs,
    *,
    alpha: float = ALPHA,
    detect: float = DETECT,
    level: float = 0.95,
    test: DropTest | None = None,
    tests: int = 1,
) -> PairedResult:
    """Judge a candidate by its pairs with the baseline.

    :param alpha: one-sided significance level. A gain is the same test with the runs exchanged.
    :param detect: the drop, in (0, 1], that the pairs must be able to show with 80% power.
    :param level: coverage of the interval, which does not affect the conclusion.
    :param test: the test of a drop, if its p-value is already corrected for ``tests`` tests.
    :raises ValueError: if there are no pairs.
    """
    test = test or drop_test(pairs)
    interval = drop_interval(pairs, level)
    detectable = detectable_drop_of(pairs, alpha=alpha / tests)
    conclusion: Conclusion
    if test.p <= alpha:
        conclusion = "drop"
    elif pairs.drop < 0 and drop_test(Pairs(pairs.candidate, pairs.baseline, pairs.clusters)).p <= alpha:
        conclusion = "gain"
    else:
        conclusion = "no clear difference" if detectable <= detect else "inconclusive"
    return PairedResult(
        conclusion,
        pairs.n,
        pairs.losses,
        pairs.gains,
        -pairs.drop,
        -interval.high,
        -interval.low,
        interval.method,
        *test,
        detectable if math.isfinite(detectable) else None,
    )


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


def detectable_drop_of(pairs: Pairs, *, alpha: float, power: float = 0.80) -> float:
    """Return the smallest true drop that :func:`drop_test` can detect on these pairs with this power.

    For independent binary pairs this is :func:`detectable_drop`. For other pairs it is the larger of two values. The
    first is :func:`detectable_drop`, where a fractional difference counts as that fraction of a flip. The second is
    the detectable effect of a one-sided t-test on the clusters: the effect size for their number, times the standard
    deviation of their contributions to the drop, which is assumed to be the same under a drop. If the contributions
    do not vary, the second value is the McNemar value with clusters as pairs.

    :returns: a fraction, or ``math.inf`` if no drop up to 1, or no pattern of signs, can be significant.
    :raises ValueError: if there are no pairs, or unless 0 < alpha < power < 1.
    """
    lost = math.fsum(d for d in pairs.drops if d > 0)
    gained = -math.fsum(d for d in pairs.drops if d < 0)
    items = detectable_drop(lost, gained, pairs.n, alpha=alpha, power=power)
    if pairs.binary and not pairs.clustered:
        return items
    clusters = pairs.by_cluster()
    count = len(clusters)
    if 2.0**-count > alpha:
        return math.inf
    contributions = [math.fsum(differences) * count / pairs.n for differences in clusters]
    return max(items, _detectable_mean(contributions, alpha, power))


def _detectable_mean(contributions: list[float], alpha: float, power: float) -> float:
    """Return the detectable mean of clusters with this variance; inf if it is above 1, the largest possible drop."""
    import numpy as np

    count = len(contributions)
    deviation = float(np.std(contributions, ddof=1)) if count > 1 else 0.0
    if deviation < ROUNDING:
        return detectable_drop(0, 0, count, alpha=alpha, power=power)
    from scipy.special import nctdtrinc, stdtrit

    # Under a drop the t statistic has a noncentral t distribution. Solve for the noncentrality (effect size times
    # sqrt(clusters)) at which it exceeds its critical value with probability ``power``.
    noncentrality = float(nctdtrinc(count - 1, 1 - power, stdtrit(count - 1, 1 - alpha)))
    drop = noncentrality / math.sqrt(count) * deviation
    return drop if drop <= 1 else math.inf


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
