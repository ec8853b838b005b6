"""The history of performance measurements, and its plot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.history import HISTORY, PLOT, TARGETS, add_run, plot, read_runs


def test_a_run_is_one_line_without_names_or_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line has date, commit, machine and figures; lines are added at the end."""
    monkeypatch.setattr("os.getloadavg", lambda: (0.5, 0.5, 0.5))
    file = tmp_path / "history.jsonl"
    for value in (1.23456, 2.0):
        add_run(dict.fromkeys(TARGETS, value), runs=3, file=file)
    first, second = read_runs(file)
    assert first.keys() == {"date", "commit", "machine", "runs", "figures"}
    assert first["machine"].keys() == {"cpus", "load", "python"}
    assert set(first["figures"].values()) == {1.235}
    assert set(second["figures"].values()) == {2.0}
    assert "/" not in json.dumps([first["commit"], first["machine"]])


def test_wall_times_of_a_busy_machine_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With other processes on the machine, only CPU times can be compared."""
    monkeypatch.setattr("os.getloadavg", lambda: (1000.0, 0.5, 0.5))
    add_run({"a: wall": 1.0, "a: CPU": 2.0}, runs=1, file=tmp_path / "history.jsonl")
    assert read_runs(tmp_path / "history.jsonl")[0]["figures"] == {"a: CPU": 2.0}


def test_plot_has_each_ratio() -> None:
    """The plot of the documentation is drawn from the history, and names each ratio that has a target."""
    runs = read_runs(HISTORY)
    assert runs
    text = plot(runs)
    assert all(name in text for name in TARGETS if any(name in run["figures"] for run in runs))
    shown = PLOT.read_text(encoding="utf-8")
    assert all(run["commit"][:7] in shown for run in runs)
