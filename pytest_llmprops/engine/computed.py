"""Replies that are computed in every run: of local models that say ``stored = False`` (vectors of texts)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Reply, Request
from pytest_llmprops.engine.lanes import Send

#: replies that are remembered; the vectors of a sentence's tokens take some 50 kB
REMEMBERED = 1_000


class Computed:
    """Asks one model; the latest replies are remembered, and who asks the same at the same time waits together.

    There are no calls, so none is counted, limited or tried again.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._recent: OrderedDict[str, Reply] = OrderedDict()
        self._in_work: dict[str, asyncio.Future[Reply | BackendError]] = {}

    def known(self, key: str) -> bool:
        """Whether the reply to a request key is remembered."""
        return key in self._recent

    async def reply(self, key: str, request: Request) -> Reply:
        """The reply to ``request``, whose key is ``key``. :raises BackendError: the model gave none."""
        if key in self._recent:
            self._recent.move_to_end(key)
            return self._recent[key]
        future = self._in_work.get(key)
        if future is None:
            future = self._in_work[key] = asyncio.ensure_future(self._send(request))
            future.add_done_callback(lambda done: self._in_work.pop(key, None))
        # One who stops waiting leaves the reply to the others.
        found = await asyncio.shield(future)
        if isinstance(found, BackendError):
            raise found
        self._recent[key] = found
        if len(self._recent) > REMEMBERED:
            self._recent.popitem(last=False)
        return found

    async def close(self) -> None:
        """Drop what is being computed."""
        waiting = list(self._in_work.values())
        for future in waiting:
            future.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
