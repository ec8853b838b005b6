"""Segmenters in the ERAS section: Table 1, its figure by branching, and one pair as an example."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pytest_llmprops.benchmarks.eras.items import EXPLICIT
from pytest_llmprops.benchmarks.eras.judging import NEXT
from pytest_llmprops.benchmarks.eras.report.cells import (
    GROUPS,
    NOTE,
    add_notes,
    grouped_columns,
    grouped_rows,
    leading_cells,
    published_cell,
    published_rows,
)
from pytest_llmprops.core.metrics import Place
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.texts import shortened
from pytest_llmprops.data.published_results import find
from pytest_llmprops.reports.kit.blocks import Block, Cell, Figure, Table, visible
from pytest_llmprops.reports.kit.figures import (
    LINE,
    MUTED,
    PAPER,
    TEXT,
    WIDTH,
    colour,
    margins,
    marker,
    new_figure,
    room,
    share_axis,
)
from pytest_llmprops.reports.kit.series import Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot


PANELS = {"left": "Left-branching", "right": "Right-branching"}
_ROW, _HEADING = 0.23, 1.2


@dataclass(frozen=True, slots=True)
class Accuracies:
    """Shares of correctly segmented test and control sentences; ``low`` and ``high`` limit ``test``."""

    test: float
    control: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class BranchingRow:
    """One model. ``series`` is -1 for a published one; ``values`` has a group of :data:`PANELS` as key."""

    label: str
    series: int
    heading: str
    values: Mapping[str, Accuracies]


def branching_plot(rows: Sequence[BranchingRow], notes: Sequence[str] = ()) -> Plot:
    """Return a plot with a panel per branching: one line per model, from its control to its test accuracy.

    :param rows: in the order shown; rows with one heading are neighbours. :param notes: lines below the panels.
    """
    headings = dict.fromkeys(row.heading for row in rows)
    names = [shortened(row.label, 28) for row in rows]
    left, right, gap, top, bottom = room([*names, *headings]), 0.15, 0.3, 0.62, 0.36
    bottom += NOTE * len(notes)
    height = _ROW * (len(rows) + _HEADING * len(headings))
    figure = new_figure(WIDTH, top + height + bottom)
    width = (WIDTH - left - right - gap) / len(PANELS)
    for number, (group, title) in enumerate(PANELS.items()):
        start = left + number * (width + gap)
        axes = figure.add_axes(
            margins(figure, left=start, right=WIDTH - start - width, top=top, bottom=bottom)
        )
        ticks, at, heading = [], 0.0, ""
        for row in rows:
            if row.heading != heading:
                heading = row.heading
                axes.axhline(at, color=LINE, linewidth=0.5)
                if not number:
                    axes.annotate(
                        heading, (0, at + 0.6 * _HEADING), xytext=(-3.5, 0), va="center", ha="right", weight="bold",
                        xycoords=("axes fraction", "data"), textcoords="offset points", annotation_clip=False,
                    )  # fmt: skip
                at += _HEADING
            ticks.append(at + 0.5)
            if group in row.values:
                _draw(axes, row.series, row.values[group], at + 0.5)
            at += 1
        axes.set_yticks(ticks, names if not number else [""] * len(rows), color=TEXT)
        share_axis(axes, "x", few=True)
        axes.set_ylim(at + 0.2, 0)
        axes.set_title(title, loc="left", fontsize=9.5, pad=5, color=TEXT)
    _legend(figure)
    add_notes(figure, notes)
    return figure


def _draw(axes: Axes, series: int, values: Accuracies, y: float) -> None:
    is_measured = series >= 0
    shade, shape = (colour(series), marker(series)) if is_measured else (MUTED, "D")
    if values.low is not None and values.high is not None:
        axes.plot(
            [values.low, values.high], [y, y], color=shade, linewidth=5, alpha=0.22, solid_capstyle="butt"
        )
    if values.control is not None:
        axes.plot([values.test, values.control], [y, y], color=shade, linewidth=1.2, zorder=2)
        axes.plot(
            values.control, y, marker="o", markersize=5, markerfacecolor=PAPER, markeredgecolor=shade,
            linestyle="none", zorder=3, clip_on=False,
        )  # fmt: skip
    axes.plot(
        values.test, y, marker=shape, markersize=6, color=shade, linestyle="none", zorder=4, clip_on=False
    )


def _legend(figure: Plot) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=MUTED, marker="s", markersize=6, linestyle="none", label="test sentences"),
        Line2D(
            [], [], color=MUTED, marker="o", markersize=5, markerfacecolor=PAPER, linestyle="none",
            label="control sentences",
        ),
        Line2D([], [], color=MUTED, linewidth=5, alpha=0.22, label="95% interval of test"),
    ]  # fmt: skip
    figure.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0.005, 0.995), ncols=3, frameon=False, fontsize=8.5,
        handlelength=1.6, columnspacing=1.6, borderaxespad=0.2, borderpad=0,
    )  # fmt: skip


def chosen_pair(records: Sequence[Sequence[VerdictRecord]]) -> str | None:
    """Return the id of the pair that most segmenters get wrong in the test sentence and right in the control.

    The first of several such pairs is chosen. If there is none, it is the first pair with a wrong test
    sentence, otherwise the first pair; None without records.

    :param records: The explicit verdicts of each segmenter.
    """
    votes: dict[str, int] = {}
    for members in records:
        for record in members:
            values = record.values
            if "test" in values:
                missed = 2 * (not values["test"] and bool(values["control"])) + (not values["test"])
                votes[record.id] = votes.get(record.id, 0) + missed
    return max(votes, key=lambda name: votes[name], default=None)


def segmentations(record: VerdictRecord) -> tuple[str, str]:
    """Return a verdict's test and control sentence, with word boundaries and the canary word in brackets."""
    test, _, control = record.given.partition(NEXT)
    return test, control


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
            partial(branching_plot, rows),
            "A line leads from a model's control sentences to its test sentences: its length is the garden path effect."
            " Diamonds are the paper's models, on the authors' items.",
        )
    ]


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
