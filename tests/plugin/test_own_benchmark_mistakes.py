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


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_mistake_has_one_line(done: Finished, mistake: Mistake) -> None:
    """The output has a line that says what is wrong, and the record has what could be measured."""
    lines = [line for line in done.output.splitlines() if mistake.said in line]
    statuses = {v["status"] for v in done.verdicts.values() if v["benchmark"] == mistake.name}
    assert lines
    if mistake.effect == ITEMS:
        assert statuses == {"error"}
        assert all(
            mistake.said[:80] in v["reason"] for v in done.verdicts.values() if v["benchmark"] == mistake.name
        )
    elif mistake.effect in (NOTE, FINE, FAILED):
        assert statuses == {"correct"}
    else:
        assert not statuses
    if mistake.effect in (NOTE, UNREADABLE):
        assert any(mistake.said in note for note in done.run["notes"])
    if mistake.effect in (REFUSED, FAILED):
        assert any(
            mistake.name in line for line in done.output.splitlines() if "ERROR" in line or "FAILED" in line
        )
    assert all(len(line) < 600 for line in lines)
