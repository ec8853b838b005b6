"""Ctrl-C and SIGTERM after the last case: while the record and the summary are written, and while pytest ends."""

from __future__ import annotations

import pytest

from tests.support.runs import Runner

#: the hook of a conftest.py sends the signals
CONFTEST = """
import os, signal
import pytest

@pytest.hookimpl(FIRST=True)
def HOOK(session=None, config=None):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
        os.kill(os.getpid(), number)
"""


@pytest.mark.parametrize(
    ("hook", "first", "status"),
    [
        ("pytest_sessionfinish", "trylast", 2),
        ("pytest_terminal_summary", "trylast", 2),
        ("pytest_unconfigure", "trylast", 1),
    ],
)
def test_signal_after_the_last_case_leaves_a_whole_record(
    run: Runner, hook: str, first: str, status: int
) -> None:
    """The record is complete and the summary is printed; the status is 2, or that of the run once it has ended."""
    run.sums()
    text = CONFTEST.replace("HOOK", hook).replace("FIRST", first)
    run.write(
        "conftest.py", text if hook != "pytest_terminal_summary" else text.replace("session=None, ", "")
    )
    # As a program, whose interpreter ends with pytest.
    run.fresh = True
    done = run("--model", run.adder)
    assert done.code == status
    assert "KeyboardInterrupt" not in done.output
    assert "run record: " in done.output
    assert done.run["complete"] is True
    assert len(done.verdicts) == done.run["expected"]
