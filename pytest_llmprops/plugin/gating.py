"""The gate of a session: its file and baseline, checked before the first call, and its decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from pytest_llmprops.benchmark_registry import benchmark_names, find_benchmark
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.gate_results import GateResult
from pytest_llmprops.core.items import ItemPlace, Placed
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.run_facts import ProtocolFacts, RunFacts
from pytest_llmprops.engine.evaluator import Case
from pytest_llmprops.plugin.cases import Cases
from pytest_llmprops.plugin.options import RunOptions
from pytest_llmprops.runs.catalog import find_run
from pytest_llmprops.runs.comparable import differences
from pytest_llmprops.runs.gate import decide
from pytest_llmprops.runs.gate_file import read_gate
from pytest_llmprops.runs.gate_targets import misplaced
from pytest_llmprops.runs.reader import Run, read_run


class Gating:
    """What ``--llm-gate`` and ``--llm-baseline`` name.

    :param read: read the baseline now, as the process does that speaks to the person.
    :raises UsageError: for a gate file or a baseline that cannot be used. :raises DataError: for a
        baseline's record that cannot be read.
    """

    def __init__(self, settings: RunOptions, root: Path, *, read: bool) -> None:
        assert settings.gate is not None
        self.gate = read_gate(settings.gate)
        if len(settings.models) != 1:
            raise UsageError(
                f"--llm-gate judges one model, and {len(settings.models)} are given; run pytest for each"
            )
        self._folder = None if settings.baseline is None else find_run(settings.baseline, root)
        if self._folder is None and self.gate.needs_baseline:
            raise UsageError(
                f"--llm-gate {settings.gate}: has a rule with no_regression or max_drop, which needs"
                " --llm-baseline RUN"
            )
        if read:
            self.baseline  # noqa: B018 - for what it raises

    @cached_property
    def baseline(self) -> Run | None:
        """The run to compare with, read when first wanted: a worker that only asks needs none of it.

        :raises DataError: for a record that cannot be read.
        """
        return None if self._folder is None else read_run(self._folder)

    def describe(self) -> str:
        """For the header of the session."""
        against = f" against {self.baseline.run_id}" if self.baseline is not None else ""
        return f"gate {self.gate.file}{against}{', sequential' if self.gate.sequential else ''}"

    def warnings(self, cases: Cases, settings: RunOptions) -> list[str]:
        """What is known to differ from the baseline before anything is measured: the gate will be invalid."""
        if self.baseline is None or not self.gate.needs_baseline:
            return []
        compared = [rule.where.get("benchmark", "*") for rule in self.gate.rules if rule.paired]
        names = [
            name
            for name in self.baseline.facts.protocols
            if name in benchmark_names() and any(fnmatchcase(name, pattern) for pattern in compared)
        ]
        ours = {n: cases.protocol_of(find_benchmark(n)).to_json() for n in names}
        protocols = {n: ProtocolFacts.from_json(protocol) for n, protocol in ours.items()}
        facts = replace(self.baseline.facts, protocols=protocols, options={"params": dict(settings.params)})
        return [
            f"the gate will be invalid: {line}" for line in differences(self.baseline.facts, facts, names)
        ]

    def check(self, selected: Sequence[Case], cases: Cases) -> None:
        """Refuse rules that fit nothing selected; benchmarks that no model serves are left to the end.

        :raises UsageError: naming the rule.
        """
        places: list[Placed] = [place for case in selected for place in _possible(case)]
        for selection in cases.selections.values():
            places += [ItemPlace(*place) for place in selection.places_not_served]
        self.gate.check_matches(places)
        known = RunFacts("", benchmarks=cases.benchmark_facts())
        for problem in misplaced(self.gate, places, known):
            raise UsageError(f"{self.gate.file}: {problem}")
        self._check_drawn(cases)
        self.gate.check_metrics(
            {name: dict(s.benchmark.metric_directions) for name, s in cases.selections.items()}
        )

    def _check_drawn(self, cases: Cases) -> None:
        """A sequential gate must know beforehand which items a rule is about."""
        for rule in self.gate.rules if self.gate.sequential else ():
            for name, selection in cases.selections.items():
                decided = selection.benchmark.tasks_by_answer
                task = rule.where.get("task", "*")
                if fnmatchcase(name, rule.where.get("benchmark", "*")) and any(
                    fnmatchcase(one, task) != fnmatchcase(other, task) for one in decided for other in decided
                ):
                    raise UsageError(
                        f"{self.gate.file}: rule {rule.name}: which items of {name} are"
                        f" {' or '.join(sorted(decided))} is known from the answers only; name no task, or drop"
                        " sequential = true"
                    )

    def decide(self, facts: RunFacts, records: Sequence[VerdictRecord]) -> GateResult:
        """The decision on a finished run."""
        return decide(self.gate, facts, records, self.baseline)


def _possible(case: Case) -> list[ItemPlace]:
    """Where a case may stand once its answer is known."""
    place, decided = place_of(case), case.benchmark.tasks_by_answer
    tasks = sorted(decided) if case.item.task in decided else [case.item.task]
    return [place._replace(task=task) for task in tasks]


def place_of(case: Case) -> ItemPlace:
    """Where a case stands, as rules name it, with its id and cluster."""
    item = case.item
    return ItemPlace(case.benchmark.name, item.task, item.language, item.source, item.id, item.cluster)
