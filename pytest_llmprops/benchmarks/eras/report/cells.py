"""Cells and rows that the ERAS tables of a report share: measured models, and the paper's printed rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_llmprops.core.metrics import Place
from pytest_llmprops.core.numbers import interval as limits
from pytest_llmprops.core.texts import shortened
from pytest_llmprops.data.published_results import find
from pytest_llmprops.reports.kit.blocks import Cell, visible
from pytest_llmprops.reports.kit.figures import MUTED
from pytest_llmprops.reports.kit.generic import item_link
from pytest_llmprops.reports.kit.series import Measured, Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

GROUPS = ("overall", "left", "right")
PAPER = "the paper"
Row = tuple[Cell, ...]


def percent_cell(value: float | None, low: float | None = None, high: float | None = None) -> Cell:
    """Return a number on the paper's scale of 0 to 100."""
    if value is None:
        return Cell("–")
    text = f"{100 * value:.1f}"
    if low is not None and high is not None:
        text += f" ({limits(low, high)})"
    return Cell(text, value)


def measured_cell(
    measured: Measured, s: Series, name: str, place: Place, group: str, *, interval: bool = False
) -> Cell:
    """Return the value of a metric, with its 95% interval if ``interval``; a dash if the run has none.

    A value over all pairs opens them.
    """
    row = measured.metric(s, name, place, group)
    if row is None:
        return Cell("–")
    limits = (row.ci_low, row.ci_high) if interval else (None, None)
    cell = percent_cell(row.value, *limits)
    return replace(cell, items=item_link(measured, place, s)) if group == "overall" else cell


def leading_cells(measured: Measured, places: Iterable[Place]) -> list[tuple[Series, Place, list[Cell]]]:
    """Return each measured model and place with the cells that name the model and its items."""
    return [
        (s, place, [Cell(s.starred), Cell(visible(place[2]) + _script(s))])
        for place in places
        for s in measured.series
        if measured.row(s, place) is not None
    ]


def _script(series: Series) -> str:
    script = str(series.settings("eras").get("script") or "simplified")
    return "" if script == "simplified" else f", traditional ({visible(script)})"


def grouped_rows(measured: Measured, places: list[Place], names: Iterable[str]) -> list[Row]:
    """Return one row per measured model, with these metrics overall, left and right."""
    return [
        (
            *cells,
            *(
                measured_cell(measured, s, name, place, group, interval=group == "overall")
                for group in GROUPS
                for name in names
            ),
        )
        for s, place, cells in leading_cells(measured, places)
    ]


def grouped_columns(names: Iterable[str]) -> tuple[tuple[str, bool], ...]:
    """Return the columns of :func:`grouped_rows`; ``names`` are headings in words."""
    columns = [("Model", False), ("Items from", False), *((n[0].upper() + n[1:], True) for n in names)]
    columns += [(f"{group.capitalize()}: {n}", True) for group in ("left", "right") for n in names]
    return tuple(columns)


def published_rows(table: str, cells: Callable[[str], list[Cell]]) -> list[Row]:
    """Return one row per model of a printed table; ``cells`` returns the numbers of a model."""
    models = dict.fromkeys(r.model for r in find(paper="eras", table=table))
    return [(Cell(model), Cell(PAPER), *cells(model)) for model in models]


def published_cell(model: str, metric: str, *settings: str) -> Cell:
    """Return a printed number, of the first of ``settings`` that has one; otherwise a dash."""
    for setting in settings:
        results = find(paper="eras", model=model, metric=metric, setting=setting)
        if results:
            return percent_cell(results[0].value)
    return Cell("–")


#: Height of a note below a plot, in inches.
NOTE = 0.16


def add_notes(figure: Plot, notes: Sequence[str]) -> None:
    """Write notes at the bottom of a plot, one per line; it must leave :data:`NOTE` for each."""
    width, height = figure.get_size_inches()
    for line, note in enumerate(reversed(notes)):
        place = (0.08 / width, (0.07 + NOTE * line) / height)
        figure.text(*place, shortened(note, 125), fontsize=7, color=MUTED, va="bottom")
