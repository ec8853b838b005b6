"""Runs that share a store use each other's replies. No password is written, and a lost server ends no record."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.stub_server import RunningStub
from tests.support.commands import until
from tests.support.postgres import PostgresServer
from tests.support.runs import Runner

Start = Callable[..., RunningStub]


@pytest.fixture(params=["sqlite", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a store for several runs."""
    if request.param == "postgres":
        return str(request.getfixturevalue("database"))
    return str(tmp_path / "shared.sqlite")


def options(stub: RunningStub, store: str, *more: str) -> list[str]:
    """Return the options of a run with the stub server."""
    return ["--model", "openai:stub", "--llm-base-url", stub.url, "--llm-store", store, *more]


def test_two_runs_at_once_share_a_store(run: Runner, start_stub: Start, shared: str) -> None:
    """Two homes ask 100 prompts at the same time: both finish with the same verdicts, and a third one pays nothing."""
    run.sums(100)
    stub = start_stub(delay=0.02)
    with ThreadPoolExecutor(2) as pool:
        homes = [{"XDG_CACHE_HOME": str(run.folder / f"home-{n}")} for n in range(2)]
        one, two = pool.map(lambda env: run(*options(stub, shared), env=env), homes)
    assert one.statuses == two.statuses
    assert len(one.verdicts) == 100
    sent = stub.stats()["answered"]
    assert sum(done.run["calls"]["sent"] for done in (one, two)) == sent <= 200
    assert run(*options(stub, shared)).run["calls"]["cache_hits"] == 100
    assert stub.stats()["answered"] == sent


#: soon tries a lost server again, and does not wait for one at the end
IMPATIENT = """
from pytest_llmprops.engine.broker import reply_cache
from pytest_llmprops.engine.store import postgres
postgres.RECONNECT_WAITS, reply_cache.CLOSE_SECONDS = (0.1, 0.3), 1.0
"""


@pytest.fixture(scope="module")
def server(start_postgres: Callable[[], PostgresServer]) -> PostgresServer:
    """Return a server that a test ends and starts again."""
    return start_postgres()


def test_a_server_that_comes_back_in_time_changes_nothing(
    run: Runner, start_stub: Start, server: PostgresServer
) -> None:
    """A run waits for a server that restarts, and then goes on with it."""
    run.sums(120)
    run.write("conftest.py", IMPATIENT)
    stub, url = start_stub(delay=0.05), server.url(server.new_database())
    started = run.start(*options(stub, url, "--llm-concurrency", "8"))
    until(lambda: stub.stats()["answered"] >= 40)
    server.kill()
    time.sleep(2)
    assert stub.stats()["answered"] < 120
    server.start()
    done = started.end(60)
    assert (done.run["complete"], len(done.verdicts)) == (True, 120)
    assert stub.stats()["requests"] == 120
    assert run(*options(stub, url)).run["calls"]["cache_hits"] == 120


@pytest.mark.parametrize("is_interrupted", [False, True], ids=["timeout", "ctrl-c"])
def test_a_server_that_stays_away_stops_the_run(
    run: Runner, start_stub: Start, server: PostgresServer, is_interrupted: bool
) -> None:
    """After ``--llm-timeout``, or Ctrl-C, the run ends; the run that resumes it repeats the calls in flight."""
    run.sums(120)
    run.write("conftest.py", IMPATIENT)
    stub, url = start_stub(delay=0.1), server.url(server.new_database())
    more = () if is_interrupted else ("--llm-timeout", "1", "-n", "2")
    arguments = options(stub, url, "--llm-concurrency", "8", *more)
    started = run.start(*arguments)
    until(lambda: stub.stats()["answered"] >= 40)
    server.kill()
    if is_interrupted:
        time.sleep(0.5)
        started.send(signal.SIGINT)
    stopped = started.end(30)
    assert (stopped.code, stopped.run["complete"]) == (2, False)
    assert "Traceback" not in stopped.output
    if not is_interrupted:
        assert f"reply store {url}: " in stopped.run["stopped"]
        assert "llmprops run --resume RUN resumes the run" in stopped.run["stopped"]
    assert stub.stats()["answered"] < 120
    server.start()
    done = run(*arguments, "--llm-run", str(stopped.folder), "--llm-resume")
    assert len(stopped.verdicts) == 120, done.output
    stats = stub.stats()
    assert stats["requests"] - stats["distinct"] <= 8


def test_no_password_is_written(run: Runner, postgres: PostgresServer) -> None:
    """Neither the output nor any file of a run has the password of the store's URL."""
    run.sums(6)
    secret = "sehr%20geheim"
    url = postgres.url(postgres.new_database(), password=secret)
    shown = url.replace(secret, "***")
    done = run("--model", run.adder, "-n", "2", "-l", "-v", "--junitxml", "junit.xml", f"--llm-store={url}")
    assert len(done.verdicts) == 6
    assert done.run["options"]["store"] == shown
    assert f"--llm-store={shown}" in done.run["options"]["command"]
    texts = [path.read_bytes() for path in run.folder.rglob("*") if path.is_file()]
    assert not any(b"geheim" in text for text in [done.output.encode(), *texts])
