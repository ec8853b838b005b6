"""Plots, drawn with matplotlib from plain numbers.

All colours are from :data:`INK` or :data:`SERIES`. In ``report.html`` each becomes a CSS variable, so that plots
follow the page's theme. Series differ in shape as well as in colour.
"""

from __future__ import annotations

import contextlib
import io
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import linear_regression
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_llmprops.core.faults import fault_text
from pytest_llmprops.core.texts import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot

T = TypeVar("T")

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


def legend(figure: Plot, labels: Mapping[int, str], published: bool, chance: bool) -> None:
    """Add a legend at the top left: the names of the series, and the meaning of diamonds and dashes."""
    from matplotlib.lines import Line2D

    def handle(label: str, **look: Any) -> Line2D:
        return Line2D([], [], label=label, **{"color": MUTED, **look})

    handles = [
        handle(shortened(text, 40), color=colour(n), marker=marker(n), markersize=6, linewidth=1.4)
        for n, text in labels.items()
    ]
    if published:
        handles.append(handle("published", marker="D", markersize=5, markerfacecolor=PAPER, linestyle="none"))
    if chance:
        handles.append(handle("guessing", linestyle=(0, (2, 2)), linewidth=0.9))
    figure.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0.005, 0.995), ncols=4 if len(labels) < 3 else 3,
        frameon=False, fontsize=8.5, handlelength=1.8, columnspacing=1.6, borderaxespad=0.2, borderpad=0,
    )  # fmt: skip


def draw(plot: Any) -> tuple[str, bytes]:
    """Return a plot as SVG text and as PNG; ``plot`` is called with this module's style."""

    def files(figure: Plot) -> tuple[str, bytes]:
        raster = io.BytesIO()
        figure.savefig(raster, format="png", dpi=160, metadata={"Software": None})
        return _svg(figure), raster.getvalue()

    return _drawn(plot, files)


def draw_svg(plot: Any) -> str:
    """Return a plot as SVG text, as :func:`draw` does."""
    return _drawn(plot, _svg)


def _drawn(plot: Callable[[], Plot], write: Callable[[Plot], T]) -> T:
    """Return the files of a plot; of one that cannot be drawn from the values of a record, of a plot that says so."""
    with _styled():
        try:
            return write(plot())
        except Exception as error:
            from matplotlib.figure import Figure

            empty = Figure(figsize=(7, 0.6))
            empty.text(
                0, 0.5, shortened(f"This figure cannot be drawn: {fault_text(error)}", 110), va="center"
            )
            return write(empty)


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


#: half the size of a mark, in points
_MARK = 5.0
#: offsets of a name from its point, in points, best first; negative x is to the left
_PLACES = tuple(
    (10.0 * side, float(up)) for up in (0, 7, -7, 12, -12, 20, -20, 30, -30, 42) for side in (1, -1)
)


@dataclass(frozen=True, slots=True)
class Label:
    """The name of the point (``x``, ``y``), in data coordinates.

    :param bold: for a point with intervals: the name is placed next to its lines, not on them.
    """

    text: str
    x: float
    y: float
    color: str
    bold: bool = False


def name_points(axes: Axes, labels: Sequence[Label], size: float) -> None:
    """Write each name at the first position in the axes where it covers no point and no earlier name.

    If no position is free, names overlap. Call this last, after the axes and their limits are final, because
    matplotlib measures the drawn names. (adjustText places names farther away, and at an edge over their own points.)

    :param size: font size in points.
    """
    from matplotlib.transforms import Bbox

    if not labels:
        return
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    pixels = figure.dpi / 72
    marks = axes.transData.transform([(label.x, label.y) for label in labels])
    occupied = [Bbox([mark - _MARK * pixels, mark + _MARK * pixels]) for mark in marks]
    inside = axes.get_window_extent().padded(_MARK * pixels)
    for label in labels:
        text = axes.annotate(
            label.text, (label.x, label.y), textcoords="offset points", xytext=_PLACES[0], va="center",
            color=label.color, fontsize=size, weight="bold" if label.bold else "normal", zorder=5,
        )  # fmt: skip
        places = (*_PLACES[2:], *_PLACES[:2]) if label.bold else _PLACES
        boxes = []
        for place in places:
            text.set(position=place, horizontalalignment="left" if place[0] > 0 else "right")
            boxes.append(text.get_window_extent())
        fitting = [n for n, box in enumerate(boxes) if inside.x0 <= box.x0 and box.x1 <= inside.x1]
        free = [n for n in fitting if not boxes[n].count_overlaps(occupied)]
        chosen = (free or fitting or [0])[0]
        place = places[chosen]
        text.set(position=place, horizontalalignment="left" if place[0] > 0 else "right")
        occupied.append(boxes[chosen])


@dataclass(frozen=True, slots=True)
class Spot:
    """A model in a scatter plot; published figures have no intervals and ``series`` -1."""

    label: str
    x: Point
    y: Point
    series: int = -1


def scatter(
    spots: Sequence[Spot],
    x_label: str,
    y_label: str,
    chance: tuple[float, float] | None,
    *,
    has_fit: bool = False,
) -> Plot:
    """Return a scatter plot of two shares of each model; every point is labelled.

    :param chance: what guessing gets; without it, the axes show only the range of the points.
    :param has_fit: draw the line of least squares through all points, if they differ in ``x``.
    """
    figure = new_figure(WIDTH, 4.6)
    axes = figure.add_axes(margins(figure, left=0.75, right=0.3, top=0.15, bottom=0.6))
    if chance is not None:
        axes.axvline(chance[0], color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
        axes.axhline(chance[1], color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
        axes.annotate(
            "guessing", (chance[0], 1), xycoords=("data", "axes fraction"), xytext=(4, -9),
            textcoords="offset points", color=MUTED, fontsize=8,
        )  # fmt: skip
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
    if has_fit and (line := _fitted([(spot.x.value, spot.y.value) for spot in spots])) is not None:
        axes.plot(*line, color=MUTED, linewidth=1.0, zorder=1)
    share_axis(axes, "x")
    share_axis(axes, "y")
    if chance is None:
        from matplotlib.ticker import AutoLocator

        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(AutoLocator())
            axis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
        axes.margins(0.12)
        axes.autoscale()
    else:
        axes.set_ylim(-0.02, top + 0.02)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    name_points(axes, [_label(spot) for spot in spots], 8.5)
    return figure


def _fitted(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]] | None:
    """Return the ends of the line of least squares as (x values, y values); None if all x are equal."""
    xs, ys = zip(*points, strict=True)
    if min(xs) == max(xs):
        return None
    slope, start = linear_regression(xs, ys)
    ends = [min(xs), max(xs)]
    return ends, [start + slope * x for x in ends]


def _label(spot: Spot) -> Label:
    ours = spot.series >= 0
    text = shortened(spot.label, 40)
    return Label(text, spot.x.value, spot.y.value, colour(spot.series) if ours else MUTED, bold=ours)


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
    heights = [0.75 + 0.8 * max(1, len(row.points)) for row in rows]
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
        if row.chance is not None:
            axes.plot(
                [row.chance] * 2,
                [at, at + height],
                color=MUTED,
                linewidth=0.9,
                linestyle=(0, (2, 2)),
                zorder=1,
            )
        _draw_row(axes, row, middle)
        axes.axhline(at, color=LINE, linewidth=0.5)
        at += height
    axes.set_yticks(ticks, names, color=TEXT)
    share_axis(axes, "x")
    axes.set_ylim(at, 0)
    legend(figure, labels, any(row.marks for row in rows), any(row.chance for row in rows))
    return figure


def _draw_row(axes: Axes, row: ForestRow, middle: float) -> None:
    _diamonds(axes, row.marks, middle)
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


def _diamonds(axes: Axes, marks: Sequence[Mark], y: float) -> None:
    for mark in marks:
        axes.plot(
            mark.value, y, marker="D", markersize=5, markerfacecolor=PAPER, markeredgecolor=MUTED,
            linestyle="none", zorder=2, clip_on=False,
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
            _diamonds(axes, row.marks, middle)
            at += 1
        axes.set_yticks(ticks, names if not number else [""] * count)
        share_axis(axes, "x", few=True)
        axes.set_ylim(at + 0.2, 0)
        axes.set_title(title, loc="left", fontsize=9.5, pad=5, color=TEXT)
    legend(figure, labels, any(row.marks for _, rows in columns for row in rows), False)
    return figure
