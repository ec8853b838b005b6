"""The one process that keeps the run record and talks to the person: with workers or without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.errors import LLMPropsError, UsageError
from pytest_llmprops.core.records import SearchRecord, VerdictRecord
from pytest_llmprops.engine.session import BrokerProcess, Engine
from pytest_llmprops.plugin.in_process_facts import NOTHING_ASKED, add_in_process
from pytest_llmprops.plugin.last_facts import in_order, last_facts
from pytest_llmprops.plugin.outcomes import printable
from pytest_llmprops.plugin.progress import Progress
from pytest_llmprops.plugin.session import LLMSession
from pytest_llmprops.runs.record import RunRecord, git_state, new_run_folder
from pytest_llmprops.runs.searches import SearchLog


class Controller:
    """Run record, live progress, exit status and final summary of a session."""

    def __init__(self, config: pytest.Config, session: LLMSession) -> None:
        self.config = config
        self.session = session
        self.settings = session.settings
        self.record: RunRecord | None = None
        self.searches: SearchLog | None = None
        self.progress: Progress | None = None
        self.broker_process: BrokerProcess | None = None
        #: lines for the summary that are neither results nor errors of a case
        self.notes: list[str] = []
        self.stopped: str | None = None
        self._facts: dict[str, Any] = {}
        self._in_order: list[VerdictRecord] = []
        self._monitor: Engine | None = None
        self._interrupted = False
        self._refused = ""
        #: failures and errors that no gate can excuse: not of an item, or not by its verdict
        self._other_failures = 0
        #: cases that a sequential gate did not need
        self._unneeded: set[str] = set()
        self._pytest_session: pytest.Session | None = None
        if self.settings.plan:
            # A plan is made in one process and sends nothing; workers would be idle.
            config.option.dist = "no"
            from pytest_llmprops.plugin.plan import PlanOnly

            config.pluginmanager.register(PlanOnly(session), "llmprops-plan")
        self.distributed = config.getoption("dist", "no") != "no"
        if self.distributed:
            from pytest_llmprops.plugin.distributed import Distributed

            config.pluginmanager.register(Distributed(self), "llmprops-distributed")
        elif not (self.settings.plan or config.option.collectonly):
            session.evaluation.import_sdks()

    # ---- start

    def pytest_report_header(self) -> list[str]:
        settings = self.settings
        models = ", ".join(settings.models)
        parts = [f"protocol {settings.protocol}", f"source {settings.source}", f"seed {settings.seed}"]
        if settings.limit:
            parts.append(f"limit {settings.limit}")
        parts.append(f"concurrency {settings.concurrency}")
        parts.append(f"cache {settings.cache}")
        lines = [f"llmprops: {models} ({', '.join(parts)})"]
        gating = self.session.gating
        if gating is not None:
            lines.append(f"llmprops: {gating.describe()}")
            lines += [f"llmprops: {line}" for line in gating.warnings(self.session.cases, settings)]
        return [printable(line) for line in lines]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._pytest_session = session

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if self.distributed or self.session.will_not_run(session):
            return
        total = sum(
            self.session.unit_of(item) is not None or self.session.searched_by(item) is not None
            for item in session.items
        )
        not_served = any(s.not_served for s in self.session.cases.selections.values())
        if total or (self.session.gating is not None and not_served):
            self.open_record()
            self.start_progress(total)

    def open_record(self) -> None:
        """Make the run's folder and write the first ``run.json``."""
        models = list(self.session.cases.models)
        root = Path(self.config.rootpath)
        try:
            folder = new_run_folder(self.settings.run, models, root)
            self.record = RunRecord(folder, self._first_facts())
            self.searches = SearchLog(folder)
        except UsageError as error:
            raise pytest.UsageError(str(error)) from None
        except OSError as error:
            raise pytest.UsageError(f"run record: {error}") from None
        self.session.evaluation.run_dir = folder

    def _first_facts(self) -> dict[str, Any]:
        cases = self.session.cases
        invocation = self.config.invocation_params
        options = {k: _plain(getattr(self.settings, k)) for k in type(self.settings).__slots__}
        options["command"] = [str(a) for a in invocation.args]
        return {
            "models": {label: {"spec": spec.text} for label, spec in cases.models.items()},
            "helpers": {role: {"spec": spec.text} for role, spec in cases.helpers.specs.items()},
            "options": options,
            "git": git_state(Path(self.config.rootpath)),
        }

    def start_progress(self, total: int) -> None:
        """Show a live line on a terminal."""
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or not Progress.wanted(reporter, self.config):
            return
        capture = None if self.distributed else self.config.pluginmanager.get_plugin("capturemanager")
        self.progress = Progress(reporter, total, self.report, capture)
        if capture is not None:
            self.session.evaluation.on_wait = self.progress.waiting

    # ---- the broker's reports

    def report(self) -> dict[str, Any] | None:
        """The broker's counters and facts, or None when it cannot be asked."""
        try:
            if self.broker_process is not None:
                if self._monitor is None:
                    self._monitor = Engine(socket=self.broker_process.socket, window=1)
                return self._monitor.report()
            evaluation = self.session.evaluation
            if evaluation.engine_started:
                return evaluation.engine.report()
            return None if evaluation.needs_broker or not self.distributed else dict(NOTHING_ASKED)
        except (LLMPropsError, TimeoutError):
            return None

    # ---- while it runs

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        record = getattr(report, "llmprops", None)
        if report.failed and not getattr(report, "llmprops_own", False):
            self._other_failures += 1
        if hasattr(report, "llmprops_unneeded"):
            self._unneeded.add(report.llmprops_unneeded)
            if self.progress is not None:
                self.progress.count("gate decided")
        searched = hasattr(report, "llmprops_search")
        if searched and self.searches is not None:
            self._keep(self.searches.add, SearchRecord.from_json(report.llmprops_search))
        if self.progress is not None and (searched or hasattr(report, "llmprops_unsearched")):
            self.progress.count("searched", {})
        if record is None or self.record is None:
            return
        if self.progress is not None:
            self.progress.count(record["status"], record.get("counts"))
        if "lines" in record:
            # Taken out, since pytest keeps every report to its end.
            self._keep(self.record.add_lines, record.pop("lines"), record.pop("records", None))
        else:
            self._keep(self.record.add, VerdictRecord.from_json(record))

    def _keep(self, add: Callable[..., None], *what: Any) -> None:
        """Append to the record; when the disk is full the run ends."""
        assert self.record is not None
        try:
            add(*what)
        except OSError as error:
            if self.stopped is None:
                kept = len(self.record.records)
                self._end(
                    f"run record {self.record.folder}: {error.strerror or error}; {kept} verdicts are kept, and all"
                    " replies so far are in the store: make room and run again"
                )

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._other_failures += report.failed

    def _end(self, reason: str) -> None:
        self.stopped = reason
        if self._pytest_session is not None:
            self._pytest_session.shouldstop = f"llmprops: {reason}"
        dsession = self.config.pluginmanager.get_plugin("dsession")
        if dsession is not None:
            dsession.shouldstop = f"llmprops: {reason}"

    def pytest_report_teststatus(self, report: Any, config: pytest.Config) -> tuple[str, str, Any] | None:
        record = getattr(report, "llmprops", None)
        if self.progress is not None and hasattr(report, "llmprops_unsearched"):
            # A letter would break the live line.
            return report.outcome, "", "SKIPPED"
        searched = hasattr(report, "llmprops_search")
        if report.when != "call" or (record is None and not searched):
            return None
        if hasattr(report, "wasxfail"):
            return "xfailed", "" if self.progress is not None else "x", "XFAIL"
        if record is None:
            return self._search_status(report)
        status = record["status"]
        letter = (
            ""
            if self.progress is not None
            else {"correct": ".", "refused": "r", "unparsed": "u"}.get(status, "F")
        )
        markup = {"green": True} if status == "correct" else {"red": True}
        return report.outcome, letter, (status.upper(), markup)

    def _search_status(self, report: Any) -> tuple[str, str, Any]:
        # Hypothesis runs in the call, where pytest knows no errors.
        if report.llmprops_search["error"]:
            category, letter, word = "error", "E", "ERROR"
        else:
            letter, word = (".", "PASSED") if report.passed else ("F", "COUNTEREXAMPLE")
            category = report.outcome
        markup = {"green": True} if report.passed else {"red": True}
        return category, "" if self.progress is not None else letter, (word, markup)

    def pytest_keyboard_interrupt(self) -> None:
        self._interrupted = True

    def worker_facts(self, facts: dict[str, Any]) -> None:
        """What a worker found at collection, where all find the same, and what it did."""
        told = [*self._facts.get("in_process", []), facts["in_process"]]
        stopped = self._facts.get("stopped") or facts["stopped"]
        self._facts = {**facts, "in_process": told, "stopped": stopped}

    # ---- end

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self.progress is not None:
            self.progress.clear()
        if self.record is None:
            return
        if exitstatus == pytest.ExitCode.INTERRUPTED:
            self._interrupted = True
        report = self.report() or {"counters": {}, "stopped": None, "notes": [], "models": {}}
        if self.broker_process is not None:
            failure = self.broker_process.failure()
            if failure:
                self.notes.append(failure)
        facts = self._facts or self.session.facts()
        self.stopped = self.stopped or report["stopped"] or facts["stopped"]
        add_in_process(report, self.session.evaluation.in_process_facts, facts["in_process"])
        if facts["refused"]:
            # As without workers, where nothing was begun: one line, and no record of nothing.
            self._refused = facts["refused"]
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
            self.close_engines()
            self.record.discard()
            return
        self.notes += [*report["notes"], *facts["notes"]]
        self._finish_record(report, facts)
        self.close_engines()
        self._set_exit_status(session)

    def _set_exit_status(self, session: pytest.Session) -> None:
        gate = self.record.facts.get("gate") if self.record is not None else None
        if gate is not None and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            # The gate speaks for the items; whatever else failed still fails the session.
            passed = gate["passed"] and not self._other_failures
            session.exitstatus = pytest.ExitCode.OK if passed else pytest.ExitCode.TESTS_FAILED
        if self.stopped and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.INTERRUPTED

    def _finish_record(self, report: dict[str, Any], facts: dict[str, Any]) -> None:
        assert self.record is not None
        record = self.record
        self._in_order = in_order(record.records, facts)
        last = last_facts(
            record,
            self._in_order,
            report,
            facts,
            whole=not self._interrupted and self.stopped is None,
            unneeded=len(self._unneeded),
            default_roles=self.session.cases.helpers.defaults,
            searches=self.searches.records if self.searches is not None else (),
        )
        last |= {"stopped": self.stopped, "notes": self.notes}
        if self.session.gating is not None:
            gate = self.session.gating.decide({**record.facts, **last}, self._in_order)
            last["gate"] = gate.to_json()
        try:
            record.finish(last)
        except OSError as error:
            record.facts.update(last)
            self.notes.append(
                f"run record {record.folder}: run.json could not be written: {error.strerror or error}"
            )

    def close_engines(self) -> None:
        """End the broker and everything that talks to it."""
        self.session.close()
        if self._monitor is not None:
            self._monitor.close()
            self._monitor = None
        if self.broker_process is not None:
            self.broker_process.close()
            self.broker_process = None
        if self.searches is not None:
            self.searches.close()

    def pytest_unconfigure(self) -> None:
        self.close_engines()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Iterator[None]:
        # Our failures are listed, shortened, by our own summary; pytest's section for each of hundreds
        # of wrong answers would bury it. They are put back before pytest counts.
        stats = terminalreporter.stats
        failed = stats.get("failed", [])
        others = [r for r in failed if not hasattr(r, "llmprops") and not hasattr(r, "llmprops_search")]
        if len(others) < len(failed):
            stats["failed"] = others
        try:
            yield
        finally:
            if failed:
                stats["failed"] = failed
        self._write_summary(terminalreporter)

    def _write_summary(self, reporter: Any) -> None:
        if self._refused:
            reporter.write_line(f"ERROR: {printable(self._refused)}", red=True)
            return
        if self.record is None:
            for name, selection in self.session.cases.selections.items():
                for model, items in selection.not_served.items():
                    reporter.write_line(f"llmprops: not served: {items} {name} items (by {model})")
            return
        from pytest_llmprops.reports.searches import search_lines
        from pytest_llmprops.reports.terminal import summary_lines

        facts = self.record.facts
        facts["stopped"] = self.stopped
        reporter.section("llmprops", sep="=")
        for line in summary_lines(facts, self._in_order, self.record.folder, self.notes):
            reporter.write_line(line)
        for line in search_lines(facts.get("searches", ()), self.searches.records if self.searches else ()):
            reporter.write_line(line)
        if "gate" in facts:
            from pytest_llmprops.reports.gate import gate_lines

            *told, decision = gate_lines(facts["gate"])
            reporter.write_line("")
            for line in told:
                reporter.write_line(line)
            colour = {"green": True} if facts["gate"]["passed"] else {"red": True}
            reporter.write_line(decision, bold=True, **colour)


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
