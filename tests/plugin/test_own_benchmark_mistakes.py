"""Mistakes in a benchmark from outside: one clear line each, and no verdict of another benchmark is lost."""

from __future__ import annotations

import pytest

from tests.support.benchmark_mistakes import FAILED, FINE, ITEMS, MISTAKES, NOTE, REFUSED, UNREADABLE, Mistake
from tests.support.runs import Finished, Runner


@pytest.fixture(scope="module", params=["0", "2"], ids=["n0", "n2"])
def done(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Return one run that measures all benchmarks with a mistake together."""
    run = Runner(tmp_path_factory.mktemp("mistakes"))
    run.is_measured = True
    for mistake in MISTAKES:
        run.write(f"test_{mistake.name}.py", mistake.file)
    options = (
        "--continue-on-collection-errors",
        "-q",
        "--model",
        "fake:constant?text=x",
        "-n",
        request.param,
    )
    return run(*options)


def test_run_is_complete(done: Finished) -> None:
    """The run ends as usual, with a summary and a record that is complete."""
    assert "INTERNALERROR" not in done.output
    assert done.code == 1
    assert done.run["complete"]
    assert "run record:" in done.output
    measured = [m.name for m in MISTAKES if m.effect in (ITEMS, NOTE, FINE, FAILED)]
    assert sorted(done.run["benchmarks"]) == sorted(measured)
    assert len(done.verdicts) == 3 * len(measured)


def test_each_mistake_has_one_line(done: Finished) -> None:
    """The output has a line that says what is wrong, and the record has what could be measured."""
    assert {mistake.name: problem for mistake in MISTAKES if (problem := _problem(done, mistake))} == {}


def _problem(done: Finished, mistake: Mistake) -> str:
    """Return what the run says wrongly about a mistake; empty if nothing."""
    output = done.output.splitlines()
    lines = [line for line in output if mistake.said in line]
    verdicts = [v for v in done.verdicts.values() if v["benchmark"] == mistake.name]
    statuses = {v["status"] for v in verdicts}
    expected = {ITEMS: {"error"}, NOTE: {"correct"}, FINE: {"correct"}, FAILED: {"correct"}}
    if not lines or any(len(line) >= 600 for line in lines):
        return f"no short line with {mistake.said}"
    if statuses != expected.get(mistake.effect, set()):
        return f"statuses {statuses}"
    if mistake.effect == ITEMS and not all(mistake.said[:80] in v["reason"] for v in verdicts):
        return "another reason in the record"
    if mistake.effect in (NOTE, UNREADABLE) and not any(mistake.said in note for note in done.run["notes"]):
        return "no note in the record"
    if mistake.effect in (REFUSED, FAILED) and not any(
        mistake.name in line for line in output if "ERROR" in line or "FAILED" in line
    ):
        return "no error or failure with its name"
    return ""
