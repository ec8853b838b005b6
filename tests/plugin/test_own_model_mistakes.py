"""Mistakes in a model from outside: the run ends as usual, with its summary and every verdict."""

from __future__ import annotations

import pytest

from tests.support.runs import Finished, Runner

_MODEL = """
import asyncio, sys
from pytest_llmprops import FakeModel, Reply, register_model


class Mistaken(FakeModel):
{body}


register_model("mistaken", lambda spec, options: Mistaken(lambda chat: "no sum", name="m"), kinds=("chat",))
"""


def _measured(run: Runner, body: str, workers: str) -> Finished:
    """Return a run of the sums on a model with ``body``."""
    run.sums(4)
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    run.write("conftest.py", _MODEL.format(body=lines))
    return run("--model", "mistaken", "-n", workers)


@pytest.mark.parametrize(
    "close",
    [
        "def close(self): sys.exit(0)",
        "def close(self): raise KeyboardInterrupt",
        "async def aclose(self): sys.exit(0)",
        "async def aclose(self): raise asyncio.CancelledError",
    ],
)
def test_model_that_cannot_be_closed(run: Runner, close: str) -> None:
    """The summary, the record and the exit code are those of the verdicts."""
    done = _measured(run, close, "0")
    assert done.code == 1
    assert done.run["complete"]
    assert {row["status"] for row in done.verdicts.values()} == {"wrong"}
    assert "run record:" in done.output


@pytest.mark.parametrize(
    "body",
    [
        "blocking = True\ndef chat(self, requests): raise asyncio.CancelledError",
        "blocking = True\ndef chat(self, requests): raise GeneratorExit",
        "blocking = True\ndef chat(self, requests): raise KeyboardInterrupt",
        "async def chat(self, requests): raise KeyboardInterrupt",
        "async def chat(self, requests): raise asyncio.CancelledError",
    ],
)
def test_exception_that_ends_threads_and_tasks(run: Runner, body: str, workers: str) -> None:
    """What a model raises is the error of the item, whatever it is."""
    done = _measured(run, body, workers)
    raised = body.split()[-1].rpartition(".")[2]
    assert done.code == 1
    assert {row["status"] for row in done.verdicts.values()} == {"error"}
    assert all(raised in row["reason"] for row in done.verdicts.values())
    assert len(done.verdicts) == 4
    assert done.run["complete"]
