"""Two shares of each model against each other, every point named."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_llmprops.core.texts import shortened
from pytest_llmprops.reports.kit.figures import (
    MUTED,
    PAPER,
    WIDTH,
    Point,
    colour,
    margins,
    marker,
    new_figure,
    share_axis,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot


@dataclass(frozen=True, slots=True)
class Spot:
    """A model in a scatter plot; published ones have no intervals (``series`` -1)."""

    label: str
    x: Point
    y: Point
    series: int = -1


def scatter(spots: Sequence[Spot], x_label: str, y_label: str, chance: tuple[float, float]) -> Plot:
    """Two shares of each model against each other, every point named."""
    figure = new_figure(WIDTH, 4.6)
    axes = figure.add_axes(margins(figure, left=0.75, right=0.3, top=0.15, bottom=0.6))
    axes.axvline(chance[0], color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
    axes.axhline(chance[1], color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
    axes.annotate(
        "guessing",
        (chance[0], 1),
        xycoords=("data", "axes fraction"),
        xytext=(4, -9),
        textcoords="offset points",
        color=MUTED,
        fontsize=8,
    )
    top = min(1.0, 0.25 * math.ceil(max(spot.y.high for spot in spots) / 0.25 + 0.2))
    named = placed(spots, top)
    for spot, (dx, dy, side) in zip(spots, named, strict=True):
        ours = spot.series >= 0
        shade = colour(spot.series) if ours else MUTED
        if ours:
            axes.plot([spot.x.low, spot.x.high], [spot.y.value] * 2, color=shade, linewidth=1.4)
            axes.plot([spot.x.value] * 2, [spot.y.low, spot.y.high], color=shade, linewidth=1.4)
        axes.plot(
            spot.x.value, spot.y.value, marker=marker(spot.series) if ours else "D", markersize=8 if ours else 6,
            markerfacecolor=shade if ours else PAPER, markeredgecolor=shade, linestyle="none", zorder=4, clip_on=False,
        )  # fmt: skip
        axes.annotate(
            shortened(spot.label, 40), (spot.x.value, spot.y.value), xytext=(dx, dy), textcoords="offset points",
            va="center", ha=side, color=shade if ours else MUTED, weight="bold" if ours else "normal", fontsize=8.5,
            zorder=5,
        )  # fmt: skip
    share_axis(axes, "x")
    share_axis(axes, "y")
    axes.set_ylim(-0.02, top + 0.02)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    return figure


def placed(spots: Sequence[Spot], top: float) -> list[tuple[float, float, str]]:
    """Where each label stands, in points from its mark, and its alignment: the first of some places at which
    it covers no mark and no label before it; the first at all where there is none."""
    across, up = 455.0, 270.0 / (top + 0.04)
    marks = [(spot.x.value * across, spot.y.value * up) for spot in spots]
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in marks]
    found = []
    for spot, (x, y) in zip(spots, marks, strict=True):
        width = 5.4 * len(shortened(spot.label, 40)) * (1.1 if spot.series >= 0 else 1)
        places = [(10 * sign, dy) for dy in (6, 0, -6, 12, -12, 20, -20, 30, -30, 42) for sign in (1, -1)]
        boxes = []
        for dx, dy in places:
            left = x + dx if dx > 0 else x + dx - width
            boxes.append((left, y + dy - 5, left + width, y + dy + 5))
        free = [
            n
            for n, box in enumerate(boxes)
            if box[0] > -20 and box[1] > -4 and not any(overlap(box, t) for t in taken)
        ]
        chosen = free[0] if free else 0
        taken.append(boxes[chosen])
        dx, dy = places[chosen]
        found.append((float(dx), float(dy), "left" if dx > 0 else "right"))
    return found


def overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether two boxes (left, bottom, right, top) share ground."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
