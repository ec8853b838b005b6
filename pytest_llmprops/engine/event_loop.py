"""An event loop in a thread, which the code of benchmarks cannot end."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
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
