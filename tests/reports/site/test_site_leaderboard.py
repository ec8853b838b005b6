"""The leaderboard has the numbers and the conclusions of the report on the same runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.run_metadata import RunMetadata
from pytest_llmprops.reports.page.content import report_on
from pytest_llmprops.reports.site.contributions import Contributions
from pytest_llmprops.reports.site.drift import Comparisons
from pytest_llmprops.reports.site.files import SiteFiles
from pytest_llmprops.reports.site.leaderboard import Board, boards_of
from pytest_llmprops.reports.site.measurements import measurements_of
from pytest_llmprops.runs.catalog import run_folders
from pytest_llmprops.runs.pairs import comparable_groups
from pytest_llmprops.runs.reader import read_run
from tests.support.records import recorded, verdict, verdicts
from tests.support.team_runs import answers, record, team


def boards(folder: Path) -> dict[str, list[Board]]:
    """Return the tables on the runs in a folder by benchmark."""
    contributions = Contributions(SiteFiles(folder.parent / "site"))
    by_benchmark = measurements_of(contributions.runs(run_folders([folder])))
    comparisons = Comparisons({}, contributions.run)
    return {name: boards_of(ms, comparisons, contributions.run) for name, ms in by_benchmark.items()}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[Board]:
    """Return the tables on homophones of the team."""
    return boards(team(tmp_path_factory.mktemp("team") / "runs"))["homophones"]


def test_the_numbers_are_those_of_the_report(tables: list[Board]) -> None:
    """Accuracies, intervals, numbers of items, printed figures and the sentence are those of the report."""
    for board in tables:
        report = report_on([read_run(row.measurement.run.folder) for row in board.rows], {})
        # The decision of a gate comes first.
        assert f"{board.finding}." == [report.title, *report.findings][len(report.gates)]
        rows = [(r.label, r.share.value, r.share.low, r.share.high, r.share.n) for r in board.rows if r.share]
        assert rows == [(h.label, h.value, h.low, h.high, h.n) for h in report.overview]
        assert {h.chance for h in report.overview} == {board.chance}
    assert len(tables) == 4


def test_models_that_are_not_clearly_behind_have_no_rank(tables: list[Board]) -> None:
    """Only models that the paired test shows to be behind are called so; differences are model minus best."""
    rows = {row.label: row for row in tables[0].rows}
    assert list(rows) == ["steady", "close", "drifting", "poor*"]
    assert [row.standing for row in rows.values()] == ["best", "close", "behind", "behind"]
    assert rows["steady"].against == "highest, not clearly ahead of 1 of 3"
    assert rows["close"].against.startswith("not clearly behind the best: −4.0 (")
    assert rows["drifting"].against.startswith("behind the best: −27.0 (")


def test_the_latest_complete_run_is_shown(tables: list[Board]) -> None:
    """A row has a model's latest complete run under the same settings, and the number of all of them."""
    rows = {row.label: row for row in tables[0].rows}
    assert (rows["steady"].runs, rows["steady"].measurement.run.run_id) == (4, "steady-3")
    assert (rows["drifting"].runs, rows["drifting"].measurement.run.run_id) == (2, "drifting-1")
    assert rows["steady"].measurement.date == "2026-01-22"
    assert rows["steady"].cost == "0.0123 USD"
    shown = {row.measurement.run.run_id for board in tables for row in board.rows}
    assert shown == {"steady-3", "drifting-1", "close-0", "poor-0", "other-settings", "smoke", "hostile"}


def test_other_settings_and_other_items_have_tables_of_their_own(tables: list[Board]) -> None:
    """A run with another setting or with fewer items shares no table with the others, and the table says why."""
    apart = {board.rows[0].measurement.run.run_id: board.apart for board in tables[1:]}
    assert apart["other-settings"] == ("protocol of homophones: asks 1 → 5",)
    assert apart["smoke"] == ("other items, controls or weights: 5 items instead of 100",)


def test_controls_are_apart_and_printed_figures_are_beside(tables: list[Board]) -> None:
    """Controls have a table of their own, and the paper's figures are below ours."""
    board = tables[0]
    assert [(m.title, m.columns) for m in board.matrices] == [
        ("Controls and tasks that do not count", ("word only",))
    ]
    assert [(p.model, p.value) for p in board.printed][:2] == [("GPT-4", 0.9), ("Ernie-4.0", 0.83)]
    assert all(row.share is not None and row.share.n == 100 for row in board.rows)


def test_repeats_are_named(tmp_path: Path) -> None:
    """A run with several samples of an item is not in the table of those with one, and shows their number."""
    once = verdicts("add", 8, 2, model="once")
    repeated = [verdict("add", n, sample=k, model="often") for n in range(10) for k in range(3)]
    for name, records in (("once", once), ("often", repeated)):
        recorded(tmp_path / "runs" / name, records)
    first, second = boards(tmp_path / "runs")["sums"]
    assert sorted((board.rows[0].label, board.rows[0].items) for board in (first, second)) == [
        ("often", "10 × 3 samples"),
        ("once", "10"),
    ]


def test_unreadable_and_unanswered_models(tmp_path: Path) -> None:
    """A model without a readable reply is named, and one without an answer has no accuracy."""
    statuses = {"mute": "unparsed", "down": "error", "fine": "correct", "other": "wrong"}
    for model, status in statuses.items():
        records = [verdict("add", n, status, model=model) for n in range(20)]  # type: ignore[arg-type]
        recorded(tmp_path / "runs" / model, records)
    [board] = boards(tmp_path / "runs")["sums"]
    assert board.finding == (
        "fine does best on sums: 100.0% (83.2 to 100.0), clearly ahead of the others; no reply of mute could be read"
    )
    assert [(row.label, row.share is None, row.rest) for row in board.rows] == [
        ("fine", False, ""),
        ("mute", False, "20 unparsed"),
        ("other", False, ""),
        ("down", True, "20 errors"),
    ]


def test_runs_without_a_difference_are_in_one_group(tmp_path: Path) -> None:
    """Runs are in one group exactly if no two of them differ; deviations count only if asked."""

    def facts(name: str, **more: Any) -> RunMetadata:
        return read_run(record(tmp_path / name, 0, answers("m", 0.5, 1, items=5), **more)).facts

    other = {"homophones": {"name": "quick", "settings": {"match": "word", "asks": 1}, "seed": 1}}
    runs = [
        facts("a", data={"builtin:homophones/en.jsonl": "1"}),
        facts("b", deviations={"m": ["temperature left out"]}),
        facts("c", protocols=other),
        facts("d", data={"builtin:homophones/en.jsonl": "2"}),
        facts("e", protocols=other),
    ]
    assert comparable_groups(runs, "homophones", deviations=False) == [0, 0, 1, 2, 1]
    assert comparable_groups(runs, "homophones") == [0, 1, 2, 3, 2]
