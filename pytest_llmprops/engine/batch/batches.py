"""Serve requests with a provider's batches: submit those that wait, wait or leave, store the results, repeat."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pytest_llmprops.core.errors import BackendError, LLMPropsError, RunStopped
from pytest_llmprops.core.reasoning import answer_of, is_cut
from pytest_llmprops.core.requests import Chat, Reply, canonical_identity
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.engine.batch.ledger import TOO_LARGE, Entry, Ledger, described, ledger_path
from pytest_llmprops.engine.batch.submit import BatchedModel, Keep
from pytest_llmprops.engine.broker.reply_cache import ReplyCache
from pytest_llmprops.engine.calls.calls import ActiveModel, Calls
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.models.api.batches import NOT_RUN, Answer, BatchState
from pytest_llmprops.records.messages import OpenBatches

#: maximum number of cases that wait at once, over all processes; about 12 kB each
MOST_CASES = 50_000
#: seconds without a request or a reply after which requests are submitted, as no case seems able to go on
QUIET_SECONDS = 10.0
#: seconds between two looks at the open batches, besides those without a request or a reply
POLL_SECONDS = 20.0
#: seconds without an answer of the provider after which a run that waits ends
LONGEST_OUTAGE = 1800.0
#: how often a request is run without a usable result before it is an error
MOST_ATTEMPTS = 3
#: seconds that a batch that was created just before a crash may be missing in the provider's list
LIST_DELAY = 5.0
#: results that are stored together
CHUNK = 500


class Batches:
    """Serves the requests of models with batches.

    :param known: the stored replies. :param keep: stores and counts a reply, and returns it as the broker answers it.
    :raises StoreError: if the ledger cannot be used.
    """

    def __init__(self, config: BrokerConfig, calls: Calls, known: ReplyCache, keep: Keep) -> None:
        self._config, self._calls, self._known, self._keep = config, calls, known, keep
        self._ledger = Ledger(ledger_path(config.store))
        #: by account
        self._models: dict[str, BatchedModel] = {}
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        #: when the provider did not answer a poll for the first time
        self._outage: float | None = None
        #: mark of an intent -> when this process first did not find its batch
        self._missing: dict[str, float] = {}
        self._is_unfinished = False

    async def reply(self, served: ActiveModel, key: str, request: Chat) -> Reply:
        """Return the reply from a batch, or from a call if it is the first request of its shape.

        :raises BackendError: if the provider refuses it. :raises RunStopped: if the run is stopped.
        """
        if self._calls.stopped is not None:
            raise RunStopped(self._calls.stopped)
        account = canonical_identity(served.model.identity)
        if account not in self._models:
            self._models[account] = self._model(account, served)
        future = self._models[account].add(served, key, request)
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._end_with_the_run())]
        return await future

    def _model(self, account: str, served: ActiveModel) -> BatchedModel:
        """Return a new model, whose batches only this process submits and collects."""
        model: Any = served.model
        try:
            api = model.batches()
            self._ledger.lock(account)
        except LLMPropsError as error:
            raise self._calls.stop(f"{served.label}: {error}") from None
        return BatchedModel(
            account, served, api, self._config, self._calls, self._ledger, self._keep, self._changed
        )

    async def _end_with_the_run(self) -> None:
        """End the wait of all requests; the open batches stay in the ledger for the next run."""
        await self._calls.over.wait()
        for model in self._models.values():
            for key in list(model.pending):
                model.end(key, RunStopped(self._calls.stopped or ""))

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
        except OSError as error:
            self._calls.stop(f"batches: the lines cannot be written: {error.strerror}")
        except Exception as error:
            self._calls.stop(f"batches: {type(error).__name__}: {one_line(str(error), 200)}")

    async def _work(self) -> None:
        end: float | None = None
        while self._calls.stopped is None:
            await self._all_wait()
            if await self._submit() or await self._poll():
                continue
            now, wait = time.monotonic(), POLL_SECONDS
            if self._config.batch_wait is not None:
                end = now + self._config.batch_wait if end is None else end
                # Not while it is unknown if a killed run has created a batch.
                if now >= end and not self._missing:
                    self._is_unfinished = True
                    text = f"{described(self.progress())}; run the same command again to continue"
                    raise self._calls.stop(text)
                wait = min(wait, max(end - now, LIST_DELAY))
            await self._calls.pause(wait)

    async def _all_wait(self) -> None:
        """Wait until there are requests, and neither a request nor a reply has come for a moment."""
        has_requests = False
        while self._changed.is_set() or not has_requests:
            self._changed.clear()
            has_requests = any(model.pending for model in self._models.values())
            with contextlib.suppress(TimeoutError):
                # Not wait_for, which in Python 3.11 ignores a cancellation that coincides with the event.
                async with asyncio.timeout(QUIET_SECONDS if has_requests else None):
                    await self._changed.wait()

    async def _submit(self) -> bool:
        """Submit what is in no open batch; return True if cases have got replies instead."""
        has_called = False
        for model in list(self._models.values()):
            lines = model.lines(are_open=False)
            if lines and self._config.max_cost is not None:
                open_cost = sum(one.cost(one.lines(are_open=True)) for one in self._models.values())
                self._calls.check_cost(model.cost(lines), open_cost, len(lines))
            has_called |= await model.submit(lines)
        return has_called

    async def _poll(self) -> bool:
        """Look at the open batches, which takes hours: the network may be away for a part of that time."""
        try:
            has_ended = await self._look()
        except BackendError as error:
            if self._outage is None:
                self._outage = time.monotonic()
            if not error.transient or time.monotonic() - self._outage > LONGEST_OUTAGE:
                raise
            return False
        self._outage = None
        return has_ended

    async def _look(self) -> bool:
        """Look at each open batch once; return True if one is over, or was not created."""
        has_ended = False
        for model in list(self._models.values()):
            for entry in self._ledger.open_batches([model.account]):
                if entry.state == "intent":
                    has_ended |= await self._adopt(model, entry)
            for entry in self._ledger.open_batches([model.account]):
                if entry.state == "submitted":
                    has_ended |= await self._look_at(model, entry)
        return has_ended

    async def _adopt(self, model: BatchedModel, entry: Entry) -> bool:
        """Find a batch whose creation was not noted; return True if its intent is given up."""
        ids, known = self._ledger.members(entry.mark), self._ledger.batches(model.account)
        state = await model.api.find(entry.mark, entry.created, ids, known)
        if state is None:
            first = self._missing.setdefault(entry.mark, time.monotonic())
            if time.monotonic() - first < LIST_DELAY:
                return False
            self._ledger.end(entry.mark, "not created")
        else:
            self._ledger.submitted(entry.mark, state)
            if entry.mark in model.own:
                self._calls.counters.sent += entry.lines
        self._missing.pop(entry.mark, None)
        return state is None

    async def _look_at(self, model: BatchedModel, entry: Entry) -> bool:
        """Look at a batch; return True if it is over."""
        state = await model.api.state(entry.batch)
        self._ledger.progress(entry.mark, state)
        if not state.is_over:
            return False
        if state.status == "failed":
            self._end_failed(model, entry, state)
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

    def _end_failed(self, model: BatchedModel, entry: Entry, state: BatchState) -> None:
        if not state.is_too_large:
            self._ledger.end(entry.mark, "failed")
            raise self._calls.stop(f"batch {state.id} failed: {state.problem or state.code or 'no reason'}")
        if entry.lines == 1 and len(self._ledger.open_batches([model.account])) == 1:
            [keys] = self._ledger.members(entry.mark).values()
            for key in keys:
                model.end(key, BackendError(f"the batch of this request failed: {state.problem}"))
        self._ledger.end(entry.mark, TOO_LARGE)

    async def _collect(self, model: BatchedModel, entry: Entry, state: BatchState) -> None:
        """Store the results of a batch.

        Lines of the files that cannot be read, have an unknown custom id or are there twice are ignored.
        """
        lines = self._ledger.members(entry.mark)
        chunk: list[tuple[Sequence[str], Answer]] = []

        async def take() -> None:
            await asyncio.gather(*(self._take(model, entry, keys, answer) for keys, answer in chunk))
            chunk.clear()

        for file in filter(None, (state.output_file, state.error_file)):
            async for text in model.api.lines(file):
                custom_id, answer = model.api.read(text) or ("", NOT_RUN)
                if answer is not NOT_RUN and custom_id in lines:
                    chunk.append((lines.pop(custom_id), answer))
                    if len(chunk) >= CHUNK:
                        await take()
        if state.status == "completed":
            text = "the batch is completed without a result for this request"
            missing = BackendError(text, kind="batch", transient=True)
            chunk += ((keys, missing) for keys in lines.values())
        await take()
        self._ledger.end(entry.mark, state.status)

    async def _take(self, model: BatchedModel, entry: Entry, keys: Sequence[str], answer: Answer) -> None:
        """Store the replies of a line. Requests without one go into another batch, unless their error stays."""
        served, replies, error, is_final = model.served, list[Reply](), None, False
        read = model.api.replies(answer, len(keys))
        if isinstance(read, BackendError):
            error, is_final = read, not read.transient
            if read.billed is not None:
                served.discard([replace(read.billed, via="batch")])
        else:
            read = [replace(reply, via="batch", deviations=entry.deviations) for reply in read]
            answers = [answer_of(reply) for reply in read]
            if any(is_cut(reply, parts) for reply, parts in answers):
                served.discard(read)
                error = served.thinking.error()
                is_final = not served.thinking.raised_from(entry.extra_tokens)
            else:
                replies = [reply for reply, _ in answers]
                if len(replies) < len(keys):
                    text = "the server returned fewer samples than requested"
                    error = BackendError(text, kind="batch", transient=True)
        for key, reply in zip(keys, replies, strict=False):
            await self._answer(model, entry, key, reply)
        if error is None:
            return
        for one in filter(None, map(model.pending.get, keys[len(replies) :])):
            one.attempts += 1
            if is_final:
                model.end(one.key, error)
            elif one.attempts >= MOST_ATTEMPTS:
                text = f"{error.message}, {one.attempts} times"
                model.end(one.key, BackendError(text, kind="batch"))
        if is_final and (reason := served.breaker.failure(error, final=True)):
            self._calls.stop(f"{entry.label}: {reason}")

    async def _answer(self, model: BatchedModel, entry: Entry, key: str, reply: Reply) -> None:
        one = model.pending.get(key)
        if one is not None:
            self._calls.counters.adopted += entry.mark not in model.own
            await model.settle(one, reply)
        elif await self._known.stored(key) is None:
            # Otherwise, a run that was killed has stored and counted it.
            await self._keep(model.served, key, reply)

    def progress(self) -> OpenBatches:
        """Return how far the open batches are."""
        entries = self._ledger.open_batches(self._models)
        return OpenBatches(
            len(entries),
            sum(entry.lines for entry in entries),
            sum(entry.done for entry in entries),
            min((entry.expires for entry in entries if entry.expires), default=0.0),
            self._is_unfinished,
        )
