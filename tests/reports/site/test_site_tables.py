"""What a site says: the headline, what changed, the leaderboard, and accuracy over time."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.numbers import with_interval
from pytest_llmprops.reports.kit.blocks import Figure
from pytest_llmprops.reports.page.content import report_on
from pytest_llmprops.reports.site.changes import Step, headline, steps_of
from pytest_llmprops.reports.site.contributions import Contributions
from pytest_llmprops.reports.site.index import figure_of
from pytest_llmprops.reports.site.leaderboard import Board, boards_of
from pytest_llmprops.reports.site.measurements import SiteRun, measurements_of
from pytest_llmprops.runs.catalog import run_folders
from pytest_llmprops.runs.reader import read_run
from tests.support.records import recorded, verdict, verdicts
from tests.support.team_runs import PROTOCOL, answers, record, team


def contents(folder: Path) -> tuple[list[SiteRun], Contributions]:
    """Return the runs in a folder, and what reads and compares them."""
    contributions = Contributions(folder.parent / "known")
    return contributions.runs(run_folders([folder])), contributions


def boards(folder: Path) -> dict[str, list[Board]]:
    """Return the tables on the runs in a folder by benchmark."""
    found, known = contents(folder)
    return {name: boards_of(ms, known.result, known.finding) for name, ms in measurements_of(found).items()}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[Board]:
    """Return the tables on homophones of the team."""
    return boards(team(tmp_path_factory.mktemp("team") / "runs"))["homophones"]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a folder for runs."""
    return tmp_path / "runs"


def test_the_numbers_are_those_of_the_report(tables: list[Board]) -> None:
    """Accuracies, intervals, numbers of items, printed figures and the sentence are those of the report."""
    for board in tables:
        report = report_on([read_run(row.measurement.run.folder) for row in board.rows], {})
        assert f"{board.finding}." == report.sections[0].finding
        assert report.table is not None
        shares = [row.share for row in board.rows if row.share]
        shown = {cell.text for row in report.table.rows for cell in row}
        assert {with_interval(share.value, share.low, share.high) for share in shares} <= shown
        assert [row.label for row in board.rows if row.share] == list(report.series)
    assert len(tables) == 4


def test_the_latest_complete_run_is_shown(tables: list[Board]) -> None:
    """A row has a model's latest complete run under the same settings, and the number of all; the paper's are below.

    A run with another setting or with fewer items shares no table with the others, and the table says why.
    """
    rows = {row.label: row for row in tables[0].rows}
    assert (rows["steady"].runs, rows["steady"].measurement.run.run_id) == (4, "steady-3")
    assert (rows["drifting"].runs, rows["drifting"].measurement.run.run_id) == (2, "drifting-1")
    assert (rows["steady"].measurement.date, rows["steady"].cost) == ("2026-01-22", "0.0123 USD")
    assert all(row.share is not None and row.share.n == 100 for row in tables[0].rows)
    assert [(p.model, p.value) for p in tables[0].printed][:2] == [("GPT-4", 0.9), ("Ernie-4.0", 0.83)]
    assert [row.against for board in tables[1:] for row in board.rows] == [""] * 3
    shown = {row.measurement.run.run_id for board in tables for row in board.rows}
    assert shown == {"steady-3", "drifting-1", "close-0", "poor-0", "other-settings", "smoke", "hostile"}
    apart = {board.rows[0].measurement.run.run_id: board.apart for board in tables[1:]}
    assert apart["other-settings"] == ("protocol of homophones: match word → line, asks 1 → 5",)
    assert apart["smoke"] == ("other items, controls or weights: 5 items instead of 100",)


def test_runs_of_other_sizes_have_tables_of_their_own(runs: Path) -> None:
    """One model on all items is shown before two models on a part of them; repeated samples are named."""
    for name, size in (("one", 5), ("two", 5), ("whole", 50)):
        rows = verdicts("add", size - 1, 1, model=name)
        recorded(runs / name, rows, selection={"sums": {"items": size, "of": 50}})
    recorded(runs / "once", verdicts("take", 8, 2, model="once", benchmark="other"))
    often = [
        verdict("take", n, sample=k, model="often", benchmark="other") for n in range(10) for k in range(3)
    ]
    recorded(runs / "often", often)
    tables = boards(runs)
    first, second = tables["sums"]
    assert ([row.label for row in first.rows], len(second.rows)) == (["whole"], 2)
    shown = sorted((board.rows[0].label, board.rows[0].items) for board in tables["other"])
    assert shown == [("often", "10 × 3 samples"), ("once", "10")]


def test_what_is_accepted_of_pairs_ranks_no_models(runs: Path) -> None:
    """Models with answers on pairs only are in alphabetical order, without a share; the sentence says what counts."""
    for model, accepted in (("zeta", 40), ("alpha", 20)):
        records = verdicts("no", accepted, 40 - accepted, model=model, benchmark="oracle")
        text = f"pairs: no conclusion on {model}"
        remark = {"model": model, "benchmark": "oracle", "text": text, "warning": True}
        recorded(runs / model, records, remarks=[remark])
    [board] = boards(runs)["oracle"]
    assert board.finding == "alpha: pairs: no conclusion on alpha; zeta: pairs: no conclusion on zeta"
    assert [(row.label, row.share, row.against) for row in board.rows] == [
        ("alpha", None, ""), ("zeta", None, ""),
    ]  # fmt: skip
    report = report_on([read_run(runs / model) for model in ("alpha", "zeta")], {})
    assert report.title == f"{board.finding}."
    assert report.table is not None
    assert [cell.text for cell in report.table.rows[0][1:]] == ["–", "–", "no common items", "0", "0"]


def test_unreadable_and_unanswered_models(runs: Path) -> None:
    """A model without a readable reply is named, and one without an answer has no accuracy."""
    statuses = {"mute": "unparsed", "down": "error", "fine": "correct", "other": "wrong"}
    for model, status in statuses.items():
        records = [verdict("add", n, status, model=model) for n in range(20)]  # type: ignore[arg-type]
        recorded(runs / model, records)
    [board] = boards(runs)["sums"]
    assert board.finding == (
        "Compared with fine on sums: mute and other do worse (mute most: −100.0 points);"
        " no reply of mute could be read"
    )
    assert [(row.label, row.share is None, row.rest) for row in board.rows] == [
        ("fine", False, ""), ("mute", False, "20 unparsed"), ("other", False, ""), ("down", True, "20 errors"),
    ]  # fmt: skip


def steps(folder: Path) -> list[Step]:
    """Return the steps of all models, newest first."""
    found, contributions = contents(folder)
    return steps_of(measurements_of(found), contributions.result)


def said(folder: Path) -> str:
    """Return the headline on the runs in a folder."""
    return headline(steps(folder), [run for run in contents(folder)[0] if not run.problem])


def test_the_headline_is_the_largest_drop_that_lasts(runs: Path) -> None:
    """A drop that a later gain followed is over; without a drop, the largest gain is named; the year, if it is past."""
    for n in range(2):
        record(runs / f"same-{n}", n, answers("same", 0.8, 4))
    assert said(runs) == "No clear change in 1 comparison of 1 model"
    good, bad = answers("model", 0.9, 1), answers("model", 0.4, 2)
    for n, records in enumerate((good, bad, good)):
        record(runs / f"model-{n}", n, records)
    assert said(runs).startswith("model gained ")
    record(runs / "other-0", 3, answers("other", 0.9, 3, items=200))
    record(runs / "other-1", 4, answers("other", 0.9, 3, items=200, lost=13))
    assert said(runs) == "other dropped 6.5 points on Homophones on 5 January"
    record(runs / "later", 5, answers("later", 0.9, 3), started="2027-01-01T00:00:00+00:00")
    assert said(runs) == "other dropped 6.5 points on Homophones on 5 January 2026"


@pytest.mark.parametrize(
    ("more", "count"),
    [
        ({}, 1),
        ({"deviations": {"model": ["temperature left out"]}}, 0),
        ({"options": {"params": {"top_p": 0.5}}}, 0),
        ({"complete": False}, 0),
    ],
)
def test_only_comparable_runs_are_compared(runs: Path, more: dict[str, Any], count: int) -> None:
    """Runs with other deviations, parameters or settings are not compared, and neither are incomplete ones.

    Consecutive runs are those of the same settings.
    """
    record(runs / "a", 0, answers("model", 0.9, 1))
    assert said(runs) == "1 model, none measured twice in the same way"
    other = {"homophones": {"name": "paper", "settings": {}, "seed": 0}}
    record(runs / "b", 1, answers("model", 0.9, 1), protocols=other)
    record(runs / "c", 2, answers("model", 0.1, 2), **more)
    assert [(s.before.run.run_id, s.after.run.run_id) for s in steps(runs)] == [("a", "c")] * count


def test_accuracy_with_a_target_does_not_drop(runs: Path) -> None:
    """Where 50% is best, fewer correct answers are not worse."""
    for n, correct in enumerate((50, 10)):
        record(runs / f"run-{n}", n, verdicts("implicit", correct, 50 - correct, benchmark="eras"))
    assert steps(runs) == []


def figure(folder: Path, benchmark: str = "homophones") -> Figure:
    """Return the figure on the runs in a folder."""
    members = measurements_of(contents(folder)[0])[benchmark]
    found = figure_of(members, {m.model: 0 for m in members})
    assert found is not None
    return found


def test_lines_connect_runs_that_may_be_compared(runs: Path) -> None:
    """A run with other settings is a point of its own; the lines have the dates and the accuracies."""
    for day, (correct, seed) in enumerate(((0, 0), (5, 0), (10, 0), (5, 1))):
        records = verdicts("asked", correct, 10 - correct, benchmark="homophones")
        record(runs / f"run-{day}", day, records, protocols={"homophones": {**PROTOCOL, "seed": seed}})
    found = figure(runs)
    assert found.alt.startswith(
        "Homophones, accuracy by date: 4 runs of 1 model from 2026-01-01 to 2026-01-04"
    )
    lines = found.draw().axes[0].get_lines()
    assert [list(line.get_ydata()) for line in lines] == [[0.0, 0.5, 1.0], [0.5]]
    first = (date(2026, 1, 1) - date(1970, 1, 1)).days
    assert [[int(day) - first for day in line.get_xdata()] for line in lines] == [[0, 1, 2], [3]]


def test_a_figure_has_the_chance_level(runs: Path) -> None:
    """Guessing is a line where the benchmark defines it; a run without a date has no place."""
    records = verdicts("rhyme", 5, 5, benchmark="htest")
    record(runs / "one", 0, records)
    lines = figure(runs, "htest").draw().axes[0].get_lines()
    assert [len(line.get_xdata()) for line in lines] == [2, 1]
    record(runs.parent / "undated" / "one", 0, records, started="")
    members = measurements_of(contents(runs.parent / "undated")[0])["htest"]
    assert figure_of(members, {m.model: 0 for m in members}) is None
