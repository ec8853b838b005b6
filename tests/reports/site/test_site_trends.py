"""The figures of the trends: places of points, and what lines connect."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from pytest_llmprops.reports.site.contributions import Contributions
from pytest_llmprops.reports.site.files import SiteFiles
from pytest_llmprops.reports.site.measurements import ModelIndexes, measurements_of
from pytest_llmprops.reports.site.trends import BOTTOM, LARGE, TOP, Section, trends_of
from pytest_llmprops.runs.catalog import run_folders
from tests.support.records import verdicts
from tests.support.team_runs import PROTOCOL, record


def section(folder: Path, benchmark: str = "homophones") -> Section | None:
    """Return the figures on the runs in a folder."""
    runs = Contributions(SiteFiles(folder.parent / "site")).runs(run_folders([folder]))
    members = measurements_of(runs)[benchmark]
    models = ModelIndexes.of(m.model for m in members)
    return trends_of(members, models, {run.key: n for n, run in enumerate(runs)})


def test_lines_connect_runs_that_may_be_compared(tmp_path: Path) -> None:
    """A run with other settings is a point of its own; accuracy goes up from 0 to 100%, time to the right."""
    other = {"homophones": {**PROTOCOL, "seed": 1}}
    for day, correct in enumerate((0, 5, 10)):
        record(
            tmp_path / "runs" / f"run-{day}",
            day,
            verdicts("asked", correct, 10 - correct, benchmark="homophones"),
        )
    record(tmp_path / "runs" / "other", 3, verdicts("asked", 5, 5, benchmark="homophones"), protocols=other)
    found = section(tmp_path / "runs")
    assert found is not None
    [line] = found.main.lines
    parts = [part.split("L") for part in line.line.split("M")[1:]]
    assert [len(part) for part in parts] == [3, 1]
    places = [tuple(map(float, place.split())) for part in parts for place in part]
    height = LARGE[1] - TOP - BOTTOM
    assert [y for _, y in places] == pytest.approx([TOP + height, TOP + height / 2, TOP, TOP + height / 2])
    gaps = {round(b[0] - a[0], 1) for a, b in pairwise(places)}
    assert max(gaps) - min(gaps) < 0.2
    intervals = re.findall(r"M([\d.]+) ([\d.]+)V([\d.]+)", line.intervals)
    assert len(intervals) == 4
    assert all(float(low) > float(high) for _, low, high in intervals)
    assert found.tasks == ()
    assert [row[:4] for row in found.main.numbers][:2] == [
        ("2026-01-04", "model", "50.0% (18.7 to 81.3)", 10),
        ("2026-01-03", "model", "100.0% (69.2 to 100.0)", 10),
    ]


def test_each_task_has_a_figure_and_the_chance_level(tmp_path: Path) -> None:
    """Controls are named, and guessing is a line where the benchmark defines it."""
    records = [
        *verdicts("rhyme", 5, 5, benchmark="htest"),
        *verdicts("letter_geometry", 5, 5, benchmark="htest"),
    ]
    record(tmp_path / "runs" / "one", 0, records)
    found = section(tmp_path / "runs", "htest")
    assert found is not None
    assert [trend.title for trend in found.tasks] == ["letter geometry", "rhyme"]
    assert found.main.chance is not None
    assert [label for _, label in found.main.shares] == ["0%", "25%", "50%", "75%", "100%"]


def test_runs_without_a_date_have_no_place(tmp_path: Path) -> None:
    """Without a date or an answer there is no figure."""
    record(tmp_path / "runs" / "undated", 0, verdicts("asked", 5, 5, benchmark="homophones"), started="")
    assert section(tmp_path / "runs") is None
