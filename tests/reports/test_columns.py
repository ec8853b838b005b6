"""The columns of results are spelled once: a column that is added is in every table of results."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.reports import columns
from pytest_llmprops.reports.allure.run import table
from pytest_llmprops.reports.columns import COLUMNS, Column
from pytest_llmprops.reports.page.build import run_pages
from pytest_llmprops.reports.site.build import write_site
from pytest_llmprops.reports.terminal import summary_lines
from pytest_llmprops.reports.view.rows import row_of
from pytest_llmprops.runs.catalog import Listed
from pytest_llmprops.runs.reader import read_run
from tests.support.records import recorded, verdict


def test_an_added_column_is_in_every_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Terminal, report, ``llmprops view``, team site and Allure show a column that only the list of columns has."""
    late = Column("late", "Late", lambda rows: 1000 * len(rows), lambda value: f"{value:,.0f}")
    monkeypatch.setattr(columns, "COLUMNS", (*COLUMNS, late))
    run = read_run(recorded(tmp_path / "run", [verdict("add", 0), verdict("take", 0, "error")]))
    head, add, take, total = summary_lines(run.facts, run.records, run.folder, ())[2:6]
    assert head.split()[-2:] == ["errors", "late"]
    assert [line.split()[-2:] for line in (add, take, total)] == [
        ["0", "1,000"],
        ["1", "1,000"],
        ["1", "2,000"],
    ]
    row = row_of(Listed(run.folder, run.facts, "complete"), None, {}, 0.0)
    expected = {"Correct": "1", "Wrong": "0", "Errors": "1", "Late": "2,000"}
    assert row["counts"] == row["parts"][0]["counts"] == expected
    assert [line.split(",")[-2:] for line in table(run.facts).splitlines()] == [
        ["errors", "late"], ["0", "1000"], ["1", "1000"]
    ]  # fmt: skip
    page = run_pages(run.folder)["report.html"].decode()
    assert page.count(">Late<") == 1
    assert page.count(">1,000<") == 2
    index = write_site([tmp_path / "run"], tmp_path / "site", "none")
    assert "1 error, 2,000 late" in (index.parent / "leaderboard.html").read_text(encoding="utf-8")
