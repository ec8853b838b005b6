"""The report section: how often the model names the capital, and how often the largest city."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmprops_capitals.benchmark import ASKED
from pytest_llmprops.report_kit import (
    Cell,
    Figure,
    ForestRow,
    Measured,
    Point,
    Section,
    Table,
    fine_print,
    forest,
    share_cell,
    tables,
)


def section(measured: Measured) -> Section:
    """Return the section: a figure and a table of the named cities, and the parts that every benchmark has."""
    return Section((_figure(measured), _table(measured), *tables(measured), *fine_print(measured)))


def _shares(measured: Measured, index: int) -> list[tuple[str, Mapping[str, Any] | None, str]]:
    """Return (label, row) pairs of one series: capital and largest city, on items where they differ."""
    series = measured.series[index]
    rows = []
    for place in measured.places:
        if place[0] == ASKED:
            rows.append(("the capital", measured.row(series, place)))
            rows.append(("the largest city", measured.metric(series, "largest_city_rate", place)))
    return rows


def _figure(measured: Measured) -> Figure:
    rows = [
        ForestRow(label, (Point(series.index, *row.estimate),))
        for index, series in enumerate(measured.series)
        for label, row in _shares(measured, index)
        if row is not None and row.estimate is not None
    ]
    labels = {series.index: series.starred for series in measured.series}
    return Figure(
        "capitals-cities",
        "The city that the model names",
        "Share of answers with the capital, and with the largest city; the numbers are in the table below.",
        lambda: forest(rows, labels),
    )


def _table(measured: Measured) -> Table:
    rows = tuple(
        (Cell(series.starred), Cell(label), share_cell(row))
        for index, series in enumerate(measured.series)
        for label, row in _shares(measured, index)
    )
    return Table("Cities named", (("Model", False), ("City", False), ("Share", True)), rows)
