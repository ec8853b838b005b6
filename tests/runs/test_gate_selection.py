"""A gate says when an accuracy is not on all items, or not on those of the baseline."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_llmprops.core.gate_results import GateResult
from tests.support.gated_runs import gate, gate_lines, model, recorded_gate
from tests.support.gates import DrawnRun, gate_of, judged
from tests.support.recorded import verdicts
from tests.support.runs import Runner

SELECTED = {"sums": {"items": 40, "of": 200}}


def notes(result: GateResult) -> list[str]:
    """Return the notes about items; another one says that the benchmark is not installed."""
    return [note for note in result.notes if "items" in note]


@pytest.mark.parametrize(
    ("facts", "how"),
    [
        ({"options": {"limit": 40}}, "(--llm-limit 40)"),
        ({"options": {"limit": None}}, "(selected by -k, -m, --deselect or name)"),
    ],
)
def test_selection_is_named(facts: dict[str, Any], how: str) -> None:
    """The note has the numbers and the reason, and the line of the decision says that there is one."""
    result = judged(
        gate_of({"min_accuracy": 0.5}), verdicts("c" * 40, model="new"), selection=SELECTED, **facts
    )
    assert result.decision == "pass"
    assert notes(result) == [f"min_accuracy is on a selection: 40 of 200 sums items {how}"]
    assert result.line == "pass: 1 of 1 rules are met, on a selection of the items"


@pytest.mark.parametrize(
    ("rule", "selection"),
    [
        ({"min_accuracy": 0.5}, {"sums": {"items": 40, "of": 40}}),
        ({"min_accuracy": 0.5}, {}),
        ({"min_accuracy": 0.5, "benchmark": "sums"}, {"htest": {"items": 4, "of": 200}}),
        ({"max_refused": 0.5}, SELECTED),
    ],
)
def test_whole_runs_have_no_note(rule: dict[str, Any], selection: dict[str, Any]) -> None:
    """All items, other benchmarks, other requirements and older records give no note."""
    result = judged(gate_of(rule), verdicts("c" * 40, model="new"), selection=selection)
    assert (result.line, notes(result)) == ("pass: 1 of 1 rules are met", [])


def test_items_of_the_baseline_are_compared() -> None:
    """If only min_accuracy is required, other items than those of the baseline are named; the same are not."""
    rule = gate_of({"task": "add", "min_accuracy": 0.5})
    ours, theirs = verdicts("c" * 50, model="new")[10:], verdicts("c" * 48)
    result = judged(rule, ours, theirs)
    assert result.decision == "pass"
    (note,) = notes(result)
    assert note.startswith(
        "add: min_accuracy is not on the items of the baseline: 10 of its 48 are missing here"
    )
    assert note.endswith("and 2 of the 40 here are missing there")
    assert notes(judged(rule, verdicts("w" * 10 + "c" * 38, model="new"), theirs)) == []


def test_items_not_drawn_are_no_selection() -> None:
    """A sequential gate that stops early measured part of the items; its own note says so."""
    drawn = DrawnRun(
        gate_of({"min_accuracy": 0.5}, sequential=True), verdicts("c" * 200, model="new"), verdicts("c" * 200)
    )
    assert notes(drawn.after(100, ended=True)) == ["stopped early: 100 of 200 items; estimates are of these"]


@pytest.mark.parametrize(
    ("workers", "words"),
    [("0", ("--llm-limit", "32")), ("2", ("-k", "sums-sums/000 or sums/001 or sums/002 or sums/003"))],
)
def test_selection_of_a_run_is_recorded(run: Runner, workers: str, words: tuple[str, str]) -> None:
    """`run.json` has the number of selected items and of all items, and both ways to decide say the same."""
    run.sums(40)
    file = gate(run, min_accuracy=0.7)
    done = run("--model", model(run), "-n", workers, "--llm-gate", str(file), *words)
    selected = done.run["selection"]["sums"]
    assert selected["of"] == 40
    assert 30 <= selected["items"] == done.run["expected"]
    again = recorded_gate(run, done, file)
    lines = " ".join(" ".join(gate_lines(again.output)).split())
    assert lines == " ".join(" ".join(gate_lines(done.output)).split())
    how = "(--llm-limit 32)" if words[0] == "--llm-limit" else "(selected by -k,"
    if selected["items"] < 40:
        assert f"{selected['items']} of 40 sums items {how}" in lines
