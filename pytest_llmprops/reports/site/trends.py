"""Trends: accuracy by date, as small SVG figures without a plotting library, of which a site has many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pytest_llmprops.core.metrics import Place
from pytest_llmprops.reports.kit.blocks import counted, visible, with_interval
from pytest_llmprops.reports.kit.figures import MARKERS, SERIES, marker
from pytest_llmprops.reports.kit.generic import place_label
from pytest_llmprops.reports.kit.series import place_of
from pytest_llmprops.reports.site.measurements import Measurement, ModelIndexes, comparable, measured_of

#: width and height of a figure of a whole benchmark and of one task, in units of the SVG
LARGE, SMALL = (720, 300), (350, 190)
#: space for the axes: left, right, top, bottom
LEFT, RIGHT, TOP, BOTTOM = 40, 12, 10, 26
#: space between two labels of the time axis
LABEL = 90
#: a figure lists the numbers of at most this many runs, the newest ones
MOST_NUMBERS = 500
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

#: a measurement with the estimate that a figure shows: value and limits in [0, 1]
Point = tuple[Measurement, tuple[float, float, float]]


@dataclass(frozen=True, slots=True)
class Line:
    """One model of a figure: SVG paths of the line, the intervals and the marks."""

    label: str
    colour: int
    line: str
    intervals: str
    marks: str


@dataclass(frozen=True, slots=True)
class Trend:
    """One figure. ``dates`` and ``shares`` are the labels of the axes with their places.

    :param numbers: date, model, accuracy with interval, number of items, and number of the run, newest first.
    """

    title: str
    alt: str
    width: int
    height: int
    lines: tuple[Line, ...]
    dates: tuple[tuple[float, str], ...]
    shares: tuple[tuple[float, str], ...]
    chance: float | None
    numbers: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class Section:
    """The figures of one benchmark: all headline tasks together, then each task."""

    benchmark: str
    title: str
    main: Trend
    tasks: tuple[Trend, ...]
    legend: tuple[tuple[str, int, str], ...]


def trends_of(
    measurements: Sequence[Measurement], models: ModelIndexes, run_numbers: dict[str, int]
) -> Section | None:
    """Return the figures of one benchmark; None if no run has a date and an answer.

    :param run_numbers: the number of each run by its key.
    """
    dated = [m for m in measurements if _seconds(m) is not None and m.share]
    if not dated:
        return None
    measured = measured_of(dated)
    chance = measured.facts.chance_of()
    points = [(m, (m.share.value, m.share.low, m.share.high)) for m in dated if m.share]
    title = f"{measured.facts.title}, accuracy by date"
    main = _trend(title, points, models, run_numbers, LARGE, chance)
    places = sorted({place_of(row) for m in dated for row in m.rows})
    tasks = []
    for place in places if len(places) > 1 else ():
        members = [
            (m, estimate)
            for m in dated
            for row in m.rows
            if place_of(row) == place and (estimate := row.estimate) is not None
        ]
        if members:
            name = _name(place, places, measured.facts.controls)
            chance = measured.facts.chance_of(place[0])
            tasks.append(_trend(name, members, models, run_numbers, SMALL, chance))
    names = sorted({m.model for m in dated})
    legend = tuple((visible(name), models[name] % len(SERIES), glyph(models[name])) for name in names)
    return Section(measured.benchmark, measured.facts.title, main, tuple(tasks), legend)


def _name(place: Place, places: list[Place], controls: Iterable[str]) -> str:
    return place_label(place, places) + (" (control)" if place[0] in controls else "")


def glyph(index: int) -> str:
    """Return the path of a model's mark."""
    return SHAPES[marker(index)]


def _seconds(m: Measurement) -> float | None:
    try:
        return datetime.fromisoformat(m.run.started).timestamp()
    except ValueError:
        return None


def _trend(
    title: str,
    points: Sequence[Point],
    models: ModelIndexes,
    run_numbers: dict[str, int],
    size: tuple[int, int],
    chance: float | None,
) -> Trend:
    width, height = size
    times = {id(m): _seconds(m) or 0.0 for m, _ in points}
    first, last = min(times.values()), max(times.values())
    inside = width - LEFT - RIGHT

    def across(seconds: float) -> float:
        share = 0.5 if first == last else (seconds - first) / (last - first)
        # Marks and labels do not touch the axis.
        return LEFT + 8 + share * (inside - 16)

    def up(share: float) -> float:
        return TOP + (1 - share) * (height - TOP - BOTTOM)

    # Lines connect runs that may be compared.
    estimates = {id(m): estimate for m, estimate in points}
    lines = []
    for model in sorted({m.model for m, _ in points}):
        own = [m for m, _ in points if m.model == model]
        line, intervals, marks = "", "", ""
        for group in comparable(own, deviations=False):
            places = [(across(times[id(m)]), *map(up, estimates[id(m)])) for m in group]
            line += "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y, _, _ in places)
            intervals += "".join(f"M{x:.1f} {low:.1f}V{high:.1f}" for x, _, low, high in places)
            marks += "".join(f"M{x:.1f} {y:.1f}{glyph(models[model])}" for x, y, _, _ in places)
        lines.append(Line(visible(model), models[model] % len(SERIES), line, intervals, marks))
    count = max(1, min(8, inside // LABEL))
    shown = [first + (last - first) * n / (count - 1) for n in range(count)] if first < last else [first]
    labels = {datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%d"): across(t) for t in reversed(shown)}
    dates = tuple((place, label) for label, place in labels.items())
    ticks = tuple((up(share), f"{100 * share:.0f}%") for share in (0, 0.25, 0.5, 0.75, 1))
    newest = sorted(points, key=lambda p: (p[0].order, p[0].model), reverse=True)[:MOST_NUMBERS]
    numbers = tuple(
        (m.date, visible(m.starred), with_interval(*estimate), _answered(m), run_numbers[m.run.key])
        for m, estimate in newest
    )
    days = sorted(m.date for m, _ in points)
    alt = f"{title}: {counted(len(points), 'run')} of {counted(len(lines), 'model')} from {days[0]} to {days[-1]}"
    return Trend(
        title, f"{alt}; the numbers are below.", width, height, tuple(lines), dates, ticks,
        None if chance is None else up(chance), numbers,
    )  # fmt: skip


def _answered(m: Measurement) -> int:
    return m.share.n if m.share else 0
