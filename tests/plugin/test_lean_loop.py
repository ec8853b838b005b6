"""The loop that runs lean items in groups."""

from __future__ import annotations

import re

import pytest

from tests.support.cuts import write_cuts
from tests.support.runs import Runner

LEAN = "import pytest_llmprops.plugin.lean_items as lean\nlean.LEAN_CASES = 5\n"
MONITOR = """
calls = []

def pytest_configure(config):
    def before(name, impls, values):
        calls.append(name)
    config.pluginmanager.add_hookcall_monitoring(before, lambda *args: None)

def pytest_terminal_summary(terminalreporter):
    for name in ("protocol", "logreport"):
        terminalreporter.write_line(f"{name}: {calls.count('pytest_runtest_' + name)}")
"""


@pytest.mark.parametrize(
    ("more", "options", "protocols", "reports"),
    [
        # Two correct cases, one before the group and one in it, and the wrong ones have a report.
        ("", (), 2, 5),
        ("", ("-x",), 2, 3),
        ("", ("-o", "faulthandler_timeout=60"), 30, 30),
        ("\ndef pytest_runtest_protocol(item): pass\n", (), 30, 30),
        ("\ndef pytest_runtestloop(session): pass\n", (), 30, 30),
    ],
    ids=["grouped", "first failure", "tracebacks", "another plugin", "another loop"],
)
def test_one_protocol_per_group(
    run: Runner, more: str, options: tuple[str, ...], protocols: int, reports: int
) -> None:
    """Pytest's hook for the protocol is called once per group, and for each item if another plugin may need it."""
    model = write_cuts(run)
    run.write("conftest.py", LEAN + MONITOR + more)
    done = run("--model", model, *options)
    assert f"protocol: {protocols}\n" in done.output
    assert f"logreport: {reports}\n" in done.output
    assert len(done.verdicts) == (5 if options == ("-x",) else 30)


def test_a_group_ends_at_other_tests(run: Runner) -> None:
    """Lean items and other tests run in their order, and a module's fixtures end with its last test."""
    model = write_cuts(run)
    text = (run.folder / "test_cuts.py").read_text(encoding="utf-8")
    other = (
        "\n@pytest.fixture(scope='module')\ndef opened():\n    yield 1\n    print('closed')\n"
        "\ndef test_other(opened):\n    assert opened\n"
    )
    run.write("test_cuts.py", text.replace("\n@pytest.mark.llmprops", f"{other}\n@pytest.mark.llmprops", 1))
    run.write("conftest.py", LEAN + MONITOR)
    done = run("--model", model, "-s")
    assert "protocol: 3\n" in done.output
    assert "3 failed, 28 passed" in done.output
    assert "closed" in done.output
    assert len(done.verdicts) == 30


@pytest.mark.parametrize(
    ("options", "ini", "protocols"),
    [
        ((), "", 2),
        (("--session-timeout=60",), "", 2),
        (("--timeout=60",), "", 30),
        ((), "timeout = 60\n", 30),
        (("env",), "", 30),
    ],
    ids=["none", "session", "option", "ini", "environment"],
)
def test_groups_with_pytest_timeout(run: Runner, options: tuple[str, ...], ini: str, protocols: int) -> None:
    """Items are run one by one only if pytest-timeout has a timeout for each test."""
    model = write_cuts(run)
    run.write("conftest.py", LEAN + MONITOR)
    run.write("pytest.ini", f"[pytest]\n{ini}")
    env = {"PYTEST_TIMEOUT": "60"} if options == ("env",) else {}
    done = run("--model", model, "-p", "pytest_timeout", *(o for o in options if o != "env"), env=env)
    assert f"protocol: {protocols}\n" in done.output
    assert len(done.verdicts) == 30


SHOWS = """
def pytest_unconfigure(config):
    terminalreporter = config.pluginmanager.get_plugin("terminalreporter")
    passed = terminalreporter.stats["passed"]
    terminalreporter.write_line(f"counted: {len(passed)} {len(terminalreporter._progress_nodeids_reported)}")
"""
#: a hook that does nothing, for which every case needs its own report
READS = "\ndef pytest_runtest_logreport(report): pass\n"


def _shown(output: str) -> str:
    """Return what a run printed, without times and paths."""
    text = re.sub(r"in \d+\.\d+s|run-\d+|\d{8}T\d+Z\S*|logreport: \d+", "", output)
    return "\n".join(line for line in text.splitlines() if "rootdir" not in line)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("-q",),
        ("-qq",),
        ("-o", "console_output_style=count"),
        ("--llm-failures", "xfail"),
        ("-s",),
    ],
    ids=["default", "quiet", "quieter", "counts", "expected failures", "no capture"],
)
def test_letters_of_a_group_are_those_of_its_cases(run: Runner, options: tuple[str, ...]) -> None:
    """Correct cases are reported together, and pytest prints and counts the same as for one after the other."""
    model = write_cuts(run, items=203)
    run.write("conftest.py", LEAN + MONITOR + SHOWS)
    together = run("--model", model, *options)
    run.write("conftest.py", LEAN + MONITOR + SHOWS + READS)
    single = run("--model", model, *options)
    assert _shown(together.output) == _shown(single.output)
    calls = [int(re.findall(r"logreport: (\d+)", done.output)[0]) for done in (together, single)]
    # Those of two correct cases and of the wrong ones, or one per call and teardown.
    assert calls == [22, 406]
    assert together.verdicts == single.verdicts
    assert together.run["summary"] == single.run["summary"]


@pytest.mark.parametrize("style", ["progress", "count", "classic"])
def test_letters_of_a_line_are_written_together(run: Runner, style: str) -> None:
    """Correct cases that follow one another on a line are one piece, with each style of output that shows no times."""
    model = write_cuts(run, items=203)
    pieces = (
        "from _pytest.terminal import TerminalReporter\n"
        "write, pieces = TerminalReporter.write, []\n"
        "def noted(self, content, **markup):\n"
        "    pieces.append(content)\n"
        "    write(self, content, **markup)\n"
        "TerminalReporter.write = noted\n"
        "def pytest_terminal_summary(terminalreporter):\n"
        '    terminalreporter.write_line(f\'pieces: {sum(piece.strip(".") == "" for piece in pieces if piece)}\')\n'
    )
    run.write("conftest.py", LEAN + pieces)
    done = run("--model", model, "-o", f"console_output_style={style}", env={"COLUMNS": "60"})
    # One before each of the 20 wrong cases and one at the end, and one more for each line.
    assert 21 <= int(done.output.partition("pieces: ")[2].split()[0]) <= 28


def test_a_decorator_that_raises_is_reported(run: Runner) -> None:
    """An exception around ``assert verdict`` is a failure of its case also among correct cases."""
    model = write_cuts(run, items=60)
    text = (run.folder / "test_cuts.py").read_text(encoding="utf-8")
    decorator = (
        "\nimport functools\nseen = []\n\ndef picky(test):\n    @functools.wraps(test)\n"
        "    def checked(verdict):\n        seen.append(verdict)\n        assert len(seen) != 43, 'the 43rd'\n"
        "        return test(verdict)\n    return checked\n"
    )
    text = text.replace("\n@pytest.mark.llmprops", f"{decorator}\n@pytest.mark.llmprops", 1)
    run.write("test_cuts.py", text.replace("def test_cuts", "@picky\ndef test_cuts"))
    run.write("conftest.py", LEAN + MONITOR)
    done = run("--model", model)
    assert "the 43rd" in done.output
    assert "7 failed, 53 passed" in done.output
    assert len(done.verdicts) == 60
