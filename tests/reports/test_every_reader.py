"""All readers of a run: they count items, not samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.core.numbers import with_interval
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.reports.kit.series import Measured, series_of
from pytest_llmprops.reports.terminal import show_lines
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


def test_items_and_samples_are_counted(run: Run) -> None:
    """The page, ``runs show`` and the export have both numbers and every sample; a note explains the accuracy."""
    shown = Shown(run.folder)
    [cells] = shown.table("Results")
    assert (cells["Items"], cells["Samples"], cells["Wrong"]) == ("10", "30", "7")
    low, high, *_ = mean_interval([correct / 3 for correct in SHARES], [str(n) for n in range(10)])
    assert cells["Accuracy"] == with_interval(23 / 30, low, high)
    measured = Measured("sums", series_of([run]))
    assert [r.sample for r in measured.first_samples(measured.series[0])] == [0] * 10
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
