"""The gate of a session: its file and baseline, the checks before the first call, and the decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.gate_results import GateResult
from pytest_llmprops.core.items import ItemPlace, Placed
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.repeats import DIRECTIONS
from pytest_llmprops.core.run_facts import ProtocolFacts, RunFacts
from pytest_llmprops.engine.evaluator import Case
from pytest_llmprops.plugin.case_items import possible_tasks
from pytest_llmprops.plugin.cases import Cases
from pytest_llmprops.plugin.options import RunOptions
from pytest_llmprops.runs.catalog import find_run
from pytest_llmprops.runs.comparable import differences, unlike_items
from pytest_llmprops.runs.gate import decide
from pytest_llmprops.runs.gate_file import read_gate
from pytest_llmprops.runs.gate_targets import misplaced
from pytest_llmprops.runs.reader import Run, read_facts, read_run


class Gating:
    """The gate of ``--llm-gate`` with the run of ``--llm-baseline``.

    :param read: read the baseline now, so that its errors are reported at the start.
    :raises UsageError: if the gate file or the baseline cannot be used. :raises DataError: if the
        baseline's record cannot be read.
    """

    def __init__(self, settings: RunOptions, root: Path, *, read: bool) -> None:
        assert settings.gate is not None
        self.gate = read_gate(settings.gate)
        self._has_repeats = settings.repeats > 1
        if len(settings.models) != 1:
            raise UsageError(
                f"--llm-gate needs exactly one model, not {len(settings.models)}; run pytest once per model"
            )
        self._folder = None if settings.baseline is None else find_run(settings.baseline, root)
        if self._folder is None and self.gate.needs_baseline:
            raise UsageError(
                f"--llm-gate {settings.gate}: a rule with no_regression or max_drop needs a baseline; give one"
                " with --llm-baseline RUN"
            )
        if read and self.baseline is not None and self.gate.needs_baseline and self.baseline.problems:
            raise UsageError(
                f"--llm-baseline {settings.baseline}: {self.baseline.problems[0]}; choose another baseline, or measure"
                " it again"
            )

    @cached_property
    def baseline(self) -> Run | None:
        """The run to compare with, read when first used: most workers do not need it.

        :raises DataError: if the record cannot be read.
        """
        return None if self._folder is None else read_run(self._folder)

    def describe(self) -> str:
        """Return one line for pytest's header."""
        against = f" against {self.baseline.run_id}" if self.baseline is not None else ""
        return f"gate {self.gate.file}{against}{', sequential' if self.gate.sequential else ''}"

    def _check_comparable(self, selected: Sequence[Case], cases: Cases) -> None:
        """Check what is known before the first call of what would make the gate invalid.

        :raises UsageError: with the difference and how to fix it.
        """
        settings = cases.settings
        wanted = max(rule.repeats for rule in self.gate.rules)
        if settings.repeats < wanted:
            raise UsageError(f"{self.gate.file}: a rule has repeats = {wanted}; give --llm-repeats {wanted}")
        baseline = self._baseline_facts
        if baseline is None or not self.gate.needs_baseline:
            return
        rules = [rule for rule in self.gate.rules if rule.paired]
        protocols = {
            name: ProtocolFacts.from_json(cases.selections[name].protocol.to_json())
            for name in {case.benchmark.name: None for case in selected}
            if any(rule.concerns(name) for rule in rules)
        }
        facts = replace(
            baseline,
            protocols=protocols,
            options={"params": dict(settings.params)},
            benchmarks=cases.benchmark_facts(),
            data=cases.data_hashes(),
        )
        reasons = [
            f"{line}; measure the baseline again, or use its settings and data"
            for line in differences(baseline, facts, protocols)
        ]
        places = [place_of(case) for case in selected]
        reasons += filter(None, (unlike_items(rule, baseline, places) for rule in rules))
        if reasons:
            more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
            raise UsageError(f"{self.gate.file}: the gate would be invalid: {reasons[0]}{more}")

    @cached_property
    def _baseline_facts(self) -> RunFacts | None:
        """The facts of the baseline, which each worker reads without its verdicts."""
        if "baseline" in self.__dict__ and self.baseline is not None:
            return self.baseline.facts
        return None if self._folder is None else read_facts(self._folder)

    def check(self, selected: Sequence[Case], cases: Cases) -> None:
        """Check that each rule fits a selected benchmark; those that no model serves count as selected.

        :raises UsageError: with the rule.
        """
        places: list[Placed] = [place for case in selected for place in _possible(case)]
        for selection in cases.selections.values():
            places += [ItemPlace(*place) for place in selection.places_not_served]
        self.gate.check_matches(places)
        known = RunFacts("", benchmarks=cases.benchmark_facts())
        for problem in misplaced(self.gate, places, known):
            raise UsageError(f"{self.gate.file}: {problem}")
        self._check_sequential(cases)
        self._check_comparable(selected, cases)
        self.gate.check_metrics({name: self._directions(s.benchmark) for name, s in cases.selections.items()})

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
        self, facts: RunFacts, records: Sequence[VerdictRecord], problems: Sequence[str]
    ) -> GateResult:
        """Return the decision on a finished run; ``problems`` are what is inconsistent in its record."""
        return decide(self.gate, facts, records, self.baseline, problems=problems)


def _possible(case: Case) -> list[ItemPlace]:
    """Return the places that a case may have once its answer is known."""
    place = place_of(case)
    return [place._replace(task=task) for task in possible_tasks(case)]


def place_of(case: Case) -> ItemPlace:
    """Return the case's place in the words of gate rules, with its id and cluster."""
    item = case.item
    return ItemPlace(case.benchmark.name, item.task, item.language, item.source, item.id, item.cluster)
