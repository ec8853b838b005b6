"""Ctrl-C and SIGTERM after the last case: while the record and the summary are written, and while pytest ends."""

from __future__ import annotations

import pytest

from tests.support.runs import Runner

#: the hook of a conftest.py sends the signals
CONFTEST = """
import os, signal
import pytest

@pytest.hookimpl(trylast=True)
def HOOK():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
        os.kill(os.getpid(), number)
"""


@pytest.mark.parametrize(
    ("hook", "status"),
    [("pytest_sessionfinish", 2), ("pytest_terminal_summary", 2), ("pytest_unconfigure", 1)],
)
def test_signal_after_the_last_case_leaves_a_whole_record(run: Runner, hook: str, status: int) -> None:
    """The record is complete and the summary is printed; the status is 2, or that of the run once it has ended."""
    run.sums()
    run.write("conftest.py", CONFTEST.replace("HOOK", hook))
    # As a program, whose interpreter ends with pytest.
    run.fresh = True
    done = run("--model", run.adder)
    assert done.code == status
    assert "KeyboardInterrupt" not in done.output
    assert "run record: " in done.output
    assert done.run["complete"] is True
    assert len(done.verdicts) == done.run["expected"]
