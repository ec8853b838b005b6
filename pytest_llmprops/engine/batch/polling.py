"""Follow the open batches of a run: adopt those of a killed run, and collect those that are over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.engine.batch.collecting import collect
from pytest_llmprops.engine.batch.ledger import TOO_LARGE, Entry, Ledger, this_process
from pytest_llmprops.engine.batch.pending import Lane, Pending, Waiting
from pytest_llmprops.engine.calls import Calls
from pytest_llmprops.models.batches import BatchState, Intent

#: how often a request is run without a usable result before it is an error
MOST_ATTEMPTS = 3
#: how long a batch that was created just before a crash may be missing in the provider's list
LIST_DELAY = 5.0


class Store(Protocol):
    """The replies that the broker has and takes."""

    async def keep(self, lane: Lane, key: str, reply: Reply) -> Reply:
        """Store and count a reply, and return it as the broker answers it."""
        ...

    def stored(self, key: str) -> Awaitable[Reply | None]:
        """Return the stored reply; None if there is none."""
        ...


class Poller:
    """Asks the provider for the state of the open batches, and passes their results on."""

    def __init__(self, calls: Calls, ledger: Ledger, waiting: Waiting, store: Store) -> None:
        self._calls, self._ledger, self._waiting, self._store = calls, ledger, waiting, store
        self._lanes: dict[str, Lane] = {}
        #: mark of an intent -> when this process first did not find its batch
        self._missing: dict[str, float] = {}
        self.notes: list[str] = []
        #: the open batches after the last poll
        self.open: list[Entry] = []

    @property
    def is_undecided(self) -> bool:
        """Whether it is not known yet if a killed run has created a batch."""
        return bool(self._missing)

    async def poll(self, lanes: Mapping[str, Lane]) -> bool:
        """Look at each open batch of the models once; return whether requests were answered or can be sent again.

        :param lanes: by account.
        :raises BackendError: if the provider does not answer. :raises RunStopped: if a batch failed or was cancelled.
        """
        self._lanes = dict(lanes)
        await self._adopt()
        moved = False
        for entry in self._ledger.open_batches(lanes):
            if entry.state == "submitted":
                moved |= await self._look_at(entry)
        self.open = self._ledger.open_batches(lanes)
        return await self._release() or moved

    async def _look_at(self, entry: Entry) -> bool:
        lane = self._lanes[entry.account]

        async def state_of_batch() -> BatchState:
            return await lane.api.state(entry.batch)

        state = await self._calls.retried(state_of_batch)
        self._ledger.progress(entry.mark, state.status, state.done, state.expires)
        if not state.is_over:
            return False
        if state.status == "failed":
            self._end_failed(entry, state)
            return True

        async def collected() -> list[str]:
            return await collect(lane.api, self._ledger, entry, state, self)

        self.notes += await self._calls.retried(collected)
        if state.status == "cancelled":
            raise self._calls.stop(f"batch {state.id} was cancelled; run again to submit its open lines anew")
        if state.status == "expired" and not state.done:
            text = f"batch {state.id} expired before one of its lines was run; run again to submit them anew"
            raise self._calls.stop(text)
        return True

    def _end_failed(self, entry: Entry, state: BatchState) -> None:
        if not state.is_too_large:
            self._ledger.end(entry.mark, "failed")
            raise self._calls.stop(f"batch {state.id} failed: {state.problem or state.code or 'no reason'}")
        is_alone = entry.lines == 1 and len(self._ledger.open_batches({entry.account})) == 1
        keys = [key for keys in self._ledger.members(entry.mark).values() for key in keys] if is_alone else []
        self._ledger.end(entry.mark, TOO_LARGE)
        if is_alone:
            self.failed(entry, keys, BackendError(f"the batch of this request failed: {state.problem}"))

    # ---- batches of killed runs

    async def _adopt(self) -> None:
        """Find the batches whose creation was not noted, or give up their intents."""
        intents: dict[str, list[Entry]] = {}
        for entry in self._ledger.open_batches(self._lanes):
            if entry.state == "intent" and not entry.is_being_prepared:
                intents.setdefault(entry.account, []).append(entry)
        for account, entries in intents.items():
            found = await self._lanes[account].api.find(
                [_intent(self._ledger, entry) for entry in entries], self._ledger.batches(account)
            )
            for entry in entries:
                state = found.get(entry.mark)
                if state is not None:
                    self._ledger.submitted(entry.mark, state.id, state.status, state.expires)
                    self._missing.pop(entry.mark, None)
                    if entry.owner == this_process():
                        self._calls.count_sent(entry.lines)
                elif time.monotonic() - self._missing.setdefault(entry.mark, time.monotonic()) >= LIST_DELAY:
                    self._ledger.end(entry.mark, "not created")
                    self._missing.pop(entry.mark)

    async def _release(self) -> bool:
        """Let requests whose batch is over go into another one; return whether there are any."""
        is_open = {entry.mark for entry in self.open}
        released = [one for one in self._waiting if one.mark is not None and one.mark not in is_open]
        # Another run that shares the store may have collected them.
        replies = await asyncio.gather(*(self._store.stored(one.key) for one in released))
        for one, reply in zip(released, replies, strict=True):
            one.mark = None
            if reply is not None:
                self._waiting.settle(one, reply)
        return bool(released)

    # ---- results

    async def answered(self, entry: Entry, replies: Sequence[tuple[str, Reply]]) -> None:
        """Store and pass on the replies of a batch."""
        lane = self._lanes[entry.account]
        await asyncio.gather(*(self._answered(lane, key, reply) for key, reply in replies))

    async def _answered(self, lane: Lane, key: str, reply: Reply) -> None:
        one = self._waiting.get(key)
        if one is None and await self._store.stored(key) is not None:
            # A run that was killed while it collected has stored and counted it.
            return
        kept = await self._store.keep(lane, key, reply)
        if one is not None:
            self._waiting.settle(one, kept)

    def failed(self, entry: Entry, keys: Sequence[str], error: BackendError) -> None:
        """Pass on an error of the provider, which may stop the run."""
        reason = self._lanes[entry.account].served.breaker.failure(error, final=True)
        self._each(keys, lambda one: self._waiting.settle(one, error))
        if reason:
            self._calls.stop(f"{entry.label}: {reason}")

    def left(self, entry: Entry, keys: Sequence[str], reason: str, *, was_run: bool) -> None:
        """Let requests go into another batch, if they were not run too often."""

        def again(one: Pending) -> None:
            one.mark = None
            one.attempts += was_run
            if one.attempts >= MOST_ATTEMPTS:
                text = f"{reason}, {one.attempts} times"
                self._waiting.settle(one, BackendError(text, kind="batch"))

        self._each(keys, again)

    def _each(self, keys: Sequence[str], act: Callable[[Pending], None]) -> None:
        for key in keys:
            one = self._waiting.get(key)
            if one is not None:
                act(one)


def _intent(ledger: Ledger, entry: Entry) -> Intent:
    return Intent(entry.mark, entry.created, entry.lines, lambda: ledger.members(entry.mark))
