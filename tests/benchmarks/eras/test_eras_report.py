"""ERAS in the report: tables 1 and 2 with the paper's rows, figures, one example pair, and paradigms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.eras.report import ACCURACIES, read_accuracies
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.reports.kit.blocks import Figure, Note, Table
from pytest_llmprops.reports.kit.figures import draw
from tests.support.eras_records import explicit, implicit, write
from tests.support.report_sections import Shown


def table(shown: Shown, title: str) -> dict[str, dict[str, str]]:
    """Map the first cell of each row to a map from heading to text."""
    return {next(iter(row.values())): row for row in shown.table(title)}


PAIRS = [explicit(*four) for four in ((1, 0, 1, 1), (1, 1, 1, 1), (2, 0, 0, 0), (2, 1, 0, 1), (4, 0, 1, 1))]


def test_table_1_has_the_papers_rows(tmp_path: Path) -> None:
    """The measured row has the metrics' numbers, and the paper's rows have the printed ones."""
    protocols = {"eras": {"name": "quick", "settings": {"script": "chinese-converter"}}}
    rows = table(Shown(write(tmp_path, PAIRS, protocols=protocols)), "Segmenters (Table 1)")
    own = rows["model"]
    assert own["Test"].startswith("66.7 (")
    assert own["Control"].startswith("83.3 (")
    assert (own["Left: test"], own["Right: test"], own["Right: difference"]) == ("100.0", "50.0", "25.0")
    assert own["Items from"] == "builtin, traditional (chinese-converter)"
    printed = rows["MaxMatch"]
    assert [printed[n] for n in ("Test", "Control", "Difference", "Left: test", "Right: test")] == [
        "64.1", "100.0", "35.9", "82.6", "37.5",
    ]  # fmt: skip
    assert {name: row["Items from"] for name, row in rows.items() if name != "model"} == {
        **dict.fromkeys(("AS (hant)", "CityU (yue)", "Jieba"), "the paper, traditional"),
        **dict.fromkeys(("PKU", "MSR", "PKUSEG", "MaxMatch"), "the paper, simplified"),
    }


def test_warnings_come_first(tmp_path: Path) -> None:
    """The run's remarks on ERAS are warnings above the tables; those on other benchmarks are not."""
    remarks = [
        {"model": "model", "benchmark": name, "text": text, "warning": text == "degenerate"}
        for name, text in (("eras", "degenerate"), ("sums", "degenerate"), ("eras", "edits: 1 of 2"))
    ]
    first, second, third, *_ = Shown(write(tmp_path, PAIRS, remarks=remarks)).section.blocks
    assert [first, second] == [Note("model: degenerate.", "warn"), Note("model: edits: 1 of 2.")]
    assert isinstance(third, Table)


def test_branching_figure_has_measured_and_printed_models(tmp_path: Path) -> None:
    """The figure has a line per model in each panel, and the paper's models below the measured ones."""
    [figure] = Shown(write(tmp_path, PAIRS)).every(Figure)
    assert "Test and control accuracy of model, AS (hant), CityU (yue)" in figure.alt
    svg, _ = draw(figure.draw)
    assert all(f">{text}<" in svg for text in ("Left, test", "Measured", "The paper", "model", "MaxMatch"))
    left, _, right, _ = figure.draw().axes
    for axes, numbers in (
        (left, [1, 0.914, 0.832, 0.942, 0.958, 0.712, 0.784, 0.826]),
        (right, [0.5, 0.766, 0.92, 0.824, 0.883, 0.658, 0.712, 0.375]),
    ):
        points = [line for line in axes.lines if line.get_marker() not in ("None", "", None)]
        shown = [x for line in points for x in line.get_xdata()]
        assert shown == numbers


SCORED = [implicit(1, 0.2, 0.6), implicit(2, 0.9, 0.4), implicit(4, 0.1, 0.2)]


def accuracies(folder: Path, **changed: object) -> None:
    numbers = {"accuracy": 0.9, "ci_low": 0.8, "ci_high": 0.95, "n": 100}
    row = {"model": "model", "file": "ChnSentiCorp_test.tsv", **numbers}
    (folder / ACCURACIES).write_text(json.dumps([row | changed]), encoding="utf-8")


def test_table_2_has_the_papers_rows(tmp_path: Path) -> None:
    """The table has the measured row, the paper's models and the human row, on a scale of 0 to 100."""
    folder = write(tmp_path, SCORED)
    accuracies(folder)
    rows = table(Shown(folder), "Sentiment (Table 2)")
    assert rows["model"]["Accuracy"].startswith("33.3 (")
    assert rows["model"]["Ties"] == "0.0"
    assert (rows["model"]["Diff. +/-"], rows["model"]["Diff. -/+"]) == ("40.0", "-20.0")
    assert (rows["model"]["ChnSentiCorp"], rows["model"]["ASAP"]) == ("90.0", "–")
    assert rows["Humans"]["Items from"] == "the paper"
    assert [rows["Humans"][n] for n in ("Accuracy", "GPER", "Necessity")] == ["50.6", "8.7", "–"]
    assert rows["RoBERTa-110M"] == {
        "Model": "RoBERTa-110M", "Items from": "the paper", "GPER": "45.4", "Accuracy": "41.7", "Necessity": "77.9",
        "Sufficiency": "89.4", "Ties": "–", "Diff. +/-": "6.3", "Diff. +/0": "4.9", "Diff. -/0": "2.3",
        "Diff. -/+": "-18.7", "ASAP": "97.8", "ChnSentiCorp": "96.6",
    }  # fmt: skip


def test_figure_5_needs_accuracies(tmp_path: Path) -> None:
    """The report has two plots per corpus on which a run was measured, with the paper's models."""
    folder = write(tmp_path, SCORED)
    assert not Shown(folder).every(Figure)
    accuracies(folder)
    figures = Shown(folder).every(Figure)
    assert [figure.name for figure in figures] == [
        f"eras-figure-5-chnsenticorp-{name}" for name in ("gper", "pair_accuracy")
    ]
    for figure, value in zip(figures, (2 / 3, 1 / 3), strict=True):
        assert "WWM+CWS" in figure.alt
        [axes] = figure.draw().axes
        points = [tuple(line.get_xydata()[0]) for line in axes.lines if line.get_marker() not in ("None", "")]
        assert (0.9, pytest.approx(value)) in points
        assert min(x for x, _ in points) > axes.get_xlim()[0] > 0.5, "the axes show the range of the points"


def test_damaged_accuracies_are_one_line(tmp_path: Path) -> None:
    """A file that the command did not write is a one-line error that names it."""
    for text in ("{", "[1]", '[{"model": "model"}]', '{"a": 1}'):
        (tmp_path / ACCURACIES).write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=f"^[^\n]*{ACCURACIES}[^\n]*$"):
            read_accuracies(tmp_path, "model")
