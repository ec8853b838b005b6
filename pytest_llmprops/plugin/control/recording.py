"""The run record of a session: verdicts and searches as they come, then the final facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.errors import DataError, LLMPropsError, UsageError
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.models.api.prices import price
from pytest_llmprops.models.spec import ModelSpec
from pytest_llmprops.plugin.cases.cases import HELPER
from pytest_llmprops.plugin.options import (
    FROM_BASELINE,
    project_folder,
    recorded_command,
    recorded_options,
    selected_tests,
)
from pytest_llmprops.plugin.session import LLMSession
from pytest_llmprops.plugin.worker_files import remove_reports
from pytest_llmprops.records.messages import (
    BrokerReport,
    CaseReport,
    CollectionMetadata,
    InProcessUse,
    ModelUse,
    WorkerSummary,
)
from pytest_llmprops.records.run import ModelMetadata, RunMetadata
from pytest_llmprops.records.served_models import fallback_notes
from pytest_llmprops.runs.benchmark_metadata import cluster_weighted
from pytest_llmprops.runs.integrity import VERDICTS
from pytest_llmprops.runs.merge import logged_calls
from pytest_llmprops.runs.record import (
    RunRecord,
    check_no_record,
    first_facts,
    git_state,
    new_run_folder,
    remove_record,
    search_counts,
    unusable,
)
from pytest_llmprops.runs.summary import metric_rows, remarks_on, summary_rows


def with_in_process(
    report: BrokerReport, labels: Iterable[str], processes: Sequence[Mapping[str, InProcessUse]]
) -> BrokerReport:
    """Return the report with the models that were served in process, and their requests.

    :param labels: labels of the models that are served in process.
    :param processes: for each process that ran cases, label -> what it served.
    """
    labels = sorted(labels)
    if not labels:
        return report
    models = dict(report.models)
    for label in labels:
        uses = [process[label] for process in processes if label in process]
        models[label] = ModelUse(
            # A model without requests was not created and has no identity.
            identity=uses[0].identity if uses else None,
            pinned=uses[0].pinned if uses else None,
            served_as=tuple(sorted({name for use in uses for name in use.served_as})),
            deviations=tuple(sorted({text for use in uses for text in use.deviations})),
        )
    all_uses = [use for process in processes for use in process.values()]
    counters = replace(
        report.counters,
        in_process=sum(use.requests for use in all_uses),
        in_process_seconds=round(sum(use.seconds for use in all_uses), 3),
    )
    return replace(report, counters=counters, models=models)


class Recording:
    """Writes the record, in the controller.

    :param end_run: called with the reason if the record cannot be written any more.
    """

    def __init__(self, config: pytest.Config, session: LLMSession, end_run: Callable[[str], None]) -> None:
        self._config, self._session, self._end_run = config, session, end_run
        self.record: RunRecord | None = None
        #: notes for the summary
        self.notes: list[str] = []
        #: why the run ended early; None if it did not
        self.stopped: str | None = None
        self.is_interrupted = False
        #: the broker's process ended, so that cases are errors which another run can measure
        self.lost_broker = False
        #: the run ended while batches were open; the same command goes on
        self.waits_for_batches = False
        #: the code of a benchmark failed after the last call, so that metrics are missing
        self.lacks_metrics = False
        #: the verdicts in the order of the suites, once the run is over
        self.in_order: list[VerdictRecord] = []
        #: what was collected; known before the first case
        self.collection = CollectionMetadata()

    def prepare(self) -> Path:
        """Create the run's folder, or return that of a resumed run, whose replies are then all in the store.

        :raises pytest.UsageError: if the folder cannot be used, or a resumed run has replies that cannot be stored.
        """
        session = self._session
        if session.evaluation.run_dir is None:
            try:
                session.evaluation.run_dir = (
                    new_run_folder(
                        session.settings.run, list(session.cases.models), project_folder(self._config)
                    )
                    if session.earlier is None
                    else session.earlier.run.folder
                )
            except LLMPropsError as error:
                raise pytest.UsageError(str(error)) from None
        return session.evaluation.run_dir

    def open(self, collection: CollectionMetadata) -> None:
        """Write the first ``run.json``, with what was collected, so that a run that is killed can be resumed.

        :raises pytest.UsageError: if the folder cannot be used.
        """
        self.collection = collection
        folder, earlier = self.prepare(), self._session.earlier
        facts = replace(
            self._first_facts(folder),
            expected=collection.cases,
            benchmarks=collection.benchmarks,
            protocols=collection.protocols,
            data=collection.data,
            not_served=collection.not_served,
            selection=collection.selection,
        )
        try:
            if earlier is None:
                check_no_record(folder)
                self.record = RunRecord(folder, facts)
                return
            facts = earlier.first_facts(facts)
            self.record = RunRecord(folder, facts, earlier.kept_verdicts, earlier.kept_searches)
            self.notes += earlier.notes()
        except UsageError as error:
            if earlier is None:
                # The record is of another process, so this one may not discard it.
                self._session.evaluation.run_dir = None
            raise pytest.UsageError(str(error)) from None
        except OSError as error:
            raise pytest.UsageError(str(unusable(folder, error))) from None

    def _first_facts(self, folder: Path) -> RunMetadata:
        cases, settings = self._session.cases, self._session.settings
        options = recorded_options(settings)
        options["selected"] = selected_tests(self._config.option)
        arguments = (*self._config.invocation_params.args, *self._config.stash.get(FROM_BASELINE, ()))
        options["command"] = recorded_command(arguments)
        return first_facts(
            folder,
            models={label: self._model(spec) for label, spec in cases.models.items()},
            helpers={role: self._model(spec) for role, spec in cases.helpers.specs.items()},
            options=options,
            git=git_state(project_folder(self._config)),
        )

    def _model(self, spec: ModelSpec) -> ModelMetadata:
        prices = self._session.settings.prices
        return ModelMetadata(spec.text, price=price(spec.name, spec.params, prices))

    def add(self, message: CaseReport) -> None:
        """Append the verdicts or the search of a case; a full disk ends the run."""
        if self.record is None:
            return
        try:
            if message.search is not None:
                self.record.add_search(message.search)
            if message.verdict is not None:
                self.record.add(message.verdict)
            if message.group is not None:
                self.record.add_lines(message.group.lines)
        except OSError as error:
            self._end_without_disk(error)

    def _end_without_disk(self, error: OSError) -> None:
        if self.stopped is None:
            assert self.record is not None
            self.stopped = (
                f"run record {self.record.folder}: {error.strerror or error}; the record has"
                f" {self.record.count} verdicts; free disk space and run again"
            )
            if self._session.settings.cache in ("reuse", "only"):
                # Not "all replies": the store may be on the same disk.
                self.stopped += ", which repeats no request whose reply is in the store"
            self._end_run(self.stopped)

    @property
    def is_empty(self) -> bool:
        """True if the run ended early, without a verdict, search or call."""
        assert self.record is not None
        calls, ended_early = self.record.facts.calls, self.is_interrupted or self.stopped is not None
        measured = self.record.count or self.record.searches
        asked = calls.sent or calls.cache_hits or calls.adopted or calls.in_process
        if self.waits_for_batches:
            # The replies so far are in the store. The same command continues this record if it names its folder,
            # and otherwise with a new one.
            asked = self._session.settings.run is not None
        return ended_early and not (measured or asked or self.record.facts.gate)

    def discard(self) -> None:
        """Remove the record of a run that did not begin, or its folder if there is no record yet.

        A resumed run keeps its record.
        """
        folder = self._session.evaluation.run_dir
        if self._session.earlier is None and folder is not None:
            if self.record is not None:
                self.record.close()
                self.record = None
            remove_record(folder)

    def finish(
        self,
        report: BrokerReport | None,
        summaries: Sequence[WorkerSummary],
        benchmarks: Mapping[str, Benchmark],
        problems: Sequence[str],
    ) -> None:
        """Write the final facts, with the gate's decision.

        :param report: the broker's report; None if the broker did not answer.
        :param summaries: of the processes that ran cases. One that was interrupted reports nothing.
        :param benchmarks: the benchmarks by name. :param problems: why others could not be loaded, one line each.
        """
        assert self.record is not None
        record, session, collection = self.record, self._session, self.collection
        if report is None:
            counted = 0 if session.earlier is None else session.earlier.calls.counted_bytes
            report = BrokerReport(logged_calls(record.folder, counted))
        report = with_in_process(
            report,
            session.evaluation.in_process_labels,
            [summary.in_process for summary in summaries],
        )
        stopped = next((why for summary in summaries if (why := summary.stopped or summary.refused)), None)
        self.stopped = self.stopped or report.stopped or stopped
        self.waits_for_batches = report.batches is not None and report.batches.is_unfinished
        late = (note for summary in summaries for note in summary.notes)
        self.notes += [*report.notes, *dict.fromkeys([*collection.notes, *late])]
        # Workers report in any order.
        places = {tuple(group): place for place, group in enumerate(collection.groups)}
        try:
            self.in_order = sorted(record.records, key=lambda verdict: places.get(verdict.group, 0))
        except DataError as error:
            self.stopped = self.stopped or str(error)
        if record.is_changed:
            self.notes.append(
                f"{record.folder / VERDICTS} was changed by another program during the run; measure again"
            )
        facts, more_problems = self._final_facts(record, report, benchmarks)
        if session.earlier is not None:
            facts = session.earlier.merged(facts)
            self.notes += session.earlier.changed_models(facts)
        self.notes += fallback_notes([*facts.models.values(), *facts.helpers.values()])
        self.lacks_metrics = bool(problems or more_problems)
        self.notes += [*problems, *more_problems]
        facts = replace(facts, stopped=self.stopped, notes=tuple(self.notes))
        if session.gating is not None:
            problems = record.problems(record.finished(facts), self.in_order)
            facts = replace(facts, gate=session.gating.decide(facts, self.in_order, problems))
        try:
            record.finish(facts)
        except OSError as error:
            record.facts = facts
            self.notes.append(
                f"run record {record.folder}: run.json could not be written: {error.strerror or error}"
            )

    def _final_facts(
        self, record: RunRecord, report: BrokerReport, benchmarks: Mapping[str, Benchmark]
    ) -> tuple[RunMetadata, list[str]]:
        """Return the record's facts, completed with those that are known only at the end.

        Return also one line for each metric or remark that the code of a benchmark could not compute.
        """
        facts, uses, verdicts = record.facts, report.models, self.in_order
        served = {label.removeprefix(HELPER) for label, use in uses.items() if use.served_as}
        defaults = self._session.cases.helpers.defaults
        models = {label: model.used(uses.get(label)) for label, model in facts.models.items()}
        helpers = {
            role: helper.used(uses.get(f"{HELPER}{role}"))
            for role, helper in facts.helpers.items()
            if role not in defaults or role in served
        }
        recorded = {*models, *(f"{HELPER}{role}" for role in helpers)}
        calls = report.counters
        metrics, problems = metric_rows(verdicts, benchmarks)
        remarks, more_problems = remarks_on(verdicts, benchmarks)
        is_whole = not self.is_interrupted and self.stopped is None and self.collection.is_whole
        # A run that only searches is complete without verdicts, and a shard may have no items.
        has_cases = facts.expected or record.searches or facts.options.get("shard") is not None
        facts = replace(
            facts,
            complete=bool(has_cases) and len(verdicts) == facts.expected and is_whole,
            models=models,
            helpers=helpers,
            deviations={k: use.deviations for k, use in uses.items() if k in recorded and use.deviations},
            # Without the calls of unknown price, the sum is not the cost of the run.
            calls=calls.with_amount(None if calls.unpriced else calls.cost_usd),
            summary=summary_rows(verdicts, cluster_weighted(facts)),
            metrics=metrics,
            remarks=remarks,
            searches=search_counts(record.searches),
        )
        return facts, [*problems, *more_problems]

    def close(self) -> None:
        """Close the record, and release that of a resumed run."""
        if self._session.evaluation.run_dir is not None:
            remove_reports(self._session.evaluation.run_dir)
        if self.record is not None:
            self.record.close()
        if self._session.earlier is not None:
            self._session.earlier.close()
