"""Plots, drawn with matplotlib from plain numbers.

All colours are from :data:`INK` or :data:`SERIES`. In ``report.html`` each becomes a CSS variable, so that plots
follow the page's theme. Series differ in shape as well as in colour.
"""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_llmprops.core.texts import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot

#: colour -> CSS variable
INK = {
    "#1f2328": "--ink",
    "#5d6470": "--muted",
    "#d9dbdf": "--line",
    "#fffffe": "--paper",
    "#9aa0aa": "--faint",
}
TEXT, MUTED, LINE, PAPER, FAINT = INK
#: contrast of at least 4.5:1 on the page; markers differ too, for readers who cannot distinguish the colours
SERIES = ("#1f5fa8", "#b8500a", "#0b7560", "#7b4ab0", "#856404", "#b02a5b")
MARKERS = "os^vDP"
#: settings that make the output reproducible and keep text as text
STYLE: Any = {
    "svg.hashsalt": "llmprops",
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.parse_math": False,
    "text.color": TEXT,
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "axes.facecolor": "none",
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "axes.unicode_minus": False,
}
WIDTH = 7.4
Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Point:
    """A share of one series with its interval; all in [0, 1]."""

    series: int
    value: float
    low: float
    high: float


def colour(series: int) -> str:
    """Return the colour of a series."""
    return SERIES[series % len(SERIES)]


def marker(series: int) -> str:
    """Return the marker shape of a series."""
    return MARKERS[(series // len(SERIES) + series) % len(MARKERS)]


def room(names: Sequence[str]) -> float:
    """Return the width in inches that the longest of ``names`` needs next to an axis."""
    return 0.2 + 0.078 * max(map(len, names))


def new_figure(width: float, height: float) -> Plot:
    """Return an empty figure of this size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def margins(figure: Plot, *, left: float, right: float, top: float, bottom: float) -> Box:
    """Return margins in inches as matplotlib's fractions (left, bottom, width, height)."""
    width, height = figure.get_size_inches()
    return left / width, bottom / height, (width - left - right) / width, (height - top - bottom) / height


def share_axis(axes: Axes, which: str, *, few: bool = False) -> None:
    """Set up an axis from 0 to 100%; ``few`` draws only three ticks, for small panels."""
    ticks = [0, 0.5, 1] if few else [0, 0.25, 0.5, 0.75, 1]
    labels = [f"{100 * tick:.0f}%" for tick in ticks]
    if which == "x":
        axes.set_xlim(-0.02, 1.02)
        axes.set_xticks(ticks, labels)
        if few:
            # The outer labels of neighbouring panels must not touch.
            first, _, last = axes.get_xticklabels()
            first.set_horizontalalignment("left")
            last.set_horizontalalignment("right")
    else:
        axes.set_ylim(-0.02, 1.02)
        axes.set_yticks(ticks, labels)
    axes.grid(axis="x" if which == "x" else "y", color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)


def legend_height(labels: Mapping[int, str]) -> float:
    """Return the height of a legend in inches."""
    return 0.28 * -(-len(labels) // 2) if len(labels) > 1 else 0.28


def legend(
    figure: Plot, labels: Mapping[int, str], published: bool, chance: bool, *, dashes: bool = False
) -> None:
    """Add a legend at the top left: the names of the series, and the meaning of diamonds and dashes."""
    from matplotlib.lines import Line2D

    handles: list[Any] = [
        Line2D(
            [], [], color=colour(n), marker=marker(n), markersize=6, linewidth=1.4, label=shortened(text, 40)
        )
        for n, text in labels.items()
    ]
    if published:
        handles.append(
            Line2D(
                [],
                [],
                color=MUTED,
                marker="D",
                markersize=5,
                markerfacecolor=PAPER,
                linestyle="none",
                label="published",
            )
        )
    if dashes:
        handles.append(
            Line2D([], [], color=MUTED, linestyle=(0, (3, 2)), linewidth=1.3, label="with chain of thought")
        )
    if chance:
        handles.append(Line2D([], [], color=MUTED, linestyle=(0, (2, 2)), linewidth=0.9, label="guessing"))
    figure.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0.005, 0.995), ncols=4 if len(labels) < 3 else 3,
        frameon=False, fontsize=8.5, handlelength=1.8, columnspacing=1.6, borderaxespad=0.2, borderpad=0,
    )  # fmt: skip


def draw(plot: Any) -> tuple[str, bytes]:
    """Return a plot as SVG text and as PNG; ``plot`` is called with this module's style."""
    with _styled():
        figure = plot()
        raster = io.BytesIO()
        svg = _svg(figure)
        figure.savefig(raster, format="png", dpi=160, metadata={"Software": None})
    return svg, raster.getvalue()


def draw_svg(plot: Any) -> str:
    """Return a plot as SVG text, as :func:`draw` does."""
    with _styled():
        return _svg(plot())


@contextlib.contextmanager
def _styled() -> Iterator[None]:
    import matplotlib

    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # The font lacks some scripts: such a label is boxes in the PNG, but text in the SVG.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def _svg(figure: Plot) -> str:
    vector = io.BytesIO()
    figure.savefig(vector, format="svg", metadata={"Date": None, "Creator": None})
    return vector.getvalue().decode("utf-8")


def inline(svg: str, name: str) -> str:
    """Return an SVG for inclusion in a page: CSS variables as colours, unique ids, no XML prologue."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<(metadata|style)\b.*?</\1>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r"url\(#", f"url(#{name}-", svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg)
    shades = {**INK, **{shade: f"--s{n}" for n, shade in enumerate(SERIES)}}
    for shade, variable in shades.items():
        svg = svg.replace(shade, f"var({variable})")
    return svg.replace("'DejaVu Sans'", "var(--sans)").strip()
