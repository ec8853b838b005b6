"""Segmenters in the ERAS section: Table 1, accuracy by branching, and one pair."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from pytest_llmprops.benchmarks.eras.items import EXPLICIT
from pytest_llmprops.benchmarks.eras.report.branching import PANELS, Accuracies, BranchingRow, branching_plot
from pytest_llmprops.benchmarks.eras.report.cells import (
    GROUPS,
    grouped_columns,
    grouped_rows,
    leading_cells,
    published_cell,
    published_rows,
)
from pytest_llmprops.benchmarks.eras.report.pair import chosen_pair, segmentations
from pytest_llmprops.core.metrics import Place
from pytest_llmprops.data.published_results import find
from pytest_llmprops.reports.kit.blocks import Block, Cell, Figure, Table
from pytest_llmprops.reports.kit.series import Measured
from pytest_llmprops.reports.kit.text import visible

SEGMENTED = ("test_accuracy", "control_accuracy", "difference")


def segmenter_blocks(measured: Measured, places: list[Place], trained: Collection[int]) -> list[Block]:
    """Return Table 1, the figure of left and right branching, and one minimal pair.

    :param trained: indexes of the series that were trained with `llmprops eras train`.
    """
    return [_segmenters(measured, places), *_branching(measured, places, trained), *_pair(measured)]


def _segmenters(measured: Measured, places: list[Place]) -> Table:
    rows = grouped_rows(measured, places, SEGMENTED)
    rows += published_rows(
        "1", lambda model: [published_cell(model, n, g) for g in GROUPS for n in SEGMENTED]
    )
    return Table(
        "Segmenters (Table 1)",
        grouped_columns(("test", "control", "difference")),
        tuple(rows),
        "Percent of sentences with a correctly segmented site, mean over paradigms. Difference: control minus test."
        " Intervals are over paradigms (95%). Left: the true word is the first one."
        " In the paper's four Transformer rows the overall figures are not the mean of left and right.",
    )


def _branching(measured: Measured, places: list[Place], trained: Collection[int]) -> list[Block]:
    rows = []
    for s, place, cells in leading_cells(measured, places):
        values = {}
        for group in PANELS:
            test, control = (measured.metric(s, name, place, group) for name in SEGMENTED[:2])
            if test is not None and test.value is not None:
                values[group] = Accuracies(
                    test.value, control.value if control else None, test.ci_low, test.ci_high
                )
        label = s.starred if len(places) == 1 else f"{s.starred}, {cells[1].text}"
        heading = "Trained" if s.index in trained else "Off the shelf" if trained else "Measured"
        rows.append(BranchingRow(label, s.index, heading, values))
    rows.sort(key=lambda row: row.heading, reverse=True)
    rows += _published_branching()
    if not any(row.values for row in rows if row.series >= 0):
        return []
    return [
        Figure(
            "eras-branching",
            "Left- and right-branching paradigms (Table 1)",
            f"Test and control accuracy of {', '.join(row.label for row in rows)} in left- and right-branching"
            " paradigms; the numbers are in the table above.",
            _drawn(rows),
            "A line leads from a model's control sentences to its test sentences: its length is the garden path effect."
            " Diamonds are the paper's models, on the authors' items.",
        )
    ]


def _drawn(rows: list[BranchingRow]) -> Callable[[], Any]:
    return lambda: branching_plot(rows)


def _published_branching() -> list[BranchingRow]:
    values: dict[str, dict[tuple[str, str], float]] = {}
    for r in find(paper="eras", table="1"):
        values.setdefault(r.model, {})[r.metric, r.setting] = r.value
    return [
        BranchingRow(
            model,
            -1,
            "The paper",
            {g: Accuracies(v["test_accuracy", g], v["control_accuracy", g]) for g in PANELS},
        )
        for model, v in values.items()
        if all((name, g) in v for name in SEGMENTED[:2] for g in PANELS)
    ]


def _pair(measured: Measured) -> list[Block]:
    records = {s.index: measured.records(s, [EXPLICIT]) for s in measured.series}
    chosen = chosen_pair(list(records.values()))
    if chosen is None:
        return []
    rows = []
    for s in measured.series:
        record = next((r for r in records[s.index] if r.id == chosen and "test" in r.values), None)
        if record is not None:
            test, control = segmentations(record)
            outcome = "right" if record.values["test"] else "wrong"
            rows.append((Cell(s.starred), Cell(visible(test)), Cell(visible(control)), Cell(outcome)))
    expected = next(r.expected for members in records.values() for r in members if r.id == chosen)
    columns = (("Model", False), ("Test sentence", False), ("Control sentence", False), ("Test site", False))
    note = f"{chosen}; correct: {visible(expected)}. | is a word boundary, 【 】 mark a wrongly segmented canary word."
    return [Table("One minimal pair", columns, tuple(rows), note)]
