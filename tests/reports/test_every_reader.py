"""All readers of a run: they count items, not samples, and have the same columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.reports import tables
from pytest_llmprops.reports.allure import run as allure_run
from pytest_llmprops.reports.kit.series import Measured, accuracy, series_of
from pytest_llmprops.reports.page.build import run_page
from pytest_llmprops.reports.site.build import write_site
from pytest_llmprops.reports.tables import COLUMNS, Column
from pytest_llmprops.reports.terminal import show_lines, summary_lines
from pytest_llmprops.runs.export import table
from pytest_llmprops.runs.reader import Run, read_run
from pytest_llmprops.statistics.intervals import mean_interval
from tests.support.records import recorded, verdict
from tests.support.report_items import ids_of, unpacked
from tests.support.report_sections import Shown

#: correct samples of three, per item
SHARES = (3, 3, 2, 2, 1, 0, 3, 3, 3, 3)


def samples(shares: tuple[int, ...] = SHARES, of: int = 3) -> list[VerdictRecord]:
    """Return the samples of each item, of which the given numbers are correct."""
    return [
        verdict("add", item, "correct" if sample < correct else "wrong", sample=sample)
        for item, correct in enumerate(shares)
        for sample in range(of)
    ]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a run of ten items with three samples each."""
    return read_run(recorded(tmp_path / "repeated", samples()))


def test_accuracy_of_a_report_is_over_items(run: Run) -> None:
    """The accuracy averages item means, with the interval of ten items; lists of single items get each once."""
    means = [correct / 3 for correct in SHARES]
    share = accuracy(run.records)
    assert share is not None
    assert (share.value, share.n) == pytest.approx((sum(means) / 10, 10))
    assert (share.low, share.high) == pytest.approx(mean_interval(means, [str(n) for n in range(10)])[:2])
    uneven = accuracy([r for r in run.records if r.sample == 0 or r.id.endswith("0000")])
    assert uneven is not None
    assert uneven.value == pytest.approx(9 / 10)
    measured = Measured("sums", series_of([run]))
    [series] = measured.series
    assert [r.sample for r in measured.first_samples(series)] == [0] * 10
    assert len(measured.records(series, ["add"])) == 30


def test_items_and_samples_are_counted(run: Run) -> None:
    """The page, ``runs show`` and the export have both numbers and every sample; a note explains the accuracy."""
    shown = Shown(run.folder)
    [cells] = shown.table("Results")
    assert (cells["Items"], cells["Samples"], cells["Wrong"]) == ("10", "30", "7")
    assert cells["Accuracy"].startswith("76.7")
    assert any("Items have 3 samples." in note for note in shown.notes)
    ids = ids_of(shown.report.items)
    assert (len(ids), len(set(ids))) == (30, 10)
    assert ("sums/en/add/0004", 2) in zip(
        ids, unpacked(shown.report.items.index)["rows"]["sample"], strict=True
    )
    assert shown.report.table is not None
    [[_, share, number, *_]] = shown.report.table.rows
    assert (share.value, number.value) == pytest.approx((23 / 30, 10))
    text = "\n".join(show_lines(run))
    assert "recorded more than once" not in text
    [row] = [line.split() for line in text.splitlines() if line.startswith("  add ")]
    assert row[3:5] == ["10", "30"]
    assert not table([run], "verdicts").duplicated(["run_id", "model", "id", "sample"]).any()
    assert table([run], "summary").loc[0, "samples"] == len(table([run], "verdicts")) == 30


def test_an_added_column_is_in_every_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Terminal, report, team site and Allure show a column that only the list of columns has."""
    late = Column("late", "Late", lambda rows: 1000 * len(rows), lambda value: f"{value:,.0f}")
    monkeypatch.setattr(tables, "COLUMNS", (*COLUMNS, late))
    run = read_run(recorded(tmp_path / "run", [verdict("add", 0), verdict("take", 0, "error")]))
    head, add, take, total = summary_lines(run.facts, run.records, run.folder, ())[2:6]
    assert head.split()[-2:] == ["errors", "late"]
    assert [" ".join(line.split()[-2:]) for line in (add, take, total)] == ["0 1,000", "1 1,000", "1 2,000"]
    rows = allure_run.table(run.facts).splitlines()
    assert [",".join(row.split(",")[-2:]) for row in rows] == ["errors,late", "0,1000", "1,1000"]
    page = run_page(run).decode()
    assert page.count(">Late<") == 1
    assert page.count(">1,000<") == 2
    index = write_site([tmp_path / "run"], tmp_path / "site", "none")
    assert "1 error, 2,000 late" in index.read_text(encoding="utf-8")
