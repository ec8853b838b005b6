"""The controller's output in the terminal: header, letters, progress line and summary."""

from __future__ import annotations

from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from pytest_llmprops.core.texts import terminal_line
from pytest_llmprops.core.worker_messages import CaseReport, CollectionFacts
from pytest_llmprops.models.addresses import without_user
from pytest_llmprops.models.aliases import hint
from pytest_llmprops.plugin.progress import Progress
from pytest_llmprops.plugin.recording import Recording
from pytest_llmprops.plugin.session import LLMSession
from pytest_llmprops.plugin.verdicts import DECIDED

_LETTERS = {"correct": ".", "refused": "r", "unparsed": "u"}
_GREEN, _RED = {"green": True}, {"red": True}
#: category, letter, and word (with its markup) that pytest shows for a report
Shown = tuple[str, str, str | tuple[str, dict[str, bool]]]


class Terminal:
    """Stores how each case ended, which decides the word that pytest prints and the failures that it lists."""

    def __init__(self) -> None:
        self.progress: Progress | None = None
        #: node id -> status of the case's verdict
        self._statuses: dict[str, str] = {}
        #: node id -> whether the search ended with an error
        self._searches: dict[str, bool] = {}
        #: category -> the report that pytest keeps for all cases; see :meth:`forget`
        self._kept: dict[str, pytest.TestReport] = {}
        #: node ids of items that cannot be searched
        self._not_searched: set[str] = set()

    def add(self, report: pytest.TestReport, message: CaseReport) -> None:
        """Store the end of a case, and count it in the progress line."""
        status = message.status
        if report.when == "call":
            # Another assertion of the test function, or an exception in it, is shown as pytest shows it.
            if status and not (report.failed and not message.by_model):
                self._statuses[report.nodeid] = status
            if message.search is not None:
                self._searches[report.nodeid] = bool(message.search.error)
        if message.not_searched:
            self._not_searched.add(report.nodeid)
        if self.progress is None:
            return
        if message.not_needed:
            self.progress.count(DECIDED)
        if message.search is not None or message.not_searched:
            self.progress.count("searched", {})
        if status:
            self.progress.count(status, message.group.counts if message.group else None)

    def forget(self, report: pytest.TestReport, message: CaseReport | None, reporter: Any) -> None:
        """Let pytest's terminal reporter keep one report for all cases that ended alike; it only counts them.

        Errors, which it shows at the end, are kept.

        :param reporter: pytest's terminal reporter; None with ``-p no:terminal``.
        """
        has_verdict = message is not None and report.nodeid in self._statuses
        if reporter is None or not (has_verdict or report.passed):
            return
        for category, reports in reporter.stats.items():
            if reports and reports[-1] is report:
                first = self._kept.setdefault(category, report)
                reports[-1] = first
                # The report of a teardown, which some plugins need, leaves the status of the case.
                if first is not report and report.when == "call":
                    self._statuses.pop(report.nodeid, None)

    def clear_progress(self) -> None:
        """Remove the progress line."""
        if self.progress is not None:
            self.progress.clear()

    def shown(self, report: Any) -> Shown | None:
        """Return what pytest shows for a report; None to let pytest decide."""
        nodeid, is_live = report.nodeid, self.progress is not None
        if report.when != "call":
            # A letter would break the progress line.
            return (report.outcome, "", "SKIPPED") if is_live and nodeid in self._not_searched else None
        status = self._statuses.get(nodeid)
        if status is None and nodeid not in self._searches:
            return None
        if hasattr(report, "wasxfail"):
            category, letter, word = "xfailed", "x", "XFAIL"
            return category, "" if is_live else letter, word
        if status is None:
            category, letter, word = self._search(report)
            markup = _GREEN if report.passed else _RED
        else:
            category, letter, word = report.outcome, _LETTERS.get(status, "F"), status.upper()
            markup = _GREEN if status == "correct" else _RED
        return category, "" if is_live else letter, (word, markup)

    def _search(self, report: Any) -> tuple[str, str, str]:
        if self._searches[report.nodeid]:
            # Hypothesis runs in the call, where pytest reports failures only.
            return "error", "E", "ERROR"
        return (report.outcome, ".", "PASSED") if report.passed else (report.outcome, "F", "COUNTEREXAMPLE")

    @contextmanager
    def failures_of_cases_hidden(self, stats: dict[str, list[Any]]) -> Iterator[None]:
        """Hide failed cases from pytest's summary, which would print a section for each.

        They are restored before pytest counts the failures.
        """
        failed = stats.get("failed", [])
        cases = self._statuses.keys() | self._searches.keys()
        others = [r for r in failed if r.when != "call" or r.nodeid not in cases]
        if len(others) < len(failed):
            stats["failed"] = others
        try:
            yield
        finally:
            if failed:
                stats["failed"] = failed


def lists_reports(config: pytest.Config) -> bool:
    """Whether pytest shows something of each report at the end: passed or expected failures, or durations."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    shown = set(getattr(reporter, "reportchars", "")) & set("pPxX")
    return bool(shown or config.option.durations or config.getini("console_output_style") == "times")


class _Number(set[Any]):
    """The number of reported cases, in the place of the set of their ids (400 bytes each), of which pytest shows it."""

    def __init__(self, ids: Set[Any]) -> None:
        super().__init__()
        self._number, self._last = len(ids), None

    def add(self, nodeid: Any) -> None:
        # A failed teardown is reported after the call of the same case.
        self._number += nodeid != self._last
        self._last = nodeid

    def __len__(self) -> int:
        return self._number


class _LightStatus:
    """Answers for light items before pytest's hook for subtests, which keeps the id of each report."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: Any) -> Any:
        # Only reports of light items have no keywords; these items have no subtests.
        return None if getattr(report, "keywords", True) else self._terminal.shown(report)


def count_reports(plugins: pytest.PytestPluginManager, terminal: Terminal) -> None:
    """Make pytest count the cases of a large run instead of keeping their ids."""
    plugins.register(_LightStatus(terminal), "llmprops-light-status")
    reporter = plugins.get_plugin("terminalreporter")
    ids = getattr(reporter, "_progress_nodeids_reported", None)
    # Before version 9.2, pytest adds the id of a case twice.
    if isinstance(ids, set) and not hasattr(reporter, "pytest_runtest_logfinish"):
        setattr(reporter, "_progress_nodeids_reported", _Number(ids))  # noqa: B010


def header_lines(session: LLMSession) -> list[str]:
    """Return the lines of pytest's header."""
    settings = session.settings
    parts = [f"protocol {settings.protocol}", f"source {settings.source}", f"seed {settings.seed}"]
    if settings.size != "full":
        parts.append(f"size {settings.size}")
    if settings.limit:
        parts.append(f"limit {settings.limit}")
    if settings.repeats > 1:
        parts.append(f"repeats {settings.repeats}")
    parts += [f"concurrency {settings.concurrency}", f"cache {settings.cache}"]
    lines = [f"llmprops: {', '.join(map(without_user, settings.models))} ({', '.join(parts)})"]
    if session.dotenv:
        lines.append(f"llmprops: {session.dotenv}")
    lines += [f"llmprops: {line}" for line in map(hint, session.cases.model_specs().values()) if line]
    gating = session.gating
    if gating is not None:
        lines.append(f"llmprops: {gating.describe()}")
    return [terminal_line(line) for line in lines]


def write_not_served(reporter: Any, session: LLMSession, collection: CollectionFacts) -> None:
    """Write how many items are not served, in a run without a record.

    :param collection: what workers collected; empty without workers.
    """
    selections = session.cases.selections
    not_served = collection.not_served or {name: one.not_served for name, one in selections.items()}
    for name, numbers in not_served.items():
        for model, items in numbers.items():
            reporter.write_line(f"llmprops: not served: {items} {name} items (by {model})")


def write_summary(reporter: Any, recording: Recording) -> None:
    """Write the summary of a recorded run, with the gate's decision."""
    from pytest_llmprops.reports.searches import search_lines
    from pytest_llmprops.reports.tables import terminal_width, wrapped
    from pytest_llmprops.reports.terminal import next_command, summary_lines

    assert recording.record is not None
    facts, folder = replace(recording.record.facts, stopped=recording.stopped), recording.record.folder
    reporter.section("llmprops", sep="=")
    searches = recording.searches.records if recording.searches else ()
    width = terminal_width()
    for line in summary_lines(facts, recording.in_order, folder, recording.notes, width):
        reporter.write_line(line)
    for line in search_lines(facts.searches, searches):
        for part in wrapped(line, width):
            reporter.write_line(part)
    if facts.gate is not None:
        from pytest_llmprops.reports.gate import gate_lines

        *reasons, decision = gate_lines(facts.gate, width)
        reporter.write_line("")
        for line in reasons:
            reporter.write_line(line)
        reporter.write_line(decision, bold=True, **(_GREEN if facts.gate.passed else _RED))
    if facts.summary:
        reporter.write_line(next_command(folder))
