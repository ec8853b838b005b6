"""Runs with a failing server, broker or disk: no verdict is lost or guessed."""

from __future__ import annotations

import os
import pty
import select
import signal
import time
from collections.abc import Callable

import pytest

from bench.stub_server import RunningStub
from tests.support.commands import until
from tests.support.runs import Finished, Runner

Stub = Callable[..., RunningStub]


def _against(stub: RunningStub, *args: str) -> tuple[str, ...]:
    return ("--model", "openai:stub", "--llm-base-url", stub.url, *args)


def test_a_server_that_falls_silent_ends_a_run_that_can_be_resumed(run: Runner, start_stub: Stub) -> None:
    """A server that accepts calls and never answers ends the run soon; the resumed run has all verdicts."""
    run.sums(80)
    stub = start_stub(delay=0.1)
    options = _against(stub, "-n", "2", "--llm-cache", "off", "--llm-concurrency", "8", "--llm-timeout", "2")
    started = run.start(*options)
    until(lambda: stub.stats()["answered"] >= 20)
    os.kill(stub.pid, signal.SIGSTOP)
    silent = time.monotonic()
    stopped = started.end()
    assert "has not answered for 2 s (--llm-timeout)" in stopped.output
    # Twice the timeout, and the end of the process.
    assert time.monotonic() - silent < 30
    assert 0 < len(stopped.verdicts) < 80
    assert "error" not in {row["status"] for row in stopped.verdicts.values()}
    os.kill(stub.pid, signal.SIGCONT)
    run(*options, "--llm-run", str(stopped.folder), "--llm-resume")
    assert (stopped.run["complete"], len(stopped.verdicts), stub.stats()["distinct"]) == (True, 80, 80)


def test_finish_reasons_decide_what_a_reply_is(run: Runner, start_stub: Stub) -> None:
    """A filtered reply is refused in any benchmark, a failure of the provider is retried and not stored.

    A reply with a finish reason that nobody documents is read, and the summary says so once.
    """
    run.sums(1)
    refused = ["filtered", "filtered-reply", "refusing", "finish-content_filter", "finish-refusal"]
    refused += ["finish-SAFETY", "finish-RECITATION", "finish-PROHIBITED_CONTENT"]
    failed = ["finish-error", "finish-network_error", "finish-insufficient_system_resource", "finish-abort"]
    names = [*refused, *failed, "finish-odd"]
    options = ("--llm-base-url", start_stub(delay=0.0).url, "-o", "llm_retries=1")
    done = run(*(f"--model=openai:{name}" for name in names), *options)
    rows = {row["model"]: row for row in done.run["summary"]}
    assert {name for name, row in rows.items() if row["refused"]} == set(refused)
    assert {name for name, row in rows.items() if row["errors"]} == set(failed)
    assert done.run["calls"]["retries"] == 4
    assert " ".join(done.output.split()).count("the finish_reason 'odd' is unknown") == 1
    again = run(*(f"--model=openai:{name}" for name in failed), *options)
    assert again.run["calls"]["cache_hits"] == 0


@pytest.mark.parametrize(
    ("workers", "number", "times"),
    [("2", signal.SIGINT, 1), ("0", signal.SIGINT, 3), ("2", signal.SIGTERM, 2), ("0", signal.SIGHUP, 1)],
    ids=["ctrl-c", "ctrl-c three times", "all processes terminated twice", "terminal closed"],
)
def test_an_interrupt_leaves_a_valid_incomplete_record(
    run: Runner, start_stub: Stub, workers: str, number: signal.Signals, times: int
) -> None:
    """A run with a gate ends with status 2, an invalid gate, no traceback, and no folder of the broker behind."""
    run.sums(400)
    gate = run.write("gate.toml", '[[rule]]\nbenchmark = "sums"\nmin_accuracy = 0.5\n')
    temporary = run.folder / "temporary"
    temporary.mkdir()
    stub = start_stub(delay=0.1)
    options = ("--llm-concurrency", "8", "-n", workers, "--llm-gate", str(gate))
    started = run.start(*_against(stub, *options), env={"TMPDIR": str(temporary)})
    until(lambda: stub.stats()["answered"] >= 60)
    for _ in range(times):
        started.send(number, to_all=True)
        time.sleep(0.03)
    done = started.end()
    assert done.code == 2
    assert "Traceback" not in done.output
    assert "INCOMPLETE: " in done.output
    assert not list(temporary.glob("llmprops-*"))
    assert done.run["complete"] is False
    assert done.run["finished"]
    assert done.run["gate"]["decision"] == "invalid"
    assert len(done.verdicts) < 400
    assert all(v["status"] != "error" for v in done.verdicts.values())


def test_a_closed_terminal_ends_a_run_as_ctrl_c_does(run: Runner, start_stub: Stub) -> None:
    """A run whose terminal is gone cannot print, but completes its record and leaves no folder of the broker."""
    run.sums(400)
    temporary, folder = run.folder / "temporary", run.folder / "record"
    temporary.mkdir()
    stub = start_stub(delay=0.1)
    terminal, inside = pty.openpty()
    started = run.start_with(
        [inside] * 3, *_against(stub, "--llm-concurrency", "8", "-n", "2"), folder=folder,
        env={"TMPDIR": str(temporary)},
    )  # fmt: skip
    os.close(inside)
    while stub.stats()["answered"] < 60:
        while select.select([terminal], [], [], 0)[0]:
            os.read(terminal, 65_536)
        assert started.poll() is None
        time.sleep(0.02)
    # The terminal is gone and the signal is there before the run prints again.
    os.kill(started.pid, signal.SIGSTOP)
    os.close(terminal)
    os.kill(started.pid, signal.SIGHUP)
    os.kill(started.pid, signal.SIGCONT)
    done = Finished(started.wait(60), "", folder)
    assert done.code == 2
    assert not list(temporary.glob("llmprops-*"))
    assert done.run["complete"] is False
    assert done.run["finished"]


def fill_disk(run: Runner, function: str, when: str) -> None:
    """Make a function of the package fail as on a full disk, ``when`` its ``args`` say so."""
    run.write(
        "conftest.py",
        "import errno\nfrom pytest_llmprops.plugin import worker_files\nfrom pytest_llmprops.runs import record\n"
        f"write = {function}\n"
        "def full(*args):\n"
        f"    if {when}:\n        raise OSError(errno.ENOSPC, 'No space left on device')\n"
        "    return write(*args)\n"
        f"{function} = full\n",
    )


def test_full_disk_stops_the_run(run: Runner) -> None:
    """If the record cannot be written, the run stops with one line and keeps the verdicts written so far."""
    run.sums(12)
    fill_disk(run, "record.RunRecord.add", "len(args[0].records) >= 5")
    done = run("--model", run.adder)
    assert done.code == 2
    assert "No space left on device" in done.output
    assert "free disk space and run again" in done.output
    assert "in the store" in done.run["stopped"]
    assert len(done.verdicts) == 5
    assert done.run["complete"] is False


@pytest.mark.parametrize("workers", [("gw0", "gw1"), ("gw1",)])
def test_a_disk_too_full_for_the_reports_of_workers_is_one_line(
    run: Runner, workers: tuple[str, ...]
) -> None:
    """If workers cannot report what they collected, the run ends with one line on the folder."""
    run.sums(12)
    files = tuple(f".collected-{worker}.json" for worker in workers)
    # An empty file takes no space.
    fill_disk(run, "worker_files.write_text", f"args[1] and args[0].name in {files}")
    done = run("--model", run.adder, "-n", "2")
    assert done.code == 4
    assert "INTERNALERROR" not in done.output
    assert "Different tests" not in done.output
    [line] = [line for line in done.output.splitlines() if "ERROR" in line]
    assert f"run record {done.folder}: No space left on device; free disk space" in line
    if done.folder.exists():
        assert len(files) == 1
        assert done.run["complete"] is False
        assert done.run["stopped"] in line


def test_a_disk_too_full_for_the_first_facts_is_one_line(run: Runner) -> None:
    """If the first run.json cannot be written, one line names the folder and the fix, and there is no record."""
    run.sums(12)
    fill_disk(run, "record.RunRecord.write_facts", "True")
    for workers in ("0", "2"):
        done = run("--model", run.adder, "-n", workers)
        done.refused(f"run record {done.folder}: No space left on device; free disk space", "--llm-run DIR")
