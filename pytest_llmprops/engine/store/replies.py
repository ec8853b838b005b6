"""A store for an event loop: requests that arrive together share a statement, in a thread."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pytest_llmprops.core.requests import Reply
from pytest_llmprops.engine.store.base import Store, row_of
from pytest_llmprops.engine.store.worker import StoreThread

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
    done: Callable[[str, Reply, Exception | None], None]
    #: those who wait until this reply and those before it are stored or cannot be stored
    settling: list[asyncio.Future[None]] = field(default_factory=list)


@dataclass(slots=True)
class _Job:
    """What the thread does at once; what failed has an error."""

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


class StoredReplies:
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
        self.put_soon(key, model, reply, lambda model, reply, error: _resolve(future, None, error))
        await future

    def put_soon(
        self, key: str, model: str, reply: Reply, done: Callable[[str, Reply, Exception | None], None]
    ) -> None:
        """Store a reply and end the claim on its request, without waiting for it.

        :param done: called on the loop with ``model``, ``reply``, and the error if the reply cannot be stored.
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
            put.done(put.model, put.reply, job.put_error)
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
