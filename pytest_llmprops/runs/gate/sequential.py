"""Sequential gates: the order in which items are drawn, and the bounds on what the others can still change."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pytest_llmprops.core.comparison import is_ruled_out
from pytest_llmprops.core.gate_results import Check, CheckVerdict, RulePlan, SequentialPlan
from pytest_llmprops.core.items import Placed, PlacedItem
from pytest_llmprops.core.numbers import interval, percent
from pytest_llmprops.core.paired import Pairs, count_sample, mcnemar_drop
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.statistics import clopper_pearson
from pytest_llmprops.runs.benchmark_metadata import TasksByAnswer
from pytest_llmprops.runs.gate.checks import (
    Answer,
    accuracy_required,
    change,
    drop_required,
    limit_of,
    ranked,
    regression_required,
)
from pytest_llmprops.runs.gate.file import Gate, Rule
from pytest_llmprops.runs.pairs import with_tasks_of

# Checks of a sequential gate: what a part of the items says about the decision of the full run.
#
# Items are drawn without replacement, in an order that is independent of the answers. After any number of
# draws, a confidence sequence for a finite population (core/confidence_sequence.py) bounds the counts over
# all items. A check is settled when the full run's own test has the same verdict for every count within the
# bounds.
#
# An early verdict therefore differs from the full run's with at most the probability spent on the bounds. A
# sequential gate spends half of a rule's ``alpha`` on them, split over all checks, and half on the tests of
# the full run. The rate of wrong acceptances over both is at most ``alpha``.
#
# **Clusters.** The bounds hold for any dependence between items, because they are about this finite
# population, of which a random part was drawn. The full run's test, however, is over clusters, and depends on
# how the counts are distributed over them. In clusters of at most s items, the squared cluster sums of
# differences add up to at most s times the squared differences (Cauchy-Schwarz). So n items count as n / s
# independent ones that are right or wrong, which gives the widest interval of the full run. ``no_regression``
# is handled separately below.
#
# **Errors.** A drawn item with an error leaves the population. Items that are not drawn yet count as
# answered. More than ``max_errors`` errors make the rule invalid; fewer move the bounds by less than their
# width.

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
    last step), so that other rules cannot change the verdict. "Met" also needs the upper limit of the drop at the worst
    counts to be below ``detect``, as in :func:`max_drop`. For items in clusters or with several samples, the
    p-value of sign flips is at most Hoeffding's exp(-D² / 2V) (*JASA* 58, 1963), where D is the sum of the differences
    and V the sum of squared cluster sums. There is no lower bound, so only the full run can meet such a rule.
    """
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
            # The upper limit is largest at the largest drop with the most discordant pairs.
            worst = count_sample(*bounds.counts(bounds.drop_high, bounds.discordant_high, n), n)
            if is_ruled_out(worst, rule.detect):
                verdict = "met"
    return _drop_check("no_regression", regression_required(rule), pairs, bounds, n, verdict)


def max_drop(rule: Rule, pairs: Pairs, population: Population, error_rate: float) -> Check:
    """Check ``max_drop``: the full run's interval at the extremes of the possible counts.

    The upper limit of the drop rises with the losses and falls with the gains. At a given drop, it rises with the
    number of discordant pairs. So it is largest at the largest drop with the most discordant pairs.
    """
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
    so_far = change(pairs.drop, bounds.drop_low, bounds.drop_high, "all pairs:", rest=" so far")
    measured = f"{so_far}, {pairs.n} drawn of {n}"
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


# The order in which a sequential gate draws items, and the blocks in which they are measured.
#
# The order is a shuffle keyed by (seed, item id): it draws a rule's items without replacement, is the same in
# every process, and can be recomputed from a record. Blocks are stratified by rule: each has the same share
# of every rule's items. The gate decides after each block (:func:`~pytest_llmprops.runs.gate.decide.decide`).

#: approximate maximum number of blocks: the request queue runs empty after each
MOST_BLOCKS = 40
SMALLEST_BLOCK = 16

#: kinds of faults of an item in a comparison
IN_ERROR, ABSENT_HERE, ABSENT_THERE = "in error", "missing in this run", "missing in the baseline"
#: some samples of the item are in error, others are not
PARTLY = "partly in error"


def draw_key(seed: int, item_id: str) -> bytes:
    """Return the sort key of an item in the order of drawing; it depends only on seed and id."""
    return hashlib.sha256(f"draw\0{seed}\0{item_id}".encode()).digest()


def rule_of(gate: Gate, place: Placed) -> str | None:
    """Return the name of the rule that judges items of this place; metric rules come after the others."""
    for by_metric in (False, True):
        for rule in gate.rules:
            if bool(rule.metric) is by_metric and rule.matches(place):
                return rule.name
    return None


def blocks(gate: Gate, places: Sequence[PlacedItem], *, concurrency: int, seed: int) -> list[list[int]]:
    """Return positions in ``places`` (one per case), block by block.

    Positions are sorted within a block, so that requests with a common prefix stay together. Cases without a rule
    come last, because the decision does not need them.

    :param concurrency: minimum length of a block, so that all slots are busy until its end.
    """
    strata: dict[str | None, list[int]] = {}
    for position, place in enumerate(places):
        strata.setdefault(rule_of(gate, place), []).append(position)
    without_rule = strata.pop(None, [])
    drawn: list[tuple[float, int]] = []
    for positions in strata.values():
        positions.sort(key=lambda p: draw_key(seed, places[p].id))
        drawn += [((n + 0.5) / len(positions), p) for n, p in enumerate(positions)]
    drawn.sort()
    size = max(concurrency, SMALLEST_BLOCK, math.ceil(len(drawn) / MOST_BLOCKS))
    # A remainder joins the block before it.
    starts = [n for n in range(0, len(drawn), size) if n == 0 or len(drawn) - n >= size]
    drawn_blocks = [
        sorted(p for _, p in drawn[start:end])
        for start, end in zip(starts, [*starts[1:], len(drawn)], strict=True)
    ]
    return [*drawn_blocks, without_rule] if without_rule else drawn_blocks


def plan_of(
    gate: Gate,
    places: Sequence[PlacedItem],
    baseline: Iterable[VerdictRecord],
    seed: int,
    decided: TasksByAnswer | None = None,
) -> SequentialPlan:
    """Return the value of ``sequential`` in ``run.json``.

    ``gate`` and ``baseline`` say whether the plan applies to a later decision. ``ended`` is set when a case was not
    needed. ``rules`` has, by name, the numbers of items and pairs (with their effective numbers, see
    :class:`~pytest_llmprops.runs.gate.sequential.Population`), and the ids that cannot form a pair.

    :param places: one per case.
    :param baseline: the baseline's records, which determine the possible pairs.
    :param decided: the tasks that depend on the answer, by benchmark; by default those of the installed benchmarks.
    """
    baseline = list(baseline)
    rules = {rule.name: _plan_of_rule(rule, places, baseline, decided) for rule in gate.rules}
    return SequentialPlan(gate.sha256, fingerprint(baseline), seed, ended=False, rules=rules)


def fingerprint(records: Iterable[VerdictRecord]) -> str:
    """Return a hash of the ids of the answered items, independent of the answers."""
    answered = sorted({(r.benchmark, r.id) for r in records if r.status != "error"})
    return hashlib.sha256(repr(answered).encode()).hexdigest()


def _plan_of_rule(
    rule: Rule, places: Sequence[PlacedItem], baseline: Sequence[VerdictRecord], decided: TasksByAnswer | None
) -> RulePlan:
    cases = {_key(p): p for p in rule.select(places)}
    items = Population.of([p.cluster for p in cases.values()])
    plan = RulePlan(items.items, items.effective)
    if rule.paired:
        # The task of a case may depend on its answer. Until then it is a guess, and the baseline must use the same.
        records = rule.select(with_tasks_of(baseline, places, decided))
        known, answered = {_key(r) for r in records}, {_key(r) for r in records if r.status != "error"}
        faults = {
            IN_ERROR: [key[-1] for key in cases if key in known - answered],
            ABSENT_HERE: sorted(key[-1] for key in known - cases.keys()),
            ABSENT_THERE: [key[-1] for key in cases if key not in known],
        }
        pairs = Population.of([p.cluster for key, p in cases.items() if key in answered])
        plan = replace(plan, faults=faults, pairs=pairs.items, pairs_effective=pairs.effective)
    return plan


def _key(place: PlacedItem) -> tuple[str, ...]:
    return place.benchmark, place.task, place.language, place.source, place.id
