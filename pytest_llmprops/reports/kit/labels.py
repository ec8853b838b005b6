"""Names next to the points of a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
