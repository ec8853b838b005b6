"""How requests reach a model: sorted batches, single calls, shared work, and attribution of errors."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Reply, Request, Segment
from pytest_llmprops.engine.calls.queues import (
    BatchQueue,
    Send,
    ThreadWorker,
    queue_of,
    served_in_parts,
)
from pytest_llmprops.models.fake import FakeModel
from tests.support.engine_models import Local


def sent(send: Send, requests: Sequence[Request]) -> list[Any]:
    """Return the results of requests that arrive together; a hang is a failure."""

    async def work() -> list[Any]:
        together = asyncio.gather(*(send(r) for r in requests), return_exceptions=True)
        return list(await asyncio.wait_for(together, 60))

    return asyncio.run(work())


def batch_queue(model: Local) -> BatchQueue:
    """Return a queue with one thread."""
    return BatchQueue(model.max_batch, [ThreadWorker(lambda requests: served_in_parts(model, requests))])


def texts(results: Sequence[Any]) -> list[str]:
    """Return the texts of replies, and ``!message`` for errors."""
    return [r.text if isinstance(r, Reply) else f"!{r}" for r in results]


def test_requests_that_arrive_together_are_sorted_into_batches() -> None:
    """Requests, also of equal prompts, are sorted into batches of at most ``max_batch``; each gets its reply."""
    prompts = [f"{n:02}" for n in range(22)]
    random.Random(1).shuffle(prompts)
    model = Local(max_batch=8, serve=lambda batch: [Reply(f"<{p}>") for p in batch])
    assert texts(sent(queue_of(model), [Chat.user(p) for p in prompts])) == [f"<{p}>" for p in prompts]
    assert [len(batch) for batch in model.batches] == [8, 8, 6]
    assert [p for batch in model.batches for p in batch] == sorted(prompts)
    model = Local(max_batch=2)
    assert texts(sent(queue_of(model), [Chat.user("q", sample=n) for n in range(5)])) == ["Q"] * 5
    assert [len(batch) for batch in model.batches] == [2, 2, 1]


def test_results_of_a_generator_are_used_as_they_come() -> None:
    """A result can be used while its model computes the next one; an exception affects only those that are missing."""
    goes_on = threading.Event()

    class Generating(Local):
        def chat(self, requests: Sequence[Chat]) -> Any:
            yield Reply("first")
            assert goes_on.wait(60)
            raise ValueError("the rest fails")

    async def work() -> list[Any]:
        queue = batch_queue(Generating(max_batch=3))
        asked = [asyncio.ensure_future(queue.send(Chat.user(str(n)))) for n in range(3)]
        await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED, timeout=60)
        assert [one.done() for one in asked] == [True, False, False]
        goes_on.set()
        return list(await asyncio.wait_for(asyncio.gather(*asked), 60))

    failed = "!ValueError: the rest fails"
    assert texts(asyncio.run(work())) == ["first", failed, failed]


def test_one_batch_at_a_time_and_never_in_the_loop() -> None:
    """A blocking model is used by one thread, which is not the event loop's."""
    inside, threads = 0, set()

    def serve(batch: list[str]) -> list[Reply]:
        nonlocal inside
        inside += 1
        assert inside == 1
        threads.add(threading.get_ident())
        time.sleep(0.005)
        inside -= 1
        return [Reply("x") for _ in batch]

    assert texts(sent(queue_of(Local(2, serve)), [Chat.user(str(n)) for n in range(12)])) == ["x"] * 12
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def batches_after(
    meanwhile: Callable[[BatchQueue], Coroutine[Any, Any, None]], *, max_batch: int = 1
) -> list[list[str]]:
    """Return the batches of a queue whose first one, ``m``, is held while ``meanwhile`` sends and cancels."""
    begun, go_on = threading.Event(), threading.Event()

    def serve(batch: list[str]) -> list[Reply]:
        begun.set()
        assert go_on.wait(60)
        return [Reply("x") for _ in batch]

    model = Local(max_batch, serve)

    async def work() -> None:
        held = batch_queue(model)
        first = asyncio.create_task(held.send(Chat.user("m")))
        assert await asyncio.to_thread(begun.wait, 60)
        rest = asyncio.create_task(meanwhile(held))
        await asyncio.sleep(0.01)
        go_on.set()
        await asyncio.wait_for(asyncio.gather(first, rest), 60)

    asyncio.run(work())
    return model.batches


def test_sweep_continues_upwards_before_it_restarts() -> None:
    """Requests that arrive during a batch are served from its position upwards, then from the lowest."""

    async def more(held: BatchQueue) -> None:
        await asyncio.gather(*(held.send(Chat.user(p)) for p in ("a", "z", "n", "b")))

    assert batches_after(more) == [["m"], ["n"], ["z"], ["a"], ["b"]]


def test_cancelled_requests_are_not_served() -> None:
    """A cancelled request takes no model time, even if its whole batch is cancelled."""

    async def leave(held: BatchQueue) -> None:
        tasks = [asyncio.create_task(held.send(Chat.user(p))) for p in ("n", "o", "p", "q", "r")]
        await asyncio.sleep(0)
        for task in tasks[:3]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert texts(results[3:]) == ["x", "x"]

    assert batches_after(leave, max_batch=2) == [["m"], ["q"], ["r"]]


def test_kinds_are_not_mixed() -> None:
    """A batch has one kind of request, whatever the prompts are."""
    model = Local(max_batch=10)
    requests = [r for n in range(3) for r in (Chat.user(f"{n}"), Segment(f"{n}"))]
    results = sent(queue_of(model), requests)
    assert [r.value for r in results[1::2]] == [["0"], ["1"], ["2"]]
    assert sorted(model.batches) == [["0", "1", "2"], ["segment 0", "segment 1", "segment 2"]]


def test_an_exception_is_the_error_of_its_batch() -> None:
    """If a batch fails, its requests are one-line errors; a BackendError keeps its meaning, also for one request."""

    def serve(batch: list[str]) -> list[Any]:
        if "3" in batch:
            raise RuntimeError("out of\nmemory")
        if "5" in batch:
            raise BackendError("no such model", kind="model", fatal=True)
        return [BackendError("bad") if p == "1" else Reply("x") for p in batch]

    results = sent(queue_of(Local(2, serve)), [Chat.user(str(n)) for n in range(6)])
    bad = "!RuntimeError: out of memory"
    assert texts(results) == ["x", "!bad", bad, bad, *["!no such model"] * 2]
    assert [(r.transient, r.fatal) for r in results[2:]] == [(False, False)] * 2 + [(False, True)] * 2


@pytest.mark.parametrize("count", [1, 3])
def test_a_wrong_number_of_results_is_an_error_not_a_hang(count: int) -> None:
    """A model that returns too few or too many results causes errors, and the queue continues.

    Of a generator, the results that it yields are used.
    """

    def serve(batch: list[str]) -> list[Reply]:
        return [Reply("x")] * (count if batch == ["0", "1"] else len(batch))

    class Generating(Local):
        def chat(self, requests: Sequence[Chat]) -> Any:
            yield from serve([request.prompt for request in requests])

    requests = [Chat.user(str(n)) for n in range(4)]
    results = sent(queue_of(Local(2, serve)), requests)
    assert all(isinstance(r, BackendError) for r in results[:2])
    assert texts(results[2:]) == ["x", "x"]
    missing = "!the model yielded 1 results for 2 requests"
    second = missing if count == 1 else "x"
    assert texts(sent(queue_of(Generating(2)), requests)) == ["x", second, "x", "x"]


@pytest.mark.parametrize(
    ("fault", "results"),
    [(asyncio.CancelledError, 0), (GeneratorExit, 1), (KeyboardInterrupt, 1), (SystemExit, 2)],
)
def test_what_ends_a_thread_is_an_error_of_the_item(fault: type[BaseException], results: int) -> None:
    """Whatever a blocking model raises, at any result, nobody waits for ever, and later requests are served."""

    class Ending(Local):
        def chat(self, requests: Sequence[Chat]) -> Any:
            for request in requests[:results]:
                yield Reply(request.prompt)
            raise fault

    error = f"!{fault.__name__}"
    queue = batch_queue(Ending(max_batch=2))
    expected = ["a", "b"][:results] + [error] * (2 - results)

    async def work() -> list[Any]:
        first = await asyncio.gather(queue.send(Chat.user("a")), queue.send(Chat.user("b")))
        return [*first, await queue.send(Chat.user("c"))]

    later = "c" if results else error
    assert texts(asyncio.run(asyncio.wait_for(work(), 60))) == [*expected, later]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (asyncio.CancelledError(), "CancelledError"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (ValueError("secret\nline " + "x" * 1000), "ValueError: secret line xxx"),
    ],
)
def test_what_a_task_raises_is_an_error_of_the_item(fault: BaseException, said: str) -> None:
    """Whatever an asynchronous model raises is the error of its request, in one short line."""

    class Ending(FakeModel):
        async def chat(self, requests: Sequence[Chat]) -> Any:
            raise fault

    [result] = sent(queue_of(Ending(["x"])), [Chat.user("a")])
    assert isinstance(result, BackendError)
    assert (result.transient, result.fatal) == (False, False)
    assert str(result).startswith(said)
    assert len(str(result)) <= 300


def test_an_exception_of_the_place_is_an_error_of_its_batch() -> None:
    """An exception outside of the model's methods leaves nobody waiting."""

    def serve(requests: Sequence[Request]) -> Any:
        raise TypeError("max_batch")

    assert texts(sent(BatchQueue(4, [ThreadWorker(serve)]).send, [Chat.user("a")])) == [
        "!TypeError: max_batch"
    ]
