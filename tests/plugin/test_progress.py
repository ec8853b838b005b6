"""The live line: shown on a terminal, but not under CI, with -v or in a file."""

from __future__ import annotations

import pytest

from tests.support.runs import Runner
from tests.support.terminal import on_terminal


@pytest.mark.parametrize("n", ["0", "2"])
def test_live_line_on_a_terminal(run: Runner, n: str) -> None:
    """Until the summary, one line shows cases done, calls per second, calls in flight and verdicts."""
    run.sums(28)
    shown = on_terminal(run, "--model", f"{run.adder}&delay=0.4", "--llm-concurrency", "4", "-n", n)
    lines = [line for line in shown.split("\r") if "llmprops:" in line and "/28 cases" in line]
    assert len(lines) >= 3
    assert "calls/s" in lines[-1]
    assert "4 in flight" in "".join(lines)
    assert "correct" in lines[-1]
    assert all("\n" not in line.strip("\n") for line in lines[:-1])
    assert shown.index("run record:") > shown.rindex("/28 cases")


@pytest.mark.parametrize("quiet", ["ci", "verbose", "file"])
def test_no_live_line_elsewhere(run: Runner, quiet: str) -> None:
    """Under CI, with -v and in a file, there is no live line."""
    run.sums(8)
    args = ("--model", f"{run.adder}&delay=0.4", "--llm-concurrency", "4")
    if quiet == "file":
        shown = run(*args).output
    else:
        shown = on_terminal(
            run, *args, *(["-v"] if quiet == "verbose" else []), env={"CI": "true"} if quiet == "ci" else {}
        )
    assert "/8 cases" not in shown
    assert "run record:" in shown


@pytest.mark.parametrize("n", ["0", "2"])
def test_live_line_counts_cases_that_a_gate_skips(run: Runner, n: str) -> None:
    """Under a sequential gate, the live line counts skipped cases, and the total stays the same."""
    run.sums(80)
    text = (run.folder / "test_sums.py").read_text(encoding="utf-8")
    run.write("test_sums.py", text.replace('"add"', '"odd" if n % 2 else "even"'))
    rules = '[[rule]]\ntask = "odd"\nmin_accuracy = 0.01\n[[rule]]\ntask = "even"\nmin_accuracy = 0.7\n'
    gate = run.write("gate.toml", f"sequential = true\n{rules}")
    shown = on_terminal(
        run, "--model", f"{run.adder}&delay=0.4", "--llm-concurrency", "8", "-n", n, "--llm-gate", str(gate)
    )
    lines = [line for line in shown.split("\r") if "llmprops:" in line and "/80 cases" in line]
    assert any(" gate decided" in line for line in lines), lines
    assert "gate decision: " in shown
