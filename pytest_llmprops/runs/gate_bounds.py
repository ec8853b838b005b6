"""Checks of a sequential gate: what a part of the items says about the decision of the full run.

Items are drawn without replacement, in an order that is independent of the answers. After any number of draws, a
confidence sequence for a finite population (core/confidence_sequence.py) bounds the counts over all items. A check is
settled when the full run's own test has the same verdict for every count within the bounds.

An early verdict therefore differs from the full run's with at most the probability spent on the bounds. A sequential
gate spends half of a rule's ``alpha`` on them, split over all checks, and half on the tests of the full run. The
rate of wrong acceptances over both is at most ``alpha``.

**Clusters.** The bounds hold for any dependence between items, because they are about this finite population, of
which a random part was drawn. The full run's test, however, is over clusters, and depends on how the counts are
distributed over them. In clusters of at most s items, the squared cluster sums of differences add up to at most s
times the squared differences (Cauchy-Schwarz). So n items count as n / s independent ones that are right or wrong,
which gives the widest interval of the full run. ``no_regression`` is handled separately below.

**Errors.** A drawn item with an error leaves the population. Items that are not drawn yet count as answered. More than
``max_errors`` errors make the rule invalid; fewer move the bounds by less than their width.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pytest_llmprops.core.gate_results import Check, CheckVerdict
from pytest_llmprops.core.numbers import interval, percent
from pytest_llmprops.core.statistics import clopper_pearson
from pytest_llmprops.runs.gate_checks import (
    POWER,
    Answer,
    accuracy_required,
    change,
    drop_required,
    limit_of,
    ranked,
    regression_required,
)
from pytest_llmprops.runs.gate_file import Rule

if TYPE_CHECKING:
    from pytest_llmprops.core.pairs import Pairs

OPEN = "not settled yet"
#: share of a check's error rate that is spent on the drop; the rest bounds the number of discordant pairs
DROP_SHARE = 0.8
#: tolerance for a count that is computed from shares
ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Population:
    """The items of the full run for one rule.

    :param items: number of items, or of pairs if the rule compares with a baseline.
    :param effective: smallest number of independent items they are worth: items / size of the largest cluster.
    """

    items: int
    effective: float

    @classmethod
    def of(cls, clusters: Sequence[str]) -> Population:
        """Return the population, given the cluster label of each item."""
        largest = max(Counter(clusters).values(), default=1)
        return cls(len(clusters), len(clusters) / largest)

    @property
    def clustered(self) -> bool:
        """Whether some cluster has more than one item."""
        return self.effective < self.items

    def without(self, lost: int) -> Population:
        """Return the population without ``lost`` items that turned out to be errors."""
        kept = max(self.items - lost, 0)
        return Population(kept, self.effective * kept / self.items if self.items else 0.0)


def accuracy(rule: Rule, answers: Sequence[Answer], population: Population, error_rate: float) -> Check:
    """Check ``min_accuracy``: bound the accuracy over all items, then compute the full run's interval at the bounds.

    The limits of the interval rise with the accuracy. So if both bounds have the same verdict, values between do too.
    """
    assert rule.min_accuracy is not None
    scores = [a.correct for a in answers]
    low, high = _mean_bounds(scores, population, error_rate)
    if rule.basis == "point":
        verdict = ranked(low, high, at_least=rule.min_accuracy)
    else:
        n, level = population.effective, 1 - rule.alpha
        intervals = [clopper_pearson(min(p * n, n), n, level=level) for p in (low, high)]
        worst, best = (ranked(i.low, i.high, at_least=rule.min_accuracy) for i in intervals)
        verdict = worst if worst == best else "inconclusive"
    return _mean_check("min_accuracy", accuracy_required(rule), scores, population, verdict, low, high)


def share(
    rule: Rule,
    status: Literal["refused", "unparsed"],
    answers: Sequence[Answer],
    population: Population,
    error_rate: float,
) -> Check:
    """Check ``max_refused`` or ``max_unparsed`` over all items."""
    limit = limit_of(rule, status)
    hits = [float(getattr(a, status)) for a in answers]
    low, high = _mean_bounds(hits, population, error_rate)
    verdict = ranked(-high, -low, at_least=-limit)
    return _mean_check(
        f"max_{status}", f"at most {percent(limit)} {status}", hits, population, verdict, low, high
    )


def _mean_bounds(values: Sequence[float], population: Population, error_rate: float) -> tuple[float, float]:
    from pytest_llmprops.core.confidence_sequence import betting_bounds

    bounds = betting_bounds(values, population.items, alpha=error_rate)
    return bounds.low, bounds.high


def _mean_check(
    kind: str,
    required: str,
    values: Sequence[float],
    population: Population,
    verdict: CheckVerdict,
    low: float,
    high: float,
) -> Check:
    value = math.fsum(values) / len(values) if values else None
    so_far = percent(value)
    measured = f"{so_far} so far; all items: {interval(low, high)}, {len(values)} drawn of {population.items}"
    return _check(kind, required, measured, verdict, value, low, high)


@dataclass(frozen=True, slots=True)
class PairBounds:
    """Bounds on the drop and on the share of discordant pairs over the whole population.

    With several samples per item, a pair is discordant by the size of its difference.
    """

    drop_low: float
    drop_high: float
    discordant_low: float
    discordant_high: float

    @classmethod
    def of(cls, pairs: Pairs, population: Population, error_rate: float) -> PairBounds:
        """Return the bounds from two confidence sequences: of the drop and of the discordant share."""
        scaled = [(1 + d) / 2 for d in pairs.drops]
        low, high = _mean_bounds(scaled, population, error_rate * DROP_SHARE)
        least, most = _mean_bounds([abs(d) for d in pairs.drops], population, error_rate * (1 - DROP_SHARE))
        # The absolute drop is at most the discordant share.
        drop_low, drop_high = max(2 * low - 1, -most), min(2 * high - 1, most)
        return cls(drop_low, drop_high, max(least, drop_low, -drop_high), most)

    def counts(self, drop: float, discordant: float, n: float) -> tuple[float, float]:
        """Return (losses, gains) of ``n`` pairs, given a drop and a discordant share."""
        discordant = max(discordant, abs(drop))
        return n * (discordant + drop) / 2, n * (discordant - drop) / 2


def no_regression(
    rule: Rule, pairs: Pairs, population: Population, error_rate: float, *, alpha: float, tests: int
) -> Check:
    """Check ``no_regression``: the full run's test at the extremes of the possible counts.

    McNemar's p-value falls with the losses and rises with the gains. At a given drop above 0 it rises with the number
    of discordant pairs. "Failed" needs p below alpha / tests (Holm's first step), and "met" needs p above alpha (the
    last step), so that other rules cannot change the verdict. For items in clusters or with several samples, the
    p-value of sign flips is at most Hoeffding's exp(-D² / 2V) (*JASA* 58, 1963), where D is the sum of the differences
    and V the sum of squared cluster sums. There is no lower bound, so only the full run can meet such a rule.
    """
    from pytest_llmprops.core.drop_tests import mcnemar_drop
    from pytest_llmprops.core.power import detectable_drop

    bounds, n = PairBounds.of(pairs, population, error_rate), population.items
    verdict: CheckVerdict = "inconclusive"
    if population.clustered or not pairs.binary:
        lost = max(bounds.drop_low, 0.0) * population.effective
        discordant = max(bounds.discordant_high * population.effective, lost)
        if lost and math.exp(-(lost**2) / (2 * discordant)) <= alpha / tests:
            verdict = "failed"
    else:
        losses, gains = bounds.counts(bounds.drop_low, bounds.discordant_high, n)
        greatest_p = mcnemar_drop(_down(losses), _up(gains))
        losses, gains = bounds.counts(bounds.drop_high, bounds.discordant_low, n)
        least_p = mcnemar_drop(_up(losses), _down(gains))
        if greatest_p <= alpha / tests:
            verdict = "failed"
        elif least_p > alpha:
            # The number of discordant pairs, and so the detectable drop, is largest where the drop is closest to 0.
            nearest = min(max(0.0, bounds.drop_low), bounds.drop_high)
            discordant = min(map(_up, bounds.counts(nearest, bounds.discordant_high, n)))
            discordant = min(discordant, n // 2)
            if detectable_drop(discordant, discordant, n, alpha=alpha / tests, power=POWER) <= rule.detect:
                verdict = "met"
    return _drop_check("no_regression", regression_required(rule), pairs, bounds, n, verdict)


def max_drop(rule: Rule, pairs: Pairs, population: Population, error_rate: float) -> Check:
    """Check ``max_drop``: the full run's interval at the extremes of the possible counts.

    The upper limit of the drop rises with the losses and falls with the gains. At a given drop, it rises with the
    number of discordant pairs. So it is largest at the largest drop with the most discordant pairs.
    """
    from pytest_llmprops.core.drop_limits import count_sample

    assert rule.max_drop is not None
    bounds, n, tail = PairBounds.of(pairs, population, error_rate), population.effective, rule.alpha / 2
    verdict: CheckVerdict = "inconclusive"
    if n:
        worst, best = (
            count_sample(*bounds.counts(drop, bounds.discordant_high, n), n)
            for drop in (bounds.drop_high, bounds.drop_low)
        )
        if worst.p_below(rule.max_drop, most=1) <= tail:
            verdict = "met"
        elif best.p_above(rule.max_drop, least=-1) <= tail:
            verdict = "failed"
    return _drop_check("max_drop", drop_required(rule), pairs, bounds, population.items, verdict)


def _up(count: float) -> int:
    return math.ceil(count - ROUNDING)


def _down(count: float) -> int:
    return math.floor(count + ROUNDING)


def _drop_check(
    kind: str, required: str, pairs: Pairs, bounds: PairBounds, n: int, verdict: CheckVerdict
) -> Check:
    if not pairs.n:
        return _check(
            kind, required, f"no pair drawn of {n}", verdict, None, bounds.drop_low, bounds.drop_high
        )
    so_far = change(pairs.drop, bounds.drop_low, bounds.drop_high, rest=" so far")
    measured = f"{so_far} for all pairs, {pairs.n} drawn of {n}"
    return _check(kind, required, measured, verdict, pairs.drop, bounds.drop_low, bounds.drop_high)


def _check(
    kind: str,
    required: str,
    measured: str,
    verdict: CheckVerdict,
    value: float | None,
    low: float,
    high: float,
) -> Check:
    reason = OPEN if verdict == "inconclusive" else ""
    return Check(kind, required, measured, verdict, reason, value, low, high)
