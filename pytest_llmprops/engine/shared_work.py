"""Work that equal requests in progress share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedWork(Generic[T]):
    """Runs one task per key, and gives its result to everyone who asks for it while it runs.

    The task goes on if those who wait for it are cancelled. Unlike ``asyncio.shield``, this costs only the task and one
    future for each who waits.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Future[T]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._waiting

    async def result(self, key: str, start: Callable[[], Awaitable[T]]) -> T:
        """Return the result of the work with this key; ``start`` begins it if it is not in progress."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = []
            task = loop.create_task(self._run(key, start, waiting))
            # The loop has only a weak reference.
            self._tasks.add(task)
        waiting.append(future)
        return await future

    async def _run(
        self, key: str, start: Callable[[], Awaitable[T]], waiting: list[asyncio.Future[T]]
    ) -> None:
        try:
            result = await start()
        except asyncio.CancelledError:
            for future in waiting:
                future.cancel()
            raise
        except BaseException as error:
            # Not raised here, where SystemExit would end the event loop.
            for future in waiting:
                if not future.done():
                    future.set_exception(error)
        else:
            for future in waiting:
                if not future.done():
                    future.set_result(result)
        finally:
            del self._waiting[key]
            task = asyncio.current_task()
            assert task is not None
            self._tasks.discard(task)

    async def close(self) -> None:
        """Cancel all work in progress."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Those of a task that was cancelled before it began.
        for waiting in self._waiting.values():
            for future in waiting:
                future.cancel()
