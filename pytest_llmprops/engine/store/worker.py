"""The thread that calls a store, so that a slow disk or server does not hold up the event loop."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable

from pytest_llmprops.core.errors import StoreError
from pytest_llmprops.engine.store.base import BEAT_SECONDS, LEASE_SECONDS, Store

Job = Callable[[], None]


class StoreThread:
    """Runs jobs one after the other, and between them reports to the store that this process runs.

    The thread starts with the first job. It is a daemon: a server that does not answer cannot keep a process alive.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        #: Unix time of the last report, and how often one came after the end of the lease
        self._reported, self._lapses = 0.0, 0

    def run(self, job: Job) -> None:
        """Run ``job``, which must not raise, after those before it."""
        if self._thread is None:
            self._reported = time.time()
            self._thread = threading.Thread(target=self._run, name="llmprops-store", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def end(self) -> None:
        """End the thread after the jobs so far."""
        self._jobs.put(None)

    @property
    def lapses(self) -> int:
        """How often all claims so far have ended, because the process or its machine was suspended."""
        return self._lapses + self._is_late if self._thread is not None else 0

    @property
    def _is_late(self) -> bool:
        # The clock that goes on while the machine is suspended.
        return abs(time.time() - self._reported) > LEASE_SECONDS

    def _run(self) -> None:
        tried = time.time()
        while True:
            job: Job | None = _nothing
            with contextlib.suppress(queue.Empty):
                job = self._jobs.get(timeout=max(0.0, BEAT_SECONDS - abs(time.time() - tried)))
            if job is None:
                return
            # Before the job: without a report, other runs would ignore the claims that it makes.
            if abs(time.time() - tried) >= BEAT_SECONDS:
                tried = time.time()
                self._report()
            job()

    def _report(self) -> None:
        # If the store cannot be used, the next job says so.
        with contextlib.suppress(StoreError):
            self._store.beat()
            # In this order, so that the event loop never sees fewer lapses than there were.
            self._lapses += self._is_late
            self._reported = time.time()


def _nothing() -> None:
    pass
