"""Is a candidate model worse than the baseline on the same items?

:func:`judge` is the one place where two runs are judged: gates, ``llmprops compare`` and reports use it. It needs two
numbers: the p-value of a drop, and an upper limit of the drop. "No clear difference" means that the limit is below the
drop that matters, so that a small sample is not mistaken for a safe model. Tests and intervals are in
``core/paired.py``, which also defines losses, gains and drop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pytest_llmprops.core.bounded_mean import ClusterSample, mean_p_value, smallest_factor
from pytest_llmprops.core.paired import DropTest, Pairs, drop_interval, drop_test, mcnemar_drop, sample_of

#: significance level of a drop, and of a gain: one-sided
ALPHA = 0.05

#: if a drop of this size is not ruled out, a comparison without a significant difference is inconclusive
DETECT = 0.10

#: confidence of the upper limit of a drop: one-sided
CONFIDENCE = 0.80

Conclusion = Literal["drop", "gain", "no clear difference", "inconclusive"]


@dataclass(frozen=True, slots=True)
class PairedResult:
    """The result of a comparison of two runs on the same items.

    :param conclusion: ``drop`` or ``gain`` if its one-sided test is significant. Otherwise ``no clear
        difference`` if the drop that matters is ruled out, or ``inconclusive``.
    :param difference: candidate - baseline, in [-1, 1], with the limits of its interval.
    :param p: one-sided p-value of a drop.
    :param limit: upper limit of the drop, one-sided, at 80% confidence; negative if a gain is certain at that level.
    :param noun: what a pair is: ``cluster`` if the scores are means of clusters.
    :param p_gain: one-sided p-value of a gain; None if the candidate is not better.
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
    limit: float
    noun: str = "pair"
    p_gain: float | None = None


def judge(
    pairs: Pairs,
    *,
    alpha: float = ALPHA,
    detect: float = DETECT,
    test: DropTest | None = None,
    gain_test: DropTest | None = None,
) -> PairedResult:
    """Judge a candidate by its pairs with the baseline.

    :param alpha: one-sided significance level. A gain is the same test with the runs exchanged.
    :param detect: the drop, in (0, 1], that the pairs must rule out.
    :param test: the test of a drop, if it is not that of the pairs, or already corrected for several tests.
    :param gain_test: the same for a gain.
    :raises ValueError: if there are no pairs.
    """
    test = test or drop_test(pairs)
    interval = drop_interval(pairs)
    limit = sample_of(pairs).upper_limit(1 - CONFIDENCE, most=1)
    p_gain = None
    if pairs.drop < 0:
        p_gain = (gain_test or drop_test(Pairs(pairs.candidate, pairs.baseline, pairs.clusters))).p
    return PairedResult(
        _conclusion(test.p, p_gain, limit, alpha, detect),
        pairs.n,
        pairs.losses,
        pairs.gains,
        -pairs.drop,
        -interval.high,
        -interval.low,
        interval.method,
        *test,
        limit,
        pairs.noun,
        p_gain,
    )


def judged_at(result: PairedResult, alpha: float) -> PairedResult:
    """Return a result with the conclusion at another significance level."""
    return replace(result, conclusion=_conclusion(result.p, result.p_gain, result.limit, alpha, DETECT))


def _conclusion(p: float, p_gain: float | None, limit: float, alpha: float, detect: float) -> Conclusion:
    if p <= alpha:
        return "drop"
    if p_gain is not None and p_gain <= alpha:
        return "gain"
    return "no clear difference" if limit <= detect else "inconclusive"


#: the advised number of pairs lets an unchanged model pass this often
PASS_RATE = 0.90

#: simulated comparisons per rate: its standard error is 1.5 points at most
_DRAWS = 400


@dataclass(frozen=True, slots=True)
class UnchangedModel:
    """Simulated comparisons of a model that did not change, with clusters like those of a sample.

    Each cluster keeps the size of its difference, and its sign is random, so that the churn stays as it is. The
    random numbers are always the same.

    :param sample: drops by cluster (:func:`~pytest_llmprops.core.paired.sample_of`).
    :param tail: error rate of the upper limit of the drop.
    :param alpha: level of the test of a drop, which must not be significant; None: no test.
    """

    sample: ClusterSample
    tail: float = 1 - CONFIDENCE
    alpha: float | None = None

    def pass_rate(self, limit: float, times: float = 1) -> float:
        """Return how often the upper limit of the drop is at most ``limit``, with ``times`` as many clusters."""
        import numpy as np
        from scipy.stats import norm

        sample, rng = self.sample, np.random.default_rng(0)
        shares = np.array(sample.counts) / sample.clusters
        drawn = rng.multinomial(max(1, round(times * sample.clusters)), shares, size=_DRAWS)
        dropped = rng.binomial(drawn, 0.5)
        counts = np.concatenate([dropped, drawn - dropped], axis=1)
        size = np.abs(sample.totals)
        drops, sizes = np.concatenate([size, -size]), np.tile(sample.sizes, 2)
        met = mean_p_value(-drops, sizes, -limit, least=-1, counts=counts) <= self.tail
        if self.alpha is None:
            return float(met.mean())
        if set(sample.sizes) == {1.0} and set(size) <= {0.0, 1.0}:
            met &= mcnemar_drop(counts @ (drops > 0), counts @ (drops < 0)) > self.alpha
        else:
            # The sum of a sign-flip test is nearly normal.
            met &= counts @ drops < norm.isf(self.alpha) * np.sqrt(counts @ drops**2) + 1e-9
        return float(met.mean())

    def times_to_pass(self, limit: float) -> float | None:
        """Return how many times the clusters pass in 90% of comparisons; None if above 1,024."""
        return smallest_factor(lambda times: self.pass_rate(limit, times) >= PASS_RATE)

    def limit_to_pass(self) -> float | None:
        """Return the smallest limit, in whole points, with which these clusters pass in 90% of comparisons; or None."""
        low, high = 0, 100
        if self.pass_rate(high / 100) < PASS_RATE:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.pass_rate(middle / 100) >= PASS_RATE else (middle, high)
        return high / 100
