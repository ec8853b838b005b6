"""Lanes: send requests to one model, one by one or in batches sorted by prompt."""

from __future__ import annotations

import asyncio
import bisect
import itertools
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Kind, Reply, Request
from pytest_llmprops.models.base import Model, Result, SampleModel, serve
from pytest_llmprops.models.checks import checked_results, unexpected

Send = Callable[[Request], Awaitable[Result]]


def lane(model: Model) -> Send:
    """Return the function that sends one request to ``model``."""
    if model.blocking:
        return BatchLane(model).send
    return SingleLane(model).send


async def send_set(model: SampleModel, requests: Sequence[Chat]) -> Sequence[Reply] | BackendError:
    """Send requests that differ only in their sample to ``model`` in one call; it may return fewer replies."""
    try:
        return await model.samples(requests[0], len(requests))
    except BackendError as error:
        return error
    except Exception as error:
        return unexpected(error)


class SingleLane:
    """For asynchronous models: each request is one call."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def send(self, request: Request) -> Result:
        try:
            results: object = serve(self._model, [request])
            if isinstance(results, Awaitable):
                results = await results
            [result] = checked_results(results, 1)
            return result
        except BackendError as error:
            return error
        except (Exception, SystemExit) as error:
            # An unexpected exception of a backend is an error of this item, not of the run.
            return unexpected(error)


class BatchLane:
    """For blocking models: one thread, one batch at a time, with similar prompts in one batch.

    Waiting requests are sorted by kind and prompt and served in that order. A model that caches the prefix of the last
    prompt can reuse it.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._waiting: list[tuple[tuple[str, str], int, Request, asyncio.Future[Result]]] = []
        self._numbers = itertools.count()
        self._position: tuple[str, str] = ("", "")
        self._busy = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="llmprops-model")

    async def send(self, request: Request) -> Result:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        place = (request.kind, request.prompt if isinstance(request, Chat) else request.text)
        bisect.insort(self._waiting, (place, next(self._numbers), request, future))
        if not self._busy:
            self._busy = True
            # Start in the next iteration of the loop, so that requests that arrive together are sorted together.
            loop.call_soon(lambda: loop.create_task(self._sweep()))
        return await future

    def _next_batch(self) -> list[tuple[Request, asyncio.Future[Result]]]:
        start = bisect.bisect_left(self._waiting, (self._position,))
        if start == len(self._waiting):
            start = 0
        kind: Kind = self._waiting[start][2].kind
        end = start
        while (
            end < len(self._waiting)
            and end - start < self._model.max_batch
            and self._waiting[end][2].kind == kind
        ):
            end += 1
        taken = self._waiting[start:end]
        del self._waiting[start:end]
        self._position = taken[-1][0]
        # Skip requests that were cancelled because the run stopped.
        return [(request, future) for _, _, request, future in taken if not future.done()]

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch = self._next_batch()
            if not batch:
                continue
            requests = [request for request, _ in batch]
            try:
                results = await loop.run_in_executor(self._thread, self._serve, requests)
            except BackendError as error:
                results = [error] * len(batch)
            except (Exception, SystemExit) as error:
                results = [unexpected(error)] * len(batch)
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)
        self._busy = False

    def _serve(self, requests: list[Request]) -> list[Result]:
        return checked_results(serve(self._model, requests), len(requests))
