"""Measure ``llmprops view`` on a large run and on many runs: ``python -m bench.local_page [--items N] [--runs N]``.

One run goes on with N items recorded: the real writers append 50 items per second to it. Then a folder of N small
finished runs. Times are from the start of the process, or of the opening in headless Chromium. Linux only.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.process import ROOT, parsed
from bench.report_page import WORDS
from pytest_llmprops.core.requests import Chat, Reply, Usage
from pytest_llmprops.engine.broker.request_log import RequestLog
from pytest_llmprops.records.run import ModelMetadata, PriceFacts
from pytest_llmprops.runs.record import RunRecord, first_facts
from tests.support.browser import chromium
from tests.support.records import recorded, verdict, verdicts

PROMPT, REPLY = " ".join(WORDS * 6)[:1000], " ".join(WORDS)[:300]
OBSERVED_SECONDS = 20


class Growing:
    """A run that goes on, written as a run writes it."""

    def __init__(self, folder: Path, items: int) -> None:
        folder.mkdir(parents=True)
        models = {"model": ModelMetadata("model", price=PriceFacts(1.0, 2.0, "table"))}
        self._record = RunRecord(folder, first_facts(folder, models=models, expected=2 * items))
        self._log, self._items = RequestLog(folder), 0
        self._over = threading.Event()
        for _ in range(items):
            self.add()

    def add(self) -> None:
        """Record one more item."""
        key = f"{self._items:064d}"
        reply = Reply(REPLY, key=key, usage=Usage(200, 60), seconds=0.5)
        self._log.add("subject", Chat.user(f"{PROMPT} {self._items}"), reply)
        self._log.flush()
        self._record.add(verdict("add", self._items, model="model", requests=(key,)))
        self._items += 1

    def go_on(self) -> None:
        """Record 50 items per second until :meth:`stop`."""
        while not self._over.wait(0.02):
            self.add()

    def stop(self) -> None:
        """End the run as a kill does."""
        self._over.set()


class Served:
    """The process of ``llmprops view``, with the messages that a page gets."""

    def __init__(self, folder: Path) -> None:
        self.begun = time.perf_counter()
        command = [sys.executable, "-m", "pytest_llmprops.cli.main", "view", str(folder), "--no-browser"]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[2]

    @property
    def cpu(self) -> float:
        """The CPU seconds of the process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory(self) -> float:
        """The resident memory in MB."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    @property
    def seconds(self) -> float:
        """The time since the start."""
        return time.perf_counter() - self.begun

    def messages(self) -> Generator[dict[str, Any], None, None]:
        """Yield the server-sent events."""
        parts = urlsplit(self.address)
        connection = HTTPConnection(parts.netloc)
        connection.request("GET", f"{parts.path}events")
        response = connection.getresponse()
        while line := response.readline().decode():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """Serve a folder; print how long Ctrl-C takes."""
    one = Served(folder)
    try:
        yield one
    finally:
        begun = time.perf_counter()
        one.process.send_signal(signal.SIGINT)
        one.process.wait()
        print(f"  ended {time.perf_counter() - begun:.1f} s after Ctrl-C")


def follow(one: Served) -> None:
    """Print the times until the counts are there, then what a second costs."""
    messages = one.messages()
    for number, message in enumerate(messages):
        if not number:
            print(f"  first counts after {one.seconds:.1f} s")
        if not message["reading"]:
            break
    print(f"  all counts after {one.seconds:.1f} s, {one.cpu:.1f} s CPU, {one.memory:.0f} MB")
    # The connection is open, so the server goes on.
    cpu = one.cpu
    time.sleep(OBSERVED_SECONDS)
    share = (one.cpu - cpu) / OBSERVED_SECONDS
    messages.close()
    print(f"  then {1000 * share:.0f} ms CPU per second, {one.memory:.0f} MB")


def open_page(one: Served) -> None:
    """Print the time until the runs are shown, and the number of its elements."""
    with chromium() as browser:
        page = browser.new_page()
        begun = time.perf_counter()
        page.goto(one.address)
        page.locator(".run-card, #runs tbody tr").first.wait_for()
        shown = time.perf_counter() - begun
        nodes = page.evaluate("document.querySelectorAll('*').length")
        print(f"  page: first runs after {shown:.2f} s, {nodes} elements")


def main() -> None:
    """Measure and print."""
    options = parsed(__doc__, items=200_000, runs=1000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        growing = Growing(folder / "large" / "run", options.items)
        writer = threading.Thread(target=growing.go_on, daemon=True)
        writer.start()
        print(f"one run of {options.items:,} items that goes on (load {os.getloadavg()[0]:.1f})")
        with served(folder / "large") as one:
            follow(one)
            open_page(one)
        growing.stop()
        writer.join()
        for number in range(options.runs):
            recorded(
                folder / "many" / f"run-{number:04d}", verdicts("add", 20, 10, model=f"model-{number % 5}")
            )
        print(f"{options.runs:,} finished runs (load {os.getloadavg()[0]:.1f})")
        with served(folder / "many") as one:
            follow(one)
            open_page(one)


if __name__ == "__main__":
    main()
