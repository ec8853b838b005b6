"""The replies that need no call: those in the store or, without a store, the latest ones of the run."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from pytest_llmprops.core.errors import StoreError
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.engine.event_loop import DaemonThread, resolve
from pytest_llmprops.engine.store.base import Store, row_of
from pytest_llmprops.engine.store.location import open_store
from pytest_llmprops.models.base import Model

#: maximum number of requests that are looked up at once, so that replies need not wait long to be stored
_MOST_FINDS = 500
#: limit for the jobs at the end, if a server is lost or does not answer
CLOSE_SECONDS = 8.0
#: number of latest replies kept in memory if there is no store
RECENT = 10_000
#: number of keys that are counted at once
_COUNTED = 1_000


class ReplyCache:
    """Finds and keeps replies as ``--llm-cache`` says. All methods run in one event loop.

    The store is used in a thread, so that a slow disk or server does not hold up the loop. What is asked for while a
    statement runs is in the next one: requests that arrive together share a statement.

    :param on_failure: called when the store does not take a reply.
    :raises StoreError: if the store cannot be opened.
    """

    def __init__(self, config: BrokerConfig, on_failure: Callable[[Exception], object]) -> None:
        self._cache, self._not_before, self._on_failure = config.cache, config.not_before, on_failure
        self.store: Store | None = None
        if config.cache != "off":
            is_replay = config.cache == "only"
            self.store = open_store(config.store, read_only=is_replay, timeout=config.calls.timeout)
            self._thread = DaemonThread("llmprops-store")
        self._puts: list[tuple[str, Reply, asyncio.Future[None]]] = []
        self._last_put: asyncio.Future[None] | None = None
        self._finds: list[tuple[str, asyncio.Future[Reply | None]]] = []
        self._working: asyncio.Task[None] | None = None
        #: keys of the replies of this run, with --llm-cache refresh
        self._not_again: set[str] = set()
        #: latest replies with --llm-cache off, so that a request of many items (rules of a concept) is sent once
        self._recent: OrderedDict[str, Reply] = OrderedDict()
        #: number of replies that the store did not take
        self._lost = 0

    async def find(self, model: Model, key: str) -> Reply | None:
        """Return the known reply to a request; None if it must be sent.

        :raises StoreError: if the store cannot be used.
        """
        if self._cache == "refresh" and key not in self._not_again:
            return None
        reply = await self.stored(key)
        is_old = reply is not None and not model.pinned and reply.stored < self._not_before
        return None if is_old else reply

    async def stored(self, key: str) -> Reply | None:
        """Return the reply with a key, of any age; None if there is none.

        :raises StoreError: if the store cannot be used.
        """
        if self.store is None:
            return self._recent.get(key)
        future: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
        self._finds.append((key, future))
        self._start()
        return await future

    async def keep(self, label: str, reply: Reply) -> None:
        """Keep a reply of the model with this label. If the store does not take it, the case still gets its reply."""
        if self.store is None:
            self._recent[reply.key] = reply
            if len(self._recent) > RECENT:
                self._recent.popitem(last=False)
            return
        if self._cache == "refresh":
            self._not_again.add(reply.key)
        self._last_put = asyncio.get_running_loop().create_future()
        self._puts.append((label, reply, self._last_put))
        self._start()
        try:
            await self._last_put
        except StoreError as error:
            self._lost += 1
            self._on_failure(error)

    async def settled(self) -> None:
        """Wait until the replies so far are stored or cannot be stored."""
        if self._last_put is not None and not self._last_put.done():
            # Unlike an await, this does not cancel the future.
            await asyncio.wait([self._last_put])

    def _start(self) -> None:
        if self._working is None or self._working.done():
            # It begins in the next iteration of the loop, when all requests of this one have arrived.
            self._working = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        assert self.store is not None
        while self._puts or self._finds:
            puts, self._puts = self._puts, []
            finds, self._finds = self._finds[:_MOST_FINDS], self._finds[_MOST_FINDS:]
            if puts:
                rows = [row_of(reply.key, label, reply) for label, reply, _ in puts]
                _, error = await self._tried(self.store.put_many, rows)
                for *_, stored in puts:
                    resolve(stored, None, error)
            if finds:
                replies, error = await self._tried(self.store.get_many, {key for key, _ in finds})
                for key, found in finds:
                    resolve(found, None if error else replies.get(key), error)

    async def _tried(self, function: Callable[..., Any], values: object) -> tuple[Any, Exception | None]:
        """Return the result of a function of the store, or its exception."""
        try:
            return await self._thread.run(function, values), None
        except Exception as error:
            return None, error

    async def known(self, asked: Sequence[tuple[Model, str]]) -> set[str]:
        """Return the keys of those requests, by model and key, that have a known reply.

        :raises StoreError: if the store cannot be used.
        """
        known: set[str] = set()
        for start in range(0, len(asked), _COUNTED):
            part = asked[start : start + _COUNTED]
            replies = await asyncio.gather(*(self.find(model, key) for model, key in part))
            known |= {key for (_, key), reply in zip(part, replies, strict=True) if reply is not None}
        return known

    def notes(self) -> list[str]:
        """Return notes for the summary."""
        notes = [] if self.store is None else list(self.store.notes)
        if self._lost:
            notes.append(f"{self._lost} replies are not stored; another run pays for them again")
        return notes

    async def close(self) -> None:
        """Store what is left and close the store."""
        if self.store is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                if self._working is not None:
                    await asyncio.wait([self._working])
                await self._thread.run(self.store.close)
        self._thread.close()
