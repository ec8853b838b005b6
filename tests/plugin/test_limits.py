"""Whole runs behind a server with a rate limit, one that restarts, and one that falls silent."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from bench.stub_server import RunningStub, running_stub
from tests.support.commands import until
from tests.support.runs import Finished, Runner
from tests.support.servers import free_port

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


def test_a_rate_limit_costs_no_verdict(run: Runner, start_stub: Stub) -> None:
    """A limit of 20 calls in a second is found: all verdicts, no retry, and one line that names the limit."""
    _sums(run)
    stub = start_stub(delay=0.02, answer="sum", limit="20:1")
    done = run(*_options(stub.url, "2", "--llm-max-calls", str(ITEMS + 2)))
    assert done.code == 0, done.output
    assert _all_right(done)
    calls = done.run["calls"]
    assert calls["retries"] == calls["failed"] == 0
    assert calls["refused"] == stub.stats()["requests"] - ITEMS > 0
    assert "refused by a rate limit" in done.output
    assert f"stub: the rate limit refused {calls['refused']} calls; about " in done.output
    assert "llm_rpm = " in done.output


def test_a_server_that_restarts_costs_no_verdict(run: Runner) -> None:
    """Connections are refused for two seconds; the run waits, and all verdicts are right."""
    _sums(run)
    port = free_port()
    with running_stub(port=port, delay=0.1, answer="sum") as first:
        started = run.start(*_options(first.url, "2", "--llm-concurrency", "8"))
        until(lambda: first.stats()["answered"] >= 20)
        os.kill(first.pid, signal.SIGKILL)
    time.sleep(2)
    with running_stub(port=port, delay=0.01, answer="sum"):
        done = started.end()
    assert done.code == 0, done.output
    assert _all_right(done)
    assert "stub: the server did not answer for" in done.output


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
