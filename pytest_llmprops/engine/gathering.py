"""Values that workers share: one posts a value under a name, and the others wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from pytest_llmprops.core.errors import RunStopped

#: Seconds that workers wait for a new value after a worker was lost; then they do its work themselves.
GRACE_SECONDS = 5.0
POLL_SECONDS = 0.25


class Gathering:
    """Values by name, on one event loop. A value is any plain value except None.

    :param stopped: returns why the run was stopped, or None.
    :param grace: seconds without a new value, after which workers stop waiting for a lost worker. Its replacement needs
        some seconds to start. If both send the same requests, the broker joins them, so each is sent once.
    """

    def __init__(self, stopped: Callable[[], str | None], *, grace: float = GRACE_SECONDS) -> None:
        self._stopped = stopped
        self._grace = grace
        self._values: dict[str, Any] = {}
        self._changed = asyncio.Condition()
        self._lost = False
        self._last_news = 0.0

    async def post(self, name: str, value: Any) -> None:
        """Add a value. The first value under a name is kept, so that all workers get the same."""
        async with self._changed:
            self._values.setdefault(name, value)
            self._last_news = asyncio.get_running_loop().time()
            self._changed.notify_all()

    def posted(self, names: Sequence[str]) -> list[Any]:
        """Return the present values of ``names``; None for those without a value."""
        return [self._values.get(name) for name in names]

    async def gather(self, names: Sequence[str]) -> list[Any]:
        """Wait for the values of all ``names`` and return them.

        If a worker was lost and no new value came within ``grace`` seconds, missing values are None. The caller then
        does that part of the work itself.

        :raises RunStopped: if the run is stopped before all values are posted.
        """
        missing = list(names)
        while missing := [name for name in missing if name not in self._values]:
            reason = self._stopped()
            if reason is not None:
                raise RunStopped(reason)
            if self._lost and asyncio.get_running_loop().time() - self._last_news > self._grace:
                break
            async with self._changed:
                try:
                    await asyncio.wait_for(self._changed.wait(), POLL_SECONDS)
                except TimeoutError:
                    continue
        return self.posted(names)

    def lose(self) -> None:
        """Note that a worker was killed, and may not have posted all its values."""
        self._lost = True
        self._last_news = asyncio.get_running_loop().time()
