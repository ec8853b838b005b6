"""The waves of a run: pending requests become batches when no case can go on without a reply.

A wave is not a barrier. Batches of several waves may be open at once, and the replies of each let its cases go on.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import asdict
from typing import IO, Any, Protocol, cast

from pytest_llmprops.core.errors import BackendError, LLMPropsError, RunStopped, UsageError
from pytest_llmprops.core.requests import BATCH_DISCOUNT, Chat, Reply, Request
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.core.worker_messages import OpenBatches
from pytest_llmprops.engine.batch.activity import WaitingClients
from pytest_llmprops.engine.batch.ledger import (
    TOO_LARGE,
    Entry,
    Ledger,
    described,
    ledger_path,
    preparation,
    this_process,
)
from pytest_llmprops.engine.batch.pending import BatchedModel, Pending, PendingRequests, collect, shape_of
from pytest_llmprops.engine.calls import ActiveModel, Calls
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.models.api.batches import BatchModel, BatchState, Intent
from pytest_llmprops.models.api.openai import normalised_url
from pytest_llmprops.models.api.prices import price
from pytest_llmprops.models.base import Model

# Submit the pending requests of a model: first one call per shape of request, then batches.

#: number of different requests of one shape that may fail before the run stops
CANARIES = 3
#: what stores and counts the reply to a call
KeepSubmitted = Callable[[Pending, Reply], Awaitable[Reply]]
#: looks up a stored reply that the run may use
Find = Callable[[Pending], Awaitable[Reply | None]]


class Submitter:
    """Writes waves.

    :param own: gets the mark of each batch that is submitted. :param keep: stores and counts the reply to a call.
    :param find: looks up a stored reply that the run may use.
    """

    def __init__(
        self,
        config: BrokerConfig,
        calls: Calls,
        ledger: Ledger,
        own: set[str],
        waiting: PendingRequests,
        keep: KeepSubmitted,
        find: Find,
    ) -> None:
        self._config, self._calls, self._ledger, self._own = config, calls, ledger, own
        self._waiting, self._keep, self._find = waiting, keep, find
        #: creations in a row that failed for a reason that may pass
        self._failures = 0

    async def submit(self, batched: BatchedModel, unsent: Sequence[Pending]) -> bool:
        """Submit the requests of one model that no open batch has.

        :return: whether calls were made instead, whose replies let cases go on.
        :raises BackendError: if the provider refuses a batch. :raises RunStopped: if the run is stopped.
        """
        self._waiting.mark(self._ledger.owners(one.key for one in unsent))
        groups = batched.groups(one for one in unsent if one.mark is None)
        if groups and self._config.max_cost is not None:
            self._calls.check_cost(batched.cost(groups), self._waiting.open_cost(), len(groups))
        if await self._canaries(batched, groups):
            return True
        most = self._ledger.most_lines(batched.account)
        if most is not None:
            # The provider limits the tokens that wait in batches, so there is one batch at a time.
            if self._ledger.open_batches({batched.account}):
                return False
            groups = groups[:most]
        while groups:
            groups = await self._batch(batched, groups)
        return False

    # ---- canaries

    async def _canaries(self, batched: BatchedModel, groups: Sequence[list[Pending]]) -> bool:
        """Send one request of each new shape as a call, so that a refused parameter does not cost a wave."""
        shapes: dict[str, list[list[Pending]]] = {}
        for group in groups:
            shape = shape_of(group)
            if shape not in batched.accepted:
                shapes.setdefault(shape, []).append(group)
        await asyncio.gather(*(self._canary(batched, shape, own) for shape, own in shapes.items()))
        return bool(shapes)

    async def _canary(self, batched: BatchedModel, shape: str, groups: Sequence[list[Pending]]) -> None:
        for number, group in enumerate(groups[:CANARIES], 1):
            try:
                replies = await self._calls.replies(
                    batched.label, batched.served, [one.request for one in group]
                ) or await self._calls.replies(batched.label, batched.served, [group[0].request])
            except BackendError as error:
                for one in group:
                    self._waiting.settle(one, error)
                if number == CANARIES:
                    text = f"{batched.label}: {number} requests failed, so no batch is submitted: {error.message}"
                    raise self._calls.stop(text) from None
            else:
                batched.accepted.add(shape)
                for one, reply in zip(group, replies, strict=False):
                    self._waiting.settle(one, await self._keep(one, reply))
                return

    # ---- batches

    async def _batch(self, batched: BatchedModel, groups: Sequence[list[Pending]]) -> list[list[Pending]]:
        """Submit one batch of the first ``groups``, and return those that do not fit into it."""
        with _temporary_file() as file:
            taken, rest = self._write(batched, groups, file)
            if not taken:
                return rest
            self._calls.check_budget(len(taken))
            entry = self._entry(batched)
            with preparation(entry.mark):
                return [*await self._claimed(batched, entry, taken, file), *rest]

    async def _claimed(
        self, batched: BatchedModel, entry: Entry, taken: Sequence[list[Pending]], file: IO[bytes]
    ) -> list[list[Pending]]:
        """Submit what no other run has claimed or stored; return what goes into the next batch instead."""
        lines = {group[0].key: [one.key for one in group] for group in taken}
        others = self._ledger.claim(entry, lines)
        mine = [group for group in taken if group[0].key not in others]
        if others:
            # Another run that shares the store has just submitted them.
            keys = [one.key for group in taken for one in group]
            self._waiting.mark(self._ledger.owners(keys))
        if await self._take_stored(mine):
            # Nothing was created for this entry. The others are submitted with the next one.
            self._ledger.end(entry.mark, "stored")
            return [*filter(None, mine)]
        self._waiting.mark(dict.fromkeys((one.key for group in mine for one in group), entry.mark))
        if mine:
            with _temporary_file() as wave:
                _copy_without(file, [group[0].key in others for group in taken], wave)
                await self._create(batched, entry, wave, len(mine))
        return []

    async def _take_stored(self, groups: Sequence[list[Pending]]) -> bool:
        """Take the requests that are stored by now out of ``groups``, and return whether there are any.

        A batch of another run may have ended since they were looked up. It no longer owns them then; before they were
        claimed, it might have ended at any moment.
        """
        waiting = [one for group in groups for one in group]
        replies = await asyncio.gather(*map(self._find, waiting))
        stored = {one.key: reply for one, reply in zip(waiting, replies, strict=True) if reply is not None}
        for group in groups:
            for one in [one for one in group if one.key in stored]:
                group.remove(one)
                self._calls.count_stored()
                self._waiting.settle(one, stored[one.key])
        return bool(stored)

    def _write(
        self, batched: BatchedModel, groups: Sequence[list[Pending]], file: IO[bytes]
    ) -> tuple[list[list[Pending]], list[list[Pending]]]:
        """Write one line per group; return the groups written and those that exceed the limits of a batch."""
        taken: list[list[Pending]] = []
        size = 0
        for position, group in enumerate(groups):
            try:
                line = batched.api.line(group[0].key, _with_thoughts(batched, group[0].request), len(group))
            except BackendError as error:
                for one in group:
                    self._waiting.settle(one, error)
                continue
            if taken and (len(taken) == batched.api.most_lines or size + len(line) > batched.api.most_bytes):
                return taken, list(groups[position:])
            file.write(line)
            taken.append(group)
            size += len(line)
        return taken, []

    def _entry(self, batched: BatchedModel) -> Entry:
        spec = self._config.models[batched.label]
        return Entry(
            mark=uuid.uuid4().hex,
            account=batched.account,
            label=batched.label,
            spec=spec.text,
            # Without a password, which no file may have.
            base_url=normalised_url(self._config.base_url) if self._config.base_url else "",
            owner=this_process(),
            created=time.time(),
            state="intent",
            lines=0,
            deviations=batched.served.forced(),
            extra_tokens=batched.served.thinking.extra,
        )

    async def _create(self, batched: BatchedModel, entry: Entry, wave: IO[bytes], lines: int) -> None:
        self._own.add(entry.mark)
        try:
            uploaded = await self._uploaded(batched, wave)
            state = await batched.api.create(uploaded, entry.mark)
        except BackendError as error:
            if error.transient:
                # The provider may have created the batch. The next poll, or the next run, looks for it.
                self._failures += 1
                if self._failures > self._config.retries:
                    text = f"{batched.label}: no batch was created, {self._failures} times: {error.message}"
                    raise self._calls.stop(text) from None
                return
            self._ledger.end(entry.mark, "refused")
            raise
        self._failures = 0
        self._ledger.submitted(entry.mark, state.id, state.status, state.expires)
        self._calls.count_sent(lines)

    async def _uploaded(self, batched: BatchedModel, wave: IO[bytes]) -> Any:
        async def upload() -> Any:
            wave.seek(0)
            return await batched.api.upload(wave)

        return await self._calls.retried(upload)


@contextmanager
def _temporary_file() -> Iterator[IO[bytes]]:
    """Yield an empty file in the temporary folder, which is removed at the end.

    :raises UsageError: if the folder cannot be used.
    """
    try:
        with tempfile.TemporaryFile() as file:
            yield file
    except OSError as error:
        why = error.strerror or error
        raise UsageError(
            f"temporary folder {tempfile.gettempdir()}: {why}; free disk space, or set TMPDIR to a folder on another"
            " disk, and run again"
        ) from None


def _copy_without(file: IO[bytes], left_out: Sequence[bool], target: IO[bytes]) -> None:
    """Write the lines of ``file`` that are not left out to ``target``."""
    file.seek(0)
    for line, is_out in zip(file, left_out, strict=True):
        if not is_out:
            target.write(line)
    # A full disk is noticed here, and not while the file is uploaded.
    target.flush()


# Follow the open batches of a run: adopt those of a killed run, and collect those that are over.

#: how often a request is run without a usable result before it is an error
MOST_ATTEMPTS = 3
#: how long a batch that was created just before a crash may be missing in the provider's list
LIST_DELAY = 5.0


class Store(Protocol):
    """The replies that the broker has and takes."""

    async def keep(self, batched: BatchedModel, key: str, reply: Reply) -> Reply:
        """Store and count a reply, and return it as the broker answers it."""
        ...

    def stored(self, key: str) -> Awaitable[Reply | None]:
        """Return the stored reply; None if there is none."""
        ...


class Poller:
    """Asks the provider for the state of the open batches, and passes their results on.

    :param own: the marks of the batches that this run submitted.
    """

    def __init__(
        self, calls: Calls, ledger: Ledger, own: Set[str], waiting: PendingRequests, store: Store
    ) -> None:
        self._calls, self._ledger, self._own, self._waiting, self._store = calls, ledger, own, waiting, store
        self._lanes: dict[str, BatchedModel] = {}
        #: mark of an intent -> when this process first did not find its batch
        self._missing: dict[str, float] = {}
        self.notes: list[str] = []
        #: the open batches after the last poll
        self.open: list[Entry] = []

    @property
    def is_undecided(self) -> bool:
        """True if it is not known yet if a killed run has created a batch."""
        return bool(self._missing)

    async def poll(self, by_model: Mapping[str, BatchedModel]) -> bool:
        """Look at each open batch of the models once; return whether requests were answered or can be sent again.

        :param by_model: by account.
        :raises BackendError: if the provider does not answer. :raises RunStopped: if a batch failed or was cancelled.
        """
        self._lanes = dict(by_model)
        await self._adopt()
        moved = False
        for entry in self._ledger.open_batches(by_model):
            if entry.state == "submitted":
                moved |= await self._look_at(entry)
        self.open = self._ledger.open_batches(by_model)
        return await self._release() or moved

    async def _look_at(self, entry: Entry) -> bool:
        batched = self._lanes[entry.account]

        async def state_of_batch() -> BatchState:
            return await batched.api.state(entry.batch)

        state = await self._calls.retried(state_of_batch)
        self._ledger.progress(entry.mark, state.status, state.done, state.expires)
        if not state.is_over:
            return False
        if state.status == "failed":
            self._end_failed(entry, state)
            return True

        async def collected() -> list[str]:
            return await collect(batched.api, self._ledger, entry, state, self)

        self.notes += await self._calls.retried(collected)
        if state.status == "cancelled":
            raise self._calls.stop(
                f"batch {state.id} was cancelled; run the same command to submit its open lines again"
            )
        if state.status == "expired" and not state.done:
            raise self._calls.stop(
                f"batch {state.id} expired before one of its lines was run; run the same command to submit them again"
            )
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
                    if entry.mark in self._own:
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
            mark, one.mark = one.mark, None
            if reply is not None:
                if mark not in self._own:
                    # The lines of this run's own batch count as sent.
                    self._calls.count_stored()
                self._waiting.settle(one, reply)
        return bool(released)

    # ---- results

    async def answered(self, entry: Entry, replies: Sequence[tuple[str, Reply]]) -> None:
        """Store and pass on the replies of a batch."""
        await asyncio.gather(*(self._answered(entry, key, reply) for key, reply in replies))

    async def _answered(self, entry: Entry, key: str, reply: Reply) -> None:
        batched = self._lanes[entry.account]
        one = self._waiting.get(key)
        if one is None and await self._store.stored(key) is not None:
            # A run that was killed while it collected has stored and counted it.
            return
        kept = await self._store.keep(batched, key, reply)
        if one is not None:
            if entry.mark not in self._own:
                self._calls.count_adopted()
            self._waiting.settle(one, kept)

    def failed(self, entry: Entry, keys: Sequence[str], error: BackendError) -> None:
        """Pass on an error of the provider, which may stop the run."""
        reason = self._lanes[entry.account].served.breaker.failure(error, final=True)
        self._each(keys, lambda one: self._waiting.settle(one, error))
        if reason:
            self._calls.stop(f"{entry.label}: {reason}")

    def discarded(self, entry: Entry, replies: Sequence[Reply]) -> None:
        """Count replies that are paid for and not used."""
        self._lanes[entry.account].served.discard(replies)

    def cut(self, entry: Entry, keys: Sequence[str]) -> None:
        """Let requests go into another batch with more tokens for thoughts, if there are more."""
        thinking = self._lanes[entry.account].served.thinking
        error = thinking.error()
        if thinking.raised_from(entry.extra_tokens):
            self.left(entry, keys, error.message, was_run=True)
        else:
            self.failed(entry, keys, error)

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


def _with_thoughts(batched: BatchedModel, request: Chat) -> Chat:
    return cast("Chat", batched.served.thinking.request(request))


def _intent(ledger: Ledger, entry: Entry) -> Intent:
    return Intent(entry.mark, entry.created, entry.lines, lambda: ledger.members(entry.mark))


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
Keep = Callable[[str, ActiveModel, str, Reply], Awaitable[Reply]]


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
        self.clients = WaitingClients(config.clients, self._changed.set)
        self._waiting = PendingRequests()
        self._lanes: dict[str, BatchedModel] = {}
        self._ledger = Ledger(ledger_path(config.store))
        own: set[str] = set()
        self._submitter = Submitter(
            config,
            calls,
            self._ledger,
            own,
            self._waiting,
            lambda one, reply: self.keep(one.batched, one.key, reply),
            lambda one: find(one.batched.served.model, one.key),
        )
        self._poller = Poller(calls, self._ledger, own, self._waiting, self)
        self._task: asyncio.Task[None] | None = None
        self._began: float | None = None
        #: when the provider did not answer a poll for the first time
        self._outage: float | None = None
        self._is_unfinished = False

    async def keep(self, batched: BatchedModel, key: str, reply: Reply) -> Reply:
        """Store and count a reply, and return it as the broker answers it."""
        return await self._keep(batched.label, batched.served, key, reply)

    def takes(self, model: Model, request: Request) -> bool:
        """Return True if the request goes into a batch."""
        return isinstance(request, Chat) and hasattr(model, "batches")

    def join(self, key: str) -> None:
        """Count one more client that waits for :meth:`reply` with this key."""
        self._waiting.join(key)
        self._changed.set()

    async def reply(self, label: str, served: ActiveModel, key: str, request: Chat) -> Reply:
        """Return the reply from a batch, or from a call if it is the first request of its shape.

        :raises BackendError: if the provider refuses it. :raises RunStopped: if the run is stopped.
        """
        batched = self._lanes.get(label)
        if batched is None:
            try:
                api = cast("BatchModel", served.model).batches()
            except BackendError as error:
                raise self._calls.stop(f"{label}: {error.message}") from None
            spec = self._config.models[label]
            listed = price(spec.name, spec.params, self._config.prices)
            known = None if listed is None else listed.scaled(BATCH_DISCOUNT)
            batched = self._lanes[label] = BatchedModel(label, served, api, known)
        pending = Pending(batched, key, request, asyncio.get_running_loop().create_future())
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
        """Return True if all processes wait for batches; otherwise wait for news first."""
        waiting = self._waiting
        if len(waiting) and waiting.is_complete and self.clients.all_wait(waiting.clients):
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
            moved = await self._poller.poll({batched.account: batched for batched in self._lanes.values()})
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
            raise self._calls.stop(f"{described(self.progress())}; run the same command again to continue")
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
