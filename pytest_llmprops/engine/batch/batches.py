"""Serve requests with a provider's batches: submit those that wait, wait or leave, store the results, repeat."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial
from typing import Any, cast

from pytest_llmprops.core.errors import BackendError, LLMPropsError, RunStopped
from pytest_llmprops.core.requests import BATCH_DISCOUNT, Chat, Reply, Request
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.engine.batch.collect import Result, results
from pytest_llmprops.engine.batch.ledger import TOO_LARGE, Entry, Ledger, described, ledger_path
from pytest_llmprops.engine.batch.submit import BatchedModel, Pending, Submitter
from pytest_llmprops.engine.broker.reply_cache import ReplyCache
from pytest_llmprops.engine.calls.calls import ActiveModel, Calls
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.models.api.batches import BatchModel, BatchState, Intent
from pytest_llmprops.models.api.prices import price
from pytest_llmprops.models.base import Model
from pytest_llmprops.records.messages import OpenBatches

#: maximum number of cases that wait at once, over all processes; about 12 kB each
MOST_CASES = 50_000
#: seconds without a request or a reply after which requests are submitted, as no case seems able to go on
QUIET_SECONDS = 10.0
#: seconds before the second look at the open batches; each further wait is longer by a factor, up to the longest
FIRST_POLL = 0.1
LONGEST_POLL = 60.0
_FACTOR = 1.6
#: seconds without an answer of the provider after which a run that waits ends
LONGEST_OUTAGE = 1800.0
#: how often a request is run without a usable result before it is an error
MOST_ATTEMPTS = 3
#: seconds that a batch that was created just before a crash may be missing in the provider's list
LIST_DELAY = 5.0


class Batches:
    """Serves the requests of models with batches.

    :param known: the stored replies. :param keep: stores and counts a reply, and returns it as the broker answers it.
    :raises StoreError: if the ledger cannot be used.
    """

    def __init__(
        self,
        config: BrokerConfig,
        calls: Calls,
        known: ReplyCache,
        keep: Callable[[str, ActiveModel, str, Reply], Awaitable[Reply]],
    ) -> None:
        self._config, self._calls, self._known, self._keep = config, calls, known, keep
        self._ledger = Ledger(ledger_path(config.store))
        self._submitter = Submitter(config, calls, self._ledger, self._settle)
        #: the requests that wait, by key
        self._pending: dict[str, Pending] = {}
        #: by label
        self._models: dict[str, BatchedModel] = {}
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        #: when the run began to wait, and when the provider did not answer a poll for the first time
        self._began: float | None = None
        self._outage: float | None = None
        #: mark of an intent -> when this process first did not find its batch
        self._missing: dict[str, float] = {}
        #: the open batches after the last poll
        self._open: list[Entry] = []
        self._is_unfinished = False

    def takes(self, model: Model, request: Request) -> bool:
        """Return True if the request goes into a batch."""
        return isinstance(request, Chat) and hasattr(model, "batches")

    async def reply(self, label: str, served: ActiveModel, key: str, request: Chat) -> Reply:
        """Return the reply from a batch, or from a call if it is the first request of its shape.

        :raises BackendError: if the provider refuses it. :raises RunStopped: if the run is stopped.
        """
        model = self._models.get(label)
        if model is None:
            try:
                api = cast("BatchModel", served.model).batches()
            except BackendError as error:
                raise self._calls.stop(f"{label}: {error.message}") from None
            spec = self._config.models[label]
            listed = price(spec.name, spec.params, self._config.calls.prices)
            known = None if listed is None else listed.scaled(BATCH_DISCOUNT)
            model = self._models[label] = BatchedModel(label, served, api, known)
        if self._calls.stopped is not None:
            raise RunStopped(self._calls.stopped)
        pending = Pending(model, key, request, asyncio.get_running_loop().create_future())
        self._pending[key] = pending
        self._changed.set()
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._end_with_the_run())]
        return await pending.future

    async def _settle(self, one: Pending, result: Reply | BackendError) -> None:
        """End the wait for a request; a reply is stored first."""
        if isinstance(result, Reply):
            result = await self._keep(one.model.label, one.model.served, one.key, result)
        self._end(one, result)

    def _end(self, one: Pending, result: Reply | Exception) -> None:
        self._changed.set()
        if self._pending.pop(one.key, None) is None or one.future.done():
            return
        if isinstance(result, Reply):
            one.future.set_result(result)
        else:
            one.future.set_exception(result)

    async def _end_with_the_run(self) -> None:
        """End the wait of all requests; the open batches stay in the ledger for the next run."""
        await self._calls.over.wait()
        for one in list(self._pending.values()):
            self._end(one, RunStopped(self._calls.stopped or ""))

    async def close(self) -> None:
        """Stop following the batches."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._ledger.close()

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
            await self._all_wait()
            if await self._submit() or await self._poll():
                seconds = FIRST_POLL
                continue
            await self._calls.pause(self._next_wait(seconds))
            seconds = min(LONGEST_POLL, seconds * _FACTOR)

    async def _all_wait(self) -> None:
        """Wait until there are requests, and neither a request nor a reply has come for a moment."""
        while self._changed.is_set() or not self._pending:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                # Not wait_for, which in Python 3.11 ignores a cancellation that coincides with the event.
                async with asyncio.timeout(QUIET_SECONDS if self._pending else None):
                    await self._changed.wait()

    async def _submit(self) -> bool:
        """Submit what is in no open batch; return True if cases have got replies instead."""
        await self._take_stored()
        has_called = False
        for model in list(self._models.values()):
            unsent = self._waiting(model, is_open=False)
            owners = self._ledger.owners(one.key for one in unsent)
            for one in unsent:
                one.mark = owners.get(one.key)
            lines = model.lines(one for one in unsent if one.mark is None)
            if lines and self._config.max_cost is not None:
                models = self._models.values()
                open_cost = sum(one.cost(one.lines(self._waiting(one, is_open=True))) for one in models)
                self._calls.check_cost(model.cost(lines), open_cost, len(lines))
            has_called |= await self._submitter.submit(model, lines)
        return has_called

    def _waiting(self, model: BatchedModel, *, is_open: bool) -> list[Pending]:
        """Return the requests of a model that are in an open batch, or those that are in none."""
        return [o for o in self._pending.values() if o.model is model and (o.mark is not None) is is_open]

    async def _take_stored(self) -> None:
        """Take the replies that another run has stored since they were looked up."""
        unsent = [one for one in self._pending.values() if one.mark is None]
        replies = await asyncio.gather(*(self._known.find(one.model.served.model, one.key) for one in unsent))
        for one, reply in zip(unsent, replies, strict=True):
            if reply is not None:
                if not one.is_own:
                    self._calls.counters.cache_hits += 1
                self._end(one, reply)

    async def _poll(self) -> bool:
        """Look at the open batches, which takes hours: the network may be away for a part of that time."""
        try:
            moved = await self._look()
        except BackendError as error:
            if self._outage is None:
                self._outage = time.monotonic()
            if not error.transient or time.monotonic() - self._outage > LONGEST_OUTAGE:
                raise
            return False
        self._outage = None
        return moved

    async def _look(self) -> bool:
        """Look at each open batch once; return True if requests were answered or can be sent again."""
        models = {model.account: model for model in self._models.values()}
        await self._adopt(models)
        moved = False
        for entry in self._ledger.open_batches(models):
            if entry.state == "submitted":
                moved |= await self._look_at(models[entry.account], entry)
        self._open = self._ledger.open_batches(models)
        marks = {entry.mark for entry in self._open}
        for one in self._pending.values():
            if one.mark is not None and one.mark not in marks:
                one.mark = None
                moved = True
        return moved

    async def _look_at(self, model: BatchedModel, entry: Entry) -> bool:
        state = await model.api.state(entry.batch)
        self._ledger.progress(entry.mark, state.status, state.done, state.expires)
        if not state.is_over:
            return False
        if state.status == "failed":
            self._end_failed(entry, state)
            return True
        await self._collect(model, entry, state)
        if state.status == "cancelled" or (state.status == "expired" and not state.done):
            how = (
                "was cancelled" if state.status == "cancelled" else "expired before one of its lines was run"
            )
            raise self._calls.stop(
                f"batch {state.id} {how}; run the same command to submit its open lines again"
            )
        return True

    def _end_failed(self, entry: Entry, state: BatchState) -> None:
        if not state.is_too_large:
            self._ledger.end(entry.mark, "failed")
            raise self._calls.stop(f"batch {state.id} failed: {state.problem or state.code or 'no reason'}")
        is_alone = entry.lines == 1 and len(self._ledger.open_batches({entry.account})) == 1
        keys = [key for line in self._ledger.members(entry.mark).values() for key in line] if is_alone else []
        self._ledger.end(entry.mark, TOO_LARGE)
        for one in filter(None, map(self._pending.get, keys)):
            self._end(one, BackendError(f"the batch of this request failed: {state.problem}"))

    async def _collect(self, model: BatchedModel, entry: Entry, state: BatchState) -> None:
        """Store the results of a batch. A run that was killed may have stored a part of them."""
        lines = self._ledger.members(entry.mark)
        async for chunk in results(model.api, entry, state, lines):
            replies = [reply for result in chunk for reply in result.replies]
            await asyncio.gather(*(self._answer(model, reply) for reply in replies))
            for result in chunk:
                if result.discarded:
                    model.served.discard(result.discarded)
                self._ask_again(model, entry, result)
        self._ledger.end(entry.mark, state.status)

    async def _answer(self, model: BatchedModel, reply: Reply) -> None:
        one = self._pending.get(reply.key)
        if one is None and await self._known.stored(reply.key) is not None:
            # A run that was killed has stored and counted it.
            return
        kept = await self._keep(model.label, model.served, reply.key, reply)
        if one is not None:
            if not one.is_own:
                self._calls.counters.adopted += 1
            self._end(one, kept)

    def _ask_again(self, model: BatchedModel, entry: Entry, result: Result) -> None:
        """Let requests without a reply go into another batch, unless their error stays."""
        error, is_final = result.error, result.error is not None and not result.error.transient
        if result.is_cut:
            error = model.served.thinking.error()
            is_final = not model.served.thinking.raised_from(entry.extra_tokens)
        if error is None:
            return
        reason = model.served.breaker.failure(error, final=True) if is_final else None
        for one in filter(None, map(self._pending.get, result.keys[len(result.replies) :])):
            one.mark = None
            one.attempts += result.was_run
            if is_final:
                self._end(one, error)
            elif one.attempts >= MOST_ATTEMPTS:
                self._end(one, BackendError(f"{error.message}, {one.attempts} times", kind="batch"))
        if reason:
            self._calls.stop(f"{entry.label}: {reason}")

    async def _adopt(self, models: dict[str, BatchedModel]) -> None:
        """Find the batches of killed runs whose creation was not noted, or give up their intents."""
        intents: dict[str, list[Entry]] = {}
        for entry in self._ledger.open_batches(models):
            if entry.state == "intent" and not self._ledger.is_being_prepared(entry.mark):
                intents.setdefault(entry.account, []).append(entry)
        for account, entries in intents.items():
            asked = [
                Intent(e.mark, e.created, e.lines, partial(self._ledger.members, e.mark)) for e in entries
            ]
            found = await models[account].api.find(asked, self._ledger.batches(account))
            for entry in entries:
                state = found.get(entry.mark)
                if state is not None:
                    self._ledger.submitted(entry.mark, state.id, state.status, state.expires)
                    self._missing.pop(entry.mark, None)
                    if entry.mark in self._submitter.own:
                        self._calls.counters.sent += entry.lines
                elif time.monotonic() - self._missing.setdefault(entry.mark, time.monotonic()) >= LIST_DELAY:
                    self._ledger.end(entry.mark, "not created")
                    self._missing.pop(entry.mark)

    def _next_wait(self, seconds: float) -> float:
        """Return how long to wait before the next poll.

        :raises RunStopped: at the end of ``llm_batch_wait``.
        """
        now = time.monotonic()
        if self._began is None:
            self._began = now
        if self._config.batch_wait is None:
            return seconds
        left = self._began + self._config.batch_wait - now
        # Not while it is unknown if a killed run has created a batch.
        if left <= 0 and not self._missing:
            self._is_unfinished = True
            raise self._calls.stop(f"{described(self._progress())}; run the same command again to continue")
        return min(seconds, max(left, FIRST_POLL))

    def _progress(self) -> OpenBatches:
        """Return how far the open batches are, as of the last poll."""
        expires = [entry.expires for entry in self._open if entry.expires]
        return OpenBatches(
            len(self._open),
            sum(entry.lines for entry in self._open),
            sum(entry.done for entry in self._open),
            min(expires, default=0.0),
            self._is_unfinished,
        )

    def report(self) -> dict[str, Any]:
        """Return how far the open batches are, as plain values."""
        return asdict(self._progress())
