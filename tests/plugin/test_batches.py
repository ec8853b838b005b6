"""``--llm-engine batch`` gives the verdicts of online runs, ends with status 2 while batches are open, and goes on."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.support.batch_server import BatchServer
from tests.support.commands import until
from tests.support.runs import ROOT, Finished, Runner

Start = Callable[..., BatchServer]
KEY = {"OPENAI_API_KEY": "sk-test-000000"}
#: writes the number of the process that sends the requests, which the server kills; stores each reply at once, submits
#: sooner, and soon gives up a batch that the provider does not list
PREPARED = """
import os, pathlib
from pytest_llmprops.engine.batch import batches
batches.CHUNK, batches.LIST_DELAY, batches.QUIET_SECONDS = 1, 0.5, 0.1
pathlib.Path("pid").write_text(str(os.getpid()))
"""
#: submits soon; a file that registers a model is imported in the broker's process, too
QUICK = """
from pytest_llmprops import register_model
from pytest_llmprops.engine.batch import batches
batches.QUIET_SECONDS = batches.POLL_SECONDS = 0.5
register_model("unused", lambda spec, options: None)
"""
GATE = '[[rule]]\nbenchmark = "sums"\nmin_accuracy = 0.2\nmin_items = 5\n'
#: the clock of the process that decides how old replies may be
LATER = """
import types, time
from pytest_llmprops.plugin import evaluation
evaluation.time = types.SimpleNamespace(time=lambda: time.time() + {hours} * 3600)
"""


def batch(run: Runner, server: BatchServer, *args: str) -> Finished:
    """Run the suite with batches of the server."""
    conftest = run.folder / "conftest.py"
    own = conftest.read_text(encoding="utf-8") if conftest.exists() else ""
    if QUICK not in own:
        run.write("conftest.py", QUICK + own)
    options = ("--model", server.spec, "--llm-base-url", server.url)
    return run(*options, "--llm-engine", "batch", *args, env=KEY)


def expected(items: int) -> dict[str, str]:
    """Return the statuses of the sums that the stub answers."""
    return {f"sums/{n:04d}": "correct" if n % 5 else "wrong" for n in range(items)}


def test_a_run_with_workers_pays_each_line_once(run: Runner, start_batch_server: Start) -> None:
    """The requests of all workers go into batches, and the verdicts are those of an online run."""
    server = start_batch_server()
    run.sums(12)
    done = batch(run, server, "-n", "2")
    assert done.statuses == expected(12), done.output
    assert done.code == 1
    # One batch, unless the second worker is late.
    assert sum(server.sizes) == 11
    assert set(server.paid.values()) == {1}
    assert sorted(row.get("via", "") for row in done.requests) == ["", *["batch"] * 11]
    assert {row.get("request_id") for row in done.requests if row.get("via")} == {"req"}


def test_a_run_that_does_not_wait_ends_with_status_2(run: Runner, start_batch_server: Start) -> None:
    """``llm_batch_wait = 0`` submits and ends, as Ctrl-C does; the same command goes on in the same record."""
    server = start_batch_server(polls=-1)
    run.sums(12)
    command = ("-o", "llm_batch_wait=0", "--llm-run", str(run.folder / "record"))
    done = batch(run, server, *command)
    assert done.code == 2
    assert "1 batch open, 0 of 11 lines done, expires " in done.output
    assert "run the same command again to continue" in done.output
    waiting = run.start(
        "--model", server.spec, "--llm-base-url", server.url, "--llm-engine", "batch", "--llm-run", command[-1],
        env=KEY,
    )  # fmt: skip
    [open_one] = server.batches.values()
    polls = open_one["polls"]
    until(lambda: open_one["polls"] > polls)
    waiting.send(signal.SIGINT)
    ended = waiting.end()
    assert ended.code == 2, ended.output
    server.polls = 0
    done = batch(run, server, *command)
    assert done.code == 1, done.output
    again = Finished(done.code, done.output, run.folder / "record")
    assert again.run["complete"] is True
    assert again.statuses == expected(12)
    assert (server.sizes, set(server.paid.values())) == ([11], {1})


def test_a_gate_uses_the_replies_of_its_own_run(run: Runner, start_batch_server: Start) -> None:
    """Under a gate, the next command of a run uses its replies, however old; a new run asks again after a day."""
    server = start_batch_server(polls=-1)
    run.sums(12)
    gate = str(run.write("gate.toml", GATE))
    command = ("--llm-gate", gate, "-o", "llm_batch_wait=0", "--llm-run", str(run.folder / "record"))
    assert batch(run, server, *command).code == 2
    server.polls = 0
    run.write("conftest.py", LATER.format(hours=60))
    done = batch(run, server, *command)
    assert (done.code, set(server.paid.values())) == (0, {1}), done.output
    done = batch(run, server, "--llm-gate", gate)
    assert (done.code, set(server.paid.values())) == (0, {2}), done.output


def test_a_killed_run_goes_on(run: Runner, start_batch_server: Start) -> None:
    """After ``kill -9`` at any time, the same command pays for no line again, also if a third of the lines expires."""
    server = start_batch_server(expired=0.3, victim=run.folder / "pid")
    run.sums(30)
    run.write("conftest.py", PREPARED)
    stored = []
    for place in ("before create", "after create", "in progress", "half collected"):
        server.kill_at = place
        done = batch(run, server)
        assert done.code not in (0, 1, 2), done.output
        with closing(sqlite3.connect(run.store)) as store:
            stored += store.execute("SELECT COUNT(*) FROM replies").fetchone()
    # The second run makes a first call, too, because the first one had not submitted its batch.
    assert stored[:3] == [1, 2, 2]
    assert 2 < stored[3] < 20
    done = batch(run, server)
    assert done.code == 1, done.output
    assert done.statuses == expected(30)
    assert server.sizes[0] == 28
    assert len(server.sizes) == 2
    assert set(server.paid.values()) == {1}
    assert len(server.paid) == 30


def test_what_batches_cannot_serve_is_one_line(run: Runner) -> None:
    """Options that do not fit batches end the run before its first call, with exit code 4.

    A search needs one reply after another, so it is skipped with a reason.
    """
    run.sums(4)
    run.write("gate.toml", GATE)
    for options, message in (
        (("--model", "fake:echo"), "--llm-engine batch: fake:echo has no batches; name a model of OpenAI"),
        (("--model", "openai:m", "--llm-cache", "off"), "leave out --llm-cache off, or name a new store"),
        (
            ("--model", "openai:m", "--llm-gate", "gate.toml", "-o", "llm_batch_wait=0", "--llm-run", ""),
            "so the next command must know the run; add --llm-run DIR",
        ),
    ):
        run(*options, "--llm-engine", "batch", env=KEY).refused(message)
    suite = str(ROOT / "suites" / "test_oracle.py")
    done = run(suite, "--model", "openai:m", "--llm-engine", "batch", "-k", "search", "-rs", env=KEY)
    assert "not searched: a search needs one reply after another, which batches cannot give" in done.output
    assert "failed" not in done.output


def test_a_plan_has_half_the_price(run: Runner) -> None:
    """``--llm-plan`` shows half the cost of calls."""
    run.sums(4)
    costs = []
    for engine in ("local", "batch"):
        done = run("--model", "openai:m?price_in=1000&price_out=2000", "--llm-engine", engine, "--llm-plan")
        [row] = [line.split() for line in done.output.splitlines() if line.split()[:1] == ["sums"]]
        costs.append(next(float(cell[1:]) for cell in row if cell.startswith("~0.")))
    assert costs[0] > 0
    assert costs[1] == pytest.approx(costs[0] / 2, abs=0.0001)
