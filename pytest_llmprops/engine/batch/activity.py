"""Which cases wait for replies, in each process that evaluates cases, and in the broker.

A wave is written when no case can go on without a reply. Each process reports when all of its open cases wait. The
broker counts the replies that it sent to each process, so that a report from before the last reply is not used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pytest_llmprops.core.requests import Reply, Request
from pytest_llmprops.engine.evaluator import BrokerAsk


class Activity:
    """Counts the open and the waiting cases of one process, on its event loop.

    :param report: called with the number of replies received so far whenever all open cases wait, or none is open.
    """

    def __init__(self, report: Callable[[int], None]) -> None:
        self._report = report
        self._open = 0
        self._waiting = 0
        #: replies and errors received
        self._answers = 0
        self._scheduled = False

    @contextmanager
    def case(self, ask: BrokerAsk) -> Iterator[BrokerAsk]:
        """Count a case as open during a ``with`` block; return its ``ask``."""
        own = 0

        async def counted(label: str, role: str, request: Request) -> Reply:
            nonlocal own
            own += 1
            self._waiting += own == 1
            self.check()
            try:
                return await ask(label, role, request)
            finally:
                own -= 1
                self._waiting -= not own
                self._answers += 1
                self.check()

        self._open += 1
        try:
            yield counted
        finally:
            self._open -= 1
            self.check()

    def check(self) -> None:
        """Report in the next iteration of the loop if nothing can go on then."""
        if not self._scheduled and self._open <= self._waiting:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._report_if_idle)

    def _report_if_idle(self) -> None:
        self._scheduled = False
        if self._open <= self._waiting:
            self._report(self._answers)


@dataclass(slots=True, eq=False)
class WaitingClient:
    """A process that sends requests, as the broker knows it."""

    #: requests in progress
    open: int = 0
    #: requests that were answered
    answers: int = 0
    #: :attr:`answers` at its last report that all of its cases wait
    idle_at: int = -1

    @property
    def is_idle(self) -> bool:
        """True if it can send no request before the next answer."""
        return self.idle_at == self.answers


class WaitingClients:
    """The processes that send requests to a broker.

    :param expected: number of processes that will connect.
    :param on_change: called when one may have become idle.
    """

    def __init__(self, expected: int, on_change: Callable[[], None]) -> None:
        self._expected, self._on_change = expected, on_change
        self._clients: set[WaitingClient] = set()
        #: those that have ended, whose requests still wait
        self._gone: set[WaitingClient] = set()

    @contextmanager
    def asking(self, client: WaitingClient) -> Iterator[None]:
        """Count a request of ``client`` during a ``with`` block."""
        self._clients.add(client)
        client.open += 1
        try:
            yield
        finally:
            client.open -= 1
            client.answers += 1

    def idle(self, client: WaitingClient, answers: int) -> None:
        """Note that all cases of ``client`` wait, after it received a number of answers."""
        self._clients.add(client)
        client.idle_at = answers
        self._on_change()

    def remove(self, client: WaitingClient, *, is_replaced: bool) -> None:
        """Forget a process that has ended.

        :param is_replaced: another process will connect in its place.
        """
        if client in self._clients:
            self._clients.remove(client)
            self._gone.add(client)
            self._expected -= not is_replaced
        self._on_change()

    def all_wait(self, waiting: int) -> bool:
        """Return True if all processes are idle, and all their requests are among the ``waiting`` ones."""
        return (
            len(self._clients) >= self._expected
            and all(client.is_idle for client in self._clients)
            and sum(client.open for client in self._clients | self._gone) == waiting
        )
