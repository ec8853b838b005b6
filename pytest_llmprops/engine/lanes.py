"""Lanes: send requests to one model, one by one or in batches sorted by prompt."""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Kind, Reply, Request
from pytest_llmprops.engine.interruptions import is_cancellation, is_interruption
from pytest_llmprops.models.base import Model, Result, SampleModel, serve
from pytest_llmprops.models.checks import checked_result, checked_results, unexpected

Send = Callable[[Request], Awaitable[Result]]
#: takes the next results of a batch
Deliver = Callable[[Sequence[Result]], None]
#: how often a request may be lost with the place that serves it; it may be what ends the places
MOST_LOSSES = 3


def lane(model: Model) -> Send:
    """Return the function that sends one request to ``model``."""
    if model.blocking:
        place = ThreadPlace(lambda requests: served_in_parts(model, requests))
        return BatchLane(model.max_batch, [place]).send
    return SingleLane(model).send


async def send_set(model: SampleModel, requests: Sequence[Chat]) -> Sequence[Reply] | BackendError:
    """Send requests that differ only in their sample to ``model`` in one call; it may return fewer replies."""
    try:
        return await model.samples(requests[0], len(requests))
    except BaseException as fault:
        return _error_of(fault, is_cancellation)


def served_in_parts(model: Model, requests: Sequence[Request]) -> Iterator[Sequence[Result]]:
    """Yield one result per request, in order, from one call of a blocking model, each as soon as the model has it.

    An exception is the error of the requests that have no result yet.
    """
    missing = len(requests)
    try:
        results: object = serve(model, requests)
        part = None if isinstance(results, Iterator) else checked_results(results, missing)
    except BaseException as fault:
        part = [_error_of(fault)] * missing
    if part is not None:
        yield part
        return
    assert isinstance(results, Iterator)
    while missing:
        part = _next_results(results, missing, len(requests))
        missing -= len(part)
        yield part
    try:
        # What follows the last result of a generator is run, too.
        next(results, None)
    except BaseException as fault:
        _error_of(fault)


def _next_results(results: Iterator[Any], missing: int, count: int) -> list[Result]:
    """Return the next result of ``count``, or the error of the ``missing`` ones."""
    try:
        return [checked_result(next(results))]
    except StopIteration:
        text = f"the model yielded {count - missing} results for {count} requests"
        return [BackendError(text, kind="backend")] * missing
    except BaseException as fault:
        return [_error_of(fault)] * missing


def _error_of(
    fault: BaseException, is_from_outside: Callable[[BaseException], bool] = is_interruption
) -> BackendError:
    """Return the error of the requests in which a model raised ``fault``.

    An unexpected exception of a backend is an error of these items, not of the run. CancelledError and GeneratorExit,
    too: they would end what waits for the results without a result, and the run would wait for it for ever.

    :raises BaseException: ``fault`` itself, if it comes from outside of the model.
    """
    if is_from_outside(fault):
        raise fault
    return fault if isinstance(fault, BackendError) else unexpected(fault)


def served_batch(model: Model, requests: Sequence[Request]) -> list[Result]:
    """Return the results of :func:`served_in_parts`."""
    return [result for part in served_in_parts(model, requests) for result in part]


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
        except BaseException as fault:
            # The event loop of the broker's process is in its main thread, where signals are ignored.
            return _error_of(fault, is_cancellation)


class PlaceLost(Exception):
    """A place has ended, and the batch that it served has no results."""


class Place(Protocol):
    """Where batches of one model are served, one at a time: a thread, or an actor on another machine."""

    async def serve(self, requests: Sequence[Request], deliver: Deliver) -> None:
        """Call ``deliver`` with the results as they come: one per request, in order.

        :raises PlaceLost: if the place has ended; it gets no more batches.
        """
        ...


class ThreadPlace:
    """A thread of this process.

    :param serve: yields one result per request, in order, in parts.
    """

    def __init__(self, serve: Callable[[Sequence[Request]], Iterable[Sequence[Result]]]) -> None:
        self._serve = serve
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="llmprops-model")

    async def serve(self, requests: Sequence[Request], deliver: Deliver) -> None:
        """See :class:`Place`."""
        loop = asyncio.get_running_loop()

        def work() -> None:
            for part in self._serve(requests):
                # A process that ends may have closed its loop.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(deliver, part)

        await loop.run_in_executor(self._thread, work)


#: what requests are sorted by: kind and prompt
_Position = tuple[str, str]


@dataclass(slots=True, eq=False)
class _Waiting:
    position: _Position
    request: Request
    future: asyncio.Future[Result]
    losses: int = 0


@dataclass(slots=True, eq=False)
class _Open:
    """A place, and the position of its last batch; None before the first."""

    place: Place
    position: _Position | None = None
    is_busy: bool = False


class BatchLane:
    """For blocking models: batches of similar prompts, one at a time in each of the places that serve the model.

    Waiting requests are sorted by kind and prompt, and each place goes through them in that order from a position of
    its own. A model that caches the prefix of the last prompt can reuse it. The batch of a place that is lost goes
    back to the waiting requests.

    :param max_batch: the most requests in a batch. :param places: the first places; others may follow.
    """

    def __init__(self, max_batch: int, places: Sequence[Place] = ()) -> None:
        self._max_batch = max_batch
        self._places = [_Open(place) for place in places]
        self._waiting: list[tuple[_Position, int, _Waiting]] = []
        self._numbers = itertools.count()
        self._is_woken = False
        self._failure: BackendError | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def send(self, request: Request) -> Result:
        """Return the result of a request."""
        if self._failure is not None:
            return self._failure
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        text = request.prompt if isinstance(request, Chat) else request.text
        self._add(_Waiting((request.kind, text), request, future))
        return await future

    def open(self, place: Place) -> None:
        """Add a place, which gets batches from now on."""
        self._places.append(_Open(place))
        self._wake()

    def fail(self, error: BackendError) -> None:
        """Give all waiting and later requests this error, because no place will serve them."""
        self._failure = error
        waiting, self._waiting = self._waiting, []
        for _, _, one in waiting:
            if not one.future.done():
                one.future.set_result(error)

    async def close(self) -> None:
        """Give up the batches that are being served."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _add(self, one: _Waiting) -> None:
        bisect.insort(self._waiting, (one.position, next(self._numbers), one))
        self._wake()

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            # Start in the next iteration of the loop, so that requests that arrive together are sorted together.
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        """Give each free place a batch."""
        self._is_woken = False
        free = [place for place in self._places if not place.is_busy]
        while free and self._waiting:
            batch = self._next_batch(free[0], len(free))
            if batch:
                place = free.pop(0)
                place.is_busy = True
                task = asyncio.get_running_loop().create_task(self._serve(place, batch))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def _next_batch(self, place: _Open, free: int) -> list[_Waiting]:
        """Remove and return the next requests for one of ``free`` places, which share those that wait."""
        most = min(self._max_batch, -(-len(self._waiting) // free))
        if place.position is None:
            # Places that start together start apart.
            start = len(self._waiting) * self._places.index(place) // len(self._places)
            start = min(start, len(self._waiting) - most)
        else:
            start = bisect.bisect_left(self._waiting, (place.position,))
        if start == len(self._waiting):
            start = 0
        kind: Kind = self._waiting[start][2].request.kind
        end = start
        while end < len(self._waiting) and end - start < most and self._waiting[end][2].request.kind == kind:
            end += 1
        taken = self._waiting[start:end]
        del self._waiting[start:end]
        place.position = taken[-1][0]
        # Skip requests that were cancelled because the run stopped.
        return [one for _, _, one in taken if not one.future.done()]

    async def _serve(self, place: _Open, batch: list[_Waiting]) -> None:
        following = iter(batch)

        def deliver(results: Sequence[Result]) -> None:
            for one, result in zip(islice(following, len(results)), results, strict=True):
                if not one.future.done():
                    one.future.set_result(result)

        try:
            await place.place.serve([one.request for one in batch], deliver)
        except PlaceLost as lost:
            self._places.remove(place)
            self._return(batch, str(lost))
        except Exception as fault:
            place.is_busy = False
            for one in following:
                if not one.future.done():
                    one.future.set_result(unexpected(fault))
        else:
            place.is_busy = False
        self._dispatch()

    def _return(self, batch: list[_Waiting], reason: str) -> None:
        """Let the requests of a lost batch wait again."""
        for one in batch:
            one.losses += 1
            if one.future.done():
                continue
            if self._failure is not None:
                one.future.set_result(self._failure)
            elif one.losses < MOST_LOSSES:
                self._add(one)
            else:
                error = f"{MOST_LOSSES} replicas ended while they served this request; {reason}"
                one.future.set_result(BackendError(error, kind="replica"))
