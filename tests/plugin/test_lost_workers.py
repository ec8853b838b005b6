"""A worker of pytest-xdist is killed: each case is counted once, in JUnit reports and by pytest."""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree

import pytest

from tests.support.runs import Runner

ITEMS = 12
#: kills the worker at a moment of a case, as often as a file says
DEADLY = """
import os
import signal
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


def kill():
    kills = int((FOLDER / "kills.txt").read_text())
    if kills:
        (FOLDER / "kills.txt").write_text(str(kills - 1))
        os.kill(os.getpid(), signal.SIGKILL)


def is_deadly(nodeid):
    return "PYTEST_XDIST_WORKER" in os.environ and nodeid.endswith("sums/0003]")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    result = yield
    if WHEN == "after" and is_deadly(item.nodeid):
        # The report has left before the worker says that the case is over.
        import time
        time.sleep(0.5)
        kill()
    return result


def pytest_runtest_logstart(nodeid):
    if WHEN == "before" and is_deadly(nodeid):
        kill()
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kills", [1, 2])
def test_case_of_a_killed_worker_counts_once(run: Runner, when: str, kills: int) -> None:
    """Another worker measures the case again; if it is killed, too, the case has failed. Both count once."""
    run.sums(ITEMS)
    run.write("conftest.py", f"WHEN = {when!r}\n{DEADLY}")
    run.write("kills.txt", str(kills))
    done = run("--model", run.adder, "-n", "2", "--junitxml", "junit.xml")
    assert (run.folder / "kills.txt").read_text() == ("1" if when == "after" and kills == 2 else "0")
    root = ElementTree.parse(run.folder / "junit.xml").getroot()
    names = Counter(case.get("name") for case in root.iter("testcase"))
    assert len(names) == ITEMS
    assert set(names.values()) == {1}
    failed = 3 + (kills == 2 and when == "before")
    assert f"{failed} failed, {ITEMS - failed} passed" in done.output
    [suite] = root.iter("testsuite")
    # A crash is an error of pytest's JUnit report.
    assert (suite.get("tests"), suite.get("failures")) == (str(ITEMS), "3")
    assert suite.get("errors") == str(failed - 3)
    assert len(done.verdicts) == ITEMS - (failed == 4)
    assert done.run["complete"] is (failed == 3)
    if failed == 4:
        assert "crashed while running" in done.output
