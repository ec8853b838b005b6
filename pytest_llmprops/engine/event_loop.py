"""An event loop in a thread, which the code of benchmarks cannot end, and a thread for what would block the loop."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar


def is_cancellation(fault: BaseException) -> bool:
    """Return True if an exception is the cancellation of the task that runs, not raised by the code that it calls."""
    if not isinstance(fault, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:
        # A thread without an event loop has no tasks.
        return False
    return task is not None and task.cancelling() > 0


T = TypeVar("T")
CLOSE_SECONDS = 15.0


def resolve(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    """Give a future its result or its error, unless the one who waits for it was cancelled."""
    if not future.done():
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


class DaemonThread:
    """A thread that runs functions one after the other.

    It is a daemon, unlike those of an executor: a server that does not answer cannot keep the process alive.
    """

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            # A process that ends may have closed its loop.
            with contextlib.suppress(RuntimeError):
                job()

    async def run(self, function: Callable[..., T], *values: Any) -> T:
        """Return the result of a function that blocks."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def job() -> None:
            try:
                result = function(*values)
            except BaseException as error:
                loop.call_soon_threadsafe(resolve, future, None, error)
            else:
                loop.call_soon_threadsafe(resolve, future, result, None)

        self._jobs.put(job)
        return await future

    def close(self) -> None:
        """End the thread after the functions so far."""
        self._jobs.put(None)


class LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="llmprops-engine", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        # A benchmark may stop the loop: with loop.stop(), or with a task that raises one of these exceptions. The task
        # has it as its exception, too, for whoever awaits it; the other cases go on.
        while not self._is_closing:
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                self.loop.run_forever()

    def call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run ``work`` on the loop and return its result."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(timeout)
        except KeyboardInterrupt:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the loop and wait for the thread."""
        self._is_closing = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(CLOSE_SECONDS)
        if not self._thread.is_alive():
            self.loop.close()
