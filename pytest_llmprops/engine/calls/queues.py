"""How requests reach a model: one by one, as samples of one prompt, or in batches served by threads or replicas."""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Protocol

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Kind, Reply, Request
from pytest_llmprops.engine.event_loop import is_cancellation
from pytest_llmprops.models.base import (
    Model,
    Result,
    SampleModel,
    checked_result,
    checked_results,
    serve,
    unexpected,
)

#: how long the first sample of a prompt waits for the others; much shorter than a call
TOGETHER_SECONDS = 0.003

#: Sends requests that differ only in their sample in one call. A server may return fewer replies than requests, but one
#: request always gets a reply. Raises BackendError and RunStopped.
Ask = Callable[[Sequence[Chat]], Awaitable[Sequence[Reply]]]


def prompt_key(request: Chat) -> Any:
    """Return what the samples of a prompt have in common, as a dictionary key."""
    # The user's parameters may be lists, which cannot be dictionary keys.
    settings = (request.temperature, request.max_tokens, request.stop, request.logprobs)
    return request.messages, settings, request.response_format, repr(request.extra)


class SampleCalls:
    """Collects the samples of each prompt for one model, which share a call. All methods run in one event loop.

    A benchmark requests them with :func:`asyncio.gather`, so that they arrive in one iteration of the loop. Those of a
    worker may cross its socket in several pieces, so the first one waits briefly for the others. For the store, the
    log and the counters, each sample is a separate request.

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
        """Return True if to wait for other samples of ``request``."""
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
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), reply in zip(members, replies, strict=False):
            if not future.done():
                future.set_result(reply)
        # One request has always a reply.
        await asyncio.gather(*(self._run([member]) for member in members[len(replies) :]))

    async def close(self) -> None:
        """Cancel open calls and waiting requests."""
        self._open.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


Send = Callable[[Request], Awaitable[Result]]
#: takes the next results of a batch
Deliver = Callable[[Sequence[Result]], None]
#: maximum attempts after a worker died; the request may be what kills it
MOST_LOSSES = 3


def queue_of(model: Model) -> Send:
    """Return the function that sends one request to ``model``."""
    if model.blocking:
        worker = ThreadWorker(lambda requests: served_in_parts(model, requests))
        return BatchQueue(model.max_batch, [worker]).send
    return partial(served_singly, model)


async def send_set(model: SampleModel, requests: Sequence[Chat]) -> Sequence[Reply] | BackendError:
    """Send requests that differ only in their sample to ``model`` in one call; it may return fewer replies."""
    try:
        return await model.samples(requests[0], len(requests))
    except BaseException as fault:
        return _error_of(fault)


def served_in_parts(model: Model, requests: Sequence[Request]) -> Iterator[Sequence[Result]]:
    """Yield one result per request, in order, from one call of a blocking model, each as soon as the model has it.

    An exception is the error of the requests that have no result yet.
    """
    parts, missing = _parts(model, requests), len(requests)
    while True:
        try:
            part = next(parts, None)
        except BaseException as fault:
            part = [_error_of(fault)] * missing
        if not part:
            break
        missing -= len(part)
        yield part
    if missing:
        text = f"the model yielded {len(requests) - missing} results for {len(requests)} requests"
        yield [BackendError(text, kind="backend")] * missing


def _parts(model: Model, requests: Sequence[Request]) -> Iterator[Sequence[Result]]:
    results: object = serve(model, requests)
    if not isinstance(results, Iterator):
        yield checked_results(results, len(requests))
        return
    # What follows the last result of a generator is run, too.
    for number, result in enumerate(results):
        if number < len(requests):
            yield [checked_result(result)]


def _error_of(fault: BaseException) -> BackendError:
    """Return the error of the requests in which a model raised ``fault``.

    An unexpected exception of a backend is an error of these items, not of the run. CancelledError and GeneratorExit,
    too: they would end what waits for the results without a result, and the run would wait for it for ever.

    :raises BaseException: ``fault`` itself, if it comes from outside of the model.
    """
    if is_cancellation(fault):
        raise fault
    return fault if isinstance(fault, BackendError) else unexpected(fault)


def served_batch(model: Model, requests: Sequence[Request]) -> list[Result]:
    """Return the results of :func:`served_in_parts`."""
    return [result for part in served_in_parts(model, requests) for result in part]


async def served_singly(model: Model, request: Request) -> Result:
    """Return the result of one call of an asynchronous model."""
    try:
        results: object = serve(model, [request])
        if isinstance(results, Awaitable):
            results = await results
        [result] = checked_results(results, 1)
        return result
    except BaseException as fault:
        # The event loop of the broker's process is in its main thread, where signals are ignored.
        return _error_of(fault)


class WorkerLost(Exception):
    """A worker has ended, and the batch that it served has no results."""


class QueueWorker(Protocol):
    """Where batches of one model are served, one at a time: a thread, or an actor on another machine."""

    async def serve(self, requests: Sequence[Request], deliver: Deliver) -> None:
        """Call ``deliver`` with the results as they come: one per request, in order.

        :raises WorkerLost: if the worker has ended; it gets no more batches.
        """
        ...


class ThreadWorker:
    """A thread of this process.

    :param serve: yields one result per request, in order, in parts.
    """

    def __init__(self, serve: Callable[[Sequence[Request]], Iterable[Sequence[Result]]]) -> None:
        self._serve = serve
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="llmprops-model")

    async def serve(self, requests: Sequence[Request], deliver: Deliver) -> None:
        """See :class:`QueueWorker`."""
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
class _WaitingRequest:
    position: _Position
    request: Request
    future: asyncio.Future[Result]
    losses: int = 0


@dataclass(slots=True, eq=False)
class _OpenBatch:
    """A worker, and the position of its last batch; None before the first."""

    worker: QueueWorker
    position: _Position | None = None
    is_busy: bool = False


class BatchQueue:
    """For blocking models: batches of similar prompts, one at a time in each of the workers that serve the model.

    Waiting requests are sorted by kind and prompt, and each worker goes through them in that order from a position of
    its own. A model that caches the prefix of the last prompt can reuse it. The batch of a worker that is lost goes
    back to the waiting requests.

    :param max_batch: the most requests in a batch. :param workers: the first workers; others may follow.
    """

    def __init__(self, max_batch: int, workers: Sequence[QueueWorker] = ()) -> None:
        self._max_batch = max_batch
        self._workers = [_OpenBatch(worker) for worker in workers]
        self._waiting: list[tuple[_Position, int, _WaitingRequest]] = []
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
        self._add(_WaitingRequest((request.kind, text), request, future))
        return await future

    def open(self, worker: QueueWorker) -> None:
        """Add a worker, which gets batches from now on."""
        self._workers.append(_OpenBatch(worker))
        self._wake()

    def fail(self, error: BackendError) -> None:
        """Give all waiting and later requests this error, because no worker will serve them."""
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

    def _add(self, one: _WaitingRequest) -> None:
        bisect.insort(self._waiting, (one.position, next(self._numbers), one))
        self._wake()

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            # Start in the next iteration of the loop, so that requests that arrive together are sorted together.
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        """Give each free worker a batch."""
        self._is_woken = False
        free = [worker for worker in self._workers if not worker.is_busy]
        while free and self._waiting:
            batch = self._next_batch(free[0], len(free))
            if batch:
                worker = free.pop(0)
                worker.is_busy = True
                task = asyncio.get_running_loop().create_task(self._serve(worker, batch))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def _next_batch(self, worker: _OpenBatch, free: int) -> list[_WaitingRequest]:
        """Remove and return the next requests for one of ``free`` workers, which share those that wait."""
        most = min(self._max_batch, -(-len(self._waiting) // free))
        if worker.position is None:
            # Workers that begin together begin at positions far apart.
            start = len(self._waiting) * self._workers.index(worker) // len(self._workers)
            start = min(start, len(self._waiting) - most)
        else:
            start = bisect.bisect_left(self._waiting, (worker.position,))
        if start == len(self._waiting):
            start = 0
        kind: Kind = self._waiting[start][2].request.kind
        end = start
        while end < len(self._waiting) and end - start < most and self._waiting[end][2].request.kind == kind:
            end += 1
        taken = self._waiting[start:end]
        del self._waiting[start:end]
        worker.position = taken[-1][0]
        # Skip requests that were cancelled because the run stopped.
        return [one for _, _, one in taken if not one.future.done()]

    async def _serve(self, worker: _OpenBatch, batch: list[_WaitingRequest]) -> None:
        following = iter(batch)

        def deliver(results: Sequence[Result]) -> None:
            for one, result in zip(islice(following, len(results)), results, strict=True):
                if not one.future.done():
                    one.future.set_result(result)

        try:
            await worker.worker.serve([one.request for one in batch], deliver)
        except WorkerLost as lost:
            self._workers.remove(worker)
            self._return(batch, str(lost))
        except Exception as fault:
            worker.is_busy = False
            for one in following:
                if not one.future.done():
                    one.future.set_result(unexpected(fault))
        else:
            worker.is_busy = False
        self._dispatch()

    def _return(self, batch: list[_WaitingRequest], reason: str) -> None:
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
