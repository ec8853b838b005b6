"""The broker's process is killed, as the system kills one when memory is short: the open cases are errors."""

from __future__ import annotations

import pytest

from tests.support.runs import Finished, Runner

#: adds, and ends its process at the sum 35, once
DEADLY = """
import asyncio
import os
import signal
from pathlib import Path

FOLDER = Path(__file__).parent


async def reply(chat):
    n = int(chat.messages[-1].content.split()[0])
    with open(FOLDER / "asked.txt", "a") as asked:
        asked.write("x")
    await asyncio.sleep(0.02)
    if n == 35 and not (FOLDER / "ended").exists():
        (FOLDER / "ended").touch()
        END
    return str(n + 1 if n % 5 else n)
"""
OPTIONS = ("-n", "2", "--llm-concurrency", "4")


@pytest.mark.parametrize(
    ("end", "line"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "the broker process was killed (out of memory?)"),
        ("os._exit(3)", "the broker process ended with status 3"),
    ],
)
def test_lost_broker_is_named_with_the_command_that_resumes_the_run(run: Runner, end: str, line: str) -> None:
    """The open cases are errors, and the last line has the command that measures them.

    A broker that is lost reports nothing, so calls and cost are those in the log, but for the calls in flight.
    """
    run.sums(40)
    model = f"fake:call?file={run.write('deadly.py', DEADLY.replace('END', end))}&price_in=100&price_out=1000"
    done = run("--model", model, *OPTIONS)
    output = " ".join(done.output.split())
    assert line in output
    assert f"next: llmprops run --resume {done.folder}" in output
    assert [v for v in done.verdicts.values() if v["status"] == "error"]
    assert done.code != 0
    asked, logged = len((run.folder / "asked.txt").read_text()), done.requests
    assert asked - 4 <= len(logged) == done.run["calls"]["answered"] > 10
    assert done.run["calls"]["cost_usd"] == pytest.approx(sum(line["cost_usd"] for line in logged)) != 0
    again = run("--model", model, *OPTIONS, "--llm-run", str(done.folder), "--llm-resume")
    resumed = Finished(again.code, again.output, done.folder)
    assert [v["status"] for v in resumed.verdicts.values()].count("error") == 0
    assert resumed.run["complete"] is True
