"""The order in which a sequential gate draws items, and the blocks in which they are measured.

The order is a shuffle keyed by (seed, item id): it draws a rule's items without replacement, is the same in every
process, and can be recomputed from a record. Blocks are stratified by rule: each has the same share of every rule's
items. The gate decides after each block (:func:`~pytest_llmprops.runs.gate.decide`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pytest_llmprops.core.gate_results import RulePlan, SequentialPlan
from pytest_llmprops.core.items import Placed, PlacedItem
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.runs.benchmark_facts import TasksByAnswer
from pytest_llmprops.runs.gate_bounds import Population
from pytest_llmprops.runs.gate_file import Gate, Rule
from pytest_llmprops.runs.pairing import with_tasks_of

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
    :class:`~pytest_llmprops.runs.gate_bounds.Population`), and the ids that cannot form a pair.

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
