"""The items of a sequential gate, which are evaluated block by block until the gate is decided.

Before each block, an interim analysis returns the rules that are still open. With workers, each block is divided among
all of them. A worker posts each verdict to the broker's process. The worker with the first case of the next block runs
the interim analysis; the others wait for its result. If a worker is lost, the waiting workers do its work; they take
replies that were already paid for from the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_llmprops.core.errors import RunStopped
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.run_facts import RunFacts
from pytest_llmprops.engine.evaluator import CaseKey, Outcome
from pytest_llmprops.engine.groups import CaseGroup, GroupOutcome, group_outcome
from pytest_llmprops.engine.session import Engine
from pytest_llmprops.plugin.case_items import cases_in
from pytest_llmprops.plugin.evaluation import Unit
from pytest_llmprops.plugin.gating import Gating, place_of
from pytest_llmprops.runs.benchmark_facts import tasks_by_answer
from pytest_llmprops.runs.gate import decide, rule_open, settled
from pytest_llmprops.runs.gate_draw import blocks, plan_of

#: names of the rules that still need items; empty if the gate is decided
OpenRules = list[str]


class SequentialSchedule:
    """The blocks of a session and the state of their evaluation.

    A unit is one item: its case, or the group of its samples, which are always drawn together.

    :param facts: the facts of ``run.json`` that are known before the first reply (models, protocols, data, options).
    """

    def __init__(
        self, gating: Gating, units: Sequence[Unit], facts: RunFacts, *, concurrency: int, seed: int
    ) -> None:
        self._gating = gating
        places = [place_of(cases_in(unit)[0]) for unit in units]
        order = blocks(gating.gate, places, concurrency=concurrency, seed=seed)
        self._blocks = [[units[p] for p in block] for block in order]
        self._block_of = {unit.key: n for n, block in enumerate(self._blocks) for unit in block}
        self._rules_of = {
            unit.key: {rule.name for rule in gating.gate.rules if rule.matches(place)}
            for unit, place in zip(units, places, strict=True)
        }
        baseline = gating.baseline
        records = baseline.records if baseline is not None else ()
        self.plan = plan_of(gating.gate, places, records, seed, tasks_by_answer(facts))
        # Facts that need replies are compared at the end; until then, assume those of the baseline.
        self._facts = replace(
            facts,
            helpers=baseline.facts.helpers if baseline else {},
            deviations=baseline.facts.deviations if baseline else {},
            sequential=self.plan,
        )
        self._share: Mapping[CaseKey, int] = {}
        self._exchange: Engine | None = None
        self._records: dict[CaseKey, list[VerdictRecord]] = {}
        #: the results of the interim analyses, by block
        self._open_rules: list[OpenRules] = []
        self._submitted: set[tuple[int, int]] = set()
        #: outcomes that an interim analysis needed before pytest came to their items
        self._early: dict[CaseKey, Outcome | GroupOutcome] = {}

    @property
    def ordered(self) -> list[Unit]:
        """All units in the order of the blocks."""
        return [unit for block in self._blocks for unit in block]

    def divide(self, share: Mapping[CaseKey, int], exchange: Engine) -> None:
        """Divide the units among several workers.

        :param share: key of a unit -> number of its worker's share. :param exchange: passes verdicts between workers.
        """
        self._share, self._exchange = share, exchange

    def reach(self, unit: Unit, engine: Engine) -> bool:
        """Start the unit's block if necessary; return whether the gate needs the unit.

        :raises RunStopped: if the run was stopped. :raises BackendError: if the broker's process ended.
        """
        share, block = self._share_of(unit), self._block_of[unit.key]
        while len(self._open_rules) <= block:
            number = len(self._open_rules)
            if number:
                self._complete(self._needed(number - 1, share), engine)
            self._open_rules.append(self._analyse(number, share, engine))
        if not self._is_needed(unit, block):
            return False
        if (block, share) not in self._submitted:
            self._submitted.add((block, share))
            needed = [unit for unit in self._needed(block, share) if unit.key not in self._early]
            engine.submit(case for unit in needed for case in cases_in(unit))
        return True

    def pop_outcome(self, unit: Unit) -> Outcome | GroupOutcome | None:
        """Return the outcome of a unit that an interim analysis needed early; None for others."""
        return self._early.pop(unit.key, None)

    def record(self, outcome: Outcome | GroupOutcome) -> None:
        """Keep the outcome for the interim analyses, and send it to the other workers.

        :raises BackendError: if the broker's process ended.
        """
        key = outcome.key
        if outcome.stopped is not None or key in self._records:
            return
        # Drop the texts and values, which an interim analysis does not read.
        bare: dict[str, Any] = {
            "expected": "",
            "given": "",
            "reason": "",
            "values": {},
            "evidence": {},
            "requests": (),
        }
        self._records[key] = [replace(record, **bare) for record in outcome.records]
        if self._exchange is not None:
            self._exchange.post(_name(key), [record.to_json() for record in self._records[key]])

    def _share_of(self, unit: Unit) -> int:
        return self._share.get(unit.key, 0)

    def _is_needed(self, unit: Unit, block: int) -> bool:
        return bool(self._rules_of[unit.key].intersection(self._open_rules[block]))

    def _needed(self, block: int, share: int | None = None) -> list[Unit]:
        return [
            unit
            for unit in self._blocks[block]
            if self._is_needed(unit, block) and share in (None, self._share_of(unit))
        ]

    def _complete(self, units: Sequence[Unit], engine: Engine, *, wait: bool = False) -> None:
        """Get the records of all ``units`` from other workers, or evaluate the units here.

        :param wait: wait for the other workers.
        """
        missing = [unit for unit in units if unit.key not in self._records]
        if missing and self._exchange is not None:
            posted = self._exchange.gather([_name(unit.key) for unit in missing], wait=wait)
            self._records |= {
                unit.key: [VerdictRecord.from_json(record) for record in records]
                for unit, records in zip(missing, posted, strict=True)
                if records is not None
            }
            missing = [unit for unit in missing if unit.key not in self._records]
        engine.submit(case for unit in missing for case in cases_in(unit))
        for unit in missing:
            outcome = _outcome(unit, engine)
            if outcome.stopped is not None:
                raise RunStopped(outcome.stopped)
            self._early[unit.key] = outcome
            self.record(outcome)

    def _analyse(self, block: int, share: int, engine: Engine) -> OpenRules:
        if block and not self._open_rules[-1]:
            return []
        if self._exchange is None:
            return self._rules_still_open()
        name = f"interim analysis {block}"
        own = self._share_of(self._blocks[block][0]) == share
        result: OpenRules | None = self._exchange.gather([name], wait=not own)[0]
        if result is None:
            self._complete([case for b in range(block) for case in self._needed(b)], engine, wait=True)
            result = self._rules_still_open()
            self._exchange.post(name, result)
        return result

    def _rules_still_open(self) -> OpenRules:
        result = decide(
            self._gating.gate,
            self._facts,
            [record for records in self._records.values() for record in records],
            self._gating.baseline,
            running=True,
        )
        return [] if settled(result) else [rule.name for rule in result.rules if rule_open(rule)]


def _outcome(unit: Unit, engine: Engine) -> Outcome | GroupOutcome:
    if isinstance(unit, CaseGroup):
        return group_outcome(unit, (engine.outcome(case) for case in unit.cases))
    return engine.outcome(unit)


def _name(key: CaseKey) -> str:
    return "case " + "|".join(map(str, key))
