"""Which exceptions interrupt the code that calls a model or a benchmark, and which are mistakes of theirs."""

from __future__ import annotations

import asyncio
import contextlib
import threading


def is_interruption(fault: BaseException) -> bool:
    """Return whether an exception comes from outside: Ctrl-C, or the cancellation of the task that runs.

    Signals reach the main thread only, so KeyboardInterrupt in another thread was raised by the code that was called.
    """
    if isinstance(fault, KeyboardInterrupt):
        return threading.current_thread() is threading.main_thread()
    return is_cancellation(fault)


def is_cancellation(fault: BaseException) -> bool:
    """Return whether an exception is the cancellation of the task that runs."""
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
