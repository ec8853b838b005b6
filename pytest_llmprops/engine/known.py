"""The replies that need no call: those in the store or, without a store, the latest ones of the run."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice
from operator import methodcaller
from pathlib import Path

from pytest_llmprops.core.errors import StoreError
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.engine.store.base import row_of
from pytest_llmprops.engine.store.copying import UNSAVED
from pytest_llmprops.engine.store.location import open_store
from pytest_llmprops.engine.store.replies import StoredReplies
from pytest_llmprops.engine.store.sqlite import SQLiteStore
from pytest_llmprops.models.base import Model

#: number of latest replies kept in memory if there is no store
RECENT = 10_000
#: number of keys that are counted at once
_COUNTED = 1_000


class KnownReplies:
    """Finds and keeps replies as ``--llm-cache`` says. All methods run in one event loop.

    :raises StoreError: if the store cannot be opened.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._cache, self._not_before, self._run_dir = config.cache, config.not_before, config.run_dir
        self._stored: StoredReplies | None = None
        if config.cache != "off":
            self._stored = StoredReplies(open_store(config.store, read_only=config.cache == "only"))
        #: keys of the replies of this run, with --llm-cache refresh
        self._not_again: set[str] = set()
        #: latest replies with --llm-cache off, so that a request of many items (rules of a concept) is sent once
        self._recent: OrderedDict[str, Reply] = OrderedDict()
        #: key -> reply that the store takes while the run goes on
        self._unstored: dict[str, Reply] = {}
        self._unsaved: SQLiteStore | None = None
        self._unsaved_count = self._lost = 0
        self._unsaved_reason = ""

    @property
    def has_store(self) -> bool:
        """Whether replies are stored for later runs."""
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
        """Keep a reply under its key. A store that does not take it does not end the run, which has the reply."""
        if self._stored is None:
            self._keep_recent(reply)
            return
        if self._cache == "refresh":
            self._not_again.add(reply.key)
        try:
            await self._stored.put(reply.key, label, reply)
        except StoreError as error:
            self._unsaved_reason = self._unsaved_reason or str(error)
            self._set_aside(label, reply)

    def keep_soon(self, label: str, reply: Reply) -> None:
        """Keep a reply under its key, without waiting until it is stored."""
        if self._stored is None:
            self._keep_recent(reply)
            return
        if self._cache == "refresh":
            self._not_again.add(reply.key)
        self._unstored[reply.key] = reply
        self._stored.put_soon(reply.key, label, reply, self._note_stored)

    def _note_stored(self, label: str, reply: Reply, error: Exception | None) -> None:
        self._unstored.pop(reply.key, None)
        if error is not None:
            self._unsaved_reason = self._unsaved_reason or str(error)
            self._set_aside(label, reply)

    def unstored(self, key: str) -> Reply | None:
        """Return the reply of :meth:`keep_soon` with this key, until it is stored."""
        return self._unstored.get(key)

    def _keep_recent(self, reply: Reply) -> None:
        self._recent[reply.key] = reply
        if len(self._recent) > RECENT:
            self._recent.popitem(last=False)

    async def settled(self) -> None:
        """Wait until the replies so far are stored, or set aside."""
        if self._stored is not None:
            await self._stored.settled()

    def lapses(self) -> int:
        """Return how often all claims so far have ended, because the process or its machine was suspended."""
        return 0 if self._stored is None else self._stored.lapses

    def _set_aside(self, label: str, reply: Reply) -> None:
        """Keep a reply that was paid for in the run's folder."""
        try:
            if self._run_dir is None:
                self._lost += 1
                return
            if self._unsaved is None:
                self._unsaved = SQLiteStore(Path(self._run_dir) / UNSAVED)
            self._unsaved.put_many([row_of(reply.key, label, reply)])
            self._unsaved_count += 1
        except StoreError:
            self._lost += 1

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
        store, notes = self._stored.store, list(self._stored.store.notes)
        if self._stored.awaited:
            notes.append(f"{self._stored.awaited} replies came from another run that used the same store")
        if self._unsaved_count:
            assert self._unsaved is not None
            path = self._unsaved.path
            notes.append(
                f"{self._unsaved_reason}; {self._unsaved_count} replies are in {path} instead:"
                f" llmprops store copy {path} {store.place}"
            )
        if self._lost:
            notes.append(f"{self._unsaved_reason}; {self._lost} replies are not stored")
        return notes

    async def close(self) -> None:
        """Store what is left and close the stores."""
        if self._stored is not None:
            await self._stored.close()
        if self._unsaved is not None:
            self._unsaved.close()
