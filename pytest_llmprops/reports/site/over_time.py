"""Accuracy by date: one SVG figure per benchmark, with one line per model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pytest_llmprops.core.numbers import counted
from pytest_llmprops.reports.kit.blocks import visible
from pytest_llmprops.reports.kit.figures import MARKERS, SERIES, marker
from pytest_llmprops.reports.site.measurements import Measurement, comparable, measured_of

#: width and height in units of the SVG
WIDTH, HEIGHT = 720, 300
#: space for the axes
LEFT, RIGHT, TOP, BOTTOM = 40, 12, 10, 26
#: most labels of the time axis
LABELS = 7
#: paths around the origin for each of matplotlib's markers, about 8 units wide
SHAPES = {
    "o": "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
    "s": "m-3.5-3.5h7v7h-7z",
    "^": "m0-4.5 4.3 8h-8.6z",
    "v": "m0 4.5 4.3-8h-8.6z",
    "D": "m0-4.8 4.8 4.8-4.8 4.8-4.8-4.8z",
    "P": "m-1.6-4.5h3.2v2.9h2.9v3.2h-2.9v2.9h-3.2v-2.9h-2.9v-3.2h2.9z",
}
assert set(SHAPES) == set(MARKERS)


@dataclass(frozen=True, slots=True)
class Line:
    """One model: SVG paths of the line, the intervals and the marks. ``shape`` is the path of one mark."""

    label: str
    colour: int
    shape: str
    line: str
    intervals: str
    marks: str


@dataclass(frozen=True, slots=True)
class Figure:
    """One benchmark. ``dates`` and ``shares`` are the labels of the axes with their places."""

    title: str
    alt: str
    lines: tuple[Line, ...]
    dates: tuple[tuple[float, str], ...]
    shares: tuple[tuple[float, str], ...]
    chance: float | None


def figure_of(measurements: Sequence[Measurement], numbers: Mapping[str, int]) -> Figure | None:
    """Return the figure of one benchmark; None if no run has a date and an accuracy.

    :param numbers: the number of each model, which determines its colour and shape.
    """
    times = {id(m): seconds for m in measurements if m.share and (seconds := _seconds(m)) is not None}
    dated = [m for m in measurements if id(m) in times]
    if not dated:
        return None
    first, last = min(times.values()), max(times.values())

    def across(seconds: float) -> float:
        share = 0.5 if first == last else (seconds - first) / (last - first)
        # Marks and labels do not touch the axis.
        return LEFT + 8 + share * (WIDTH - LEFT - RIGHT - 16)

    lines = []
    for model in sorted({m.model for m in dated}):
        shape, line, intervals, marks = SHAPES[marker(numbers[model])], "", "", ""
        # Lines connect runs that may be compared.
        for group in comparable([m for m in dated if m.model == model], deviations=False):
            places = [
                (across(times[id(m)]), *map(_up, (m.share.value, m.share.low, m.share.high)))
                for m in group
                if m.share
            ]
            line += "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y, _, _ in places)
            intervals += "".join(f"M{x:.1f} {low:.1f}V{high:.1f}" for x, _, low, high in places)
            marks += "".join(f"M{x:.1f} {y:.1f}{shape}" for x, y, _, _ in places)
        lines.append(Line(visible(model), numbers[model] % len(SERIES), shape, line, intervals, marks))
    ticks = [first + (last - first) * n / (LABELS - 1) for n in range(LABELS)] if first < last else [first]
    days = {datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%d"): across(t) for t in reversed(ticks)}
    facts = measured_of(dated).facts
    title = f"{facts.title}, accuracy by date"
    counts = f"{counted(len(dated), 'run')} of {counted(len(lines), 'model')}"
    chance = facts.chance_of()
    return Figure(
        title,
        f"{title}: {counts} from {dated[0].date} to {dated[-1].date}; the table of runs has the numbers.",
        tuple(lines),
        tuple((place, day) for day, place in days.items()),
        tuple((_up(share), f"{100 * share:.0f}%") for share in (0, 0.25, 0.5, 0.75, 1)),
        None if chance is None else _up(chance),
    )


def _up(share: float) -> float:
    return TOP + (1 - share) * (HEIGHT - TOP - BOTTOM)


def _seconds(m: Measurement) -> float | None:
    try:
        return datetime.fromisoformat(m.run.started).timestamp()
    except ValueError:
        return None
