"""The progress line of a run, on a terminal and outside of CI."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pytest_llmprops.core.broker_report import BrokerReport, OpenBatches
from pytest_llmprops.core.numbers import count, counted, duration, usd
from pytest_llmprops.core.run_facts import CallFacts

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
        self._done = dict.fromkeys(("correct", "wrong", "refused", "unparsed", "error", "gate decided"), 0)
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
        """Whether the line is shown: on a terminal, outside of CI, and if pytest does not print one line per test."""
        return bool(reporter.isatty) and not under_ci() and config.get_verbosity() <= 0

    def count(self, status: str, counts: Mapping[str, int] | None = None) -> None:
        """Count a reported case.

        :param status: status of the verdict; ``gate decided`` if the case was not needed.
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
                self._reporter.rewrite(self._line(report.counters, report.batches), erase=True)
        finally:
            self._writing.release()

    def _line(self, counters: CallFacts, batches: OpenBatches | None = None) -> str:
        now, (earlier, answered) = time.monotonic(), self._last
        if now - earlier >= INTERVAL_SECONDS:
            self._rate = (counters.answered - answered) / (now - earlier)
            self._last = (now, counters.answered)
        parts = [f"{count(self._cases)}/{count(self._total)} cases"]
        left = self._seconds_left(now) if batches is None or not batches.batches else None
        if left is not None:
            parts.append(f"{duration(left)} left")
        if batches is not None and batches.batches:
            from pytest_llmprops.engine.batch.describing import described

            parts.append(described(batches))
        elif counters.requests or not self._cases:
            parts += [f"{self._rate:.0f} calls/s", f"{counters.in_flight} in flight"]
        parts += [f"{count(n)} {status}" for status, n in self._done.items() if n]
        if counters.cache_hits:
            parts.append(f"{count(counters.cache_hits)} from the store")
        if counters.retries:
            parts.append(counted(counters.retries, "retry", "retries"))
        if counters.cost_usd:
            parts.append(usd(counters.cost_usd))
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


def under_ci() -> bool:
    """Whether the process runs in a CI system."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")
