"""Measure how many replies a store takes and returns per second: ``python -m bench.stores [URL]``.

Eight processes put replies of about 1 kB and get them again, singly and in the batches of a run. Without a URL, the
store is a new SQLite file. The figures are for all processes together.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from multiprocessing.synchronize import Barrier
from pathlib import Path

from pytest_llmprops.core.requests import Reply, Usage
from pytest_llmprops.engine.store.base import STATEMENT_ROWS, Store, row_of
from pytest_llmprops.engine.store.location import open_store, without_password

PROCESSES = 8
TEXT = "The reply of a model, which is a few sentences long. " * 15


def _seconds(barrier: Barrier, work: Callable[[], None]) -> float:
    """Return the time that the slowest process needs for its part."""
    barrier.wait()
    begun = time.monotonic()
    work()
    barrier.wait()
    return time.monotonic() - begun


def _process(
    location: str, number: int, count: int, barrier: Barrier, times: Callable[[object], None]
) -> None:
    with closing(open_store(location)) as store:
        result = {}
        for size in (1, STATEMENT_ROWS):
            keys = [hashlib.sha256(f"{size} {number} {n}".encode()).hexdigest() for n in range(count)]
            parts = [keys[start : start + size] for start in range(0, count, size)]
            result[size] = (
                _seconds(barrier, lambda parts=parts: _put(store, parts)),  # type: ignore[misc]
                _seconds(barrier, lambda parts=parts: _get(store, parts)),  # type: ignore[misc]
            )
        times(result)


def _put(store: Store, parts: list[list[str]]) -> None:
    for part in parts:
        store.put_many([row_of(key, "m", Reply(TEXT, usage=Usage(500, 200), stored=1.0)) for key in part])


def _get(store: Store, parts: list[list[str]]) -> None:
    for part in parts:
        assert len(store.get_many(part)) == len(part)


def measure(location: str, count: int) -> None:
    """Print puts and gets per second, with one reply per statement and with the size that a run uses."""
    open_store(location).close()
    context = multiprocessing.get_context("spawn")
    barrier, times = context.Barrier(PROCESSES), context.SimpleQueue()
    processes = [
        context.Process(target=_process, args=(location, number, count, barrier, times.put))
        for number in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    results = [times.get() for _ in processes]
    for process in processes:
        process.join()
    for size in (1, STATEMENT_ROWS):
        put, get = (PROCESSES * count / max(result[size][k] for result in results) for k in (0, 1))
        print(f"{size:3} per statement: {put:8,.0f} puts/s {get:8,.0f} gets/s", flush=True)


def main() -> None:
    """Measure the store at a URL, or in a new file."""
    parser = argparse.ArgumentParser(prog="python -m bench.stores", description=__doc__)
    parser.add_argument("url", nargs="?", help="postgresql:// URL of a database (default: a new SQLite file)")
    parser.add_argument("--count", type=int, default=1000, help="replies per process (default: 1,000)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="llmprops-bench-") as folder:
        location = options.url or str(Path(folder) / "replies.sqlite")
        print(without_password(location) if options.url else "SQLite", f"{PROCESSES} processes")
        measure(location, options.count)


if __name__ == "__main__":
    main()
