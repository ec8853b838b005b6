"""Computing the content of a report from recorded runs, without input or output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from pytest_llmprops.core.numbers import usd
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.records.requests import RequestRecord
from pytest_llmprops.records.rows import Review
from pytest_llmprops.reports.kit.blocks import (
    Block,
    Cell,
    Figure,
    Fold,
    Note,
    Report,
    Section,
    Table,
    counted,
    file_name,
    joined,
    visible,
    words,
)
from pytest_llmprops.reports.kit.generic import section_of
from pytest_llmprops.reports.kit.series import Measured, Series, Share, benchmarks_of, series_of
from pytest_llmprops.reports.page.findings import finding
from pytest_llmprops.reports.page.items import Spent, TaskOfSeries, default_pair, items_of
from pytest_llmprops.reports.page.suites import changes_by_task, measured_for_one, suites_table, worst_first
from pytest_llmprops.reports.readings import readings_section
from pytest_llmprops.reports.terminal import old_replies, price_sources, run_facts
from pytest_llmprops.runs.comparable import caveats, differences
from pytest_llmprops.runs.reader import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

    from pytest_llmprops.records.gate import GateResult

#: titles that the title of a collapsed part names, and notes of a section that are not collapsed
MOST_TITLES, MOST_NOTES = 4, 2

NOTE = (
    "Of the calls that the record has, each counted once. Seconds are those of a call when it was made, without waiting"
    " for a free slot; p50 is the median, and 5% of the calls took longer than p95. Cost is at the prices in run.json,"
    " also for stored replies, whose calls an earlier run paid for."
)
COLUMNS = ("Calls", "Prompt tokens", "Reply tokens", "p50, s", "p95, s", "USD", "USD per 1,000 items")


def cost_section(parts: Sequence[Measured], spent: Mapping[TaskOfSeries, Spent]) -> Section | None:
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
    rows = [row for measured in parts for row in _rows(measured, spent)]
    columns = (("Benchmark", False), ("Task", False), ("Model", False), *((name, True) for name in COLUMNS))
    first = 0 if len(parts) > 1 else 1
    title = "Tokens, time and cost by task"
    total = Table(title, columns[first:], tuple(row[first:] for row in rows), NOTE)
    calls = sum(task.calls for task in spent.values())
    return Section((*blocks, total), title="Cost and time", about=f"{counted(calls, 'recorded call')}.")


def _rows(measured: Measured, spent: Mapping[TaskOfSeries, Spent]) -> Iterator[tuple[Cell, ...]]:
    for task in dict.fromkeys(key.task for key in spent if key.benchmark == measured.benchmark):
        for s in measured.series:
            one = spent.get(TaskOfSeries(s.index, measured.benchmark, task))
            if one is not None and one.calls:
                link = {"benchmark": measured.benchmark, "task": task, "series": str(s.index)}
                names = (Cell(measured.facts.title), Cell(words(task), items=link), Cell(s.starred))
                yield (*names, *_cells(one))


def _cells(spent: Spent) -> list[Cell]:
    has_tokens = spent.prompt_tokens or spent.completion_tokens
    tokens = [n if has_tokens else None for n in (spent.prompt_tokens, spent.completion_tokens)]
    seconds: list[float | None] = [None, None]
    if spent.seconds:
        # The smallest number that at least this share of the numbers does not exceed.
        seconds = np.quantile(spent.seconds, (0.5, 0.95), method="inverted_cdf").tolist()
    cells = [_cell(n, "{:,}".format) for n in (spent.calls, *tokens)]
    cells += [_cell(value, "{:.2f}".format) for value in seconds]
    return cells + [_cell(value, _usd) for value in (spent.cost, cost_per_1000([spent]))]


def _cell(value: float | None, write: Callable[[float], str]) -> Cell:
    return Cell("–") if value is None else Cell(write(value), value)


def _usd(value: float) -> str:
    return f"{value:,.2f}" if value >= 1 or value == 0 else f"{value:.2g}"


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
        keys = (TaskOfSeries(s.index, measured.benchmark, task) for task in tasks)
        own = [spent[key] for key in keys if key in spent]
        cost, share = cost_per_1000(own), measured.headline(s)
        if cost is not None and share is not None:
            points.append((s, cost, share))
    return points


def _scatter(points: Sequence[tuple[Series, float, Share]]) -> Plot:
    from pytest_llmprops.reports.kit import figures as kit

    figure = kit.new_figure(kit.WIDTH, 3.4)
    axes = figure.add_axes(kit.margins(figure, left=0.75, right=0.3, top=0.15, bottom=0.6))
    kit.share_axis(axes, "y")
    labels = []
    for s, dollars, share in points:
        shade = kit.colour(s.index)
        axes.plot([dollars] * 2, [share.low, share.high], color=shade, linewidth=1.4)
        axes.plot(
            dollars, share.value, marker=kit.marker(s.index), markersize=8, markerfacecolor=shade,
            markeredgecolor=shade, linestyle="none", zorder=4, clip_on=False,
        )  # fmt: skip
        labels.append(kit.Label(s.starred[:40], dollars, share.value, shade, bold=True))
    axes.set_xlim(0, 1.15 * max(dollars for _, dollars, _ in points) or 1)
    axes.set_xlabel("USD per 1,000 items")
    axes.set_ylabel("accuracy, 95% interval")
    kit.name_points(axes, labels, 8.5)
    return figure


SOURCES = {
    "builtin": "builtin (the benchmark's own)",
    "published": "published (the authors')",
    "generated": "generated",
}


def report_on(
    runs: Sequence[Run],
    requests: Mapping[int, Mapping[str, RequestRecord]],
    marks: Sequence[Review] = (),
) -> Report:
    """Return the report of one or several runs. Each model of each run is a series.

    :param requests: the logged requests of each run by ``id(run)``.
    :param marks: the review marks beside the runs.
    """
    series = series_of(runs)
    parts = worst_first(benchmarks_of(series), len(series))
    found = {part.benchmark: _sentence(text) for part in parts if (text := finding(part))}
    gates = tuple((run.run_id, gate) for run in runs if (gate := run.facts.gate) is not None)
    items, spending = items_of(series, requests, marks)
    costs = cost_section(parts, spending.by_task)
    return Report(
        title=_title(gates, parts, series, found),
        table=suites_table(parts, series),
        facts=tuple(_facts(runs, series)),
        gates=gates,
        warnings=tuple(_warnings(runs, series, parts)),
        series=tuple(s.starred for s in series),
        sections=tuple(_sections(parts, series, found, costs)),
        runs=tuple((run.run_id, run_facts(run)) for run in runs),
        items=items,
        pair=default_pair(series) if len(series) > 1 else None,
        unshared=measured_for_one(parts, series),
        changes=changes_by_task(parts),
    )


def _title(
    gates: Sequence[tuple[str, GateResult]],
    parts: Sequence[Measured],
    series: Sequence[Series],
    found: Mapping[str, str],
) -> str:
    """Return the decision, or the decisions on several models; without any, the finding on the worst suite.

    :param found: the findings by benchmark.
    """
    if len(gates) == 1:
        return _sentence(visible(gates[0][1].line or gates[0][1].decision.upper()))
    if gates:
        models: dict[str, list[str]] = {}
        for s in series:
            if s.run.facts.gate is not None:
                models.setdefault(s.run.facts.gate.decision.upper(), []).append(s.starred)
        return _sentence("; ".join(f"{decision}: {joined(names)}" for decision, names in models.items()))
    if len(series) > 2 and len(parts) > 1:
        return f"{len(series)} models on {joined([measured.facts.title for measured in parts])}."
    return next(iter(found.values()), "No case has a verdict, so there is nothing to report.")


def _sentence(text: str) -> str:
    """Return the text with a full stop."""
    return text if text.endswith(".") else f"{text}."


def _sections(
    parts: Sequence[Measured], series: Sequence[Series], found: Mapping[str, str], costs: Section | None
) -> Iterator[Section]:
    """Yield a section per benchmark, and those on all of them.

    With several benchmarks, each shows its finding, its first notes, and its first table or figure. The rest is
    collapsed, and so are the benchmarks that only one of two models has.
    """
    several = len(parts) > 1
    unshared = []
    for measured in parts:
        section = replace(section_of(measured), finding=found.get(measured.benchmark, ""))
        if several and len(series) == 2 and len(measured.series) == 1:
            unshared.append(section)
        else:
            yield _folded(section) if several else section
    if unshared:
        yield Section(
            tuple(
                Fold(s.title, (*map(Note, filter(None, (s.about, s.finding))), *s.blocks)) for s in unshared
            ),
            title="Measured for one model",
            about="Suites that only one of the two models has.",
        )
    for section in (*readings_section(parts, series), *([costs] if costs else [])):
        yield _folded(section, shown=0) if several else section


def _folded(section: Section, shown: int = 1) -> Section:
    """Return a section in which all is collapsed except the first notes and the first tables and figures."""
    first: list[Block] = []
    rest: list[Block] = []
    left = {Note: MOST_NOTES, Table: shown, Figure: shown}
    for block in section.blocks:
        is_open = left.get(type(block), 0) > 0
        (first if is_open else rest).append(block)
        for kind in (Table, Figure) if isinstance(block, Table | Figure) else (type(block),):
            left[kind] = left.get(kind, 0) - 1
    if not rest:
        return section
    titles = [block.title for block in rest if not isinstance(block, Note)]
    named = ", ".join(titles[:MOST_TITLES])
    more = f" and {len(titles) - MOST_TITLES} more" if len(titles) > MOST_TITLES else ""
    return replace(section, blocks=(*first, Fold(f"More: {named}{more}" if titles else "More", tuple(rest))))


def _facts(runs: Sequence[Run], series: Sequence[Series]) -> list[tuple[str, str]]:
    items = sum(len(run.records) for run in runs)
    dates = sorted({run.facts.started[:10] for run in runs if run.facts.started})
    sources = list(dict.fromkeys(r.source for run in runs for r in run.records))
    facts = [("Models", joined(list(dict.fromkeys(s.model for s in series))) or "none")]
    facts.append(("Items", f"{items:,} verdicts in {counted(len(runs), 'run')}"))
    if sources:
        facts.append(("Items from", joined([SOURCES.get(name, name) for name in sources])))
    if dates:
        facts.append(("Measured", dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"))
    # Imported runs made no calls.
    costs = [run.facts.calls.cost_usd for run in runs if run.facts.calls.requests]
    if costs:
        known = [c for c in costs if c is not None]
        rest = "" if len(known) == len(costs) else f" for {len(known)} of {len(costs)} runs with calls"
        spent = (
            f"{usd(sum(known))}{rest}{price_sources(run.facts for run in runs)}" if known else "cost unknown"
        )
        facts.append(("Cost", spent))
    return facts


def _warnings(runs: Sequence[Run], series: Sequence[Series], parts: Sequence[Measured]) -> list[str]:
    titles = {part.benchmark: part.facts.title for part in parts}
    ids_by_line: dict[str, list[str]] = {}
    for run in runs:
        for line in _notes(run):
            ids_by_line.setdefault(line, []).append(run.run_id)
    lines = [line if len(ids) == len(runs) else f"{joined(ids)}: {line}" for line, ids in ids_by_line.items()]
    for s in series:
        remarks = [row for row in s.run.facts.remarks if row.model == s.model and row.warning]
        lines += [f"{s.label}, {titles.get(row.benchmark, row.benchmark)}: {row.text}" for row in remarks]
        errors = sum(r.status == "error" for r in s.run.records if r.model == s.model)
        if errors:
            lines.append(
                f"{s.label}: {counted(errors, 'call')} could not be made; they count as errors and are not scored"
            )
    if len(series) == 2 and series[0].run is not series[1].run:
        first, second = (s.run.facts for s in series)
        common = [n for n in titles if all(n in s.benchmarks for s in series)]
        unlike = [*differences(first, second, common), *caveats([first, second])]
        lines += [f"The two runs differ: {line}" for line in unlike]
    return [one_line(line, 400) for line in lines]


def _notes(run: Run) -> list[str]:
    """Return the problems of a run that affect its numbers."""
    notes = list(run.notes)
    if run.facts.stopped:
        notes.append(f"stopped: {run.facts.stopped}")
    if not run.facts.complete and not run.notes:
        expected = "?" if run.facts.expected is None else run.facts.expected
        notes.append(f"incomplete: {len(run.records)} of {expected} cases have a verdict")
    for label, model in run.facts.models.items():
        notes += [f"{label}: {phrase}" for phrase in old_replies(model.old_replies)]
    for benchmark, models in run.facts.not_served.items():
        notes += [f"{n} items of {benchmark} were not served by {model}" for model, n in models.items()]
    return list(dict.fromkeys([*notes, *run.facts.notes]))
