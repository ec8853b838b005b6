"""The run record of a session: verdicts and searches as they come, then the final facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.broker_report import BrokerReport
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.run_facts import ModelFacts, RunFacts
from pytest_llmprops.core.worker_messages import CaseReport, InProcessUse, WorkerSummary
from pytest_llmprops.plugin.in_process_usage import with_in_process
from pytest_llmprops.plugin.run_facts import final_facts, in_order
from pytest_llmprops.plugin.session import LLMSession
from pytest_llmprops.runs.record import RunRecord, first_facts, git_state, new_run_folder
from pytest_llmprops.runs.searches import SearchLog


class Recording:
    """Writes the record, in the controller.

    :param end_run: called with the reason if the record cannot be written any more.
    """

    def __init__(self, config: pytest.Config, session: LLMSession, end_run: Callable[[str], None]) -> None:
        self._config, self._session, self._end_run = config, session, end_run
        self.record: RunRecord | None = None
        self.searches: SearchLog | None = None
        #: notes for the summary
        self.notes: list[str] = []
        #: why the run ended early; None if it did not
        self.stopped: str | None = None
        self.is_interrupted = False
        #: the verdicts in the order of the suites, once the run is over
        self.in_order: list[VerdictRecord] = []
        #: keys of the samples that a sequential gate did not need
        self._not_needed: set[str] = set()

    def open(self) -> None:
        """Create the run's folder and write the first ``run.json``.

        :raises pytest.UsageError: if the folder cannot be used.
        """
        models = list(self._session.cases.models)
        root = Path(self._config.rootpath)
        try:
            folder = new_run_folder(self._session.settings.run, models, root)
            self.record = RunRecord(folder, self._first_facts(folder))
            self.searches = SearchLog(folder)
        except UsageError as error:
            raise pytest.UsageError(str(error)) from None
        except OSError as error:
            raise pytest.UsageError(f"run record: {error}") from None
        self._session.evaluation.run_dir = folder

    def _first_facts(self, folder: Path) -> RunFacts:
        cases, settings = self._session.cases, self._session.settings
        options = {k: _plain(getattr(settings, k)) for k in type(settings).__slots__}
        options["command"] = [str(a) for a in self._config.invocation_params.args]
        return first_facts(
            folder,
            models={label: ModelFacts(spec.text) for label, spec in cases.models.items()},
            helpers={role: ModelFacts(spec.text) for role, spec in cases.helpers.specs.items()},
            options=options,
            git=git_state(Path(self._config.rootpath)),
        )

    def add(self, message: CaseReport) -> None:
        """Append the verdicts or the search of a case; a full disk ends the run."""
        if message.not_needed:
            self._not_needed.update(message.not_needed)
        if self.record is None or self.searches is None:
            return
        try:
            if message.search is not None:
                self.searches.add(message.search)
            if message.verdict is not None:
                self.record.add(message.verdict)
            if message.group is not None:
                self.record.add_lines(message.group.lines, message.group.records)
        except OSError as error:
            if self.stopped is None:
                kept = len(self.record.records)
                self.stopped = (
                    f"run record {self.record.folder}: {error.strerror or error}; the record has"
                    f" {kept} verdicts, and the store has all replies; free disk space and run again"
                )
                self._end_run(self.stopped)

    def discard(self) -> None:
        """Remove the record of a run that may not start."""
        assert self.record is not None
        self.record.discard()

    def finish(
        self,
        report: BrokerReport | None,
        summary: WorkerSummary,
        processes: Sequence[Mapping[str, InProcessUse]],
    ) -> None:
        """Write the final facts, with the gate's decision.

        :param report: the broker's report; None if the broker did not answer.
        :param processes: for each process that ran cases, the use of the models that it served in process.
        """
        assert self.record is not None
        record, session, collection = self.record, self._session, summary.collection
        report = with_in_process(report or BrokerReport(), session.evaluation.in_process_labels, processes)
        self.stopped = self.stopped or report.stopped or summary.stopped
        self.notes += [*report.notes, *collection.notes]
        self.in_order = in_order(record.records, collection)
        facts = final_facts(
            record,
            self.in_order,
            report,
            collection,
            is_whole=not self.is_interrupted and self.stopped is None,
            not_needed=len(self._not_needed),
            default_roles=session.cases.helpers.defaults,
            searches=self.searches.records if self.searches is not None else (),
        )
        facts = replace(facts, stopped=self.stopped, notes=tuple(self.notes))
        if session.gating is not None:
            problems = record.problems(record.finished(facts))
            facts = replace(facts, gate=session.gating.decide(facts, self.in_order, problems))
        try:
            record.finish(facts)
        except OSError as error:
            record.facts = facts
            self.notes.append(
                f"run record {record.folder}: run.json could not be written: {error.strerror or error}"
            )

    def close(self) -> None:
        """Close the file of searches."""
        if self.searches is not None:
            self.searches.close()


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
