"""A gate's result as text: terminal lines and Markdown."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_llmprops.core.gate_results import GateResult
from pytest_llmprops.reports.gate import gate_lines, gate_markdown
from tests.support.gates import DrawnRun, gate_of, judged, paired_runs
from tests.support.recorded import verdicts

RULE = {"no_regression": True, "max_drop": 0.05, "min_accuracy": 0.5}


def result_of(*rules: dict[str, Any]) -> GateResult:
    """Return a decision on 100 pairs, as in ``run.json``."""
    return judged(gate_of(*(rules or (RULE,))), *paired_runs(80, 8, 6, 6))


def test_every_check_shows_requirement_measurement_and_result() -> None:
    """Checks are in the order of the rules; the last line is the decision."""
    result = result_of()
    lines = gate_lines(result)
    text = " ".join(" ".join(lines).split())
    assert lines[0] == "gate gate.toml against baseline run-old"
    for check in result.rules[0].checks:
        assert check.required in text
        assert check.reason in text
        for part in check.measured.split("; "):
            assert part in text
    assert lines[-1] == f"gate decision: {result.line}"
    assert sum(line.startswith("gate decision") for line in lines) == 1


@pytest.mark.parametrize("width", [20, 60, 80, 100, 120, 500])
def test_lines_fit_the_terminal(width: int) -> None:
    """All lines except the decision are wrapped, with the texts in one column."""
    lines = gate_lines(result_of(), width)
    assert max(map(len, lines[:-1])) <= min(max(width, 60), 110)
    starts = {len(line) - len(line[19:].lstrip()) for line in lines[1:-1]}
    assert starts == {19}


def test_reasons_outside_the_rules_are_listed() -> None:
    """A reason that concerns the whole run is shown once; one that a rule already shows is not repeated."""
    result = judged(gate_of({"min_accuracy": 0.5}), verdicts("c" * 9, model="new"), complete=False)
    text = "\n".join(gate_lines(result))
    assert text.count("this run is incomplete") == 2  # in the rule's line, and in the decision
    body, _, _ = text.partition("gate decision")
    assert body.count("fewer than min_items") == 1
    assert len(result.reasons) == 2


def test_early_stop_is_marked() -> None:
    """An early stop is marked on the terminal and in Markdown, with the number of items used."""
    run = DrawnRun(gate_of({"min_accuracy": 0.5}, sequential=True), verdicts("c" * 200, model="new"))
    result = run.after(100, ended=True)
    for text in ("\n".join(gate_lines(result)), gate_markdown(result)):
        assert "stopped early: 100 of 200 items" in text
        assert "(stopped early)" in text


def test_control_characters_are_shown_as_text() -> None:
    """Control characters in names are escaped, because names come from untrusted files."""
    result = result_of({**RULE, "name": "a\x1b[31mb\nc"})
    for line in gate_lines(result):
        assert line.isprintable()
    assert "\x1b" not in gate_markdown(result)


def test_markdown_is_one_table() -> None:
    """The table has one row per check, with four cells whatever the names contain."""
    result = result_of({**RULE, "name": "a|b <script> `c` [d](e) @f"})
    lines = gate_markdown(result).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 2 + len(result.rules[0].checks)
    assert {row.replace("\\|", "").count("|") for row in rows} == {5}
    text = "\n".join(rows)
    assert "<script>" not in text
    assert "[d]" not in text.replace("\\[d\\]", "")
    assert "@f" not in text
    assert lines[0] == f"## Gate: {result.decision}"
    assert lines[1] == ""
    first = next(n for n, line in enumerate(lines) if line.startswith("|"))
    assert lines[first - 1] == ""
    assert lines[first : first + len(rows)] == rows


def test_markdown_lists_the_reasons() -> None:
    """An invalid gate's reasons follow the table as a list."""
    text = gate_markdown(judged(gate_of(RULE), verdicts("c" * 9, model="new"), verdicts("c" * 9)))
    assert "\n\n- rule 1: 9 pairs are fewer" in text
