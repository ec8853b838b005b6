"""The thread that calls a store, so that a slow disk or server does not hold up the event loop."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable

from pytest_llmprops.core.errors import StoreError
from pytest_llmprops.engine.store.base import BEAT_SECONDS, Store

Job = Callable[[], None]


class StoreThread:
    """Runs jobs one after the other, and between them reports to the store that this process runs.

    The thread starts with the first job. It is a daemon: a server that does not answer cannot keep a process alive.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, job: Job) -> None:
        """Run ``job``, which must not raise, after those before it."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="llmprops-store", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def end(self) -> None:
        """End the thread after the jobs so far."""
        self._jobs.put(None)

    def _run(self) -> None:
        due = time.monotonic() + BEAT_SECONDS
        while True:
            with contextlib.suppress(queue.Empty):
                job = self._jobs.get(timeout=max(0.0, due - time.monotonic()))
                if job is None:
                    return
                job()
            if time.monotonic() >= due:
                due = time.monotonic() + BEAT_SECONDS
                # If the store cannot be used, the next job says so.
                with contextlib.suppress(StoreError):
                    self._store.beat()
