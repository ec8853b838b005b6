"""The order in which a sequential gate draws items, and the blocks in which they are asked.

The order is a shuffle keyed by (seed, item id): drawing without replacement from a rule's items, the same in
every process and readable from a record later. Blocks are stratified by rule: each takes from every rule its
share. Between two blocks the run looks at what it has (:func:`~pytest_llmprops.runs.gate.decide`).
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
from pytest_llmprops.runs.compare import with_tasks_of
from pytest_llmprops.runs.gate_bounds import Population
from pytest_llmprops.runs.gate_file import Gate, Rule

#: a look costs a drained queue: there are about this many at most
MOST_BLOCKS = 40
SMALLEST_BLOCK = 16

#: what can be wrong with an item of a comparison
IN_ERROR, ABSENT_HERE, ABSENT_THERE = "in error", "missing in this run", "missing in the baseline"


def draw_key(seed: int, item_id: str) -> bytes:
    """The item's place in the order of drawing, whatever the order in which its answer arrives."""
    return hashlib.sha256(f"draw\0{seed}\0{item_id}".encode()).digest()


def rule_of(gate: Gate, place: Placed) -> str | None:
    """The name of the rule that judges items of this place; metric rules count after the others."""
    for by_metric in (False, True):
        for rule in gate.rules:
            if bool(rule.metric) is by_metric and rule.matches(place):
                return rule.name
    return None


def blocks(gate: Gate, places: Sequence[PlacedItem], *, concurrency: int, seed: int) -> list[list[int]]:
    """Positions in ``places`` (one a case), block by block.

    Inside a block positions rise, so that requests with a common prefix stay together. Cases under no rule
    come last: the decision needs none of them.

    :param concurrency: a block is at least as long (where there are as many), so that no slot is idle but at its end.
    """
    strata: dict[str | None, list[int]] = {}
    for position, place in enumerate(places):
        strata.setdefault(rule_of(gate, place), []).append(position)
    left_over = strata.pop(None, [])
    drawn: list[tuple[float, int]] = []
    for positions in strata.values():
        positions.sort(key=lambda p: draw_key(seed, places[p].id))
        drawn += [((n + 0.5) / len(positions), p) for n, p in enumerate(positions)]
    drawn.sort()
    size = max(concurrency, SMALLEST_BLOCK, math.ceil(len(drawn) / MOST_BLOCKS))
    # A remainder joins the block before it.
    starts = [n for n in range(0, len(drawn), size) if n == 0 or len(drawn) - n >= size]
    found = [
        sorted(p for _, p in drawn[start:end])
        for start, end in zip(starts, [*starts[1:], len(drawn)], strict=True)
    ]
    return [*found, left_over] if left_over else found


def plan_of(
    gate: Gate,
    places: Sequence[PlacedItem],
    baseline: Iterable[VerdictRecord],
    seed: int,
    decided: TasksByAnswer | None = None,
) -> SequentialPlan:
    """What ``run.json`` holds under ``sequential``.

    ``gate`` and ``baseline`` tell whether a later decision is on the same terms; ``ended`` is set when a case
    was not needed; ``rules`` has, by name, how many items and pairs there are (with their effective numbers,
    see :class:`~pytest_llmprops.runs.gate_bounds.Population`), and the ids that can be no pair.

    :param places: one a case.
    :param baseline: the baseline's records; their items are the pairs that can be had.
    :param decided: the benchmarks' tasks that an answer decides; by default those of the installed ones.
    """
    baseline = list(baseline)
    rules = {rule.name: _plan_of_rule(rule, places, baseline, decided) for rule in gate.rules}
    return SequentialPlan(gate.sha256, fingerprint(baseline), seed, ended=False, rules=rules)


def fingerprint(records: Iterable[VerdictRecord]) -> str:
    """A hash of which items the records answer, whatever the answers."""
    answered = sorted({(r.benchmark, r.id) for r in records if r.status != "error"})
    return hashlib.sha256(repr(answered).encode()).hexdigest()


def _plan_of_rule(
    rule: Rule, places: Sequence[PlacedItem], baseline: Sequence[VerdictRecord], decided: TasksByAnswer | None
) -> RulePlan:
    found = {_key(p): p for p in rule.select(places)}
    items = Population.of([p.cluster for p in found.values()])
    plan = RulePlan(items.items, items.effective)
    if rule.paired:
        # A case's task may be a guess until its answer is known; the baseline's answer is no better one.
        theirs = rule.select(with_tasks_of(baseline, places, decided))
        known, answered = {_key(r) for r in theirs}, {_key(r) for r in theirs if r.status != "error"}
        faults = {
            IN_ERROR: [key[-1] for key in found if key in known - answered],
            ABSENT_HERE: sorted(key[-1] for key in known - found.keys()),
            ABSENT_THERE: [key[-1] for key in found if key not in known],
        }
        pairs = Population.of([p.cluster for key, p in found.items() if key in answered])
        plan = replace(plan, faults=faults, pairs=pairs.items, pairs_effective=pairs.effective)
    return plan


def _key(place: PlacedItem) -> tuple[str, ...]:
    return place.benchmark, place.task, place.language, place.source, place.id
