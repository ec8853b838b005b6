"""An event loop in a thread, which the code of benchmarks cannot end, and a thread for what would block the loop."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

# Which exceptions interrupt the code that calls a model or a benchmark, and which are mistakes of theirs.


def is_interruption(fault: BaseException) -> bool:
    """Return True if an exception comes from outside: Ctrl-C, or the cancellation of the task that runs.

    Signals reach the main thread only, so KeyboardInterrupt in another thread was raised by the code that was called.
    """
    if isinstance(fault, KeyboardInterrupt):
        return threading.current_thread() is threading.main_thread()
    return is_cancellation(fault)


def is_cancellation(fault: BaseException) -> bool:
    """Return True if an exception is the cancellation of the task that runs."""
    if not isinstance(fault, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:
        # A thread without an event loop has no tasks.
        return False
    return task is not None and task.cancelling() > 0


async def forget_cancellation() -> None:
    """Undo that code that the running task called has cancelled it; the next ``await`` would raise it."""
    task = asyncio.current_task()
    if task is None or not task.cancelling():
        return
    while task.uncancel():
        pass
    # Before Python 3.13, a cancellation that was not raised so far is raised all the same.
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)


T = TypeVar("T")
CLOSE_SECONDS = 15.0


def resolve(future: asyncio.Future[T], result: T, error: BaseException | None) -> None:
    """Give a future its result or its error, unless the one who waits for it was cancelled."""
    if not future.done():
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


def call_soon(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *values: object) -> None:
    """Call a function on a loop, from another thread; a process that ends may have closed it."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *values)


class DaemonThread:
    """A thread that runs functions one after the other.

    It is a daemon, unlike those of an executor: a server that does not answer cannot keep the process alive.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def do(self, job: Callable[[], None]) -> None:
        """Run ``job``, which must not raise, after those before it."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    async def run(self, function: Callable[..., T], *values: Any) -> T:
        """Return the result of a function that blocks."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def job() -> None:
            try:
                call_soon(loop, resolve, future, function(*values), None)
            except BaseException as error:
                call_soon(loop, resolve, future, None, error)

        self.do(job)
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
