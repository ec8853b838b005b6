"""Plot shares against the number of examples, one small panel per task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_llmprops.core.texts import shortened
from pytest_llmprops.reports.kit.figures import (
    FAINT,
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
    share_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot


@dataclass(frozen=True, slots=True)
class Line:
    """Shares over k of a series (with intervals; dashed with chain of thought), or of a published model (series -1)."""

    series: int
    points: tuple[tuple[int, Point], ...]
    dashed: bool = False


def lines_over_k(
    tasks: Sequence[tuple[str, Sequence[Line]]], ks: Sequence[int], labels: Mapping[int, str], chance: float
) -> Plot:
    """Return a plot with one panel per task and k on the horizontal axis."""
    per_row = 5
    rows = -(-len(tasks) // per_row)
    figure = new_figure(WIDTH, 0.35 + 1.5 * rows + legend_height(labels))
    top = legend_height(labels) + 0.1
    width, height = (WIDTH - 0.5 - 0.1) / per_row, (figure.get_size_inches()[1] - top - 0.25) / rows
    for number, (task, lines) in enumerate(tasks):
        column, row = number % per_row, number // per_row
        left, up = 0.5 + column * width, top + row * height
        box = margins(
            figure, left=left, right=WIDTH - left - width + 0.12, top=up + 0.26,
            bottom=figure.get_size_inches()[1] - up - height + 0.22,
        )  # fmt: skip
        axes = figure.add_axes(box)
        axes.axhline(chance, color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
        for line in lines:
            _draw_line(axes, line, ks, labels)
        axes.set_xticks(range(len(ks)), [f"k={ks[0]}", *map(str, ks[1:])])
        axes.set_xlim(-0.4, len(ks) - 0.6)
        share_axis(axes, "y", few=True)
        if column:
            axes.set_yticklabels([])
        axes.set_title(shortened(task, 20), loc="left", fontsize=9, pad=4, color=TEXT)
    legend(figure, labels, False, True, dashes=any(line.dashed for _, lines in tasks for line in lines))
    return figure


def _draw_line(axes: Axes, line: Line, ks: Sequence[int], labels: Mapping[int, str]) -> None:
    if line.series < 0:
        x = [ks.index(k) for k, _ in line.points]
        axes.plot(
            x,
            [p.value for _, p in line.points],
            color=FAINT,
            linewidth=0.8,
            marker="D",
            markersize=2,
            zorder=1,
        )
        return
    shade = colour(line.series)
    shift = 0.05 * (list(labels).index(line.series) - (len(labels) - 1) / 2) + (0.06 if line.dashed else 0)
    places = [ks.index(k) + shift for k, _ in line.points]
    for place, (_, point) in zip(places, line.points, strict=True):
        axes.plot([place, place], [point.low, point.high], color=shade, linewidth=1.1, zorder=3)
    axes.plot(
        places,
        [p.value for _, p in line.points],
        color=shade,
        linewidth=1.3,
        linestyle=(0, (3, 2)) if line.dashed else "-",
        marker=marker(line.series),
        markersize=4.5,
        markerfacecolor=PAPER if line.dashed else shade,
        zorder=4,
    )
