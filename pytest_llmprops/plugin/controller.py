"""The process that writes the run record and the terminal, with or without workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pytest_llmprops.core.texts import terminal_line
from pytest_llmprops.core.worker_messages import InProcessUse, WorkerSummary
from pytest_llmprops.plugin.progress import Progress
from pytest_llmprops.plugin.recording import Recording
from pytest_llmprops.plugin.reporting import detach
from pytest_llmprops.plugin.session import LLMSession
from pytest_llmprops.plugin.session_broker import SessionBroker
from pytest_llmprops.plugin.terminal import Terminal, header_lines, write_not_served, write_summary


class Controller:
    """Connects pytest's reports with the run record, the terminal and the exit status."""

    def __init__(self, config: pytest.Config, session: LLMSession) -> None:
        self.config, self.session = config, session
        self.is_distributed = config.getoption("dist", "no") != "no"
        self.recording = Recording(config, session, self._end)
        self.broker = SessionBroker(session.evaluation, is_distributed=self.is_distributed)
        self.terminal = Terminal()
        #: the reports of the workers that ended
        self.summaries: list[WorkerSummary] = []
        #: number of failures and errors that a gate does not replace: all except wrong verdicts and failed calls
        self._other_failures = 0
        self._refused: str | None = None
        self._pytest_session: pytest.Session | None = None

    # ---- start

    def pytest_report_header(self) -> list[str]:
        return header_lines(self.session)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._pytest_session = session

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        collection = self.session.collection
        if self.is_distributed or collection.only_collects(session):
            return
        total = sum(
            collection.unit_of(item) is not None or collection.searched_by(item) is not None
            for item in session.items
        )
        not_served = any(s.not_served for s in self.session.cases.selections.values())
        if total or (self.session.gating is not None and not_served):
            self.recording.open()
            self.start_progress(total)

    def start_progress(self, total: int) -> None:
        """Show the progress line if the output is a terminal."""
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or not Progress.is_shown(reporter, self.config):
            return
        capture = None if self.is_distributed else self.config.pluginmanager.get_plugin("capturemanager")
        self.terminal.progress = Progress(reporter, total, self.broker.report, capture)
        if capture is not None:
            self.session.evaluation.on_wait = self.terminal.progress.waiting

    # ---- while it runs

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        message = detach(report)
        if report.failed and not (message is not None and message.by_model):
            self._other_failures += 1
        if message is not None:
            self.terminal.add(report, message)
            self.recording.add(message)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._other_failures += report.failed

    def pytest_report_teststatus(self, report: Any) -> Any:
        return self.terminal.shown(report)

    def pytest_keyboard_interrupt(self) -> None:
        self.recording.is_interrupted = True

    def _end(self, reason: str) -> None:
        """End the session in this process and in the workers."""
        reason = f"llmprops: {reason}"
        if self._pytest_session is not None:
            self._pytest_session.shouldstop = reason
        distributed_session = self.config.pluginmanager.get_plugin("dsession")
        if distributed_session is not None:
            distributed_session.shouldstop = reason

    # ---- end

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        self.terminal.clear_progress()
        if self.recording.record is None:
            return
        if exitstatus == pytest.ExitCode.INTERRUPTED:
            self.recording.is_interrupted = True
        summary, processes = self._whole_summary()
        if summary.refused is None:
            self._finish(summary, processes)
            session.exitstatus = self._exit_status(session.exitstatus)
        else:
            # Like a run without workers: one line, and no record.
            self._refused, session.exitstatus = summary.refused, pytest.ExitCode.USAGE_ERROR
        self.close()
        if self._refused:
            self.recording.discard()

    def _whole_summary(self) -> tuple[WorkerSummary, list[dict[str, InProcessUse]]]:
        """Return the summary of all processes that ran cases, and the models that each served in process."""
        summaries = self.summaries or [self.session.summary()]
        last = summaries[-1]
        stopped = next((s.stopped for s in summaries if s.stopped), None)
        whole = WorkerSummary(last.collection, last.in_process, last.refused, stopped)
        return whole, [dict(summary.in_process) for summary in summaries]

    def _finish(self, summary: WorkerSummary, processes: list[dict[str, InProcessUse]]) -> None:
        report = self.broker.report()
        failure = self.broker.failure()
        if failure is not None:
            self.recording.notes.append(failure)
        # The record has the hash of requests.jsonl, to which the broker appends until it is closed.
        self._end_engine()
        self.recording.finish(report, summary, processes)

    def _exit_status(self, status: int) -> int:
        gate = self.recording.record.facts.gate if self.recording.record is not None else None
        if gate is not None and status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            # The gate decides about the items; every other failure still fails the session.
            passed = gate.passed and not self._other_failures
            status = pytest.ExitCode.OK if passed else pytest.ExitCode.TESTS_FAILED
        if self.recording.stopped and status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            status = pytest.ExitCode.INTERRUPTED
        return status

    def close(self) -> None:
        """End the broker and everything that uses it; safe to call twice."""
        self._end_engine()
        self.recording.close()

    def _end_engine(self) -> None:
        self.session.close()
        self.broker.close()

    def pytest_unconfigure(self) -> None:
        self.close()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Iterator[None]:
        with self.terminal.failures_of_cases_hidden(terminalreporter.stats):
            yield
        if self._refused:
            terminalreporter.write_line(f"ERROR: {terminal_line(self._refused)}", red=True)
        elif self.recording.record is None:
            write_not_served(terminalreporter, self.session)
        else:
            write_summary(terminalreporter, self.recording)
