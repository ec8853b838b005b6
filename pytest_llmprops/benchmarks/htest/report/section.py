"""The H-TEST section of a report: tasks by number of examples, Letter Geometry, and fine-tuned models.

Lee & Lim report the grid in Table 6, the comparison with Letter Geometry in Figure 5, and fine-tuning in Table 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_llmprops.benchmarks.htest.benchmark import FEWEST_READ, GEOMETRY, HTest
from pytest_llmprops.benchmarks.htest.report.training import training_blocks
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.texts import shortened
from pytest_llmprops.data.published_results import PublishedResult, find
from pytest_llmprops.reports.kit.blocks import (
    Block,
    Cell,
    Figure,
    Fold,
    Section,
    Table,
    percent,
    visible,
    with_interval,
    words,
)
from pytest_llmprops.reports.kit.figures import (
    FAINT,
    MUTED,
    PAPER,
    TEXT,
    WIDTH,
    Point,
    Spot,
    colour,
    legend,
    legend_height,
    margins,
    marker,
    new_figure,
    scatter,
    share_axis,
)
from pytest_llmprops.reports.kit.generic import accuracy_figure, detailed, fine_print
from pytest_llmprops.reports.kit.series import Measured, Series, Share, accuracy

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


#: Row of the grid for all items together; it is the mean of the tasks if they have equally many items.
ALL = "all tasks"
#: With more series than this, a forest plot is too tall to read.
MAX_IN_FOREST = 3
ADJUSTED = (
    "† adjusted accuracy: of the replies that could be read (appendix D of the paper), if at least 30% could."
)


def section(measured: Measured) -> Section:
    """Return the section: the grid, Letter Geometry, and the general parts."""
    ks = sorted({k for s in measured.series if (k := _k(s)) is not None})
    blocks: list[Block] = []
    if len(measured.series) <= MAX_IN_FOREST:
        blocks.append(accuracy_figure(measured))
    if (
        _ab_tasks(measured)
        and len(measured.series) > 1
        and len({(_k(s), _cot(s)) for s in measured.series}) > 1
    ):
        blocks.append(_grid_figure(measured, ks))
    if _ab_tasks(measured):
        blocks += [_grid(measured), _published_grid()]
    blocks += _geometry(measured)
    blocks += training_blocks(measured)
    blocks += detailed(measured)
    return Section((*blocks, *fine_print(measured)))


def _k(series: Series) -> int | None:
    k = series.settings("htest").get("k")
    return k if isinstance(k, int) else None


def _cot(series: Series) -> bool:
    return bool(series.settings("htest").get("cot"))


def _ab_tasks(measured: Measured) -> list[str]:
    return list(dict.fromkeys(place[0] for place in measured.places if place[0] != GEOMETRY))


def _tasks_name(measured: Measured) -> str:
    return f"all {'ten' if len(_ab_tasks(measured)) == 10 else len(_ab_tasks(measured))} tasks"


def _accuracy(records: Iterable[VerdictRecord]) -> tuple[Share | None, Share | None]:
    """Return the accuracy, and the adjusted one if some replies could not be read, but not too many."""
    members = [r for r in records if r.status != "error"]
    readable = [r for r in members if r.status in ("correct", "wrong")]
    is_adjusted = FEWEST_READ * len(members) <= len(readable) < len(members)
    return accuracy(members), accuracy(readable) if is_adjusted else None


def _grid(measured: Measured) -> Table:
    import pandas as pd

    series = sorted(measured.series, key=lambda s: (s.model, _cot(s), _k(s) or 0, s.index))
    long = []
    for s in series:
        for task in (*_ab_tasks(measured), ALL):
            tasks = _ab_tasks(measured) if task == ALL else [task]
            share, adjusted = _accuracy(measured.records(s, tasks))
            cell = Cell("–") if share is None else _cell(share, adjusted)
            # The list has no filter for several tasks, so Letter Geometry must not be among its items.
            if task != ALL or GEOMETRY not in {place[0] for place in measured.places}:
                named = {} if task == ALL else {"task": task}
                cell = replace(cell, items={"benchmark": measured.benchmark, **named, "series": str(s.index)})
            long.append({"task": task, "series": s.index, "cell": cell})
    wide = pd.DataFrame(long).pivot(index="task", columns="series", values="cell")
    ks = sorted({k for s in series if (k := _k(s)) is not None})
    rows = [
        (
            Cell(_tasks_name(measured) if task == ALL else words(task)),
            *(wide.at[task, s.index] for s in series),
            *(_best(task, k) for k in ks),
        )
        for task in (*_ab_tasks(measured), ALL)
    ]
    columns = [("Task", False), *((_condition(s, measured), True) for s in series)]
    columns += [(f"Best of the paper, k = {k}", True) for k in ks]
    note = "Guessing gets 50%. The paper's figures are for the authors' items (Table 6)."
    if any("†" in cell.text for row in rows for cell in row):
        note = f"{note} {ADJUSTED}"
    return Table("Task by number of examples", tuple(columns), tuple(rows), note)


def _best(task: str, k: int) -> Cell:
    results = [r for r in _published_results() if r.k == k and r.task == ("average" if task == ALL else task)]
    if not results:
        return Cell("–")
    best = max(results, key=lambda r: r.value)
    return Cell(f"{best.model} {100 * best.value:.1f}", best.value)


def _cell(share: Share, adjusted: Share | None) -> Cell:
    text = with_interval(share.value, share.low, share.high)
    if adjusted is not None:
        text += f"; † {percent(adjusted.value)} of {adjusted.n:,}"
    return Cell(text, share.value, share.low, share.high)


def _condition(series: Series, measured: Measured) -> str:
    k = _k(series)
    parts = [f"k = {k}" if k is not None else series.label]
    if _cot(series):
        parts.append("with CoT")
    text = ", ".join(parts) + ("*" if series.deviations else "")
    same = [s for s in measured.series if (_k(s), _cot(s)) == (k, _cot(series))]
    if len({s.model for s in measured.series}) == 1 and len(same) == 1:
        return text
    return f"{visible(series.model) if len({s.model for s in same}) == len(same) else series.label}, {text}"


def _published_results() -> tuple[PublishedResult, ...]:
    return tuple(
        r for r in find(paper="htest", table="6", metric="accuracy", setting="") if "doubtful" not in r.note
    )


def _published_grid() -> Fold:
    import pandas as pd

    frame = pd.DataFrame(
        [{"model": r.model, "task": r.task, "k": r.k, "value": r.value} for r in _published_results()]
    )
    average = frame[frame["task"] == "average"]
    means = average.pivot(index="model", columns="k", values="value")
    ks = [int(k) for k in means.columns]
    order = means.max(axis=1).sort_values(ascending=False, kind="stable").index
    rows = tuple((Cell(model), *(_number(means.at[model, k]) for k in means.columns)) for model in order)
    table = Table(
        "Mean of the ten tasks", (("Model", False), *((f"k = {k}", True) for k in ks)), rows,
        "From Table 6, without the column with doubtful figures (Command at k = 50).",
    )  # fmt: skip
    tasks = frame[(frame["task"] != "average") & (frame["task"] != GEOMETRY)]
    wide = tasks.pivot(index=["model", "k"], columns="task", values="value")
    names = list(dict.fromkeys(tasks["task"]))
    full = tuple(
        (Cell(model), Cell(str(int(k)), float(k)), *(_number(row[name]) for name in names))
        for (model, k), row in sorted(
            wide.iterrows(), key=lambda pair: (order.get_loc(pair[0][0]), pair[0][1])
        )
    )
    columns = (("Model", False), ("k", True), *((words(name), True) for name in names))
    return Fold("The paper's grid", (table, Table("Task by task", columns, full)))


def _number(value: float) -> Cell:
    return Cell("–") if value != value else Cell(percent(float(value)), float(value))


def _grid_figure(measured: Measured, ks: list[int]) -> Figure:
    models = list(dict.fromkeys(s.model for s in measured.series))
    colours = {model: next(s.index for s in measured.series if s.model == model) for model in models}
    tasks = []
    for task in _ab_tasks(measured):
        lines = []
        printed = [r for r in _published_results() if r.task == task and r.k in ks]
        for name in dict.fromkeys(r.model for r in printed):
            points = sorted(
                (r.k, Point(-1, r.value, r.value, r.value)) for r in printed if r.model == name and r.k
            )
            if len(points) > 1:
                lines.append(Line(-1, tuple(points)))
        for model in models:
            for cot in (False, True):
                points = []
                for s in measured.series:
                    share, _ = _accuracy(measured.records(s, [task]))
                    k = _k(s)
                    if s.model == model and _cot(s) == cot and share and k is not None:
                        points.append((k, Point(colours[model], share.value, share.low, share.high)))
                if points:
                    lines.append(Line(colours[model], tuple(sorted(points, key=lambda p: p[0])), dashed=cot))
        tasks.append((words(task), lines))
    labels = {index: visible(model) for model, index in colours.items()}
    return Figure(
        "htest-grid",
        "Accuracy by number of examples",
        f"One small plot per task: accuracy of {', '.join(labels.values())} at k = {', '.join(map(str, ks))}; "
        "the numbers are in the table below.",
        lambda: lines_over_k(tasks, ks, labels, HTest.chance[""]),
        "Thin grey lines are the paper's models (Table 6), on the authors' items.",
    )


def _geometry(measured: Measured) -> list[Block]:
    spots, rows = [], []
    for s in measured.series:
        ten, ten_adjusted = _accuracy(measured.records(s, _ab_tasks(measured)))
        shape, shape_adjusted = _accuracy(measured.records(s, [GEOMETRY]))
        if ten and shape:
            x, y = (Point(s.index, v.value, v.low, v.high) for v in (ten, shape))
            spots.append(Spot(s.starred, x, y, s.index))
            cells = (_cell(ten, ten_adjusted), _cell(shape, shape_adjusted))
            rows.append((Cell(s.starred), *cells, Cell("this report")))
    if not spots:
        return []
    for model, mean, shape_value, k in _references():
        spots.append(
            Spot(model, Point(-1, mean, mean, mean), Point(-1, shape_value, shape_value, shape_value))
        )
        cells = (Cell(percent(mean), mean), Cell(percent(shape_value), shape_value))
        rows.append((Cell(model), *cells, Cell(f"paper, k = {k}")))
    columns = (("Model", False), ("Ten tasks", True), ("Letter Geometry", True), ("From", False))
    is_adjusted = any("†" in cell.text for row in rows for cell in row)
    table = Table("Ten tasks and Letter Geometry", columns, tuple(rows), ADJUSTED if is_adjusted else "")
    chance = (HTest.chance[""], HTest.chance[GEOMETRY])
    figure = Figure(
        "htest-geometry",
        "H-TEST against Letter Geometry",
        f"The ten tasks against Letter Geometry for {', '.join(s.label for s in spots)}.",
        lambda: scatter(spots, _tasks_name(measured), "Letter Geometry", chance, has_fit=True),
        "Hollow diamonds: the paper's models with both figures, on the authors' items. Line: the linear best fit of all"
        " points, as in Figure 5 of the paper.",
    )
    return [figure, Fold("The numbers of this plot", (table,))]


def _references() -> list[tuple[str, float, float, int]]:
    """Return (model, mean of the ten tasks, Letter Geometry, largest k without doubtful figures)."""
    printed = _published_results()
    references = []
    for shape in (r for r in printed if r.task == GEOMETRY):
        means = [r for r in printed if r.model == shape.model and r.task == "average" and r.k is not None]
        if means:
            best = max(means, key=lambda r: r.k or 0)
            references.append((shape.model, best.value, shape.value, best.k or 0))
    return references
