"""The broker's process is killed, as the system kills one when memory is short: the open cases are errors."""

from __future__ import annotations

import pytest

from tests.support.runs import Finished, Runner

#: adds, and kills its process at the sum 20 as often as a file says
DEADLY = """
import asyncio
import os
import signal
from pathlib import Path

FOLDER = Path(__file__).parent


async def reply(chat):
    n = int(chat.messages[-1].content.split()[0])
    await asyncio.sleep(0.02)
    kills = int((FOLDER / "kills.txt").read_text())
    if n == 20 and kills:
        (FOLDER / "kills.txt").write_text(str(kills - 1))
        os.kill(os.getpid(), signal.SIGKILL)
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
    """The open cases are errors, and the last line has the command that measures them."""
    run.sums(40)
    run.write("kills.txt", "1")
    model = f"fake:call?file={run.write('deadly.py', DEADLY)}"
    run.change("deadly.py", "os.kill(os.getpid(), signal.SIGKILL)", end)
    done = run("--model", model, *OPTIONS)
    output = " ".join(done.output.split())
    assert line in output
    assert f"next: llmprops run --resume {done.folder}" in output
    assert [v for v in done.verdicts.values() if v["status"] == "error"]
    assert done.code != 0
    again = run("--model", model, *OPTIONS, "--llm-run", str(done.folder), "--llm-resume")
    resumed = Finished(again.code, again.output, done.folder)
    assert [v["status"] for v in resumed.verdicts.values()].count("error") == 0
    assert resumed.run["complete"] is True
