"""Several samples of one prompt in one call.

A benchmark requests the samples of a prompt with :func:`asyncio.gather`, so that the requests arrive in one iteration
of the event loop. Those of a worker cross its socket in one piece, or in several if the prompt is long. So the first
request waits briefly for the others. For the store, the log and the counters, each sample is a separate request; only
the call is shared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pytest_llmprops.core.requests import Chat, Reply, Request
from pytest_llmprops.models.base import SampleModel

#: how long the first sample of a prompt waits for the others; much shorter than a call
TOGETHER_SECONDS = 0.003

#: Sends requests that differ only in their sample in one call. A server may return fewer replies than requests, but one
#: request always gets a reply. Raises BackendError and RunStopped.
Ask = Callable[[Sequence[Chat]], Awaitable[Sequence[Reply]]]


def prompt_key(request: Chat) -> Any:
    """Return what the samples of a prompt have in common, as a dictionary key."""
    # The user's parameters may be lists, which cannot be dictionary keys.
    limits = (request.temperature, request.max_tokens, request.stop, request.logprobs)
    return request.messages, limits, repr(request.extra)


class Together:
    """Collects the samples of each prompt for one model. All methods run in one event loop.

    :param ask: makes one call, with its retries.
    """

    def __init__(self, model: SampleModel, ask: Ask) -> None:
        self._model, self._ask = model, ask
        self._open: dict[Any, list[tuple[Chat, asyncio.Future[Reply]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def most(self) -> int:
        """Maximum samples per call; 1 once the server has refused more."""
        return self._model.most_samples

    def takes(self, request: Request) -> bool:
        """Return whether to wait for other samples of ``request``."""
        # With a fixed seed, equal calls have equal replies, but the choices of one call differ.
        return isinstance(request, Chat) and self.most > 1 and "seed" not in dict(request.extra)

    async def send(self, request: Chat) -> Reply:
        """Return the reply to one sample.

        :raises BackendError: if the call fails.
        :raises RunStopped: if the run is stopped.
        """
        loop = asyncio.get_running_loop()
        group_key = prompt_key(request)
        members = self._open.get(group_key)
        if members is None:
            members = self._open[group_key] = []
            loop.call_later(TOGETHER_SECONDS, self._start, group_key, members)
        future: asyncio.Future[Reply] = loop.create_future()
        members.append((request, future))
        if len(members) >= self.most:
            self._start(group_key, members)
        return await future

    def _start(self, group_key: Any, members: list[tuple[Chat, asyncio.Future[Reply]]]) -> None:
        if self._open.get(group_key) is members:
            del self._open[group_key]
            task = asyncio.get_running_loop().create_task(self._run(members))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, members: Sequence[tuple[Chat, asyncio.Future[Reply]]]) -> None:
        try:
            replies = await self._ask([request for request, _ in members])
        except BaseException as error:
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
        except BaseException as error:
            _fail(future, error)
        else:
            if not future.done():
                future.set_result(reply)

    async def close(self) -> None:
        """Cancel open calls and waiting requests."""
        self._open.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _fail(future: asyncio.Future[Reply], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
