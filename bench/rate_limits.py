"""Measure whole commands behind servers with rate limits: H-TEST in the size small, 330 calls.

    python -m bench.rate_limits [NAME ...]

A row says how many verdicts the command had, its time against the least that the limit allows, and the refused calls
beyond the calls that may be in flight (64). Rows that wait for minutes run side by side: they take no CPU time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bench.stub_server import Stub, StubOptions, running_stub

#: option of the stub server: what the row is called
LIMITS = {
    "": "no limit",
    "tokens:500000:40000": "500k tokens a minute, burst 40k, Retry-After",
    "tokens:30000:30000": "30k tokens a minute, Retry-After",
    "calls:30:20": "30 calls in 20 s, wait in the text",
    "spaced:20": "nginx, 20 a second, 503 without a hint",
    "first:30": "529 for the first 30 calls",
}
#: the default of --llm-concurrency
CONCURRENCY = 64
_REPOSITORY = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Row:
    """What a command did: verdicts, seconds, the least seconds of the limit, and refused calls."""

    limit: str
    workers: str
    status: int
    verdicts: int
    seconds: float
    least: float
    refused: int
    calls: int

    def __str__(self) -> str:
        beyond = (self.refused - CONCURRENCY) / max(self.calls - self.refused, 1)
        ratio = f"{self.seconds / self.least:5.2f} x {self.least:.0f} s" if self.least else " " * 11
        return (
            f"{LIMITS[self.limit]:45} -n {self.workers}: {self.verdicts:4} verdicts, exit {self.status},"
            f" {self.seconds:6.1f} s {ratio}, {self.refused} refused ({max(0.0, beyond):.1%} beyond)"
        )


def measure(limit: str, workers: str, python: str = sys.executable) -> Row:
    """Return the row of one command."""
    with running_stub(limit=limit, delay=0.2) as stub, tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [
            python, "-m", "pytest", str(_REPOSITORY / "suites" / "test_htest.py"), "-q", "-p", "no:cacheprovider",
            "--model", "openai:stub", "--llm-base-url", stub.url, "--llm-size", "small", "-n", workers,
            "--llm-store", f"{folder}/store.sqlite", "--llm-run", str(run),
        ]  # fmt: skip
        started = time.monotonic()
        done = subprocess.run(command, cwd=_REPOSITORY, capture_output=True, text=True)
        seconds = time.monotonic() - started
        stats = stub.stats()
        facts = json.loads((run / "run.json").read_text())
        verdicts = sum(row["items"] - row["errors"] for row in facts["summary"])
    server = Stub(StubOptions(limit=limit)).limit
    refused = stats["requests"] - stats["statuses"].get("200", 0)
    least = 0.0 if server is None else server.least_seconds(stats["statuses"].get("200", 0), stats["tokens"])
    return Row(
        limit, workers, done.returncode, verdicts, seconds, least, refused, stats["requests"],
    )  # fmt: skip


def main() -> None:
    """Print a row per limit and number of workers."""
    chosen = sys.argv[1:] or list(LIMITS)
    with ThreadPoolExecutor(4) as pool:
        for row in pool.map(
            lambda case: measure(*case), [(limit, n) for limit in chosen for n in ("0", "2")]
        ):
            print(row, flush=True)


if __name__ == "__main__":
    main()
