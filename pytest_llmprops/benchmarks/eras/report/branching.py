"""Test and control accuracy of segmenters in left- and right-branching paradigms, as a figure (Table 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_llmprops.core.texts import shortened
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


def branching_plot(rows: Sequence[BranchingRow]) -> Plot:
    """Return a plot with a panel per branching: one line per model, from its control to its test accuracy.

    :param rows: in the order shown; rows with one heading are neighbours.
    """
    headings = dict.fromkeys(row.heading for row in rows)
    names = [shortened(row.label, 28) for row in rows]
    left, right, gap, top, bottom = room([*names, *headings]), 0.15, 0.3, 0.62, 0.36
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
