"""The controller's output in the terminal: header, letters, progress line and summary."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from pytest_llmprops.core.field_types import RECORD_STATUSES
from pytest_llmprops.core.numbers import count, counted, duration, usd
from pytest_llmprops.core.texts import did_you_mean, terminal_line
from pytest_llmprops.models.registry import hint
from pytest_llmprops.models.spec import without_secrets
from pytest_llmprops.plugin.control.recording import Recording
from pytest_llmprops.plugin.session import LLMSession
from pytest_llmprops.records.messages import BrokerReport, CaseReport, CollectionMetadata

INTERVAL_SECONDS = 0.5
#: time after which the rate of the first cases says how long the others take
ESTIMATE_SECONDS = 2.0


class Progress:
    """Rewrites one line twice per second: cases done and total, calls per second and in flight, verdicts, cost.

    :param report: returns the broker's report. :param capture: pytest's capture manager, which would capture the line
        while a case waits; None if cases run in workers. Then a thread rewrites the line.
    """

    def __init__(
        self, reporter: Any, total: int, report: Callable[[], BrokerReport | None], capture: Any
    ) -> None:
        self._reporter = reporter
        self._capture = capture
        self._total = total
        self._report = report
        self._done: dict[str, int] = dict.fromkeys(RECORD_STATUSES, 0)
        self._cases = 0
        self._begun = time.monotonic()
        self._last: tuple[float, int] = (self._begun, 0)
        self._rate = 0.0
        self._over = threading.Event()
        self._writing = threading.Lock()
        self._shown = 0.0
        if capture is None:
            threading.Thread(target=self._run, name="llmprops-progress", daemon=True).start()

    @staticmethod
    def is_shown(reporter: Any, config: pytest.Config) -> bool:
        """Return True if the line is shown: on a terminal, outside of CI, unless pytest prints one line per test."""
        return bool(reporter.isatty) and not under_ci() and config.get_verbosity() <= 0

    def count(self, status: str, counts: Mapping[str, int] | None = None) -> None:
        """Count a reported case.

        :param status: status of the verdict.
        :param counts: status -> number of items, for a case with several items.
        """
        self._cases += 1
        for name, number in ({status: 1} if counts is None else counts).items():
            self._done[name] += number
        if self._capture is not None:
            self._refresh_if_due()

    def waiting(self) -> None:
        """Refresh the line while a case in this process waits for its verdict."""
        if time.monotonic() - self._shown >= INTERVAL_SECONDS:
            with self._capture.global_and_fixture_disabled():
                self._refresh_if_due()

    def _refresh_if_due(self) -> None:
        now = time.monotonic()
        if now - self._shown >= INTERVAL_SECONDS:
            self._shown = now
            self.refresh()

    def _run(self) -> None:
        while not self._over.wait(INTERVAL_SECONDS):
            self.refresh()

    def refresh(self) -> None:
        """Rewrite the line with the current counts."""
        if self._over.is_set() or not self._writing.acquire(blocking=False):
            return
        try:
            report = self._report()
            if report is not None and not self._over.is_set():
                self._reporter.rewrite(self._line(report), erase=True)
        finally:
            self._writing.release()

    def _line(self, report: BrokerReport) -> str:
        counters, batches = report.counters, report.batches
        now, (earlier, answered) = time.monotonic(), self._last
        if now - earlier >= INTERVAL_SECONDS:
            self._rate = (counters.answered - answered) / (now - earlier)
            self._last = (now, counters.answered)
        parts = [f"{count(self._cases)}/{count(self._total)} cases"]
        left = self._seconds_left(now) if batches is None or not batches.batches else None
        if left is not None:
            parts.append(f"{duration(left)} left")
        if batches is not None and batches.batches:
            from pytest_llmprops.engine.batch.ledger import described

            parts.append(described(batches))
        elif counters.requests or not self._cases:
            parts += [f"{self._rate:.0f} calls/s", f"{counters.in_flight} in flight"]
        if report.waits_for:
            parts.insert(1, terminal_line(report.waits_for))
        parts += [f"{count(n)} {status}" for status, n in self._done.items() if n]
        if counters.cache_hits:
            parts.append(f"{count(counters.cache_hits)} from the store")
        if counters.retries:
            parts.append(counted(counters.retries, "retry", "retries"))
        if counters.cost_usd:
            parts.append(f"{'≈' if counters.estimated else ''}{usd(counters.cost_usd)}")
        line = "llmprops: " + " · ".join(parts)
        # A terminal cannot rewrite a line that wraps.
        return line[: shutil.get_terminal_size().columns - 1]

    def _seconds_left(self, now: float) -> float | None:
        """Return the time that the other cases take at the rate so far; None while too few are done to say."""
        elapsed = now - self._begun
        if elapsed < ESTIMATE_SECONDS or not 0 < self._cases < self._total:
            return None
        return elapsed / self._cases * (self._total - self._cases)

    def clear(self) -> None:
        """Remove the line for good."""
        self._over.set()
        with self._writing:
            self._reporter.rewrite("", erase=True)


def write_lines(config: pytest.Config, lines: Iterable[str], **markup: bool) -> None:
    """Write lines to pytest's terminal, if it has one."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.ensure_newline()
        for line in lines:
            reporter.write_line(terminal_line(line), **markup)


def under_ci() -> bool:
    """Return True if the process runs in a CI system."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def answer_of(config: pytest.Config, question: str) -> str | None:
    """Return the user's answer to a question; empty after Ctrl-C, None if nobody can be asked."""
    if not can_ask(config):
        return None
    with _standard_input(config):
        try:
            return input(question)
        except KeyboardInterrupt:
            return ""
        except EOFError:
            return None


def can_ask(config: pytest.Config) -> bool:
    """Return True if a user at a terminal can answer a question."""
    with _standard_input(config) as standard_input:
        return standard_input is not None and standard_input.isatty() and not under_ci()


@contextmanager
def _standard_input(config: pytest.Config) -> Iterator[Any]:
    """Yield standard input, which pytest replaces while it captures output."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    if capture is None:
        yield sys.stdin
        return
    capture.suspend_global_capture(in_=True)
    try:
        yield sys.stdin
    finally:
        capture.resume_global_capture()
        # Outside of tests, pytest captures input only.
        capture.suspend_global_capture()


_LETTERS = {"correct": ".", "refused": "r", "unparsed": "u", "untested": "-"}
#: pytest's default of ``-r``
_DEFAULT_R = "fE"
_GREEN, _RED = {"green": True}, {"red": True}
#: category, letter, and word (with its markup) that pytest shows for a report
Shown = tuple[str, str, str | tuple[str, dict[str, bool]]]


_SEARCH, _SEARCH_ERROR, _NOT_SEARCHED = "search", "search error", "not searched"


class Terminal:
    """Decides the word that pytest prints for a case, and the failures that it lists.

    A report that pytest shows in our words has the status of its verdict, or how its search ended, as ``llmprops``.
    """

    def __init__(self) -> None:
        self.progress: Progress | None = None
        #: the failures of pytest's summary while those of cases are hidden
        self._hidden: list[Any] = []

    def add(self, report: Any, message: CaseReport) -> None:
        """Note the end of a case in its report, and count it in the progress line."""
        status = message.status
        if message.not_searched:
            report.llmprops = _NOT_SEARCHED
        elif report.when == "call" and message.search is not None:
            report.llmprops = _SEARCH_ERROR if message.search.error else _SEARCH
        elif report.when == "call" and status and not (report.failed and not message.by_model):
            # Another assertion of the test function, or an exception in it, is shown as pytest shows it.
            report.llmprops = status
        if self.progress is None:
            return
        if message.search is not None or message.not_searched:
            self.progress.count("searched", {})
        if status:
            self.progress.count(status, message.group.counts if message.group else None)

    def clear_progress(self) -> None:
        """Remove the progress line."""
        if self.progress is not None:
            self.progress.clear()

    def shown(self, report: Any) -> Shown | None:
        """Return what pytest shows for a report; None to let pytest decide."""
        status, is_live = getattr(report, "llmprops", None), self.progress is not None
        if status is None or (status == _NOT_SEARCHED and not is_live):
            return None
        category, markup = report.outcome, _GREEN if report.passed else _RED
        word: str | tuple[str, dict[str, bool]]
        if status == _NOT_SEARCHED:
            letter, word = "", "SKIPPED"
        elif hasattr(report, "wasxfail"):
            category, letter, word = "xfailed", "x", "XFAIL"
        elif status == _SEARCH_ERROR:
            # Hypothesis runs in the call, where pytest reports failures only.
            category, letter, word = "error", "E", ("ERROR", markup)
        elif status == _SEARCH:
            letter, word = (".", ("PASSED", markup)) if report.passed else ("F", ("COUNTEREXAMPLE", markup))
        else:
            markup = _GREEN if status == "correct" else _RED
            letter, word = _LETTERS.get(status, "F"), (status.upper(), markup)
        # A letter would break the progress line.
        return category, "" if is_live else letter, word

    def hide_failures_of_cases(self, stats: dict[str, list[Any]]) -> None:
        """Hide failed cases from pytest's summary, which would print a section for each, and a line without ``-r``."""
        failed = stats.get("failed", [])
        others = [report for report in failed if not hasattr(report, "llmprops")]
        if len(others) < len(failed):
            stats["failed"], self._hidden = others, failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        # pytest has written the sections of failures, but not yet the lines of -r.
        if config.option.reportchars != _DEFAULT_R and terminalreporter.hasopt("f"):
            self.show_failures_of_cases(terminalreporter.stats)

    def show_failures_of_cases(self, stats: dict[str, list[Any]]) -> None:
        """Restore the failures that are hidden."""
        if self._hidden:
            stats["failed"], self._hidden = self._hidden, []


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
    lines = [f"llmprops: {', '.join(map(without_secrets, settings.models))} ({', '.join(parts)})"]
    lines += [f"llmprops: {line}" for line in (session.dotenv, session.workers) if line]
    lines += [f"llmprops: {line}" for line in map(hint, session.cases.model_specs().values()) if line]
    gating = session.gating
    if gating is not None:
        lines.append(f"llmprops: {gating.describe()}")
    return [terminal_line(line) for line in lines]


def not_served_lines(session: LLMSession, collection: CollectionMetadata) -> list[str]:
    """Return how many items are not served, in a run without a record.

    :param collection: what workers collected; empty without workers.
    """
    selections = session.cases.selections
    not_served = collection.not_served or {name: one.not_served for name, one in selections.items()}
    lines = [
        f"not served: {items} {name} items (by {model})"
        for name, numbers in not_served.items()
        for model, items in numbers.items()
    ]
    chosen, names = session.config.option.keyword, {*selections, *collection.selection}
    has_items = bool(collection.items or session.collection.selected)
    if chosen and names and not has_items and not any(not_served.values()):
        # With workers, only they know the tasks.
        tasks = sorted({item.task for one in selections.values() for item in one.available})
        words = [word for word in re.findall(r"[\w/]+", chosen) if word not in ("and", "or", "not")]
        near = next(filter(None, (did_you_mean(word, (*names, *tasks)) for word in words)), "")
        known = f"; the tasks are {', '.join(tasks)}{near}" if tasks else ""
        lines.append(f"no item matches -k {shlex.quote(chosen)}{known}")
    return list(map(terminal_line, lines))


def write_summary(reporter: Any, recording: Recording) -> None:
    """Write the summary of a recorded run, with the gate's decision."""
    from pytest_llmprops.reports.tables import terminal_width, wrapped
    from pytest_llmprops.reports.terminal import next_command, search_lines, summary_lines

    assert recording.record is not None
    facts, folder = replace(recording.record.facts, stopped=recording.stopped), recording.record.folder
    reporter.section("llmprops", sep="=")
    searches = recording.record.searches
    width = terminal_width()
    details = reporter.verbosity > 0
    for line in summary_lines(
        facts, recording.in_order, folder, recording.notes, width, with_metrics=details
    ):
        reporter.write_line(line)
    for line in search_lines(facts.searches, searches):
        for part in wrapped(line, width):
            reporter.write_line(part)
    if facts.gate is not None:
        from pytest_llmprops.reports.gate import gate_lines

        decision, *rest = gate_lines(facts.gate, width, details=details)
        reporter.write_line("")
        reporter.write_line(decision, bold=True, **(_GREEN if facts.gate.passed else _RED))
        for line in rest:
            reporter.write_line(line)
    if facts.summary:
        reporter.write_line(next_command(folder, resumes=recording.lost_broker))
