"""The replies that need no call: those in the store or, without a store, the latest ones of the run."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import methodcaller
from typing import TypeVar

from pytest_llmprops.core.errors import StoreError
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.engine.store.base import BEAT_SECONDS, LEASE_SECONDS, Store, row_of
from pytest_llmprops.engine.store.location import open_store
from pytest_llmprops.models.base import Model

# The thread that calls a store, so that a slow disk or server does not hold up the event loop.

Job = Callable[[], None]


class StoreThread:
    """Runs jobs one after the other, and between them reports to the store that this process runs.

    The thread starts with the first job. It is a daemon: a server that does not answer cannot keep a process alive.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        #: Unix time of the last report, and how often one came after the end of the lease
        self._reported, self._lapses = 0.0, 0

    def run(self, job: Job) -> None:
        """Run ``job``, which must not raise, after those before it."""
        if self._thread is None:
            self._reported = time.time()
            self._thread = threading.Thread(target=self._run, name="llmprops-store", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def end(self) -> None:
        """End the thread after the jobs so far."""
        self._jobs.put(None)

    @property
    def lapses(self) -> int:
        """How often all claims so far have ended, because the process or its machine was suspended."""
        return self._lapses + self._is_late if self._thread is not None else 0

    @property
    def _is_late(self) -> bool:
        # The clock that goes on while the machine is suspended.
        return abs(time.time() - self._reported) > LEASE_SECONDS

    def _run(self) -> None:
        tried = time.time()
        while True:
            job: Job | None = _nothing
            with contextlib.suppress(queue.Empty):
                job = self._jobs.get(timeout=max(0.0, BEAT_SECONDS - abs(time.time() - tried)))
            if job is None:
                return
            # Before the job: without a report, other runs would ignore the claims that it makes.
            if abs(time.time() - tried) >= BEAT_SECONDS:
                tried = time.time()
                self._report()
            job()

    def _report(self) -> None:
        # If the store cannot be used, the next job says so.
        with contextlib.suppress(StoreError):
            self._store.beat()
            # In this order, so that the event loop never sees fewer lapses than there were.
            self._lapses += self._is_late
            self._reported = time.time()


def _nothing() -> None:
    pass


# A store for an event loop: requests that arrive together share a statement, in a thread.

T = TypeVar("T")
#: maximum number of requests per job of the thread, so that replies need not wait long to be stored
_JOB = 500
#: seconds until a request that another run has claimed is looked up again; grows from the first to the last
FIRST_LOOK, LAST_LOOK = 0.02, 0.5
#: Limit for the jobs at the end. A server that does not answer takes longer; its claims then end with their lease.
CLOSE_SECONDS = 8.0


@dataclass(slots=True, eq=False)
class _Find:
    """A request for a reply.

    :param claims: claim the request if there is no reply. :param is_claimed: whether that was done.
    """

    key: str
    not_before: float
    claims: bool
    future: asyncio.Future[Reply | None]
    reply: Reply | None = None
    is_claimed: bool = False
    waits: bool = False


@dataclass(slots=True, eq=False)
class _Put:
    key: str
    model: str
    reply: Reply
    #: called when the reply is stored, or with the error if it cannot be
    done: Callable[[Reply, Exception | None], None]
    #: those who wait until this reply and those before it are stored or cannot be stored
    settling: list[asyncio.Future[None]] = field(default_factory=list)


@dataclass(slots=True)
class _Job:
    """One batch of store operations. A failed part keeps its exception."""

    releases: Sequence[str]
    puts: Sequence[_Put]
    finds: Sequence[_Find]
    put_error: Exception | None = None
    find_error: Exception | None = None

    def run(self, store: Store) -> None:
        if self.releases:
            # Its lease ends it otherwise.
            with contextlib.suppress(Exception):
                store.release(self.releases)
        if self.puts:
            try:
                store.put_many([row_of(put.key, put.model, put.reply) for put in self.puts])
            except Exception as error:
                self.put_error = error
        if self.finds:
            try:
                self._find(store)
            except Exception as error:
                self.find_error = error

    def _find(self, store: Store) -> None:
        state = store.state()
        self._look_up(store, self.finds)
        missing = [find for find in self.finds if find.reply is None and find.claims]
        if not missing:
            return
        claimed = store.claim({find.key for find in missing})
        for find in missing:
            find.is_claimed = find.key in claimed
        if store.state() == state:
            return
        # Another run may have stored the reply between the two statements.
        again = [find for find in missing if find.is_claimed]
        self._look_up(store, again)
        needless = {find.key for find in again if find.reply is not None}
        if needless:
            store.release(needless)

    @staticmethod
    def _look_up(store: Store, finds: Sequence[_Find]) -> None:
        if finds:
            replies = store.get_many({find.key for find in finds})
            for find in finds:
                reply = replies.get(find.key)
                if reply is not None and reply.stored >= find.not_before:
                    find.reply = reply


class StoreCalls:
    """Looks up, claims and stores replies, for one event loop.

    One job runs at a time. Whatever is asked for in the meantime makes the next one.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        #: number of replies that another run requested while this one waited for them
        self.awaited = 0
        self._thread = StoreThread(store)
        self._releases: list[str] = []
        self._puts: list[_Put] = []
        self._last_put: _Put | None = None
        self._finds: list[_Find] = []
        self._held: list[_Find] = []
        self._look = FIRST_LOOK
        self._timer: asyncio.TimerHandle | None = None
        self._ended: Exception | None = None
        self._is_busy = False
        self._idle: asyncio.Future[None] | None = None

    async def find(self, key: str, *, not_before: float = 0.0, claim: bool = False) -> Reply | None:
        """Return the stored reply to a request; None if there is none.

        :param not_before: Unix time; older replies are ignored.
        :param claim: claim the request if there is no reply. If another run has claimed it, wait until that run has
            stored the reply, has failed or has ended.
        :raises StoreError: if the store cannot be used.
        """
        future: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
        self._finds.append(_Find(key, not_before, claim, future))
        self._start()
        return await future

    async def put(self, key: str, model: str, reply: Reply) -> None:
        """Store a reply and end the claim on its request.

        :param model: label of the model.
        :raises StoreError: if it cannot be stored.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.put_soon(key, model, reply, lambda reply, error: _resolve(future, None, error))
        await future

    def put_soon(
        self, key: str, model: str, reply: Reply, done: Callable[[Reply, Exception | None], None]
    ) -> None:
        """Store a reply and end the claim on its request, without waiting for it.

        :param done: called on the loop with ``reply``, and the error if it cannot be stored.
        """
        self._last_put = _Put(key, model, reply, done)
        self._puts.append(self._last_put)
        self._start()

    @property
    def lapses(self) -> int:
        """How often all claims so far have ended, because the process or its machine was suspended."""
        return self._thread.lapses

    async def settled(self) -> None:
        """Wait until the replies so far are stored or cannot be stored."""
        # Jobs run one after the other, and resolve their replies in order.
        if self._last_put is not None:
            # A future of its own: one that is cancelled would end the wait of all.
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._last_put.settling.append(future)
            await future

    def release(self, key: str) -> None:
        """End the claim on a request that got no reply, so that another run may send it."""
        self._releases.append(key)
        self._start()

    async def run(self, work: Callable[[Store], T]) -> T:
        """Return the result of ``work`` on the store, called in its thread.

        :raises StoreError: if ``work`` raises it.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def job() -> None:
            try:
                _call_soon(loop, _resolve, future, work(self.store), None)
            except Exception as error:
                _call_soon(loop, _resolve, future, None, error)

        self._thread.run(job)
        return await future

    def stop_waiting(self, reason: Exception) -> None:
        """End all waits for other runs, now and from now on; :meth:`find` then raises ``reason``."""
        self._ended = reason
        held, self._held = self._held, []
        for find in held:
            if not find.future.done():
                find.future.set_exception(reason)

    def _start(self) -> None:
        if not self._is_busy:
            self._is_busy = True
            # In the next iteration of the loop, when all requests of this one have arrived.
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        job = _Job(self._releases, self._puts, self._finds[:_JOB])
        if not (job.releases or job.puts or job.finds):
            self._is_busy = False
            if self._idle is not None and not self._idle.done():
                self._idle.set_result(None)
            return
        self._releases, self._puts, self._finds = [], [], self._finds[_JOB:]
        loop = asyncio.get_running_loop()

        def work() -> None:
            job.run(self.store)
            _call_soon(loop, self._finish, job)

        self._thread.run(work)

    def _finish(self, job: _Job) -> None:
        for put in job.puts:
            put.done(put.reply, job.put_error)
            for future in put.settling:
                _resolve(future, None, None)
            if put is self._last_put:
                self._last_put = None
        for find in job.finds:
            self._resolve(find, job.find_error)
        if self._held and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._look, self._look_again)
        self._send()

    def _resolve(self, find: _Find, error: Exception | None) -> None:
        if find.future.done():
            # Its caller was cancelled.
            if find.is_claimed and find.reply is None:
                self._releases.append(find.key)
        elif error is not None:
            find.future.set_exception(error)
        elif find.reply is not None or find.is_claimed or not find.claims:
            if find.waits:
                self._look = FIRST_LOOK
                self.awaited += find.reply is not None
            find.future.set_result(find.reply)
        elif self._ended is not None:
            find.future.set_exception(self._ended)
        else:
            find.waits = True
            self._held.append(find)

    def _look_again(self) -> None:
        self._timer = None
        self._look = min(self._look * 1.5, LAST_LOOK)
        self._finds += (find for find in self._held if not find.future.done())
        self._held = []
        self._start()

    async def close(self) -> None:
        """Store what is left, end all claims and close the store."""
        if self._timer is not None:
            self._timer.cancel()
        for find in self._held:
            find.future.cancel()
        self._held = []
        self.store.stop_waiting()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                if self._is_busy:
                    self._idle = asyncio.get_running_loop().create_future()
                    await self._idle
                await self.run(lambda store: store.close())
        self._thread.end()


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *values: object) -> None:
    # A process that ends may have closed its loop.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *values)


def _resolve(future: asyncio.Future[T], result: T, error: Exception | None) -> None:
    if not future.done():
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


#: number of latest replies kept in memory if there is no store
RECENT = 10_000
#: number of keys that are counted at once
_COUNTED = 1_000


class ReplyCache:
    """Finds and keeps replies as ``--llm-cache`` says. All methods run in one event loop.

    :param on_failure: called when the store does not take a reply.
    :raises StoreError: if the store cannot be opened.
    """

    def __init__(self, config: BrokerConfig, on_failure: Callable[[Exception], object]) -> None:
        self._cache, self._not_before, self._on_failure = config.cache, config.not_before, on_failure
        self._stored: StoreCalls | None = None
        if config.cache != "off":
            store = open_store(config.store, read_only=config.cache == "only", timeout=config.timeout)
            self._stored = StoreCalls(store)
        #: keys of the replies of this run, with --llm-cache refresh
        self._not_again: set[str] = set()
        #: latest replies with --llm-cache off, so that a request of many items (rules of a concept) is sent once
        self._recent: OrderedDict[str, Reply] = OrderedDict()
        #: key -> reply that the store takes while the run goes on
        self._unstored: dict[str, Reply] = {}
        #: number of replies that the store did not take
        self._lost = 0

    @property
    def has_store(self) -> bool:
        """True if replies are stored for later runs."""
        return self._stored is not None

    async def find(self, model: Model, key: str, *, claims: bool = True) -> Reply | None:
        """Return the known reply to a request; None if it must be sent, which no other run does at the same time.

        After None, call :meth:`keep` or :meth:`release`.

        :param claims: False to leave other runs free to send it, too.
        :raises StoreError: if the store cannot be used.
        :raises RunStopped: if the run is stopped while another one sends the request.
        """
        if self._stored is None:
            return self._recent.get(key)
        if self._cache == "refresh" and key not in self._not_again:
            return None
        claims = claims and self._cache != "only"
        return await self._stored.find(key, not_before=self._oldest(model), claim=claims)

    async def stored(self, key: str) -> Reply | None:
        """Return the stored reply, of any age; None if there is none.

        :raises StoreError: if the store cannot be used.
        """
        return None if self._stored is None else await self._stored.find(key)

    def _oldest(self, model: Model) -> float:
        return 0.0 if model.pinned else self._not_before

    async def keep(self, label: str, reply: Reply) -> None:
        """Keep a reply under its key. If the store does not take it, the case still gets its reply."""
        if self._stored is None:
            self._keep_recent(reply)
            return
        if self._cache == "refresh":
            self._not_again.add(reply.key)
        try:
            await self._stored.put(reply.key, label, reply)
        except StoreError as error:
            self._lose(error)

    def keep_soon(self, label: str, reply: Reply) -> None:
        """Keep a reply under its key, without waiting until it is stored."""
        if self._stored is None:
            self._keep_recent(reply)
            return
        if self._cache == "refresh":
            self._not_again.add(reply.key)
        self._unstored[reply.key] = reply
        self._stored.put_soon(reply.key, label, reply, self._note_stored)

    def _note_stored(self, reply: Reply, error: Exception | None) -> None:
        self._unstored.pop(reply.key, None)
        if error is not None:
            self._lose(error)

    def _lose(self, error: Exception) -> None:
        self._lost += 1
        self._on_failure(error)

    def unstored(self, key: str) -> Reply | None:
        """Return the reply of :meth:`keep_soon` with this key, until it is stored."""
        return self._unstored.get(key)

    def _keep_recent(self, reply: Reply) -> None:
        self._recent[reply.key] = reply
        if len(self._recent) > RECENT:
            self._recent.popitem(last=False)

    async def settled(self) -> None:
        """Wait until the replies so far are stored or cannot be stored."""
        if self._stored is not None:
            await self._stored.settled()

    def lapses(self) -> int:
        """Return how often all claims so far have ended, because the process or its machine was suspended."""
        return 0 if self._stored is None else self._stored.lapses

    def release(self, key: str) -> None:
        """Let other runs send a request that got no reply."""
        if self._stored is not None:
            self._stored.release(key)

    async def known(self, asked: Sequence[tuple[Model, str]]) -> set[str]:
        """Return the keys of those requests, by model and key, that have a known reply.

        :raises StoreError: if the store cannot be used.
        """
        if self._stored is None:
            return {key for _, key in asked if key in self._recent}
        if self._cache == "refresh":
            asked = [(model, key) for model, key in asked if key in self._not_again]
        known: set[str] = set()
        iterator = iter(asked)
        while part := list(islice(iterator, _COUNTED)):
            get = methodcaller("get_many", {key for _, key in part})
            found: dict[str, Reply] = await self._stored.run(get)
            known |= {key for model, key in part if key in found and found[key].stored >= self._oldest(model)}
        return known

    async def listed_since(self, url: str, models: str) -> float:
        """Return the Unix time since which a server lists these models; see ``Store.listed_since``."""
        if self._stored is None:
            return 0.0
        return await self._stored.run(lambda store: store.listed_since(url, models))

    def stop_waiting(self, reason: Exception) -> None:
        """End all waits for other runs; :meth:`find` then raises ``reason``."""
        if self._stored is not None:
            self._stored.stop_waiting(reason)

    def notes(self) -> list[str]:
        """Return notes for the summary."""
        if self._stored is None:
            return []
        notes = list(self._stored.store.notes)
        if self._stored.awaited:
            notes.append(f"{self._stored.awaited} replies came from another run that used the same store")
        if self._lost:
            notes.append(f"{self._lost} replies are not stored; another run pays for them again")
        return notes

    async def close(self) -> None:
        """Store what is left and close the store."""
        if self._stored is not None:
            await self._stored.close()
