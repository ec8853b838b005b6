"""Forest plots: shares with intervals, one line per row, published figures as hollow diamonds."""

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
    Point,
    colour,
    legend,
    legend_height,
    margins,
    marker,
    new_figure,
    room,
    share_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot


@dataclass(frozen=True, slots=True)
class Mark:
    """A published figure."""

    model: str
    value: float


@dataclass(frozen=True, slots=True)
class ForestRow:
    """One line of a forest plot. ``chance`` is the accuracy of guessing; ``name`` labels a published row."""

    label: str
    points: tuple[Point, ...]
    marks: tuple[Mark, ...] = ()
    chance: float | None = None


def forest(rows: Sequence[ForestRow], labels: Mapping[int, str]) -> Plot:
    """Return a plot of shares with intervals; published figures are hollow diamonds, the best one is labelled."""
    heights = [_height(row) for row in rows]
    names = [shortened(row.label, 40) for row in rows]
    left = room(names)
    figure = new_figure(WIDTH, 0.62 + sum(heights) * 0.2 + legend_height(labels))
    axes = figure.add_axes(
        margins(figure, left=left, right=1.75, top=0.12 + legend_height(labels), bottom=0.42)
    )
    at = 0.0
    ticks = []
    for row, height in zip(rows, heights, strict=True):
        middle = at + height / 2
        ticks.append(middle)
        _chance(axes, row.chance, at, at + height)
        _draw_row(axes, row, middle)
        axes.axhline(at, color=LINE, linewidth=0.5)
        at += height
    axes.set_yticks(ticks, names, color=TEXT)
    share_axis(axes, "x")
    axes.set_ylim(at, 0)
    legend(figure, labels, any(row.marks for row in rows), any(row.chance for row in rows))
    return figure


def _height(row: ForestRow) -> float:
    return 0.75 + 0.8 * max(1, len(row.points))


def _draw_row(axes: Axes, row: ForestRow, middle: float) -> None:
    for mark in row.marks:
        axes.plot(
            mark.value, middle, marker="D", markersize=5.5, markerfacecolor=PAPER, markeredgecolor=MUTED,
            markeredgewidth=1.1, linestyle="none", zorder=2,
        )  # fmt: skip
    for number, point in enumerate(row.points):
        y = middle + 0.8 * (number - (len(row.points) - 1) / 2)
        _draw_point(axes, point, y)
        axes.annotate(
            f"{100 * point.value:.1f}", (1, y), xytext=(8, 0), textcoords="offset points",
            xycoords=("axes fraction", "data"), va="center", color=colour(point.series), annotation_clip=False,
        )  # fmt: skip
    if row.marks:
        best = max(row.marks, key=lambda mark: mark.value)
        axes.annotate(
            f"{shortened(best.model, 20)} {100 * best.value:.1f}", (1, middle), xytext=(40, 0), fontsize=8,
            textcoords="offset points", xycoords=("axes fraction", "data"), va="center", color=MUTED,
            annotation_clip=False,
        )  # fmt: skip


def _draw_point(axes: Axes, point: Point, y: float) -> None:
    shade = colour(point.series)
    axes.plot([point.low, point.high], [y, y], color=shade, linewidth=1.6, solid_capstyle="butt", zorder=3)
    for end in (point.low, point.high):
        axes.plot([end, end], [y - 0.16, y + 0.16], color=shade, linewidth=1.2, zorder=3)
    axes.plot(
        point.value, y, marker=marker(point.series), markersize=6.5, color=shade, linestyle="none", zorder=4,
        clip_on=False,
    )  # fmt: skip


def panels(
    columns: Sequence[tuple[str, Sequence[ForestRow]]], labels: Mapping[int, str], groups: Mapping[int, str]
) -> Plot:
    """Return several forest plots next to each other, with common rows.

    :param columns: (title, rows) of each panel; every panel has the same rows, some of them without points.
    :param groups: heading above the row with this number.
    """
    count = len(columns[0][1])
    lines = count + 1.1 * len(groups)
    figure = new_figure(WIDTH, 0.75 + 0.215 * lines + legend_height(labels))
    names = [shortened(row.label, 24) for row in columns[0][1]]
    left, gap, top, bottom = room([*names, *groups.values()]), 0.3, 0.32 + legend_height(labels), 0.42
    width = (WIDTH - left - 0.2 - gap * (len(columns) - 1)) / len(columns)
    for number, (title, rows) in enumerate(columns):
        start = left + number * (width + gap)
        axes = figure.add_axes(
            margins(figure, left=start, right=WIDTH - start - width, top=top, bottom=bottom)
        )
        at, ticks = 0.0, []
        for line, row in enumerate(rows):
            if line in groups:
                at += 1.1
                axes.axhline(at - 1.1, color=LINE, linewidth=0.5)
                if not number:
                    axes.annotate(
                        groups[line], (0, at - 0.45), xytext=(-3.5, 0), xycoords=("axes fraction", "data"),
                        textcoords="offset points", va="center", ha="right", weight="bold", annotation_clip=False,
                    )  # fmt: skip
            middle = at + 0.5
            ticks.append(middle)
            for point in row.points:
                _draw_point(axes, point, middle)
            for mark in row.marks:
                axes.plot(
                    mark.value, middle, marker="D", markersize=5, markerfacecolor=PAPER, markeredgecolor=MUTED,
                    linestyle="none",
                )  # fmt: skip
            at += 1
        axes.set_yticks(ticks, names if not number else [""] * count)
        share_axis(axes, "x", few=True)
        axes.set_ylim(at + 0.2, 0)
        axes.set_title(title, loc="left", fontsize=9.5, pad=5, color=TEXT)
    legend(figure, labels, any(row.marks for _, rows in columns for row in rows), False)
    return figure


def _chance(axes: Axes, chance: float | None, top: float, bottom: float) -> None:
    if chance is not None:
        axes.plot(
            [chance, chance], [top, bottom], color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1
        )
