"""How fast calls go out, how often they are repeated, and when a run must stop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_llmprops.core.errors import BackendError

if TYPE_CHECKING:  # imported when the first call fails, not before
    from tenacity import AsyncRetrying

Sleep = Callable[[float], Awaitable[None]]
FIRST_WAIT = 0.2
LONGEST_WAIT = 60.0
#: A server that asks for more than this is not waited for: the item is an error, to be run again later.
LONGEST_RETRY_AFTER = 300.0
EMPTY_IN_A_ROW = 20
FAILED_IN_A_ROW = 20


class RateLimit:
    """At most ``rpm`` calls a minute, evenly spaced; None for no limit."""

    def __init__(self, rpm: float | None, sleep: Sleep = asyncio.sleep) -> None:
        self._sleep = sleep
        self._gap = 60.0 / rpm if rpm else 0.0
        self._next = 0.0

    async def wait(self) -> None:
        """Return when the next call may go out."""
        if not self._gap:
            return
        now = asyncio.get_running_loop().time()
        due = max(now, self._next)
        self._next = due + self._gap
        if due > now:
            await self._sleep(due - now)


def worth_retrying(error: BaseException) -> bool:
    """Whether another try may succeed, and soon enough."""
    if not isinstance(error, BackendError) or not error.transient:
        return False
    return error.retry_after is None or error.retry_after <= LONGEST_RETRY_AFTER


def retrying(retries: int, sleep: Sleep = asyncio.sleep) -> AsyncRetrying:
    """Tenacity's loop of up to ``retries`` tries that follow a failed first one.

    Waits as long as the server's Retry-After says where it gave one, never less; else exponentially
    longer from a fifth of a second, with jitter so that refused calls do not come back together.
    """
    from tenacity import (
        AsyncRetrying,
        RetryCallState,
        retry_if_exception,
        stop_after_attempt,
        wait_exponential,
        wait_random,
    )

    backoff = wait_exponential(multiplier=FIRST_WAIT, max=LONGEST_WAIT) + wait_random(0, FIRST_WAIT / 2)

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = getattr(error, "retry_after", None)
        return backoff(state) if asked is None else float(asked) + random.uniform(0, 0.1)

    # The failed first try is the loop's first attempt.
    return AsyncRetrying(
        retry=retry_if_exception(worth_retrying),
        wait=wait,
        stop=stop_after_attempt(retries + 1),
        reraise=True,
        sleep=sleep,
    )


@dataclass(slots=True)
class Breaker:
    """Notices that no call can succeed any more.

    Before the first success every failed try counts, save those that only ask to slow down; after it,
    only calls given up for good. Successes and a share of the calls made so far raise the bar, so that
    a few items that always fail, being the last still in work, do not stop a healthy run.
    """

    succeeded: int = 0
    failed_in_a_row: int = 0
    empty_in_a_row: int = 0

    def success(self, empty: bool) -> str | None:
        """Count a reply; the reason to stop, if there is one now."""
        self.succeeded += 1
        self.failed_in_a_row = 0
        self.empty_in_a_row = self.empty_in_a_row + 1 if empty else 0
        if self.empty_in_a_row >= EMPTY_IN_A_ROW:
            return (
                f"{EMPTY_IN_A_ROW} empty replies in a row; check the model, its chat template and --llm-param"
            )
        return None

    def failure(self, error: BackendError, *, final: bool) -> str | None:
        """Count a failed try; the reason to stop, if there is one now."""
        if error.fatal:
            return error.message
        counted_by_try = not self.succeeded and error.kind != "status 429"
        if final == counted_by_try:
            return None
        self.failed_in_a_row += 1
        bar = max(FAILED_IN_A_ROW, self.succeeded // 10)
        if self.failed_in_a_row >= bar:
            return f"{self.failed_in_a_row} calls in a row failed, the last with: {error.message}"
        return None
