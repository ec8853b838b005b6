"""The gate of a session: its file and baseline, the checks before the first call, and the decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import pytest

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.errors import RunStopped, UsageError
from pytest_llmprops.core.gate_results import GateResult
from pytest_llmprops.core.items import ItemPlace, Placed
from pytest_llmprops.core.metrics import DIRECTIONS
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.run_metadata import ModelMetadata, ProtocolMetadata, RunMetadata
from pytest_llmprops.engine.evaluator import (
    Case,
    CaseGroup,
    CaseKey,
    GroupOutcome,
    Outcome,
    Unit,
    group_outcome,
)
from pytest_llmprops.engine.session import Engine
from pytest_llmprops.models.base import BackendOptions
from pytest_llmprops.models.registry import find_backend
from pytest_llmprops.plugin.baseline_items import remedy, shared_selection
from pytest_llmprops.plugin.cases import Cases
from pytest_llmprops.plugin.light_items import cases_in, possible_tasks
from pytest_llmprops.plugin.options import RunOptions, project_folder
from pytest_llmprops.runs.benchmark_metadata import tasks_by_answer
from pytest_llmprops.runs.catalog import find_run
from pytest_llmprops.runs.gate.decide import decide, impossible_rules, rule_open, settled
from pytest_llmprops.runs.gate.file import (
    NEEDS_BASELINE,
    misplaced_rules,
    on_headline_tasks,
    read_gate,
    unbounded_rules,
)
from pytest_llmprops.runs.gate.sequential import blocks, plan_of
from pytest_llmprops.runs.pairs import differences, unfit_baseline, unlike_items
from pytest_llmprops.runs.reader import Run, read_facts, read_run


class Gating:
    """The gate of ``--llm-gate`` with the run of ``--llm-baseline``.

    :param read: read the baseline now, so that its errors are reported at the start.
    :raises UsageError: if the gate file or the baseline cannot be used. :raises DataError: if the
        baseline's record cannot be read.
    """

    def __init__(self, settings: RunOptions, config: pytest.Config, *, read: bool) -> None:
        assert settings.gate is not None
        self._settings, self._config = settings, config
        self.gate = read_gate(settings.gate)
        self._has_repeats = settings.repeats > 1
        if len(settings.models) != 1:
            raise UsageError(
                f"--llm-gate needs exactly one model, not {len(settings.models)}; run pytest once per model"
            )
        self._folder = (
            None if settings.baseline is None else find_run(settings.baseline, project_folder(config))
        )
        if self._folder is None and self.gate.needs_baseline:
            raise UsageError(f"--llm-gate {settings.gate}: {NEEDS_BASELINE} --llm-baseline RUN")
        reasons = unfit_baseline(self.gate, self.baseline) if read else []
        if reasons:
            raise UsageError(f"--llm-baseline {settings.baseline}: the gate would be invalid: {reasons[0]}")

    @cached_property
    def baseline(self) -> Run | None:
        """The run to compare with, read when first used: most workers do not need it.

        :raises DataError: if the record cannot be read.
        """
        return None if self._folder is None else read_run(self._folder)

    def describe(self) -> str:
        """Return one line for pytest's header."""
        against = f" against {self.baseline.run_id}" if self.baseline is not None else ""
        if self.baseline is not None and (shared := shared_selection(self.baseline.facts, self._settings)):
            against += f" on its items ({shared})"
        return f"gate {self.gate.file}{against}{', sequential' if self.gate.sequential else ''}{self._sampling()}"

    def _sampling(self) -> str:
        """Return a warning if the gate compares single samples of each item; empty otherwise."""
        facts = self._baseline_facts
        rules = [rule for rule in self.gate.rules if rule.paired]
        if facts is None or self._has_repeats:
            return ""
        sampled = [
            name
            for name, protocol in facts.protocols.items()
            if any(rule.concerns(name) for rule in rules) and protocol.settings.get("temperature", 0) != 0
        ]
        if not sampled:
            return ""
        return (
            f"; {', '.join(sampled)}: one sample per item at a temperature above 0, so chance flips items;"
            " --llm-repeats 3 for both runs, or llmprops gate --plan, which names a number"
        )

    def _check_comparable(self, selected: Sequence[Case], cases: Cases) -> None:
        """Check what is known before the first call of what would make the gate invalid."""
        settings = cases.settings
        wanted = max(rule.repeats for rule in self.gate.rules)
        if settings.repeats < wanted:
            raise UsageError(f"{self.gate.file}: a rule has repeats = {wanted}; give --llm-repeats {wanted}")
        baseline = self._baseline_facts
        if baseline is None or not self.gate.needs_baseline:
            return
        rules = [rule for rule in self.gate.rules if rule.paired]
        protocols = {
            name: ProtocolMetadata.from_json(cases.selections[name].protocol.to_json())
            for name in {case.benchmark.name: None for case in selected}
            if any(rule.concerns(name) for rule in rules)
        }
        chosen = {case.benchmark.name for case in selected}
        their_helpers, our_helpers = _helpers_compared(baseline, cases)
        facts = replace(
            baseline,
            protocols=protocols,
            helpers=our_helpers,
            options={"params": dict(settings.params), "helpers": dict(settings.helpers)},
            benchmarks=cases.benchmark_facts(),
            data=cases.data_hashes(),
            summary=tuple(row for row in baseline.summary if row.benchmark in chosen),
        )
        places = [place_of(case) for case in selected]
        reasons = differences(replace(baseline, helpers=their_helpers), facts, protocols)
        reasons += filter(None, (unlike_items(rule, baseline, places) for rule in rules))
        if reasons:
            more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
            fix = remedy(baseline, settings, self._config.option)
            raise UsageError(f"{self.gate.file}: the gate would be invalid: {reasons[0]}{more}; {fix}")

    @cached_property
    def _baseline_facts(self) -> RunMetadata | None:
        """The facts of the baseline, which each worker reads without its verdicts."""
        if "baseline" in self.__dict__ and self.baseline is not None:
            return self.baseline.facts
        return None if self._folder is None else read_facts(self._folder)

    def check(self, selected: Sequence[Case], cases: Cases) -> None:
        """Check that each rule fits a selected benchmark; those that no model serves count as selected.

        :raises UsageError: with the rule.
        """
        places: list[Placed] = [place for case in selected for place in _possible(case)]
        known = RunMetadata("", benchmarks=cases.benchmark_facts())
        baseline = self._baseline_facts
        recorded = () if baseline is None else baseline.summary
        self.gate = on_headline_tasks(self.gate, [*places, *recorded], known)
        for selection in cases.selections.values():
            places += [ItemPlace(*place) for place in selection.places_not_served]
        self.gate.check_matches(places)
        for problem in misplaced_rules(self.gate, places, known):
            raise UsageError(f"{self.gate.file}: {problem}")
        self._check_sequential(cases)
        self._check_comparable(selected, cases)
        self.gate.check_metrics({name: self._directions(s.benchmark) for name, s in cases.selections.items()})
        for problem in unbounded_rules(self.gate, known.benchmarks):
            raise UsageError(f"{self.gate.file}: {problem}")
        self._check_possible(selected, cases)

    def _check_possible(self, selected: Sequence[Case], cases: Cases) -> None:
        """Check that each rule can be met by some answers to the selected items."""
        facts = RunMetadata("", benchmarks=cases.benchmark_facts())
        places = [place for case in selected for place in _possible(case)]
        impossible = impossible_rules(self.gate, places, facts)
        if not impossible:
            return
        whole = [
            ItemPlace(name, task, item.language, item.source, item.id, item.cluster)
            for name, selection in cases.selections.items()
            for item in selection.available
            for task in possible_tasks(selection.benchmark, item)
        ]
        counts = Counter(benchmark for benchmark, _ in {(p.benchmark, p.id) for p in whole})
        selection = {name: {"items": n, "of": n} for name, n in counts.items()}
        never = impossible_rules(self.gate, whole, replace(facts, selection=selection))
        name, why = next(iter(impossible.items()))
        which, more = "the selected items", "; all items of the benchmark are enough (--llm-size full)"
        if name in never:
            which, why, more = "the items of the benchmark", never[name], ""
        raise UsageError(
            f"{self.gate.file}: rule '{name}' cannot be met by {which}, whatever the answers: {why}{more}"
        )

    def _directions(self, benchmark: Benchmark) -> dict[str, str]:
        """Return the directions of a benchmark's metrics; empty if it does not declare them."""
        own = dict(benchmark.metric_directions)
        return own | DIRECTIONS if own and self._has_repeats and benchmark.one_decision else own

    def _check_sequential(self, cases: Cases) -> None:
        """Check that a sequential gate knows the items of each rule before the first reply."""
        for rule in self.gate.rules if self.gate.sequential else ():
            for name, selection in cases.selections.items():
                tasks = selection.benchmark.tasks_by_answer
                pattern = rule.where.get("task", "*")
                if rule.concerns(name) and any(
                    fnmatchcase(one, pattern) != fnmatchcase(other, pattern)
                    for one in tasks
                    for other in tasks
                ):
                    raise UsageError(
                        f"{self.gate.file}: rule {rule.name}: only the answers of {name} decide which items are"
                        f" {' or '.join(sorted(tasks))}; remove the rule's task or sequential = true"
                    )

    def decide(
        self, facts: RunMetadata, records: Sequence[VerdictRecord], problems: Sequence[str]
    ) -> GateResult:
        """Return the decision on a finished run; ``problems`` are what is inconsistent in its record."""
        return decide(self.gate, facts, records, self.baseline, problems=problems)


def _helpers_compared(
    baseline: RunMetadata, cases: Cases
) -> tuple[dict[str, ModelMetadata], dict[str, ModelMetadata]]:
    """Return the helpers of the baseline and of this run by role, with what is known before the first reply.

    The identity of a remote helper has its server and its headers; the version of a local one is not known yet.
    """
    settings = cases.settings
    options = BackendOptions(settings.base_url, headers=settings.headers)
    theirs = {role: ModelMetadata(model.spec) for role, model in baseline.helpers.items()}
    ours: dict[str, ModelMetadata] = {}
    for role, spec in cases.helpers.specs.items():
        recorded, backend = baseline.helpers.get(role), find_backend(spec.backend)
        if recorded is None and role not in settings.helpers:
            # A default helper, which the run may not need.
            continue
        ours[role] = ModelMetadata(spec.text)
        if backend.remote and recorded is not None and recorded.identity is not None:
            theirs[role] = recorded
            ours[role] = ModelMetadata(spec.text, identity=dict(backend.factory(spec, options).identity))
    return theirs, ours


def _possible(case: Case) -> list[ItemPlace]:
    """Return the places that a case may have once its answer is known."""
    place = place_of(case)
    return [place._replace(task=task) for task in possible_tasks(case.benchmark, case.item)]


def place_of(case: Case) -> ItemPlace:
    """Return the case's place in the words of gate rules, with its id and cluster."""
    item = case.item
    return ItemPlace(case.benchmark.name, item.task, item.language, item.source, item.id, item.cluster)


# The items of a sequential gate, which are evaluated block by block until the gate is decided.
#
# Before each block, an interim analysis returns the rules that are still open. With workers, each block is
# divided among all of them. A worker posts each verdict to the broker's process. The worker with the first
# case of the next block runs the interim analysis; the others wait for its result. If a worker is lost, the
# waiting workers do its work; they take replies that were already paid for from the store.

#: names of the rules that still need items; empty if the gate is decided
OpenRules = list[str]


class SequentialSchedule:
    """The blocks of a session and the state of their evaluation.

    A unit is one item: its case, or the group of its samples, which are always drawn together.

    :param facts: the facts of ``run.json`` that are known before the first reply (models, protocols, data, options).
    """

    def __init__(
        self, gating: Gating, units: Sequence[Unit], facts: RunMetadata, *, concurrency: int, seed: int
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
