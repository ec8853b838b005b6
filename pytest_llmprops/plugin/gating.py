"""The gate of a session: its file and baseline, the checks before the first call, and the decision.

With ``--llm-baseline``, a run measures the items of its baseline, unless its own options select others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import pytest

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.items import ItemPlace, Placed, TaskKey
from pytest_llmprops.core.metrics import DIRECTIONS
from pytest_llmprops.core.numbers import counted
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.engine.evaluation.evaluator import Case
from pytest_llmprops.models.registry import find_backend
from pytest_llmprops.plugin.cases.cases import Cases
from pytest_llmprops.plugin.cases.light_items import possible_tasks
from pytest_llmprops.plugin.options import (
    FROM_BASELINE,
    OPTIONS_BY_FIELD,
    Option,
    RunOptions,
    changed_options,
    is_given,
    project_folder,
)
from pytest_llmprops.records.files import from_plain
from pytest_llmprops.records.gate import GateResult
from pytest_llmprops.records.run import ModelMetadata, ProtocolMetadata, RunMetadata
from pytest_llmprops.runs.catalog import find_run
from pytest_llmprops.runs.comparable import differences
from pytest_llmprops.runs.gate.comparable import unfit_baseline, unlike_items
from pytest_llmprops.runs.gate.decide import decide, impossible_rules
from pytest_llmprops.runs.gate.file import (
    NEEDS_BASELINE,
    misplaced_rules,
    on_headline_tasks,
    read_gate,
    unbounded_rules,
)
from pytest_llmprops.runs.merge import SAME_OPTIONS
from pytest_llmprops.runs.reader import Run, read_facts, read_run

if TYPE_CHECKING:
    from pytest_llmprops.runs.gate.forecast import Forecast


#: the options that select items
_SELECTING = ("size", "limit", "seed", "source")
#: the options that another run has if it measures other items, or measures them differently
_COMPARED = {"helpers": "--llm-helper"} | {
    name: option for name, option in SAME_OPTIONS.items() if name not in ("base_url", "repeats")
}


def select_as_baseline(config: pytest.Config) -> None:
    """Set the options that select items to those of the baseline, where the user gives none.

    pytest-xdist gives workers the command line, not the options, so that each worker does the same.

    :raises UsageError: if there is no such run. :raises DataError: if its record cannot be read.
    """
    if not all(is_given(config, OPTIONS_BY_FIELD[name]) for name in ("gate", "baseline")):
        return
    baseline = config.getoption("llm_baseline") or config.getini("llm_baseline")
    recorded = read_facts(find_run(baseline, project_folder(config))).options
    for name in _SELECTING:
        option, value = OPTIONS_BY_FIELD[name], recorded.get(name)
        if is_given(config, option) or value == option.default or not _is_value(option, value):
            continue
        setattr(config.option, option.dest, str(value))
        # The record has them in its command, so that the run can be resumed without the baseline.
        config.stash.setdefault(FROM_BASELINE, []).append(option.word(value))


def _is_value(option: Option, value: object) -> bool:
    """Return True if a record has a value that the option may have."""
    if type(value) not in (int, str) or (option.choices and value not in option.choices):
        return False
    try:
        option.parse(str(value))
    except ValueError:
        return False
    return True


class Gating:
    """The gate of ``--llm-gate`` with the run of ``--llm-baseline``.

    :param read: read the baseline now, so that its errors are reported at the start.
    :raises UsageError: if the gate file or the baseline cannot be used. :raises DataError: if the
        baseline's record cannot be read.
    """

    def __init__(self, settings: RunOptions, config: pytest.Config, *, read: bool) -> None:
        assert settings.gate is not None
        self._settings = settings
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
        if read and self.baseline is not None and self.gate.needs_baseline:
            for reason in unfit_baseline(self.gate, self.baseline):
                raise UsageError(f"--llm-baseline {settings.baseline}: the gate would be invalid: {reason}")

    @cached_property
    def baseline(self) -> Run | None:
        """The run to compare with, read when first used: most workers do not need it.

        :raises DataError: if the record cannot be read.
        """
        return None if self._folder is None else read_run(self._folder)

    def describe(self) -> str:
        """Return one line for pytest's header."""
        against = ""
        if self.baseline is not None:
            against = f" against {self.baseline.run_id}"
            shared = [
                f"{SAME_OPTIONS[name]} {value}"
                for name in _SELECTING
                if (value := getattr(self._settings, name)) != OPTIONS_BY_FIELD[name].default
                and self.baseline.facts.options.get(name) == value
            ]
            against += f" on its items ({' '.join(shared)})" if shared else ""
        chances = f"; {self.chances}" if self._forecast is not None else ""
        return f"gate {self.gate.file}{against}{chances}{self._sampling()}"

    @cached_property
    def _forecast(self) -> Forecast | None:
        """What the gate decides on an unchanged model, by the baseline's items; None if no rule can be simulated."""
        if self.baseline is None or not self.gate.needs_baseline:
            return None
        from pytest_llmprops.runs.gate.forecast import forecast

        plan = forecast(
            self.gate,
            self.baseline.records,
            self.baseline.facts,
            repeats=self._settings.repeats,
            drops=(0.0,),
        )
        return plan if plan.whole else None

    @property
    def chances(self) -> str:
        """How often an unchanged model passes, and the rule that it meets most seldom, in words."""
        assert self._forecast is not None
        [whole] = self._forecast.whole
        text = f"an unchanged model passes in {whole.passed:.0%} of runs"
        rules = [
            (rule.rates[0].passed, rule.name, rule.items.items) for rule in self._forecast.rules if rule.rates
        ]
        passed, name, items = min(rules)
        if len(rules) == 1:
            return text
        return f"{text} (of {len(rules)} rules, {name} with {counted(items, 'item')} in {passed:.0%})"

    @property
    def is_likely(self) -> bool:
        """False if an unchanged model would pass in less than half of all runs."""
        from pytest_llmprops.runs.gate.forecast import LEAST_RATE

        return self._forecast is None or self._forecast.whole[0].passed >= LEAST_RATE

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
            " give --llm-repeats 3 for both runs"
        )

    def _check_comparable(self, selected: Sequence[Case], cases: Cases) -> None:
        """Check what is known before the first call of what would make the gate invalid."""
        settings = cases.settings
        baseline = self._baseline_facts
        if baseline is None or not self.gate.needs_baseline:
            return
        rules = [rule for rule in self.gate.rules if rule.paired]
        protocols = {
            name: from_plain(ProtocolMetadata, cases.selections[name].protocol.to_json())
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
        places = [_place_of(case) for case in selected]
        reasons = differences(replace(baseline, helpers=their_helpers), facts, protocols)
        reasons += filter(None, (unlike_items(rule, baseline, places) for rule in rules))
        if reasons:
            more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
            fix = "measure the baseline again, with the items and settings of this run"
            if changed := list(changed_options(baseline.options, settings, _COMPARED)):
                fix = one_line(f"the baseline has {'; '.join(changed)}: use its options", 400)
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
            places += [TaskKey(*place) for place in selection.places_not_served]
        self.gate.check_matches(places)
        for problem in misplaced_rules(self.gate, places, known):
            raise UsageError(f"{self.gate.file}: {problem}")
        self._check_comparable(selected, cases)
        self.gate.check_metrics({name: self._directions(s.benchmark) for name, s in cases.selections.items()})
        for problem in unbounded_rules(self.gate, known.benchmarks):
            raise UsageError(f"{self.gate.file}: {problem}")
        self._check_possible(selected, cases)

    def _check_possible(self, selected: Sequence[Case], cases: Cases) -> None:
        """Check that each rule can be met by some answers to the selected items."""
        places = [place for case in selected for place in _possible(case)]
        ids = {(case.benchmark.name, case.item.id) for case in selected}
        counts = Counter(benchmark for benchmark, _ in ids)
        selection = {
            name: {"items": counts[name], "of": len({item.id for item in own.available})}
            for name, own in cases.selections.items()
        }
        facts = RunMetadata("", benchmarks=cases.benchmark_facts(), selection=selection)
        for name, why in impossible_rules(self.gate, places, facts).items():
            raise UsageError(
                f"{self.gate.file}: rule '{name}' cannot be met by the selected items, whatever the answers: {why}"
            )

    def _directions(self, benchmark: Benchmark) -> dict[str, str]:
        """Return the directions of a benchmark's metrics; empty if it does not declare them."""
        own = dict(benchmark.metric_directions)
        return own | DIRECTIONS if own and self._has_repeats and benchmark.one_decision else own

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
            ours[role] = ModelMetadata(
                spec.text, identity=dict(backend.factory(spec, settings.calls).identity)
            )
    return theirs, ours


def _possible(case: Case) -> list[ItemPlace]:
    """Return the places that a case may have once its answer is known."""
    place = _place_of(case)
    return [place._replace(task=task) for task in possible_tasks(case.benchmark, case.item)]


def _place_of(case: Case) -> ItemPlace:
    """Return the case's place in the words of gate rules, with its id and cluster."""
    item = case.item
    return ItemPlace(case.benchmark.name, item.task, item.language, item.source, item.id, item.cluster)
