"""What the full run would decide, known from a part of it: checks of a sequential gate.

Items are drawn without replacement in an order that is random with respect to the answers. After any number
of draws, a confidence sequence for a finite population (core/confidence_sequence.py) bounds the counts that
all items would give; where the rest cannot matter, the bounds hold for certain. A check is settled when every
count within the bounds leads the full run's own test to one verdict.

So an early verdict differs from the full run's with at most the probability spent on the bounds. A
sequential gate gives half of a rule's ``alpha`` to them, split over all checks, and half to the tests of
the full run: a wrong acceptance has at most the stated rate over both.

**Clusters.** The bounds hold whatever the items have to do with each other: they speak of these very items, of
which a random part was drawn. But the full run's test is then one over clusters, whose outcome depends on how
the counts fall into them. Within clusters of at most s items, squared sums of differences add up to at most s
times the squared differences (Cauchy-Schwarz), so n items are taken as n / s independent ones: the widest that
the full run's interval can be, but for the skew of its bootstrap. ``no_regression`` is treated apart, below.

**Errors.** An item drawn and found in error leaves the population. Those not drawn yet count as answered; with
at most ``max_errors`` of them, which else makes the rule invalid, that moves the bounds by less than they are
wide.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pytest_llmprops.core.gate_results import Check, CheckVerdict
from pytest_llmprops.core.statistics import two_sided_z, wilson
from pytest_llmprops.runs.gate_checks import (
    MIN_CLUSTERS,
    POWER,
    Answer,
    accuracy_required,
    change,
    drop_required,
    limit_of,
    percent,
    ranked,
    regression_required,
    span,
)
from pytest_llmprops.runs.gate_file import Rule

if TYPE_CHECKING:
    from pytest_llmprops.core.comparison import Pairs

OPEN = "not settled yet"
#: of a check's error rate, what is spent on the drop; the rest bounds how many pairs are discordant
DROP_SHARE = 0.8
#: rounding of a count that is made from shares
ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Population:
    """What the full run holds for one rule.

    :param items: number of items (of pairs, for a rule that compares). :param effective: how many independent
        ones they are worth at worst: items / size of the largest cluster.
    """

    items: int
    effective: float

    @classmethod
    def of(cls, clusters: Sequence[str]) -> Population:
        """From the cluster label of each item."""
        largest = max(Counter(clusters).values(), default=1)
        return cls(len(clusters), len(clusters) / largest)

    @property
    def clustered(self) -> bool:
        """Whether some cluster has more than one item."""
        return self.effective < self.items

    def without(self, lost: int) -> Population:
        """The population less items that turned out to be errors."""
        kept = max(self.items - lost, 0)
        return Population(kept, self.effective * kept / self.items if self.items else 0.0)


def accuracy(rule: Rule, answers: Sequence[Answer], population: Population, error_rate: float) -> Check:
    """``min_accuracy``: bounds on the accuracy over all items, then the full run's interval.

    Its lower and upper limits rise with the accuracy, so equal verdicts at both bounds hold in between.
    """
    assert rule.min_accuracy is not None
    scores = [a.correct for a in answers]
    low, high = _mean_bounds(scores, population, error_rate)
    if rule.basis == "point":
        verdict = ranked(low, high, at_least=rule.min_accuracy)
    else:
        n, level = population.effective, 1 - rule.alpha
        intervals = [wilson(p * n, n, level=level) for p in (low, high)]
        worst, best = (ranked(i.low, i.high, at_least=rule.min_accuracy) for i in intervals)
        verdict = worst if worst == best else "inconclusive"
        if population.clustered and n < MIN_CLUSTERS:
            verdict = "inconclusive"
    return _mean_check("min_accuracy", accuracy_required(rule), scores, population, verdict, low, high)


def share(
    rule: Rule,
    status: Literal["refused", "unparsed"],
    answers: Sequence[Answer],
    population: Population,
    error_rate: float,
) -> Check:
    """``max_refused`` or ``max_unparsed`` over all items."""
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
    so_far = "-" if value is None else percent(value)
    measured = f"{so_far} so far; all items: {span(low, high)}, {len(values)} drawn of {population.items}"
    return _check(kind, required, measured, verdict, value, low, high)


@dataclass(frozen=True, slots=True)
class PairBounds:
    """Bounds on the drop and on the share of discordant pairs over the whole population.

    With repeats, a pair is discordant by the size of its difference.
    """

    drop_low: float
    drop_high: float
    discordant_low: float
    discordant_high: float

    @classmethod
    def of(cls, pairs: Pairs, population: Population, error_rate: float) -> PairBounds:
        """Two confidence sequences: the drop's, which matters most, and the discordant share's."""
        scaled = [(1 + d) / 2 for d in pairs.drops]
        low, high = _mean_bounds(scaled, population, error_rate * DROP_SHARE)
        least, most = _mean_bounds([abs(d) for d in pairs.drops], population, error_rate * (1 - DROP_SHARE))
        # Neither way can the drop exceed the discordant share.
        drop_low, drop_high = max(2 * low - 1, -most), min(2 * high - 1, most)
        return cls(drop_low, drop_high, max(least, drop_low, -drop_high), most)

    def counts(self, drop: float, discordant: float, n: float) -> tuple[float, float]:
        """(losses, gains) of ``n`` pairs at a drop and a discordant share."""
        discordant = max(discordant, abs(drop))
        return n * (discordant + drop) / 2, n * (discordant - drop) / 2


def no_regression(
    rule: Rule, pairs: Pairs, population: Population, error_rate: float, *, alpha: float, tests: int
) -> Check:
    """``no_regression``: the full run's test at the corners of what the counts may be.

    McNemar's p-value falls with losses and rises with gains, and at one drop above 0 it rises with the discordant
    pairs. "Failed" needs p below alpha / tests, Holm's first step, and "met" p above alpha, his last, so that the
    other rules cannot change either. Where items come in clusters, or are repeated, the p-value of sign flips has
    Hoeffding's bound exp(-D² / 2V) (*JASA* 58, 1963), with D the sum of the differences and V the sum of squared
    cluster sums; but no bound from below, so that such a rule is met by its full run only.
    """
    from pytest_llmprops.core.comparison import detectable_drop, mcnemar_drop

    bounds, n = PairBounds.of(pairs, population, error_rate), population.items
    verdict: CheckVerdict = "inconclusive"
    if population.clustered or not pairs.binary:
        lost = max(bounds.drop_low, 0.0) * population.effective
        churn = max(bounds.discordant_high * population.effective, lost)
        if lost and math.exp(-(lost**2) / (2 * churn)) <= alpha / tests:
            verdict = "failed"
    else:
        losses, gains = bounds.counts(bounds.drop_low, bounds.discordant_high, n)
        greatest_p = mcnemar_drop(_down(losses), _up(gains))
        losses, gains = bounds.counts(bounds.drop_high, bounds.discordant_low, n)
        least_p = mcnemar_drop(_up(losses), _down(gains))
        if greatest_p <= alpha / tests:
            verdict = "failed"
        elif least_p > alpha:
            # Most churn, hence the largest detectable drop, is at the drop nearest to none.
            nearest = min(max(0.0, bounds.drop_low), bounds.drop_high)
            churn = min(map(_up, bounds.counts(nearest, bounds.discordant_high, n)))
            churn = min(churn, n // 2)
            if detectable_drop(churn, churn, n, alpha=alpha / tests, power=POWER) <= rule.detect:
                verdict = "met"
    return _drop_check("no_regression", regression_required(rule), pairs, bounds, n, verdict)


def max_drop(rule: Rule, pairs: Pairs, population: Population, error_rate: float) -> Check:
    """``max_drop``: the full run's interval where it reaches furthest within what the counts may be."""
    from pytest_llmprops.core.comparison import paired_interval

    assert rule.max_drop is not None
    bounds, n, level = PairBounds.of(pairs, population, error_rate), population.effective, 1 - rule.alpha
    # Bonett-Price limits are d ± c √(v - d²), with d the drop and v the discordant share after one loss, one gain
    # and two pairs were added: furthest from 0 at the largest v, and there at |d| = √(v / (1 + c²)).
    v = (bounds.discordant_high * n + 2) / (n + 2)
    furthest = math.sqrt(v / (1 + two_sided_z(level) ** 2 / (n + 2))) * (n + 2) / n if n else 1.0

    def interval(drop: float) -> tuple[float, float]:
        within = min(max(drop, bounds.drop_low), bounds.drop_high)
        found = paired_interval(*bounds.counts(within, bounds.discordant_high, n), n, level=level)
        return found.low, found.high

    verdict: CheckVerdict = "inconclusive"
    if interval(furthest)[1] <= rule.max_drop:
        verdict = "met"
    elif interval(-furthest)[0] > rule.max_drop:
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
    seen = change(pairs.drop, bounds.drop_low, bounds.drop_high, rest=" so far")
    measured = f"{seen} for all pairs, {pairs.n} drawn of {n}"
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
