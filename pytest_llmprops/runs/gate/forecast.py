"""How often a gate would pass: the decisions on simulated candidates, before any call is paid for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import beta, binom, ndtr

from pytest_llmprops.benchmark_registry import find_benchmark, registrations
from pytest_llmprops.core.contracts import prepared
from pytest_llmprops.core.field_types import UNANSWERED
from pytest_llmprops.core.items import ItemPlace, PlacedItem, grouped
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.data.files import DataFolder, data_folder
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.runs.gate.data import RuleData, Terms
from pytest_llmprops.runs.gate.file import Gate, Rule, on_headline_tasks
from pytest_llmprops.runs.pairs import FEWEST
from pytest_llmprops.statistics.bounded_mean import mean_p_value
from pytest_llmprops.statistics.intervals import clopper_pearson
from pytest_llmprops.statistics.judgement import LEVEL
from pytest_llmprops.statistics.paired import mcnemar_drop

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Counts = NDArray[np.int64]

#: true drops of the simulated candidates
DROPS = (0.0, 0.02, 0.05, 0.10)
#: share of the items that an unchanged model loses between two runs, and gains, if the baseline does not tell
CHURN = 0.03
#: intraclass correlation of the drop in a cluster; churn is independent
CORRELATION = 0.2
#: a run whose unchanged model passes more rarely needs a confirmation
LEAST_RATE = 0.50
#: simulated candidates per drop
_DRAWS = 400


class Rates(NamedTuple):
    """The shares of simulated candidates with each decision."""

    passed: float
    failed: float
    inconclusive: float


class RuleItems(NamedTuple):
    """The items of a rule.

    :param repeats: samples per item. :param churn: share of the samples that an unchanged model loses, and gains.
    :param sizes: number of items -> number of units of this size. A unit counts once in a test: a cluster, or an
        independent item.
    :param is_weighted: whether the units count once in the mean, too, whatever their size.
    :param members: those of a ``no_collapse`` rule that have enough units for a significant drop.
    """

    items: int
    sizes: Mapping[int, int]
    is_weighted: bool
    accuracy: float
    repeats: int
    churn: float
    calls: int
    members: tuple[RuleItems, ...] = ()

    @property
    def units(self) -> int:
        """Number of clusters or independent items."""
        return sum(self.sizes.values())


class RuleForecast(NamedTuple):
    """What a rule would decide: ``rates`` by true drop, empty if the rule cannot be simulated."""

    name: str
    items: RuleItems
    rates: tuple[Rates, ...]


class Forecast(NamedTuple):
    """What a gate would decide on candidates that are worse by the same drop on every rule.

    :param whole: by true drop; empty if no rule can be simulated.
    """

    rules: tuple[RuleForecast, ...]
    whole: tuple[Rates, ...]


class Candidates(NamedTuple):
    """Simulated candidates: how often each sum of differences of a unit occurs.

    :param totals: the possible sums. :param sizes: the size of their units. :param counts: by candidate.
    """

    totals: Floats
    sizes: Floats
    counts: Counts

    @property
    def means(self) -> Floats:
        """The differences of the candidates."""
        return np.asarray((self.counts @ self.totals) / (self.counts @ self.sizes))


def forecast(
    gate: Gate,
    records: Iterable[PlacedItem],
    facts: RunMetadata,
    *,
    churn: float | Mapping[str, float] = CHURN,
    repeats: int | None = None,
    drops: Sequence[float] = DROPS,
) -> Forecast:
    """Return how often the gate would pass, fail and be inconclusive.

    ``max_refused``, ``max_unparsed`` and rules on metrics are not simulated. The members of a ``no_collapse`` rule are
    drawn apart from all of its items.

    :param records: the verdicts of a baseline, or items without verdicts.
    :param churn: of all rules, or by rule; used for a baseline without repeats. With repeats, it is that of two samples
        of an item.
    :param repeats: samples per item of the candidate and the baseline; by default those of the records.
    :param drops: true drops of the candidates; the first is 0.
    """
    records = [r for r in records if not isinstance(r, VerdictRecord) or r.status not in UNANSWERED]
    gate = on_headline_tasks(gate, records, facts)
    rates = churn if isinstance(churn, Mapping) else {rule.name: churn for rule in gate.rules}
    terms = Terms.of(facts)
    items = {rule.name: rule_items(rule, records, terms, rates[rule.name], repeats) for rule in gate.rules}
    simulated = [_simulate(gate, items, drop) for drop in drops]
    rules = tuple(
        RuleForecast(name, own, tuple(_rates(*one[name]) for one in simulated if name in one))
        for name, own in items.items()
    )
    return Forecast(rules, tuple(_whole(one.values()) for one in simulated) if all(simulated) else ())


def builtin_items(gate: Gate) -> list[PlacedItem]:
    """Return all built-in items of the benchmarks that the gate's rules concern."""
    items: list[PlacedItem] = []
    for registration in registrations():
        if not any(rule.concerns(registration.name) for rule in gate.rules):
            continue
        benchmark = find_benchmark(registration.name)
        folder = DataFolder(data_folder(registration), "builtin", registration.tools)
        part = prepared(benchmark, folder, benchmark.protocols["quick"].settings)
        items += [
            ItemPlace(benchmark.name, i.task, i.language, i.source, i.id, i.cluster) for i in part.items
        ]
    return items


def unchanged_passes(
    gate: Gate, rules: Iterable[RuleData], baseline: Sequence[VerdictRecord], facts: RunMetadata
) -> float | None:
    """Return how often an unchanged model passes a gate with the items and the churn that were measured.

    :param rules: the data of the gate's rules. :param baseline: the verdicts of the baseline.
    :param facts: ``run.json`` of the run under test. :returns: None if no rule compares.
    """
    compared = {data.rule.name: data.comparison for data in rules if data.pairs}
    churn = {name: min(pairs.losses, pairs.gains) / pairs.n for name, pairs in compared.items()}
    gate = replace(gate, rules=tuple(rule for rule in gate.rules if rule.name in churn))
    whole = forecast(gate, baseline, facts, churn=churn, drops=(0.0,)).whole
    return whole[0].passed if whole else None


def rule_items(
    rule: Rule, records: Iterable[PlacedItem], terms: Terms, churn: float, repeats: int | None
) -> RuleItems:
    """Return the items of a rule, given the records of a baseline, or items without verdicts.

    :param churn: used if the items have one sample. :param repeats: samples per item, if not those of the records.
    """
    selected = rule.select(records)
    own = _items_of(selected, terms, churn, repeats)
    if rule.each is None:
        return own
    each = rule.each
    groups = grouped(selected, lambda r: (r.benchmark, getattr(r, each)))
    members = [_items_of(group, terms, own.churn, repeats) for group in groups.values()]
    if rule.each == "cluster":
        # A single cluster is compared item by item.
        members = [one._replace(sizes={1: one.items}, is_weighted=False) for one in members]
    return own._replace(members=tuple(one for one in members if one.units >= FEWEST))


def _items_of(records: Sequence[PlacedItem], terms: Terms, churn: float, repeats: int | None) -> RuleItems:
    samples: dict[tuple[str, ...], list[PlacedItem]] = {}
    units: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for r in records:
        key = (r.benchmark, r.task, r.language, r.source, r.id)
        samples.setdefault(key, []).append(r)
        units.setdefault((r.benchmark, r.source, r.cluster), set()).add(key)
    right = [
        [isinstance(r, VerdictRecord) and r.status == "correct" for r in one] for one in samples.values()
    ]
    own = min(map(len, right), default=1)
    if own > 1:
        # The probability that one of two samples of an item is correct and the other is not, without bias.
        churn = math.fsum(sum(x) * (len(x) - sum(x)) / (len(x) * (len(x) - 1)) for x in right) / len(right)
    accuracy = math.fsum(sum(x) / len(x) for x in right) / max(1, len(right))
    calls = sum(len(r.requests) for one in samples.values() for r in one if isinstance(r, VerdictRecord))
    sizes = Counter(map(len, units.values()))
    is_weighted = any(terms.is_weighted(benchmark) for benchmark, *_ in units)
    return RuleItems(len(samples), sizes, is_weighted, accuracy, repeats or own, churn, calls)


def _simulate(gate: Gate, items: Mapping[str, RuleItems], drop: float) -> dict[str, tuple[Flags, Flags]]:
    """Return the rules that can be simulated: name -> whether each candidate fails, and whether it meets the rule."""
    decided = {}
    tests = sum((rule.max_drop is not None) + len(items[rule.name].members) for rule in gate.rules)
    for number, rule in enumerate(gate.rules):
        own = items[rule.name]
        if own.items and (rule.paired or rule.min_accuracy is not None):
            rng = np.random.default_rng([number, round(1000 * drop)])
            drawn = candidates(rng, own, drop)
            members = [candidates(rng, member, drop) for member in own.members]
            decided[rule.name] = decide_rule(rule, own, drawn, members, tests)
    return decided


def decide_rule(
    rule: Rule, items: RuleItems, drawn: Candidates, members: Sequence[Candidates], tests: int
) -> tuple[Flags, Flags]:
    """Return whether each candidate fails the rule, and whether it meets it.

    :param members: the candidates on each member of a ``no_collapse`` rule.
    :param tests: number of comparisons that are judged together; Holm's first step.
    """
    failed, met = np.zeros(len(drawn.counts), dtype=bool), np.ones(len(drawn.counts), dtype=bool)
    if rule.max_drop is not None:
        met = _p_above(drawn, -rule.max_drop) <= LEVEL / 2
        failed = (_p_of_drop(drawn) <= LEVEL / 2 / tests) & ~met
    if rule.min_accuracy is not None:
        is_below, is_reached = _accuracy(rule.min_accuracy, items, drawn)
        failed, met = failed | is_below, met & is_reached
    if rule.no_collapse is not None:
        # Without a member that could be significant, the rule is invalid.
        met &= bool(members)
        for member in members:
            collapsed = (member.means < -rule.no_collapse) & (_p_of_drop(member) <= LEVEL / 2 / tests)
            failed, met = failed | collapsed, met & ~collapsed
    return failed, met


def candidates(rng: np.random.Generator, items: RuleItems, drop: float, number: int = _DRAWS) -> Candidates:
    """Return simulated candidates with this true drop.

    An item is lost in all its samples with the probability ``drop``, which varies between clusters (beta distribution).
    Otherwise each sample is lost, or gained, with the probability of the churn.
    """
    parts = []
    for size, units in items.sizes.items():
        shares = unit_shares(size, items.repeats, items.churn, drop)
        totals = np.arange(-size * items.repeats, size * items.repeats + 1) / items.repeats
        weight = size if items.is_weighted else 1
        parts.append(
            (
                totals / weight,
                np.full(len(totals), size / weight),
                rng.multinomial(units, shares, size=number),
            )
        )
    totals, sizes, counts = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
    return Candidates(totals, sizes, counts)


@lru_cache(maxsize=256)
def unit_shares(size: int, repeats: int, churn: float, drop: float) -> Floats:
    """Return the probabilities of the sums of differences of one unit, from ``-size`` to ``size``.

    The step between two sums is 1 / ``repeats``.
    """
    sample = np.array([churn, 1 - 2 * churn, churn])
    kept = np.ones(1)
    for _ in range(repeats):
        kept = np.convolve(kept, sample)
    lost = np.array([1 - drop, drop])
    if drop and size > 1:
        scale = (1 - CORRELATION) / CORRELATION
        numbers, a, b = np.arange(size + 1), scale * drop, scale * (1 - drop)
        # beta-binomial distribution
        lost = binom(size, numbers) * beta(numbers + a, size - numbers + b) / beta(a, b)
    lost = np.pad(lost, (0, max(0, size + 1 - len(lost))))
    shares, others = np.zeros(2 * size * repeats + 1), np.ones(1)
    for number in range(size, -1, -1):  # of lost items; ``others`` has the sums of all the other items
        shares[: len(others)] += lost[number] * others
        others = np.convolve(others, kept)
    return np.asarray(shares / shares.sum())


def _p_above(drawn: Candidates, limit: float) -> Floats:
    """Return the p-values of "the difference is at most ``limit``"."""
    used = drawn.counts.any(axis=0)
    return mean_p_value(drawn.totals[used], drawn.sizes[used], limit, least=-1, counts=drawn.counts[:, used])


def _p_of_drop(drawn: Candidates) -> Floats:
    """Return the p-values of the test of a drop; of clusters by the normal approximation of sign flips."""
    totals, counts = drawn.totals, drawn.counts
    if set(totals.tolist()) <= {-1.0, 0.0, 1.0}:
        return np.asarray(mcnemar_drop(counts @ (totals < 0), counts @ (totals > 0)))
    spread = np.sqrt(counts @ totals**2)
    p = ndtr((counts @ totals) / np.where(spread > 0, spread, 1.0))
    return np.asarray(np.where(counts @ (totals != 0) >= FEWEST, p, 1.0))


def _accuracy(limit: float, items: RuleItems, drawn: Candidates) -> tuple[Flags, Flags]:
    """Return whether the candidate's accuracy is below the limit, and whether it reaches it.

    Its interval is as wide as that of an accuracy with as many units.
    """
    value = np.clip(items.accuracy + drawn.means, 0, 1)
    n = items.units
    known = {v: clopper_pearson(v * n, n) for v in np.unique(value).tolist()}
    low, high = (np.array([known[v][side] for v in value.tolist()]) for side in (0, 1))
    return np.asarray(high < limit), np.asarray(low >= limit)


def _rates(failed: Flags, met: Flags) -> Rates:
    return Rates(float(met.mean()), float(failed.mean()), float((~met & ~failed).mean()))


def _whole(decided: Iterable[tuple[Flags, Flags]]) -> Rates:
    failed, met = zip(*decided, strict=True)
    return _rates(np.any(failed, axis=0), np.all(met, axis=0))
