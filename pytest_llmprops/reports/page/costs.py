"""The report's section on tokens, time and cost, and on accuracy against cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pytest_llmprops.reports.kit.blocks import Block, Cell, Figure, Section, Table
from pytest_llmprops.reports.kit.series import Measured, Series, Share
from pytest_llmprops.reports.kit.text import counted, file_name, words
from pytest_llmprops.reports.page.usage import Spent, TaskOfSeries

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

NOTE = (
    "Of the calls that the record has, each counted once. Seconds are those of a call when it was made, without waiting"
    " for a free slot; p50 is the median, and 5% of the calls took longer than p95. Cost is at the prices in run.json,"
    " also for stored replies, whose calls an earlier run paid for."
)
COLUMNS = ("Calls", "Prompt tokens", "Reply tokens", "p50, s", "p95, s", "USD", "USD per 1,000 items")


def cost_section(
    parts: Sequence[Measured], series: Sequence[Series], spent: Mapping[TaskOfSeries, Spent]
) -> Section | None:
    """Return the section; None if no run has recorded calls."""
    if not any(task.calls for task in spent.values()):
        return None
    blocks: list[Block] = []
    for measured in parts:
        points = _points(measured, spent)
        if len(points) > 1:
            blocks.append(
                Figure(
                    f"{file_name(measured.benchmark)}-cost",
                    f"Accuracy against cost: {measured.facts.title}",
                    f"Accuracy on {measured.facts.title} of {', '.join(s.starred for s, _, _ in points)} by cost per"
                    " 1,000 items; the costs are in the table below.",
                    partial(_scatter, points),
                )
            )
    rows = [row for measured in parts for row in _rows(measured, spent, several=len(parts) > 1)]
    columns = [("Benchmark", False)] if len(parts) > 1 else []
    columns += [("Task", False), ("Model", False), *((name, True) for name in COLUMNS)]
    total = Table("Tokens, time and cost by task", tuple(columns), tuple(rows), NOTE)
    calls = sum(task.calls for task in spent.values())
    return Section((*blocks, total), title="Cost and time", about=f"{counted(calls, 'recorded call')}.")


def _rows(
    measured: Measured, spent: Mapping[TaskOfSeries, Spent], *, several: bool
) -> Iterable[tuple[Cell, ...]]:
    tasks = dict.fromkeys(key.task for key in spent if key.benchmark == measured.benchmark)
    for task in tasks:
        for s in measured.series:
            one = spent.get(TaskOfSeries(s.index, measured.benchmark, task))
            if one is None or not one.calls:
                continue
            link = {"benchmark": measured.benchmark, "task": task, "series": str(s.index)}
            cells = [Cell(measured.facts.title)] if several else []
            yield (*cells, Cell(words(task), items=link), Cell(s.starred), *_cells(one))


def _cells(spent: Spent) -> list[Cell]:
    has_tokens = spent.prompt_tokens or spent.completion_tokens
    cells = [Cell(f"{spent.calls:,}", spent.calls)]
    cells += [
        Cell(f"{n:,}", n) if has_tokens else Cell("–") for n in (spent.prompt_tokens, spent.completion_tokens)
    ]
    for share in (0.5, 0.95):
        value = percentile(spent.seconds, share)
        cells.append(Cell("–") if value is None else Cell(f"{value:.2f}", value))
    per_item = cost_per_1000([spent])
    cells += [Cell("–") if v is None else Cell(_usd(v), v) for v in (spent.cost, per_item)]
    return cells


def _usd(value: float) -> str:
    return f"{value:,.2f}" if value >= 1 or value == 0 else f"{value:.2g}"


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the smallest value that at least this share of the values does not exceed; None without values."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def cost_per_1000(spent: Iterable[Spent]) -> float | None:
    """Return USD per 1,000 items; None if a price is unknown or nothing was called."""
    spent = list(spent)
    costs = [one.cost for one in spent]
    known = [cost for cost in costs if cost is not None]
    items = sum(one.items for one in spent)
    if not items or len(known) < len(costs) or not any(one.calls for one in spent):
        return None
    return 1000 * sum(known) / items


def _points(measured: Measured, spent: Mapping[TaskOfSeries, Spent]) -> list[tuple[Series, float, Share]]:
    """Return cost per 1,000 items and accuracy on the headline tasks of each series whose prices are known."""
    tasks = measured.headline_tasks
    points = []
    for s in measured.series:
        own = [one for key in ((s.index, measured.benchmark, task) for task in tasks)
               if (one := spent.get(TaskOfSeries(*key))) is not None]  # fmt: skip
        cost, share = cost_per_1000(own), measured.accuracy(s, tasks)
        if cost is not None and share is not None:
            points.append((s, cost, share))
    return points


def _scatter(points: Sequence[tuple[Series, float, Share]]) -> Plot:
    from pytest_llmprops.reports.kit.figures import WIDTH, colour, margins, marker, new_figure, share_axis
    from pytest_llmprops.reports.kit.labels import Label, name_points

    figure = new_figure(WIDTH, 3.4)
    axes = figure.add_axes(margins(figure, left=0.75, right=0.3, top=0.15, bottom=0.6))
    share_axis(axes, "y")
    for s, cost, share in points:
        shade = colour(s.index)
        axes.plot([cost] * 2, [share.low, share.high], color=shade, linewidth=1.4)
        axes.plot(
            cost, share.value, marker=marker(s.index), markersize=8, markerfacecolor=shade, markeredgecolor=shade,
            linestyle="none", zorder=4, clip_on=False,
        )  # fmt: skip
    axes.set_xlim(0, 1.15 * max(cost for _, cost, _ in points) or 1)
    axes.set_xlabel("USD per 1,000 items")
    axes.set_ylabel("accuracy, 95% interval")
    name_points(
        axes,
        [Label(s.starred[:40], cost, share.value, colour(s.index), bold=True) for s, cost, share in points],
        8.5,
    )
    return figure
