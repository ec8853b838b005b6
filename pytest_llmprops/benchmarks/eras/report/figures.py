"""Figure 5 of ERAS: accuracy on a sentiment corpus against the garden path error rate and the ERAS accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_llmprops.core.texts import shortened
from pytest_llmprops.reports.kit.figures import (
    LINE,
    MUTED,
    PAPER,
    WIDTH,
    colour,
    legend,
    marker,
    new_figure,
)
from pytest_llmprops.reports.kit.labels import Label, name_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot


@dataclass(frozen=True, slots=True)
class CorpusSpot:
    """A model's accuracy on a corpus and its two ERAS figures; ``series`` is -1 for a published model."""

    label: str
    series: int
    corpus: float
    gper: float | None
    accuracy: float | None


def corpus_plot(spots: Sequence[CorpusSpot], corpus: str, labels: Mapping[int, str]) -> Plot:
    """Return a plot of two panels, GPER and ERAS accuracy; hollow diamonds are the paper's models."""
    figure = new_figure(WIDTH, 3.6)
    left, right = figure.subplots(1, 2, sharex=True)
    figure.subplots_adjust(left=0.09, right=0.98, top=0.86, bottom=0.15, wspace=0.28)
    _panel(left, [(s, s.gper) for s in spots], corpus, "GPER", None)
    _panel(right, [(s, s.accuracy) for s in spots], corpus, "ERAS accuracy", 0.5)
    legend(figure, labels, any(s.series < 0 for s in spots), chance=False)
    return figure


def _panel(
    axes: Axes, spots: Sequence[tuple[CorpusSpot, float | None]], corpus: str, name: str, target: float | None
) -> None:
    if target is not None:
        axes.axhline(target, color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
    points = [(spot, value) for spot, value in spots if value is not None]
    for spot, value in points:
        is_measured = spot.series >= 0
        shade = colour(spot.series) if is_measured else MUTED
        axes.plot(
            spot.corpus, value, marker=marker(spot.series) if is_measured else "D",
            markersize=8 if is_measured else 6, markerfacecolor=shade if is_measured else PAPER,
            markeredgecolor=shade, linestyle="none", zorder=4,
        )  # fmt: skip
    axes.margins(0.12)
    # Up to three digits, because the panels' ranges differ.
    axes.xaxis.set_major_formatter(lambda x, _: f"{100 * x:.3g}%")
    axes.yaxis.set_major_formatter(lambda y, _: f"{100 * y:.3g}%")
    axes.set_xlabel(f"Accuracy on {corpus}")
    axes.set_ylabel(name)
    axes.grid(color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    labels = [
        Label(shortened(s.label, 20), s.corpus, value, colour(s.series) if s.series >= 0 else MUTED)
        for s, value in points
    ]
    name_points(axes, labels, 7.5)
