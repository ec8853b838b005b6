"""The loop that runs lean items in groups."""

from __future__ import annotations

import pytest

from fixtures.cuts import write_cuts
from fixtures.runs import Runner

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
    ("more", "options", "protocols"),
    [
        ("", (), 2),
        ("", ("-x",), 2),
        ("", ("-o", "faulthandler_timeout=60"), 30),
        ("\ndef pytest_runtest_protocol(item): pass\n", (), 30),
        ("\ndef pytest_runtestloop(session): pass\n", (), 30),
    ],
    ids=["grouped", "first failure", "tracebacks", "another plugin", "another loop"],
)
def test_one_protocol_per_group(run: Runner, more: str, options: tuple[str, ...], protocols: int) -> None:
    """Pytest's hook for the protocol is called once per group, and for each item if another plugin may need it."""
    model = write_cuts(run)
    run.write("conftest.py", LEAN + MONITOR + more)
    done = run("--model", model, *options)
    assert f"protocol: {protocols}\n" in done.output
    reported = 5 if options == ("-x",) else 30
    assert f"logreport: {reported}\n" in done.output
    assert len(done.verdicts) == reported


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
