"""The broker's process is killed, as the system kills one when memory is short: it is started again once."""

from __future__ import annotations

import json

import pytest

from pytest_llmprops.runs.reader import read_run
from tests.support.runs import Finished, Runner

#: adds, notes each call, and kills its process at the sum 20 as often as a file says
DEADLY = """
import asyncio
import os
import signal
from pathlib import Path

FOLDER = Path(__file__).parent


async def reply(chat):
    n = int(chat.messages[-1].content.split()[0])
    with open(FOLDER / "asked.txt", "a") as asked:
        asked.write(f"{n}\\n")
    await asyncio.sleep(0.02)
    kills = int((FOLDER / "kills.txt").read_text())
    if n == 20 and kills:
        (FOLDER / "kills.txt").write_text(str(kills - 1))
        os.kill(os.getpid(), signal.SIGKILL)
    return str(n + 1 if n % 5 else n)
"""
CONCURRENCY = 4
OPTIONS = ("-n", "2", "--llm-concurrency", str(CONCURRENCY))


@pytest.fixture
def deadly(run: Runner) -> str:
    """Return the specification of a model that kills the broker's process once."""
    run.sums(40)
    run.write("asked.txt", "")
    run.write("kills.txt", "1")
    return f"fake:call?file={run.write('deadly.py', DEADLY)}&price_in=1000&price_out=1000"


def asked(run: Runner) -> list[int]:
    """Return the sums of all calls."""
    return sorted(map(int, (run.folder / "asked.txt").read_text().split()))


def test_killed_broker_is_started_again_once(run: Runner, deadly: str) -> None:
    """Every case has its verdict, only calls in flight are repeated, and the counts are those of the whole run."""
    done = run("--model", deadly, *OPTIONS)
    assert [v["status"] for v in done.verdicts.values()].count("error") == 0
    assert len(done.verdicts) == 40
    assert done.run["complete"] is True
    calls, sums = done.run["calls"], asked(run)
    assert set(sums) == set(range(40))
    assert len(sums) <= 40 + CONCURRENCY
    assert calls["sent"] == len(sums)
    assert calls["answered"] + calls["cache_hits"] == calls["requests"] == 40
    assert calls["in_flight"] == 0
    note = "the broker process was killed (out of memory?) and started again"
    assert any(note in line for line in done.run["notes"])
    assert note in " ".join(done.output.split())
    assert "next: llmprops view" in done.output
    record = read_run(done.folder)
    assert not record.problems
    assert record.notes == ()


def test_cost_and_served_models_of_the_killed_process_count(run: Runner, deadly: str) -> None:
    """The cost is that of all replies, also of those that the killed process got."""
    done = run("--model", deadly, *OPTIONS)
    lines = [json.loads(line) for line in (done.folder / "requests.jsonl").read_text().splitlines()]
    # A reply that the first process wrote may be written again by the second one.
    usage = {row["key"]: row["usage"] for row in lines if "key" in row}
    tokens = sum(use["prompt_tokens"] + use["completion_tokens"] for use in usage.values())
    assert len(usage) == 40
    assert done.run["calls"]["cost_usd"] == pytest.approx(tokens / 1000)
    [model] = done.run["models"].values()
    assert len(model["served_as"]) == 1


def test_budget_of_the_killed_process_is_spent(run: Runner, deadly: str) -> None:
    """``--llm-max-calls`` limits the calls of both processes together."""
    done = run("--model", deadly, *OPTIONS, "--llm-max-calls", "40")
    assert len(asked(run)) == done.run["calls"]["sent"] == 40
    assert "--llm-max-calls 40 is spent" in done.output
    assert done.code == 2


def test_broker_that_is_killed_again_is_named_with_the_command(run: Runner, deadly: str) -> None:
    """A second kill makes the open cases errors; the last line has the command that measures them."""
    run.write("kills.txt", "2")
    done = run("--model", deadly, *OPTIONS)
    output = " ".join(done.output.split())
    assert "the broker process was killed (out of memory?) twice" in output
    assert f"next: llmprops run --resume {done.folder}" in output
    errors = [v for v in done.verdicts.values() if v["status"] == "error"]
    assert errors
    assert done.code != 0
    again = run("--model", deadly, *OPTIONS, "--llm-run", str(done.folder), "--llm-resume")
    resumed = Finished(again.code, again.output, done.folder)
    assert [v["status"] for v in resumed.verdicts.values()].count("error") == 0
    assert resumed.run["complete"] is True


def test_broker_that_dies_by_itself_is_not_started_again(run: Runner, deadly: str) -> None:
    """A process that ends with a status would end again."""
    run.change("deadly.py", "os.kill(os.getpid(), signal.SIGKILL)", "os._exit(3)")
    done = run("--model", deadly, *OPTIONS)
    assert "the broker process ended with status 3" in done.output
    assert (run.folder / "kills.txt").read_text() == "0"
    assert f"next: llmprops run --resume {done.folder}" in " ".join(done.output.split())
