"""Replies that every run computes again: those of local models with ``stored = False`` (vectors of texts)."""

from __future__ import annotations

from collections import OrderedDict

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Reply, Request
from pytest_llmprops.engine.lanes import Send
from pytest_llmprops.engine.shared_work import SharedWork

#: number of latest replies kept in memory; the token vectors of a sentence take about 50 kB
REMEMBERED = 1_000


class Computed:
    """Computes replies with one model. Keeps the latest replies; equal requests in progress share one computation.

    Computations are not calls: they are not counted, limited or retried.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._recent: OrderedDict[str, Reply] = OrderedDict()
        self._in_work: SharedWork[Reply | BackendError] = SharedWork()

    def known(self, key: str) -> bool:
        """Return whether the reply to a request key is in memory."""
        return key in self._recent

    async def reply(self, key: str, request: Request) -> Reply:
        """Return the reply to ``request``, whose key is ``key``.

        :raises BackendError: if the model fails.
        """
        if key in self._recent:
            self._recent.move_to_end(key)
            return self._recent[key]
        result = await self._in_work.result(key, lambda: self._send(request))
        if isinstance(result, BackendError):
            raise result
        self._recent[key] = result
        if len(self._recent) > REMEMBERED:
            self._recent.popitem(last=False)
        return result

    async def close(self) -> None:
        """Cancel open computations."""
        await self._in_work.close()
