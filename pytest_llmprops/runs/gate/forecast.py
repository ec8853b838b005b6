"""How often a gate would pass: the decisions on simulated candidates, before any call is paid for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from pytest_llmprops.benchmark_registry import find_benchmark, registrations
from pytest_llmprops.core.benchmark_checks import loaded, prepared
from pytest_llmprops.core.bounded_mean import mean_p_value
from pytest_llmprops.core.comparison import ALPHA, CONFIDENCE
from pytest_llmprops.core.field_types import UNANSWERED
from pytest_llmprops.core.items import ItemPlace, PlacedItem
from pytest_llmprops.core.paired import mcnemar_drop
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.run_metadata import RunMetadata
from pytest_llmprops.core.statistics import clopper_pearson
from pytest_llmprops.data.files import DataFolder, data_folder
from pytest_llmprops.runs.gate.data import FEWEST, PairingRules
from pytest_llmprops.runs.gate.decide import impossible_rules
from pytest_llmprops.runs.gate.file import Gate, Rule, on_headline_tasks

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Units = NDArray[np.int64]

#: true drops of the simulated candidates
DROPS = (0.0, 0.02, 0.05, 0.10)
#: share of the items that an unchanged model loses between two runs, and gains, if the baseline does not tell
CHURN = 0.03
#: intraclass correlation of the drop in a cluster; churn is independent
CORRELATION = 0.2
#: repeats that are tried if an unchanged model passes too rarely
REPEATS = (1, 3, 5, 10)
#: an unchanged model should pass this often
PASS_RATE = 0.90
#: simulated candidates per drop, and the number of drops that are held at once
_DRAWS, _MOST_DROPS = 400, 2_000_000


class Rates(NamedTuple):
    """The shares of simulated candidates with each decision."""

    passed: float
    failed: float
    inconclusive: float


@dataclass(frozen=True, slots=True)
class RuleForecast:
    """What a rule would decide.

    :param clusters: number of clusters or independent items. :param repeats: samples per item.
    :param churn: share of the samples that an unchanged model loses between two runs, and gains.
    :param rates: by true drop, in the order of :data:`DROPS`; empty if the rule cannot be simulated.
    :param impossible: why no candidate can meet the rule; empty if one can.
    """

    name: str
    items: int
    clusters: int
    repeats: int
    churn: float
    calls: int
    rates: tuple[Rates, ...]
    impossible: str = ""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a gate would decide on candidates that are worse by the same drop on every rule.

    :param repeats: the smallest number of :data:`REPEATS` with which an unchanged model passes in 90% of runs, or None.
    """

    rules: tuple[RuleForecast, ...]
    whole: tuple[Rates, ...]
    repeats: int | None


class RuleItems(NamedTuple):
    """The items of a rule, sorted by unit: what counts once in a test.

    :param units: index of each item's unit. :param sizes: size of each unit in items, or 1 if clusters count once.
    :param scale: weight of each item in the total of its unit.
    """

    places: Sequence[PlacedItem]
    units: Units
    sizes: Floats
    scale: Floats
    accuracy: float
    repeats: int
    churn: float
    calls: int


def forecast(
    gate: Gate,
    records: Iterable[PlacedItem],
    facts: RunMetadata,
    *,
    churn: float = CHURN,
    repeats: int | None = None,
) -> Forecast:
    """Return how often the gate would pass, fail and be inconclusive.

    :param records: the verdicts of a baseline, or items without verdicts.
    :param churn: used for a baseline without repeats. With repeats, it is that of two samples of an item.
    :param repeats: samples per item of the candidate and the baseline; by default those of the records.
    """
    records = [r for r in records if not isinstance(r, VerdictRecord) or r.status not in UNANSWERED]
    gate = on_headline_tasks(gate, records, facts)
    terms = PairingRules.of(facts)
    never = impossible_rules(gate, records, facts)
    items = {rule.name: rule_items(rule.select(records), terms, churn, repeats) for rule in gate.rules}
    simulated = [_simulate(gate, items, drop) for drop in DROPS]
    rules = tuple(
        RuleForecast(
            rule.name, len(own.places), len(own.sizes), own.repeats, own.churn, own.calls,
            tuple(_rates(*one[rule.name]) for one in simulated if rule.name in one),
            never.get(rule.name, ""),
        )
        for rule in gate.rules
        for own in [items[rule.name]]
    )  # fmt: skip
    whole = tuple(_whole(one.values()) for one in simulated) if all(simulated) else ()
    enough = items[gate.rules[0].name].repeats if whole and whole[0].passed >= PASS_RATE else None
    if enough is None and whole and repeats is None:
        enough = next((n for n in REPEATS if _passes(gate, items, n)), None)
    return Forecast(rules, whole, enough)


def builtin_items(gate: Gate) -> list[PlacedItem]:
    """Return all built-in items of the benchmarks that the gate's rules concern."""
    items: list[PlacedItem] = []
    for registration in registrations():
        if not any(rule.concerns(registration.name) for rule in gate.rules):
            continue
        benchmark = find_benchmark(registration.name)
        folder = DataFolder(data_folder(registration), "builtin", registration.tools)
        settings = benchmark.protocols["quick"].settings
        part = prepared(benchmark, loaded(benchmark, folder), folder, settings)
        items += [
            ItemPlace(benchmark.name, i.task, i.language, i.source, i.id, i.cluster) for i in part.items
        ]
    return items


def _passes(gate: Gate, items: Mapping[str, RuleItems], repeats: int) -> bool:
    again = {name: own._replace(repeats=repeats) for name, own in items.items()}
    return _whole(_simulate(gate, again, 0.0).values()).passed >= PASS_RATE


def rule_items(
    records: Sequence[PlacedItem], terms: PairingRules, churn: float, repeats: int | None
) -> RuleItems:
    """Return the items of a rule, given its records in a baseline, or items without verdicts.

    :param churn: used if the items have one sample. :param repeats: samples per item, if not those of the records.
    """
    samples: dict[tuple[str, ...], list[PlacedItem]] = {}
    for r in records:
        samples.setdefault((r.benchmark, r.cluster, r.task, r.language, r.source, r.id), []).append(r)
    keys = sorted(samples)
    places = [samples[key][0] for key in keys]
    labels = {label: n for n, label in enumerate(dict.fromkeys(key[:2] for key in keys))}
    units = np.array([labels[key[:2]] for key in keys], dtype=np.int64)
    sizes = np.bincount(units, minlength=len(labels)).astype(float)
    weighted = np.array([terms.is_weighted(key[0]) for key in keys], dtype=bool)
    scale = np.where(weighted, 1 / sizes[units] if len(units) else 1.0, 1.0)
    sizes = np.bincount(units, weights=scale, minlength=len(labels)).astype(np.float64)
    right = [[isinstance(r, VerdictRecord) and r.status == "correct" for r in samples[key]] for key in keys]
    own = min(map(len, right), default=1)
    if own > 1:
        # The probability that one of two samples of an item is correct and the other is not, without bias.
        churn = math.fsum(sum(x) * (len(x) - sum(x)) / (len(x) * (len(x) - 1)) for x in right) / len(right)
    accuracy = math.fsum(sum(x) / len(x) for x in right) / max(1, len(right))
    calls = sum(len(r.requests) for rs in samples.values() for r in rs if isinstance(r, VerdictRecord))
    return RuleItems(places, units, sizes, scale, accuracy, repeats or own, churn, calls)


def _simulate(gate: Gate, items: Mapping[str, RuleItems], drop: float) -> dict[str, tuple[Flags, Flags]]:
    """Return the rules that can be simulated: name -> whether each candidate fails, and whether it meets the rule."""
    decided = {}
    for number, rule in enumerate(gate.rules):
        own = items[rule.name]
        if rule.metric or not own.places:
            continue
        rng = np.random.default_rng([number, round(1000 * drop)])
        size = max(1, _MOST_DROPS // len(own.places))
        parts = [
            decide_rule(gate, rule, own, candidate_drops(rng, own, drop, min(size, _DRAWS - first)))
            for first in range(0, _DRAWS, size)
        ]
        failed, met = (np.concatenate(flags) for flags in zip(*parts, strict=True))
        decided[rule.name] = failed, met
    return decided


def decide_rule(gate: Gate, rule: Rule, items: RuleItems, drops: Floats) -> tuple[Flags, Flags]:
    """Return whether each candidate fails the rule, and whether it meets it."""
    failed, met = np.zeros(len(drops), dtype=bool), np.ones(len(drops), dtype=bool)
    totals = _totals(drops, items.units, items.scale)
    if rule.no_regression:
        # Holm's first step
        alpha = ALPHA / sum(r.no_regression for r in gate.rules)
        failed |= _p_of_drop(totals, items.sizes) <= alpha
        met &= _p_below(totals, items.sizes, rule.detect) <= 1 - CONFIDENCE
    if rule.max_drop is not None:
        failed |= _p_below(-totals, items.sizes, -rule.max_drop) <= ALPHA / 2
        met &= _p_below(totals, items.sizes, rule.max_drop) <= ALPHA / 2
    if rule.no_collapse:
        failed |= _collapsed(rule, items, drops)
    if rule.min_accuracy is not None:
        is_below, is_reached = _accuracy(rule, items, totals)
        failed, met = failed | is_below, met & is_reached
    return failed, met & ~failed


def candidate_drops(rng: np.random.Generator, items: RuleItems, drop: float, candidates: int) -> Floats:
    """Return the drop of each item for each candidate.

    An item is lost in all its samples with the probability ``drop``, which varies between clusters (beta distribution).
    Otherwise each sample is lost, or gained, with the probability of the churn.
    """
    shape, lose = (candidates, len(items.places)), np.full((1, 1), drop)
    if drop and len(items.sizes) < len(items.places):
        scale = (1 - CORRELATION) / CORRELATION
        lose = rng.beta(scale * drop, scale * (1 - drop), (candidates, len(items.sizes)))[:, items.units]
    lost, change = rng.random(shape) < lose, np.zeros(shape)
    for _ in range(items.repeats):
        u = rng.random(shape)
        change += (u < items.churn).astype(float) - (u > 1 - items.churn)
    return np.where(lost, 1.0, change / items.repeats)


def _totals(drops: Floats, units: Units, scale: Floats) -> Floats:
    """Return the sum of the drops of each unit; ``units`` are sorted."""
    starts = np.flatnonzero(np.diff(units, prepend=-1))
    return np.asarray(np.add.reduceat(drops * scale, starts, axis=1))


def _p_below(totals: Floats, sizes: Floats, limit: float) -> Floats:
    """Return the p-values of "the drop is at least ``limit``"."""
    # Equal units are counted: a row has thousands of units of a few kinds.
    kinds, where = np.unique(np.round(totals, 9) + 1j * sizes, return_inverse=True)
    flat = where.reshape(totals.shape) + np.arange(len(totals))[:, None] * len(kinds)
    counts = np.bincount(flat.ravel(), minlength=len(totals) * len(kinds)).reshape(len(totals), -1)
    return mean_p_value(-kinds.real, kinds.imag, -limit, least=-1, counts=counts)


def _p_of_drop(totals: Floats, sizes: Floats) -> Floats:
    """Return the p-values of the test of a drop; of many clusters by the normal approximation of sign flips."""
    if (sizes == 1).all() and np.isin(totals, (-1.0, 0.0, 1.0)).all():
        return np.asarray(mcnemar_drop((totals > 0).sum(axis=1), (totals < 0).sum(axis=1)))
    if totals.shape[1] <= 12:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=totals.shape[1])))
        return np.asarray((signs @ totals.T >= totals.sum(axis=1) - 1e-9).mean(axis=0))
    spread = np.sqrt((totals**2).sum(axis=1))
    return np.asarray(norm.sf(totals.sum(axis=1) / np.where(spread > 0, spread, 1.0)))


def _collapsed(rule: Rule, items: RuleItems, drops: Floats) -> Flags:
    """Return whether a member of the rule drops significantly (Holm's first step over the members)."""
    names = [(p.benchmark, getattr(p, rule.each or "task")) for p in items.places]
    p_values = []
    for name in dict.fromkeys(names):
        chosen = np.array([n for n, other in enumerate(names) if other == name])
        # Items of one cluster are compared as if they were independent.
        units = np.arange(len(chosen)) if rule.each == "cluster" else items.units[chosen]
        scale = np.ones(len(chosen)) if rule.each == "cluster" else items.scale[chosen]
        totals = _totals(drops[:, chosen], units, scale)
        if totals.shape[1] >= FEWEST:
            p_values.append(_p_of_drop(totals, np.bincount(units, weights=scale)[np.unique(units)]))
    if not p_values:
        return np.zeros(len(drops), dtype=bool)
    return np.asarray(np.min(p_values, axis=0) <= ALPHA / len(p_values))


def _accuracy(rule: Rule, items: RuleItems, totals: Floats) -> tuple[Flags, Flags]:
    """Return whether the candidate's accuracy is below the limit, and whether it reaches it.

    Its interval is as wide as that of an accuracy with as many units.
    """
    assert rule.min_accuracy is not None
    value = np.clip(items.accuracy - totals.sum(axis=1) / items.sizes.sum(), 0, 1)
    n = len(items.sizes)
    known = {v: clopper_pearson(v * n, n) for v in np.unique(value).tolist()}
    low, high = (np.array([known[v][side] for v in value.tolist()]) for side in (0, 1))
    return high < rule.min_accuracy, low >= rule.min_accuracy


def _rates(failed: Flags, met: Flags) -> Rates:
    return Rates(float(met.mean()), float(failed.mean()), float((~met & ~failed).mean()))


def _whole(decided: Iterable[tuple[Flags, Flags]]) -> Rates:
    failed, met = zip(*decided, strict=True)
    return _rates(np.any(failed, axis=0), np.all(met, axis=0))
