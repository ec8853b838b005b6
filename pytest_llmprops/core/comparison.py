"""Is a candidate model worse than the baseline on the same items?

:func:`judge` is the one place where two runs are judged: gates, ``llmprops compare`` and reports use it. Every "no
clear difference" comes with the smallest drop that these pairs can show, so that a small sample is not mistaken for a
safe model. The tests are in ``core/paired.py``, the intervals in ``core/paired.py``, the power in
``core/power.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from pytest_llmprops.core.bounded_mean import smallest_factor
from pytest_llmprops.core.paired import DropTest, Pairs, drop_interval, drop_test, holm, sample_of

# The power of the tests of a drop (``core/paired.py``).
#
# ``core/paired.py`` defines losses, gains and drop. scipy is imported where it is used.

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: counts may be sums of fractions, with rounding errors up to this share
ROUNDING = 1e-9

#: precision of a detectable drop
PRECISION = 1e-5

#: probability left out in each tail of the number of flips
_TAIL = 1e-10

#: numbers of flips whose critical values are computed and kept together
_BLOCK = 256


def detectable_drop(losses: float, gains: float, n: int, *, alpha: float, power: float = 0.80) -> float:
    """Return the smallest true drop that a one-sided exact McNemar test on ``n`` pairs detects with this power.

    Model: churn is flips in both directions, at a rate of m = (min(losses, gains) + 1/2) / (n + 1) in each. Under a
    true drop d, a pair is lost with probability m + d, gained with probability m, and otherwise tied. So d is at most
    1 - 2m. The power is exact: the number of flips is binomial (n, 2m + d). Given the flips, the number of losses is
    binomial with probability (m + d) / (2m + d), and the test rejects from its critical value on. This is the
    unconditional power of the conditional test (Connor 1987, *Biometrics* 43, 207-211). It grows with d.

    :returns: a fraction in (0, 1], or ``math.inf`` if even the largest possible drop is not detected with this power.
    :raises ValueError: unless losses, gains >= 0, losses + gains <= n, n > 0 and 0 < alpha < power < 1.
    """
    if n <= 0 or min(losses, gains) < 0 or losses + gains > n * (1 + ROUNDING):
        raise ValueError(
            f"detectable_drop: there cannot be {losses} losses and {gains} gains among {n} pairs"
        )
    if not 0 < alpha < power < 1:
        raise ValueError(f"detectable_drop needs 0 < alpha < power < 1, not {alpha} and {power}")
    return _detectable_drop(min(losses, gains), n, alpha, power)


@lru_cache(maxsize=1024)
def _detectable_drop(churned: float, n: int, alpha: float, power: float) -> float:
    from scipy.optimize import brentq

    churn = (churned + 0.5) / (n + 1)
    largest = 1 - 2 * churn
    if largest <= 0 or mcnemar_power(largest, churn, n, alpha) < power:
        return math.inf
    root = brentq(lambda d: mcnemar_power(d, churn, n, alpha) - power, 0.0, largest, xtol=PRECISION)
    return float(root)


def mcnemar_power(drop: float, churn: float, n: int, alpha: float) -> float:
    """Return the probability that the one-sided exact McNemar test rejects at ``alpha``.

    A pair is lost with probability churn + drop and gained with probability churn. The sum leaves out numbers of flips
    with a total probability of 2e-10.
    """
    import numpy as np
    from scipy.special import bdtrc, gammaln, xlog1py, xlogy

    flip_rate = min(1.0, 2 * churn + drop)
    first, last = _likely(n, flip_rate)
    flips = np.arange(first, last + 1)
    blocks = range(first // _BLOCK, last // _BLOCK + 1)
    # rejected if losses are above it
    critical = np.concatenate([_critical(alpha, block) for block in blocks])[flips - blocks[0] * _BLOCK]
    # functions of scipy.special, because those of scipy.stats spend ten times as long on their arguments
    rejected = bdtrc(critical, flips, min(1.0, (churn + drop) / flip_rate))
    ways = gammaln(n + 1) - gammaln(flips + 1) - gammaln(n - flips + 1)
    probabilities = np.exp(ways + xlogy(flips, flip_rate) + xlog1py(n - flips, -flip_rate))
    return float(np.sum(probabilities * rejected))


def _likely(n: int, rate: float) -> tuple[int, int]:
    """Return limits of the number of flips. Outside, the probability is at most ``_TAIL`` on each side (Bernstein)."""
    log = -math.log(_TAIL)
    margin = log / 3 + math.sqrt(log**2 / 9 + 2 * log * n * rate * (1 - rate))
    return max(0, math.floor(n * rate - margin)), min(n, math.ceil(n * rate + margin))


@lru_cache(maxsize=1024)
def _critical(alpha: float, block: int) -> Floats:
    """Return the critical values of a block of numbers of flips; one search for a drop asks for them a dozen times."""
    import numpy as np
    from scipy.stats import binom

    return np.asarray(binom.isf(alpha, np.arange(block * _BLOCK, (block + 1) * _BLOCK), 0.5))


@dataclass(frozen=True, slots=True)
class PairedPower:
    """The numbers of a set of pairs that determine the smallest drop that they can show with a given power.

    :param losses: sum of the drops of all pairs that drop. :param gains: likewise of all that rise.
    :param pairs: number of pairs. :param power: probability of showing the drop.
    :param clusters: number of clusters; None for independent pairs that are right or wrong.
    :param limit: upper limit of a one-sided interval of the drop over clusters, at the level ``power``; likewise None.
    """

    losses: float
    gains: float
    pairs: int
    power: float = 0.80
    clusters: int | None = None
    limit: float | None = None

    @classmethod
    def of(cls, pairs: Pairs, power: float = 0.80) -> PairedPower:
        """Return the numbers of these pairs.

        :raises ValueError: if there are no pairs, or unless 0 < power < 1.
        """
        lost, gained = _flips(pairs)
        if pairs.binary and not pairs.clustered:
            return cls(lost, gained, pairs.n, power)
        limit = sample_of(pairs).upper_limit(1 - power, most=1)
        return cls(lost, gained, pairs.n, power, pairs.cluster_count, limit)

    def detectable(self, alpha: float) -> float:
        """Return the smallest true drop that a test at this level shows.

        For independent binary pairs this is :func:`detectable_drop`. For other pairs it is the larger of two values.
        The first is :func:`detectable_drop`, where a fractional difference counts as that fraction of a flip. The
        second is the upper limit of a one-sided interval of the drop over clusters, at the level ``power``. If the
        true drop is at least this limit, a result as good as this one has a probability of at most 1 - power. The
        variance between a few clusters cannot tell this: if one cluster in ten fails wholly, most samples of ten show
        no failed cluster or one.

        :returns: a fraction, or ``math.inf`` if no drop up to 1, or no pattern of signs, can be significant.
        :raises ValueError: unless 0 < alpha < power.
        """
        items = detectable_drop(self.losses, self.gains, self.pairs, alpha=alpha, power=self.power)
        if self.clusters is None or self.limit is None:
            return items
        return math.inf if 2.0**-self.clusters > alpha else max(items, self.limit)


def detectable_drop_of(pairs: Pairs, *, alpha: float, power: float = 0.80) -> float:
    """Return the smallest true drop that these pairs can show with this power (:meth:`PairedPower.detectable`).

    :raises ValueError: if there are no pairs, or unless 0 < alpha < power < 1.
    """
    return PairedPower.of(pairs, power).detectable(alpha)


def times_to_detect(pairs: Pairs, drop: float, *, alpha: float, power: float = 0.80) -> float | None:
    """Return how many times these pairs can show this drop, if the differences stay as they are.

    :returns: None if that is more than 1,024 times, or if the clusters of these pairs drop more.
    """
    lost, gained = _flips(pairs)
    by_items = pairs.binary and not pairs.clustered
    sample = sample_of(pairs)

    def enough(times: float) -> bool:
        n = round(pairs.n * times)
        flips = (lost * n / pairs.n, gained * n / pairs.n)
        if not _detects(drop, *flips, n, alpha=alpha, power=power):
            return False
        if by_items:
            return True
        clusters = sample.times(times)
        return 2.0**-clusters.clusters <= alpha and clusters.p_below(drop, most=1) <= 1 - power

    return smallest_factor(enough)


def _detects(drop: float, losses: float, gains: float, n: int, *, alpha: float, power: float) -> bool:
    """Return True if :func:`detectable_drop` is at most ``drop``, without the search for it unless it is close."""
    churn = (min(losses, gains) + 0.5) / (n + 1)
    near = 2 * PRECISION
    if near < drop < 1 - 2 * churn - near:
        if mcnemar_power(drop + near, churn, n, alpha) < power:
            return False
        if mcnemar_power(drop - near, churn, n, alpha) >= power:
            return True
    return detectable_drop(losses, gains, n, alpha=alpha, power=power) <= drop


def _flips(pairs: Pairs) -> tuple[float, float]:
    """Return the sums of the drops and of the gains."""
    return math.fsum(d for d in pairs.drops if d > 0), -math.fsum(d for d in pairs.drops if d < 0)


#: significance level of a drop, and of a gain: one-sided
ALPHA = 0.05

#: if the pairs cannot show a drop of this size, a comparison without a drop is inconclusive
DETECT = 0.10

Conclusion = Literal["drop", "gain", "no clear difference", "inconclusive"]


@dataclass(frozen=True, slots=True)
class PairedResult:
    """The result of a comparison of two runs on the same items.

    :param conclusion: ``drop`` or ``gain`` if its one-sided test is significant. Otherwise ``no clear
        difference``, or ``inconclusive`` if the pairs are too few to show the drop that matters.
    :param difference: candidate - baseline, in [-1, 1], with the limits of its interval.
    :param p: one-sided p-value of a drop.
    :param p_gain: one-sided p-value of a gain; None if the candidate is not better.
    :param power: what the smallest drop at another level depends on.
    :param detectable: smallest drop that these pairs can show with 80% power; None if they cannot show any.
    :param noun: what a pair is: ``cluster`` if the scores are means of clusters.
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
    noun: str = "pair"
    p_gain: float | None = None
    power: PairedPower | None = None


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
    power = PairedPower.of(pairs)
    detectable = power.detectable(alpha / tests)
    p_gain = None
    if pairs.drop < 0:
        p_gain = drop_test(Pairs(pairs.candidate, pairs.baseline, pairs.clusters)).p
    return PairedResult(
        _conclusion(test.p, p_gain, detectable, alpha, detect),
        pairs.n,
        pairs.losses,
        pairs.gains,
        -pairs.drop,
        -interval.high,
        -interval.low,
        interval.method,
        *test,
        detectable if math.isfinite(detectable) else None,
        pairs.noun,
        p_gain,
        power,
    )


def judged_together(results: Sequence[PairedResult]) -> list[PairedResult]:
    """Return results of :func:`judge` with conclusions that hold together, in either direction, at :data:`ALPHA`.

    Each comparison has two one-sided tests, of a drop and of a gain. Holm's correction is over all of them, and the
    smallest detectable drop is that of a test at ``ALPHA`` divided by their number.
    """
    tests = 2 * len(results)
    adjusted = holm([p for r in results for p in (r.p, 1.0 if r.p_gain is None else r.p_gain)])
    together = []
    for result, p, p_gain in zip(results, adjusted[::2], adjusted[1::2], strict=True):
        assert result.power is not None
        detectable = result.power.detectable(ALPHA / tests)
        together.append(
            replace(
                result,
                conclusion=_conclusion(p, p_gain, detectable, ALPHA, DETECT),
                p=p,
                p_gain=None if result.p_gain is None else p_gain,
                detectable=detectable if math.isfinite(detectable) else None,
            )
        )
    return together


def _conclusion(p: float, p_gain: float | None, detectable: float, alpha: float, detect: float) -> Conclusion:
    if p <= alpha:
        return "drop"
    if p_gain is not None and p_gain <= alpha:
        return "gain"
    return "no clear difference" if detectable <= detect else "inconclusive"
