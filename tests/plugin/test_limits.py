"""Whole runs behind a server with a rate limit, one that restarts, and one that falls silent."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from bench.stub_server import RunningStub
from tests.support.commands import until
from tests.support.runs import Finished, Runner

Stub = Callable[..., RunningStub]
ITEMS = 80


def _options(url: str, workers: str, *more: str) -> tuple[str, ...]:
    return ("--model", "openai:stub", "--llm-base-url", url, "-n", workers, "--llm-cache", "off", *more)


def _all_right(done: Finished) -> bool:
    return [row["status"] for row in done.verdicts.values()] == ["correct"] * ITEMS


def _sums(run: Runner) -> None:
    run.sums(ITEMS)
    # the stub's own sums are wrong for every fifth number
    run.change("test_sums.py", 'str(item["n"] + 1)', 'str(item["n"] + (item["n"] % 5 > 0))')


def test_a_server_that_falls_silent_ends_a_run_that_can_be_resumed(run: Runner, start_stub: Stub) -> None:
    """A server that accepts calls and never answers ends the run soon; the resumed run has all verdicts."""
    _sums(run)
    stub = start_stub(delay=0.1, answer="sum")
    options = _options(stub.url, "2", "--llm-concurrency", "8", "--llm-timeout", "2")
    started = run.start(*options)
    until(lambda: stub.stats()["answered"] >= 20)
    os.kill(stub.pid, signal.SIGSTOP)
    silent = time.monotonic()
    stopped = started.end()
    assert "has not answered for 2 s (--llm-timeout)" in stopped.output
    # Twice the timeout, and the end of the process.
    assert time.monotonic() - silent < 30
    assert 0 < len(stopped.verdicts) < ITEMS
    assert "error" not in {row["status"] for row in stopped.verdicts.values()}
    os.kill(stub.pid, signal.SIGCONT)
    done = run(*options, "--llm-run", str(stopped.folder), "--llm-resume")
    assert done.code == 0, done.output
    assert stub.stats()["distinct"] == ITEMS
