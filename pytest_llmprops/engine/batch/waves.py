"""The waves of a run: pending requests become batches when no case can go on without a reply.

A wave is not a barrier. Batches of several waves may be open at once, and the replies of each let its cases go on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, cast

from pytest_llmprops.core.broker_report import OpenBatches
from pytest_llmprops.core.errors import BackendError, LLMPropsError, RunStopped
from pytest_llmprops.core.requests import BATCH_DISCOUNT, Chat, Reply, Request
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.engine.batch.activity import Askers
from pytest_llmprops.engine.batch.describing import described
from pytest_llmprops.engine.batch.ledger import Ledger, ledger_path
from pytest_llmprops.engine.batch.pending import Lane, Pending, Waiting
from pytest_llmprops.engine.batch.polling import Poller
from pytest_llmprops.engine.batch.submitting import Submitter
from pytest_llmprops.engine.calls import Calls, Served
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.models.base import Model
from pytest_llmprops.models.batches import BatchModel
from pytest_llmprops.models.prices import price

#: maximum number of cases that wait at once, over all processes; about 12 kB each
MOST_CASES = 50_000
#: seconds before the second look at the open batches; each further wait is longer by a factor, up to the longest
FIRST_POLL = 0.1
LONGEST_POLL = 60.0
_FACTOR = 1.6
#: seconds without an answer of the provider after which a run that waits ends
LONGEST_OUTAGE = 1800.0
#: seconds without any news after which a wave is written although a process has not said that it waits
NO_NEWS_SECONDS = 30.0
#: stores and counts a reply: (label, model, key, reply) -> the reply as the broker answers it
Keep = Callable[[str, Served, str, Reply], Awaitable[Reply]]


class Waves:
    """Serves the requests of models with batches.

    :param stored: returns the stored reply to a key, of any age. :param find: returns the one that the run may use.
    :raises StoreError: if the ledger cannot be used.
    """

    def __init__(
        self,
        config: BrokerConfig,
        calls: Calls,
        keep: Keep,
        stored: Callable[[str], Awaitable[Reply | None]],
        find: Callable[[Model, str], Awaitable[Reply | None]],
    ) -> None:
        self._config, self._calls, self._keep, self.stored = config, calls, keep, stored
        self._changed = asyncio.Event()
        #: the processes that send requests
        self.askers = Askers(config.askers, self._changed.set)
        self._waiting = Waiting()
        self._lanes: dict[str, Lane] = {}
        self._ledger = Ledger(ledger_path(config.store))
        self._submitter = Submitter(
            config,
            calls,
            self._ledger,
            self._waiting,
            lambda one, reply: self.keep(one.lane, one.key, reply),
            lambda one: find(one.lane.served.model, one.key),
        )
        self._poller = Poller(calls, self._ledger, self._waiting, self)
        self._task: asyncio.Task[None] | None = None
        self._began: float | None = None
        #: when the provider did not answer a poll for the first time
        self._outage: float | None = None
        self._is_unfinished = False

    async def keep(self, lane: Lane, key: str, reply: Reply) -> Reply:
        """Store and count a reply, and return it as the broker answers it."""
        return await self._keep(lane.label, lane.served, key, reply)

    def takes(self, model: Model, request: Request) -> bool:
        """Return whether the request goes into a batch."""
        return isinstance(request, Chat) and hasattr(model, "batches")

    def join(self, key: str) -> None:
        """Count one more asker that waits for :meth:`reply` with this key."""
        self._waiting.join(key)
        self._changed.set()

    async def reply(self, label: str, served: Served, key: str, request: Chat) -> Reply:
        """Return the reply from a batch, or from a call if it is the first request of its shape.

        :raises BackendError: if the provider refuses it. :raises RunStopped: if the run is stopped.
        """
        lane = self._lanes.get(label)
        if lane is None:
            try:
                api = cast("BatchModel", served.model).batches()
            except BackendError as error:
                raise self._calls.stop(f"{label}: {error.message}") from None
            spec = self._config.models[label]
            listed = price(spec.name, spec.params, self._config.prices)
            known = None if listed is None else listed.scaled(BATCH_DISCOUNT)
            lane = self._lanes[label] = Lane(label, served, api, known)
        pending = Pending(lane, key, request, asyncio.get_running_loop().create_future())
        self._waiting.add(pending)
        self._changed.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return await pending.future

    def stop(self, reason: str) -> None:
        """End the wait of all requests; the open batches stay in the ledger for the next run."""
        for one in self._waiting:
            self._waiting.settle(one, RunStopped(reason))
        self._changed.set()

    async def _run(self) -> None:
        try:
            await self._work()
        except RunStopped:
            pass
        except LLMPropsError as error:
            self._calls.stop(f"batches: {error}")
        except Exception as error:
            self._calls.stop(f"batches: {type(error).__name__}: {one_line(str(error), 200)}")

    async def _work(self) -> None:
        seconds = FIRST_POLL
        while self._calls.stopped is None:
            if not await self._all_wait():
                continue
            if await self._submit() or await self._poll():
                seconds = FIRST_POLL
                continue
            await self._calls.pause(self._next_wait(seconds))
            seconds = min(LONGEST_POLL, seconds * _FACTOR)

    async def _all_wait(self) -> bool:
        """Return whether all processes wait for batches; otherwise wait for news first."""
        waiting = self._waiting
        if len(waiting) and waiting.is_complete and self.askers.all_wait(waiting.askers):
            return True
        self._changed.clear()
        try:
            # Not wait_for, which in Python 3.11 ignores a cancellation that coincides with the event.
            async with asyncio.timeout(NO_NEWS_SECONDS):
                await self._changed.wait()
        except TimeoutError:
            return bool(len(self._waiting))
        return False

    async def _submit(self) -> bool:
        moved = False
        for label, unsent in self._waiting.unsent().items():
            moved |= await self._submitter.submit(self._lanes[label], unsent)
        return moved

    async def _poll(self) -> bool:
        """Look at the open batches, which takes hours: the network may be away for a part of that time."""
        try:
            moved = await self._poller.poll({lane.account: lane for lane in self._lanes.values()})
        except BackendError as error:
            if self._outage is None:
                self._outage = time.monotonic()
            if not error.transient or time.monotonic() - self._outage > LONGEST_OUTAGE:
                raise
            return False
        self._outage = None
        return moved

    def _next_wait(self, seconds: float) -> float:
        """Return how long to wait before the next poll.

        :raises RunStopped: at the end of ``--llm-batch-wait``.
        """
        now = time.monotonic()
        if self._began is None:
            self._began = now
        if self._config.batch_wait is None:
            return seconds
        left = self._began + self._config.batch_wait - now
        if left <= 0 and not self._poller.is_undecided:
            self._is_unfinished = True
            raise self._calls.stop(f"{described(self.progress())}; run the same command again to go on")
        return min(seconds, max(left, FIRST_POLL))

    def progress(self) -> OpenBatches:
        """Return how far the open batches are, as of the last poll."""
        entries = self._poller.open
        expires = [entry.expires for entry in entries if entry.expires]
        return OpenBatches(
            len(entries),
            sum(entry.lines for entry in entries),
            sum(entry.done for entry in entries),
            min(expires, default=0.0),
            self._is_unfinished,
        )

    def report(self) -> dict[str, Any]:
        """Return :meth:`progress` as plain values."""
        return asdict(self.progress())

    @property
    def notes(self) -> list[str]:
        """Notes for the summary."""
        return self._poller.notes

    async def close(self) -> None:
        """Stop following the batches."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._ledger.close()
