"""The process that writes the run record and the terminal, with or without workers.

SIGTERM, SIGHUP, and Ctrl-C pressed more than once, end a run as one Ctrl-C does.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from pytest_llmprops.core.texts import terminal_line
from pytest_llmprops.plugin.cases.markers import load_benchmarks
from pytest_llmprops.plugin.cases.reporting import detach
from pytest_llmprops.plugin.control.broker import SessionBroker
from pytest_llmprops.plugin.control.recording import Recording
from pytest_llmprops.plugin.control.terminal import (
    Progress,
    Terminal,
    header_lines,
    not_served_lines,
    write_summary,
)
from pytest_llmprops.plugin.options import shown_only
from pytest_llmprops.plugin.process import drop_unused_hypothesis
from pytest_llmprops.plugin.session import LLMSession
from pytest_llmprops.records.gate import GateResult, exit_code
from pytest_llmprops.records.messages import CollectionMetadata, WorkerSummary

#: what pytest handles as an interrupt, and what ``timeout``, a CI system or a container and a closed terminal send
_SIGNALS = tuple(
    signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if name in signal.Signals.__members__
)


#: the copies of the descriptors of the output are below
_MOST_DESCRIPTORS = 256


class Interrupts:
    """The signal handlers of the process that writes the record.

    A signal raises KeyboardInterrupt. Once pytest has caught it, or all cases are over, later ones are only noted while
    the record is completed, the workers end and the broker is closed, which takes seconds at most. Not before: Python
    drops an exception that is raised in a weak reference's callback, and the next signal must not be lost, too.
    """

    def __init__(self) -> None:
        #: a signal came since :meth:`hold`
        self.is_pressed = False
        self._previous: dict[signal.Signals, object] = {}
        self._is_deferred = False
        #: the signal that came while it was deferred
        self._came: int | None = None

    def install(self) -> None:
        """Handle the signals, except those that the environment ignores (``nohup``) or another plugin handles."""
        if threading.current_thread() is not threading.main_thread() or self._previous:
            return
        for number in _SIGNALS:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                self._previous[number] = signal.signal(number, self._interrupt)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Raise KeyboardInterrupt at the end of the block if a signal comes during it."""
        self._is_deferred = True
        try:
            yield
        finally:
            self._is_deferred = False
            if (number := self._came) is not None:
                self._came = None
                self._interrupt(number, None)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        _leave_terminal()
        if self._is_deferred:
            self._came = number
        else:
            raise KeyboardInterrupt(signal.Signals(number).name)

    def hold(self) -> None:
        """Note further signals, without an exception."""
        for handled in self._previous:
            # Not SIG_IGN, which a process started later would inherit.
            signal.signal(handled, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.is_pressed = True
        _leave_terminal()

    def restore(self) -> None:
        """Set the previous handlers; safe to call twice.

        If the process ends with pytest, they are left, since a signal would end it without its exit status.
        """
        while self._previous and not _is_program():
            number, handler = self._previous.popitem()
            signal.signal(number, handler)  # type: ignore[arg-type]


def _leave_terminal() -> None:
    """Send the output to nowhere if the terminal is closed: an error of each line would keep the record incomplete."""
    try:
        import termios
    except ImportError:  # Windows has no such terminals
        return
    # pytest's capturing has copies of the descriptors of the output.
    for descriptor in range(_MOST_DESCRIPTORS):
        try:
            termios.tcgetattr(descriptor)
        except termios.error as error:
            # Others have no terminal, or are not open.
            if error.args[0] == errno.EIO:
                nowhere = os.open(os.devnull, os.O_RDWR)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)


def _is_program() -> bool:
    """Return True if pytest is the program of this process, instead of a function that another program calls."""
    program = Path(sys.argv[0])
    return program.stem == "pytest" or program.parts[-2:] == ("pytest", "__main__.py")


class Controller:
    """Connects pytest's reports with the run record, the terminal and the exit status."""

    def __init__(self, config: pytest.Config, session: LLMSession) -> None:
        self.config, self.session = config, session
        self.is_distributed = config.getoption("dist", "no") != "no"
        self.recording = Recording(config, session, self._end)
        self.broker = SessionBroker(session.evaluation, is_distributed=self.is_distributed)
        self.terminal = Terminal()
        self._interrupts = Interrupts()
        #: the reports of the workers that ended
        self.summaries: list[WorkerSummary] = []
        #: number of failures and errors that a gate does not replace: all except wrong verdicts and failed calls
        self._other_failures = 0
        #: a worker ended without its summary
        self.lost_worker = False
        self._refused: str | None = None
        #: no model serves any of the selected items
        self._serves_nothing = False
        #: the first file or function that could not be collected, and why
        self._uncollected = ""
        #: why the run ended before its first call
        self._not_begun: str | None = None
        #: why a check before the run ended the session, which pytest shows
        self.ended: str | None = None
        self.main_session: pytest.Session | None = None

    def pytest_report_header(self) -> list[str]:
        return header_lines(self.session)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.main_session = session
        self._interrupts.install()

    def start_broker(self) -> Path:
        """Create the run's folder, start the broker's process of a run with workers, and return the folder.

        :raises pytest.UsageError: if the folder or the reply store cannot be used.
        """
        folder, evaluation = self.recording.prepare(), self.session.evaluation
        if self.is_distributed and evaluation.needs_broker:
            self.recording.notes += self.broker.start_process()
        return folder

    # Last, so that a run that is refused or not confirmed has no record.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        collection = self.session.collection
        if self.is_distributed or collection.only_collects(session):
            return
        self.begin(collection.facts())

    def begin(self, collection: CollectionMetadata) -> None:
        """Open the record and show the progress line, if there is something to record.

        :raises pytest.UsageError: if the record cannot be written.
        """
        self.recording.collection = collection
        self._serves_nothing = bool(collection.not_served) and not collection.items
        is_gated = self.session.gating is not None and collection.not_served
        # A shard may have no items; a merged run needs its record.
        is_shard = self.session.settings.shard is not None and collection.protocols
        if self.recording.record is None and (
            collection.items or is_gated or is_shard or self.session.earlier is not None
        ):
            self.recording.open(collection)
            self._start_progress(collection.items)

    def _start_progress(self, total: int) -> None:
        """Show the progress line if the output is a terminal."""
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or not Progress.is_shown(reporter, self.config):
            return
        capture = None if self.is_distributed else self.config.pluginmanager.get_plugin("capturemanager")
        self.terminal.progress = Progress(reporter, total, self.broker.report, capture)
        if capture is not None:
            self.session.evaluation.on_wait = self.terminal.progress.waiting

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        message = detach(report)
        if report.failed and not (message is not None and message.by_model):
            self._other_failures += 1
        if message is not None:
            self.terminal.add(report, message)
            # Between writing a line and noting it, a signal would leave a record that does not fit its hash.
            with self._interrupts.deferred():
                self.recording.add(message)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._other_failures += report.failed
        if report.failed and not self._uncollected:
            # The last line of a traceback is its exception.
            line = report.longreprtext.strip().rpartition("\n")[2].removeprefix("E ").strip()
            self._uncollected = f"{report.nodeid}: {line}"

    def pytest_report_teststatus(self, report: Any) -> Any:
        return self.terminal.shown(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        self._interrupts.hold()
        self.recording.is_interrupted = True

    def _end(self, reason: str) -> None:
        """End the session in this process and in the workers."""
        reason = f"llmprops: {reason}"
        if self.main_session is not None:
            self.main_session.shouldstop = reason
        distributed_session = self.config.pluginmanager.get_plugin("dsession")
        if distributed_session is not None:
            distributed_session.shouldstop = reason

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        result = yield
        # From here on, a signal would leave an unfinished record.
        self._interrupts.hold()
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Iterator[None]:
        self._complete(session, exitstatus)
        if self.session.gating is not None and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = exit_code(self._decision)
        yield
        # The summary was written in the meantime.
        if self._interrupts.is_pressed:
            session.exitstatus = pytest.ExitCode.INTERRUPTED

    def _complete(self, session: pytest.Session, exitstatus: int) -> None:
        """Finish the record, and set the exit status."""
        self.terminal.clear_progress()
        if not (self.lost_worker or any(summary.uses_hypothesis for summary in self.summaries)):
            drop_unused_hypothesis(self.config)
        self._refused = next((s.refused for s in self.summaries if s.refused), None)
        if self._refused:
            # Like a run without workers: one line, and no record.
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
        if self.recording.record is None:
            self.close()
            self.recording.discard()
            if self._serves_nothing and session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
            return
        if exitstatus == pytest.ExitCode.INTERRUPTED:
            self.recording.is_interrupted = True
        self._finish(self.summaries or [self.session.summary()])
        session.exitstatus = self._exit_status(session.exitstatus)
        self.close()
        if self.recording.is_empty:
            self._not_begun = (
                f"{self.recording.stopped or 'interrupted before the first call'}; no run was recorded"
            )
            self.recording.discard()

    def _finish(self, summaries: Sequence[WorkerSummary]) -> None:
        report = self.broker.report()
        failure = self.broker.failure()
        if failure is not None:
            self.recording.notes.append(failure)
            self.recording.lost_broker = True
        # The record has the hash of requests.jsonl, to which the broker appends until it is closed.
        self._end_engine()
        benchmarks = {name: one.benchmark for name, one in self.session.cases.selections.items()}
        problems: list[str] = []
        if self.is_distributed:
            assert self.main_session is not None
            benchmarks, problems = load_benchmarks(self.recording.collection.classes, self.main_session)
        self.recording.finish(report, summaries, benchmarks, problems)

    @property
    def _decision(self) -> GateResult | None:
        record = self.recording.record
        return None if record is None else record.facts.gate

    @property
    def reason(self) -> str:
        """Why the run ended before all cases were measured; empty if it did not."""
        if self.recording.record is not None:
            return self.recording.stopped or ""
        if self._uncollected:
            return f"cases could not be collected: {self._uncollected}"
        lines = not_served_lines(self.session, self.recording.collection)
        return self._refused or self.ended or self._not_begun or (lines[-1] if lines else "")

    def _exit_status(self, status: int) -> int:
        gate = self._decision
        if gate is not None and status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            # The gate decides about the items; every other failure still fails the session.
            status = pytest.ExitCode.TESTS_FAILED if self._other_failures else exit_code(gate)
        # pytest-xdist reports no failure if a worker is lost before it gets its first case.
        if self.session.earlier is not None and status in (
            pytest.ExitCode.OK,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        ):
            status = self._status_of_kept()
        elif self.session.settings.shard is not None and status == pytest.ExitCode.NO_TESTS_COLLECTED:
            status = pytest.ExitCode.OK
        facts = None if self.recording.record is None else self.recording.record.facts
        is_lost = self.lost_worker and facts is not None and not facts.complete
        if (self.recording.lacks_metrics or is_lost) and status == pytest.ExitCode.OK:
            status = pytest.ExitCode.TESTS_FAILED
        if self.recording.waits_for_batches and status not in (
            pytest.ExitCode.USAGE_ERROR,
            pytest.ExitCode.INTERNAL_ERROR,
        ):
            # A script runs the same command again while the status is 2.
            return pytest.ExitCode.INTERRUPTED
        if self.recording.stopped and status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            status = pytest.ExitCode.INTERRUPTED
        return status

    def _status_of_kept(self) -> pytest.ExitCode:
        """Return the status of a resumed run in which no test failed now: that of the verdicts before."""
        assert self.recording.record is not None
        facts = self.recording.record.facts
        controls = {(name, task) for name, known in facts.benchmarks.items() for task in known.controls}
        failed = any(
            record.status != "correct" and (record.benchmark, record.task) not in controls
            for record in self.recording.in_order
        )
        return pytest.ExitCode.TESTS_FAILED if failed and facts.gate is None else pytest.ExitCode.OK

    def close(self) -> None:
        """End the broker and everything that uses it; safe to call twice."""
        self._end_engine()
        self.recording.close()

    def _end_engine(self) -> None:
        # The record is finished; the summary has these lines.
        self.recording.notes += [*self.session.close(), *self.broker.close()]

    def pytest_unconfigure(self) -> None:
        self.close()
        if self.recording.record is None:
            # The session ended before its first hook that may do it: pytest-xdist starts workers earlier.
            self.recording.discard()
        self._interrupts.restore()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int) -> Iterator[None]:
        self.terminal.hide_failures_of_cases(terminalreporter.stats)
        try:
            yield
        finally:
            # pytest counts them in its last line.
            self.terminal.show_failures_of_cases(terminalreporter.stats)
        if self.recording.collection.ordinary:
            terminalreporter.write_line(f"llmprops: {terminal_line(self.recording.collection.ordinary)}")
        if self._refused:
            terminalreporter.write_line(f"ERROR: {terminal_line(self._refused)}", red=True)
            return
        # pytest writes the line of a usage error.
        is_undecided = self.session.gating is not None and exitstatus != pytest.ExitCode.USAGE_ERROR
        if self.recording.record is not None:
            write_summary(terminalreporter, self.recording)
        elif self._not_begun is not None and not is_undecided:
            terminalreporter.write_line(f"llmprops: {terminal_line(self._not_begun)}", red=True)
        elif exitstatus != pytest.ExitCode.USAGE_ERROR:
            for line in not_served_lines(self.session, self.recording.collection):
                terminalreporter.write_line(f"llmprops: {line}")
        if is_undecided and self._decision is None:
            shown = shown_only(self.config.option, self.session.settings)
            why = self.reason or "no case was run; select some"
            why = f"{shown} runs no case; leave it out to measure" if shown else why
            terminalreporter.write_line(f"NOT DECIDED: {terminal_line(why)}", red=True)
