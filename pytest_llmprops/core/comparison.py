"""Is a candidate model worse than the baseline on the same items?

:func:`judge` is the one place where two runs are judged: gates, ``llmprops compare`` and reports use it. Every "no
clear difference" comes with the smallest drop that these pairs can show, so that a small sample is not mistaken for a
safe model. The tests are in ``core/drop_tests.py``, the intervals in ``core/drop_limits.py``, the power in
``core/power.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pytest_llmprops.core.drop_limits import drop_interval
from pytest_llmprops.core.drop_tests import DropTest, drop_test, holm
from pytest_llmprops.core.pairs import Pairs
from pytest_llmprops.core.power import PairedPower

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
