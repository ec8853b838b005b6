"""A reduced form of ``python -m bench.faults``: all server faults in a few runs, and one row of other kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.faults import Row, Settings, clock_row, disk_row, kill_row, run_row, server_row, view_row
from bench.server_faults import good_answer, server_faults

#: without those that wait, for a timeout or for a time that a busy machine does not keep
FAULTS = [
    fault
    for fault in server_faults()
    if not {0.001, 0.002, 0.01, 3600.0} & set(fault.steps(good_answer("1")))
]
#: with twenty faults, as many calls could fail in a row, which stops a run
GROUPS = [FAULTS[start::13] for start in range(13)]
ROWS = [
    *(server_row(faults, 2 if number % 5 == 3 else 0) for number, faults in enumerate(GROUPS)),
    kill_row("broker", 2, 0),
    view_row(0),
    disk_row("store", 128, 0),
    clock_row(-86_400, 0),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.label)
def test_row_holds(row: Row, tmp_path: Path) -> None:
    """The verdicts are those of an undisturbed run, and nothing is repeated, paid for twice or left behind."""
    trial = run_row(row, tmp_path / "row", Settings(limit=60), seed=1)
    if trial.skipped:
        pytest.skip(trial.skipped)
    assert not trial.problems
