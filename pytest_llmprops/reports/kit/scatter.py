"""Scatter plots of two shares of each model."""

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
from pytest_llmprops.reports.kit.labels import Label, name_points

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot


@dataclass(frozen=True, slots=True)
class Spot:
    """A model in a scatter plot; published figures have no intervals and ``series`` -1."""

    label: str
    x: Point
    y: Point
    series: int = -1


def scatter(spots: Sequence[Spot], x_label: str, y_label: str, chance: tuple[float, float]) -> Plot:
    """Return a scatter plot of two shares of each model; every point is labelled."""
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
    for spot in spots:
        ours = spot.series >= 0
        shade = colour(spot.series) if ours else MUTED
        if ours:
            axes.plot([spot.x.low, spot.x.high], [spot.y.value] * 2, color=shade, linewidth=1.4)
            axes.plot([spot.x.value] * 2, [spot.y.low, spot.y.high], color=shade, linewidth=1.4)
        axes.plot(
            spot.x.value, spot.y.value, marker=marker(spot.series) if ours else "D", markersize=8 if ours else 6,
            markerfacecolor=shade if ours else PAPER, markeredgecolor=shade, linestyle="none", zorder=4, clip_on=False,
        )  # fmt: skip
    share_axis(axes, "x")
    share_axis(axes, "y")
    axes.set_ylim(-0.02, top + 0.02)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    name_points(axes, [_label(spot) for spot in spots], 8.5)
    return figure


def _label(spot: Spot) -> Label:
    ours = spot.series >= 0
    text = shortened(spot.label, 40)
    return Label(text, spot.x.value, spot.y.value, colour(spot.series) if ours else MUTED, bold=ours)
