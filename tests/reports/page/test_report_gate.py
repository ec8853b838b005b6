"""A gate that is given to the report of recorded runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.cli.main import main
from pytest_llmprops.core.gate_results import GateResult
from pytest_llmprops.reports.page.build import with_decisions
from pytest_llmprops.runs.gate.decide import decide
from pytest_llmprops.runs.gate.file import read_gate
from pytest_llmprops.runs.reader import Run, read_run
from tests.support.records import recorded, verdicts

RULES = """
[[rule]]
benchmark = "sums"
max_drop = 0.03
min_accuracy = 0.5
"""


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    """Return a baseline and two candidates, one of them worse."""
    sizes = (("old", 190), ("new", 200), ("worse", 150))
    return [read_run(recorded(tmp_path / m, verdicts("add", n, 200 - n, model=m))) for m, n in sizes]


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Return a gate file."""
    path = tmp_path / "gate.toml"
    path.write_text(RULES, encoding="utf-8")
    return path


def test_the_decision_is_that_of_the_gate_command(runs: list[Run], gate: Path) -> None:
    """Every run but the baseline gets the decision of ``llmprops gate`` with the first run as its baseline."""
    results = [run.facts.gate for run in with_decisions(runs, gate)]
    assert results[0] is None
    assert [result.decision for result in results[1:] if isinstance(result, GateResult)] == ["pass", "fail"]
    assert results[2] == decide(read_gate(gate), runs[2].facts, runs[2].records, runs[0])


def test_a_gate_without_comparison_decides_on_every_run(runs: list[Run], gate: Path) -> None:
    """If no rule compares, there is no baseline."""
    gate.write_text(RULES.replace("max_drop = 0.03", ""), encoding="utf-8")
    assert [run.facts.gate.decision for run in with_decisions(runs[:1], gate) if run.facts.gate] == ["pass"]
    assert len([run for run in with_decisions(runs, gate) if run.facts.gate]) == 3


def test_the_page_says_what_was_required(runs: list[Run], gate: Path, tmp_path: Path) -> None:
    """The heading has the decision and the requirement that decided, and the page has every check."""
    folders = [str(run.folder) for run in (runs[2], runs[0])]
    arguments = ["report", folders[0], "--baseline", folders[1], "--gate", str(gate)]
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 0
    heading = (tmp_path / "out" / "report.md").read_text(encoding="utf-8").splitlines()[0]
    assert heading.startswith("# The gate fails for worse: ")
    assert "(required: drop of at most 3.0" in heading.replace("\\", "")
    assert "at least 50.0%" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_a_gate_that_compares_needs_two_runs(
    runs: list[Run], gate: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says how to give a baseline, and nothing is written."""
    out = tmp_path / "out"
    assert main(["report", str(runs[1].folder), "--gate", str(gate), "--out", str(out)]) == 2
    assert "needs a baseline; give one with --baseline RUN" in capsys.readouterr().err
    assert not out.exists()
