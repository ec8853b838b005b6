"""A notice board for workers that must agree: what one posts under a name, the others wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from pytest_llmprops.core.errors import RunStopped

#: After a worker was lost, others wait as long for something new before they do its part themselves.
GRACE_SECONDS = 5.0
POLL_SECONDS = 0.25


class Gathering:
    """Values by name, on one event loop. A value is anything plain but None.

    :param stopped: why the run was stopped, or None.
    :param grace: seconds without anything new, after which a lost worker's values are not waited for. Its
        replacement needs some seconds to begin; what both then ask is asked once, as the broker joins equal
        requests.
    """

    def __init__(self, stopped: Callable[[], str | None], *, grace: float = GRACE_SECONDS) -> None:
        self._stopped = stopped
        self._grace = grace
        self._values: dict[str, Any] = {}
        self._changed = asyncio.Condition()
        self._lost = False
        self._last_news = 0.0

    async def post(self, name: str, value: Any) -> None:
        """Put a value up. The first one stays, so that all who look see the same."""
        async with self._changed:
            self._values.setdefault(name, value)
            self._last_news = asyncio.get_running_loop().time()
            self._changed.notify_all()

    def posted(self, names: Sequence[str]) -> list[Any]:
        """What stands under ``names`` now, None where nothing does."""
        return [self._values.get(name) for name in names]

    async def gather(self, names: Sequence[str]) -> list[Any]:
        """The values of all ``names``, as soon as all are there.

        After a worker was lost, and nothing new came for the time of grace, None stands for what is missing:
        who asks does that part of the work itself.

        :raises RunStopped: when the run is stopped before all is there.
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
        """A worker ended without saying so: it was killed, and may not have told all it was to tell."""
        self._lost = True
        self._last_news = asyncio.get_running_loop().time()
