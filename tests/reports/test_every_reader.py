"""All readers of a run: they count items, not samples, and have the same columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.reports import tables
from pytest_llmprops.reports.allure import run as allure_run
from pytest_llmprops.reports.compare import terminal_lines
from pytest_llmprops.reports.kit.blocks import Note, Table
from pytest_llmprops.reports.kit.series import Measured, accuracy, series_of
from pytest_llmprops.reports.page.build import run_page, unfolded
from pytest_llmprops.reports.page.content import report_on
from pytest_llmprops.reports.site.build import write_site
from pytest_llmprops.reports.tables import COLUMNS, Column
from pytest_llmprops.reports.terminal import show_lines, summary_lines
from pytest_llmprops.runs.compare import compare
from pytest_llmprops.runs.export import table
from pytest_llmprops.runs.reader import Run, read_run
from pytest_llmprops.statistics.intervals import mean_interval
from tests.support.records import recorded, verdict
from tests.support.report_items import ids_of, unpacked

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
    """The accuracy averages item means, and its interval is that of ten items."""
    share = accuracy(run.records)
    assert share is not None
    means = [correct / 3 for correct in SHARES]
    expected = mean_interval(means, [str(n) for n in range(10)])
    assert (share.value, share.n) == pytest.approx((sum(means) / 10, 10))
    assert (share.low, share.high) == pytest.approx(expected[:2])
    uneven = [r for r in run.records if r.sample == 0 or r.id.endswith("0000")]
    share = accuracy(uneven)
    assert share is not None
    assert share.value == pytest.approx(9 / 10)


def test_first_samples_are_one_record_per_item(run: Run) -> None:
    """Figures and lists of single items get each item once."""
    measured = Measured("sums", series_of([run]))
    [series] = measured.series
    assert [r.sample for r in measured.first_samples(series)] == [0] * 10
    assert len(measured.records(series, ["add"])) == 30


def test_the_page_counts_items_and_samples(run: Run) -> None:
    """The table of results has both numbers, every sample has a row, and a note explains the accuracy."""
    report = report_on([run], {})
    section = report.sections[0]
    blocks = list(unfolded(section.blocks))
    [results] = [b for b in blocks if isinstance(b, Table) and b.title == "Results"]
    names = [name for name, _ in results.columns]
    cells = dict(zip(names, (cell.text for cell in results.rows[0]), strict=True))
    assert (cells["Items"], cells["Samples"], cells["Wrong"]) == ("10", "30", "7")
    assert cells["Accuracy"].startswith("76.7")
    assert any("Items have 3 samples." in b.text for b in blocks if isinstance(b, Note))
    ids = ids_of(report.items)
    samples_of_rows = unpacked(report.items.index)["rows"]["sample"]
    assert (len(ids), len(set(ids))) == (30, 10)
    assert ("sums/en/add/0004", 2) in zip(ids, samples_of_rows, strict=True)
    assert report.table is not None
    [[_, accuracy, number, *_]] = report.table.rows
    assert (accuracy.value, number.value) == pytest.approx((23 / 30, 10))


def test_runs_with_different_numbers_of_samples_are_compared_by_item(tmp_path: Path, run: Run) -> None:
    """A pair is one item with its means; an item that both runs answer equally often is not flipped."""
    once = read_run(recorded(tmp_path / "once", samples(tuple(min(s, 1) for s in SHARES), of=1)))
    comparison = compare([once, run])
    [contrast] = comparison.contrasts
    [change] = contrast.changes
    assert (change.pairs, change.lost, change.gained) == (10, 3, 0)
    assert change.result is not None
    assert change.result.difference == pytest.approx(23 / 30 - 0.9)
    text = "\n".join(terminal_lines(comparison, 200))
    assert "76.7%" in text
    assert "90.0%" in text


def test_show_and_export_have_every_sample(run: Run) -> None:
    """``runs show`` prints items and samples; the export has one row per sample, and typed columns."""
    shown = "\n".join(show_lines(run))
    assert "recorded more than once" not in shown
    [row] = [line.split() for line in shown.splitlines() if line.startswith("  add ")]
    assert row[3:5] == ["10", "30"]
    verdicts = table([run], "verdicts")
    assert len(verdicts) == 30
    assert not verdicts.duplicated(["run_id", "model", "id", "sample"]).any()
    summary = table([run], "summary")
    assert summary.loc[0, "samples"] == 30
    assert str(summary["between_items"].dtype) == str(summary["within_items"].dtype) == "float64"


def test_an_added_column_is_in_every_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Terminal, report, team site and Allure show a column that only the list of columns has."""
    late = Column("late", "Late", lambda rows: 1000 * len(rows), lambda value: f"{value:,.0f}")
    monkeypatch.setattr(tables, "COLUMNS", (*COLUMNS, late))
    run = read_run(recorded(tmp_path / "run", [verdict("add", 0), verdict("take", 0, "error")]))
    head, add, take, total = summary_lines(run.facts, run.records, run.folder, ())[2:6]
    assert head.split()[-2:] == ["errors", "late"]
    assert [line.split()[-2:] for line in (add, take, total)] == [
        ["0", "1,000"],
        ["1", "1,000"],
        ["1", "2,000"],
    ]
    assert [line.split(",")[-2:] for line in allure_run.table(run.facts).splitlines()] == [
        ["errors", "late"], ["0", "1000"], ["1", "1000"]
    ]  # fmt: skip
    page = run_page(run).decode()
    assert page.count(">Late<") == 1
    assert page.count(">1,000<") == 2
    index = write_site([tmp_path / "run"], tmp_path / "site", "none")
    assert "1 error, 2,000 late" in index.read_text(encoding="utf-8")
