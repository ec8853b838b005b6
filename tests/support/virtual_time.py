"""An event loop whose clock jumps to the next timer, so that minutes of waiting take no time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.DefaultSelector):
    """Returns what is ready at once, and moves the clock in place of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError(f"nothing will happen any more after {self.now} s")
        # A step that is too small for a float would repeat for ever.
        self.now += max(timeout, 1e-6)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run_in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of ``work``, which must not wait for threads or other processes."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(work)


#: seconds of an event loop per second
FAST = 20


class _Hurried(selectors.DefaultSelector):
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(timeout and timeout / FAST)


class _FastLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__(_Hurried())

    def time(self) -> float:
        return super().time() * FAST


def run_in_fast_time(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of ``work`` with real connections and threads; all waits and timeouts are shorter."""
    with asyncio.Runner(loop_factory=_FastLoop) as runner:
        return runner.run(work)
