"""Requests that are equal but for their sample, put to a model by one call.

A benchmark that asks one prompt several times asks with :func:`asyncio.gather`, so that the requests come within one
turn of the event loop; those of a worker cross its socket one by one, a moment later. The first waits that moment for
the others. Each sample stays a request of its own for the store, the log and the counters; only the call is shared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pytest_llmprops.core.requests import Chat, Reply, Request
from pytest_llmprops.models.base import SampleModel

#: how long the first sample of a prompt waits for the others; far below what any call takes
TOGETHER_SECONDS = 0.003

#: Asks for requests that are equal but for their sample by one call; fewer replies where the server gives fewer.
#: One request always has its reply. Raises BackendError and RunStopped.
Ask = Callable[[Sequence[Chat]], Awaitable[Sequence[Reply]]]


class Together:
    """Gathers the samples of a prompt for one model. All methods run in one event loop.

    :param ask: makes one call, with its retries.
    """

    def __init__(self, model: SampleModel, ask: Ask) -> None:
        self._model, self._ask = model, ask
        self._open: dict[Any, list[tuple[Chat, asyncio.Future[Reply]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def most(self) -> int:
        """Samples that one call may ask for; 1 when the server was found to take no more."""
        return self._model.most_samples

    def takes(self, request: Request) -> bool:
        """Whether to wait for other samples of ``request``."""
        # Under a fixed seed equal calls have equal replies, and the choices of one call have not.
        return isinstance(request, Chat) and self.most > 1 and "seed" not in dict(request.extra)

    async def send(self, request: Chat) -> Reply:
        """The reply to one sample. :raises BackendError: there is none. :raises RunStopped: the run is over."""
        loop = asyncio.get_running_loop()
        # Parameters of the user may be lists, which no dictionary takes for a key.
        limits = (request.temperature, request.max_tokens, request.stop, request.logprobs)
        alike = (request.messages, limits, repr(request.extra))
        members = self._open.get(alike)
        if members is None:
            members = self._open[alike] = []
            loop.call_later(TOGETHER_SECONDS, self._start, alike, members)
        future: asyncio.Future[Reply] = loop.create_future()
        members.append((request, future))
        if len(members) >= self.most:
            self._start(alike, members)
        return await future

    def _start(self, alike: Any, members: list[tuple[Chat, asyncio.Future[Reply]]]) -> None:
        if self._open.get(alike) is members:
            del self._open[alike]
            task = asyncio.get_running_loop().create_task(self._run(members))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, members: Sequence[tuple[Chat, asyncio.Future[Reply]]]) -> None:
        try:
            replies = await self._ask([request for request, _ in members])
        except Exception as error:
            for _, future in members:
                _fail(future, error)
            return
        for (_, future), reply in zip(members, replies, strict=False):
            if not future.done():
                future.set_result(reply)
        await asyncio.gather(*(self._alone(*member) for member in members[len(replies) :]))

    async def _alone(self, request: Chat, future: asyncio.Future[Reply]) -> None:
        try:
            [reply] = await self._ask([request])
        except Exception as error:
            _fail(future, error)
        else:
            if not future.done():
                future.set_result(reply)

    async def close(self) -> None:
        """Drop the calls that are open, and what still waits for others."""
        self._open.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _fail(future: asyncio.Future[Reply], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
