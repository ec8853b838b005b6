"""Limits of calls: the rate, and the failures after which a run stops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from pytest_llmprops.core.errors import BackendError

#: file descriptors for everything except connections: the store, the record, pipes to workers, imports
_SPARE_FILES = 24
Sleep = Callable[[float], Awaitable[None]]
EMPTY_IN_A_ROW = 20
FAILED_IN_A_ROW = 20


class RateLimit:
    """At most ``rpm`` calls per minute, evenly spaced; None for no limit."""

    def __init__(self, rpm: float | None, sleep: Sleep = asyncio.sleep) -> None:
        self._sleep = sleep
        self._gap = 60.0 / rpm if rpm else 0.0
        self._next = 0.0

    async def wait(self) -> None:
        """Wait until the next call may be sent."""
        if not self._gap:
            return
        now = asyncio.get_running_loop().time()
        due = max(now, self._next)
        self._next = due + self._gap
        if due > now:
            await self._sleep(due - now)


@dataclass(slots=True)
class Breaker:
    """Stops a run when no call seems able to succeed.

    Before the first success, every failed attempt counts, except those that only ask to slow down (429). After it, only
    calls that failed for good count. The threshold grows to a tenth of the successful calls: otherwise a few items that
    always fail, when they are the last ones, would stop a healthy run.
    """

    succeeded: int = 0
    failed_in_a_row: int = 0
    empty_in_a_row: int = 0

    def success(self, empty: bool) -> str | None:
        """Count a reply; return the reason to stop the run, or None."""
        self.succeeded += 1
        self.failed_in_a_row = 0
        self.empty_in_a_row = self.empty_in_a_row + 1 if empty else 0
        if self.empty_in_a_row >= EMPTY_IN_A_ROW:
            return (
                f"{EMPTY_IN_A_ROW} empty replies in a row; check the model, its chat template and --llm-param"
            )
        return None

    def failure(self, error: BackendError, *, final: bool) -> str | None:
        """Count a failed attempt; return the reason to stop the run, or None.

        :param final: the call failed for good: this counts the call, not one more attempt.
        """
        if error.fatal:
            return error.message
        counts_attempts = not self.succeeded and error.kind != "status 429"
        if final == counts_attempts:
            return None
        self.failed_in_a_row += 1
        threshold = max(FAILED_IN_A_ROW, self.succeeded // 10)
        if self.failed_in_a_row >= threshold:
            return f"{self.failed_in_a_row} calls in a row failed, the last with: {error.message}"
        return None


def affordable(concurrency: int) -> int:
    """Return how many connections this process may open, at most ``concurrency``.

    The soft limit of file descriptors (``ulimit -n``) is raised if it is too low and the hard limit allows it.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return concurrency
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return concurrency
    needed = concurrency + _open_files() + _SPARE_FILES
    if soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        if raised > soft:
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
                soft = raised
    return max(1, min(concurrency, concurrency - (needed - soft)))


def _open_files() -> int:
    for folder in ("/proc/self/fd", "/dev/fd"):
        with contextlib.suppress(OSError):
            return sum(1 for _ in Path(folder).iterdir())
    return 0
