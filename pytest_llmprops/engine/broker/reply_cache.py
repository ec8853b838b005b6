"""The replies that need no call: those in the store or, without a store, the latest ones of the run."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import methodcaller
from typing import TypeVar

from pytest_llmprops.core.errors import StoreError
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.engine.event_loop import DaemonThread, call_soon, resolve
from pytest_llmprops.engine.store.base import Store, row_of
from pytest_llmprops.engine.store.location import open_store
from pytest_llmprops.models.base import Model

T = TypeVar("T")
#: maximum number of requests that are looked up at once, so that replies need not wait long to be stored
_MOST_FINDS = 500
#: limit for the jobs at the end, if a server is lost or does not answer
CLOSE_SECONDS = 8.0


@dataclass(slots=True, eq=False)
class _Find:
    key: str
    not_before: float
    future: asyncio.Future[Reply | None]


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
    """Replies to store, then keys to look up. A failed part keeps its exception."""

    puts: Sequence[_Put]
    finds: Sequence[_Find]
    found: Mapping[str, Reply] = field(default_factory=dict)
    put_error: Exception | None = None
    find_error: Exception | None = None

    def run(self, store: Store) -> None:
        if self.puts:
            try:
                store.put_many([row_of(put.key, put.model, put.reply) for put in self.puts])
            except Exception as error:
                self.put_error = error
        if self.finds:
            try:
                self.found = store.get_many({find.key for find in self.finds})
            except Exception as error:
                self.find_error = error


class StoreCalls:
    """Looks up and stores replies in a thread, for one event loop.

    A slow disk or server does not hold up the loop. One job runs at a time. What is asked for in the meantime makes the
    next one, so that requests that arrive together share a statement.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._thread = DaemonThread("llmprops-store")
        self._puts: list[_Put] = []
        self._last_put: _Put | None = None
        self._finds: list[_Find] = []
        self._is_busy = False
        self._idle: asyncio.Future[None] | None = None

    async def find(self, key: str, *, not_before: float = 0.0) -> Reply | None:
        """Return the stored reply to a request; None if there is none.

        :param not_before: Unix time; older replies are ignored.
        :raises StoreError: if the store cannot be used.
        """
        future: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
        self._finds.append(_Find(key, not_before, future))
        self._start()
        return await future

    async def put(self, key: str, model: str, reply: Reply) -> None:
        """Store a reply.

        :param model: label of the model.
        :raises StoreError: if it cannot be stored.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.put_soon(key, model, reply, lambda reply, error: resolve(future, None, error))
        await future

    def put_soon(
        self, key: str, model: str, reply: Reply, done: Callable[[Reply, Exception | None], None]
    ) -> None:
        """Store a reply, without waiting for it.

        :param done: called on the loop with ``reply``, and the error if it cannot be stored.
        """
        self._last_put = _Put(key, model, reply, done)
        self._puts.append(self._last_put)
        self._start()

    async def settled(self) -> None:
        """Wait until the replies so far are stored or cannot be stored."""
        # Jobs run one after the other, and resolve their replies in order.
        if self._last_put is not None:
            # A future of its own: one that is cancelled would end the wait of all.
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._last_put.settling.append(future)
            await future

    async def run(self, work: Callable[[Store], T]) -> T:
        """Return the result of ``work`` on the store, called in its thread.

        :raises StoreError: if ``work`` raises it.
        """
        return await self._thread.run(work, self.store)

    def _start(self) -> None:
        if not self._is_busy:
            self._is_busy = True
            # In the next iteration of the loop, when all requests of this one have arrived.
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        job = _Job(self._puts, self._finds[:_MOST_FINDS])
        if not (job.puts or job.finds):
            self._is_busy = False
            if self._idle is not None and not self._idle.done():
                self._idle.set_result(None)
            return
        self._puts, self._finds = [], self._finds[_MOST_FINDS:]
        loop = asyncio.get_running_loop()

        def work() -> None:
            job.run(self.store)
            call_soon(loop, self._finish, job)

        self._thread.do(work)

    def _finish(self, job: _Job) -> None:
        for put in job.puts:
            put.done(put.reply, job.put_error)
            for future in put.settling:
                resolve(future, None, None)
            if put is self._last_put:
                self._last_put = None
        for find in job.finds:
            reply = job.found.get(find.key)
            is_new = reply is not None and reply.stored >= find.not_before
            resolve(find.future, reply if is_new else None, job.find_error)
        self._send()

    async def close(self) -> None:
        """Store what is left and close the store."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                if self._is_busy:
                    self._idle = asyncio.get_running_loop().create_future()
                    await self._idle
                await self.run(lambda store: store.close())
        self._thread.close()


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
            store = open_store(config.store, read_only=config.cache == "only", timeout=config.calls.timeout)
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

    async def find(self, model: Model, key: str) -> Reply | None:
        """Return the known reply to a request; None if it must be sent.

        :raises StoreError: if the store cannot be used.
        """
        if self._stored is None:
            return self._recent.get(key)
        if self._cache == "refresh" and key not in self._not_again:
            return None
        return await self._stored.find(key, not_before=self._oldest(model))

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

    def notes(self) -> list[str]:
        """Return notes for the summary."""
        if self._stored is None:
            return []
        notes = list(self._stored.store.notes)
        if self._lost:
            notes.append(f"{self._lost} replies are not stored; another run pays for them again")
        return notes

    async def close(self) -> None:
        """Store what is left and close the store."""
        if self._stored is not None:
            await self._stored.close()
