"""Which position of the list was chosen, in DTAiLS's part of a report (Barua et al., appendix B.4)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_llmprops.benchmarks.dtails.items import SELECT
from pytest_llmprops.benchmarks.dtails.metrics import ALL
from pytest_llmprops.benchmarks.dtails.positions import FEWEST, RULE
from pytest_llmprops.benchmarks.dtails.report.figures import Positions, Row, position_panels
from pytest_llmprops.benchmarks.dtails.report.lines import LONG, Line
from pytest_llmprops.core.metrics import Place
from pytest_llmprops.core.records import MetricRow
from pytest_llmprops.reports.kit.blocks import Block, Cell, Figure, Fold, Note, Table
from pytest_llmprops.reports.kit.generic import share_cell
from pytest_llmprops.reports.kit.series import Measured, place_of
from pytest_llmprops.reports.kit.text import interval, joined, language, percent, visible

#: how a position is named in a sentence
_NAMES = ("first", "second", "third", "fourth", "fifth", "sixth")
_GROUP = re.compile(r"([1-9][0-9]?)of([1-9][0-9]?)")
Rates = list[MetricRow]
#: number of the line and source -> number of variations -> rates
Found = Mapping[tuple[int, str], Mapping[int, Rates]]


def positions_blocks(measured: Measured, lines: list[Line]) -> list[Block]:
    """The figure, what it shows in words, and its table; nothing where no choice was read."""
    found = {(n, source): _sizes(measured, line, source) for n, line, source in _each(measured, lines)}
    sizes = sorted({size for by_size in found.values() for size in by_size})
    if not sizes:
        return []
    table = _table(measured, lines, found, sizes)
    return [
        _figure(measured, lines, found, sizes),
        *_sentences(measured, lines, found),
        Fold("The numbers of positions chosen", (table,)) if len(table.rows) > LONG else table,
    ]


def _each(measured: Measured, lines: list[Line]) -> Iterator[tuple[int, Line, str]]:
    for source in dict.fromkeys(source for _, _, source in measured.places):
        for n, line in enumerate(lines):
            yield n, line, source


def _place(measured: Measured, line: Line, source: str) -> Place | None:
    """All languages together; where the series has one, that one."""
    own = [row for row in measured.rows(line.series) if (row.task, row.source) == (SELECT, source)]
    codes = list(dict.fromkeys(row.language for row in own))
    if not codes:
        return None
    return SELECT, codes[0] if len(codes) == 1 else ALL, source


def _sizes(measured: Measured, line: Line, source: str) -> dict[int, Rates]:
    """The rows of ``position_rate`` by number of variations, each in the order of the positions."""
    place = _place(measured, line, source)
    found: dict[int, dict[int, MetricRow]] = {}
    for row in measured.metrics(line.series):
        match = _GROUP.fullmatch(row.group) if row.name == "position_rate" else None
        if match and place_of(row) == place and row.value is not None:
            found.setdefault(int(match[2]), {})[int(match[1])] = row
    return {
        size: [rows[n] for n in range(1, size + 1)]
        for size, rows in found.items()
        if set(rows) == set(range(1, size + 1))
    }


def _test(measured: Measured, line: Line, source: str, size: int) -> tuple[float | None, bool | None]:
    """The adjusted p-value and whether the model counts as order-invariant; None where nothing was tested."""
    place = _place(measured, line, source)
    if place is None:
        return None, None
    p = measured.metric(line.series, "position_p", place, f"of{size}")
    verdict = measured.metric(line.series, "order_invariant", place, f"of{size}")
    known = verdict is not None and verdict.value is not None
    return p.value if p else None, bool(verdict.value) if verdict and known else None


def _p(value: float | None) -> str:
    if value is None:
        return "–"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _over(measured: Measured, lines: list[Line], source: str) -> str:
    """What the choices are taken over, in words."""
    codes = {place[1] for line in lines if (place := _place(measured, line, source)) is not None}
    return "all languages of a run together" if ALL in codes else joined(sorted(map(language, codes)))


def _sources(measured: Measured) -> list[str]:
    return list(dict.fromkeys(source for task, _, source in measured.places if task == SELECT))


def _figure(measured: Measured, lines: list[Line], found: Found, sizes: list[int]) -> Figure:
    sources = _sources(measured)
    panels = []
    for source in sources:
        for size in sizes:
            shares = tuple(_shares(found.get((n, source), {}).get(size)) for n in range(len(lines)))
            title = f"{size} variations" + (f", {visible(source)}" if len(sources) > 1 else "")
            if any(shares):
                panels.append(Positions(title, size, shares))
    rows = [Row(line.short, line.series.index) for line in lines]
    return Figure(
        "dtails-positions",
        "How often each position of the list was chosen (figures 5 and 6)",
        f"Share of choices that fell on each position of the list, with 95% intervals, of"
        f" {joined([line.name for line in lines])}, beside the uniform share; the numbers are in the table below.",
        _drawn(panels, rows),
        "The order is a fresh shuffle for every item and run, so whoever does not look at it chooses every position"
        " equally often, however good the choices are. Intervals are 95% (Wilson); choices in"
        f" {joined(sorted({_over(measured, lines, source) for source in sources}))}.",
    )


def _shares(rates: Rates | None) -> tuple[tuple[float, float, float], ...] | None:
    if rates is None:
        return None
    return tuple((r.value or 0.0, r.ci_low or 0.0, 1.0 if r.ci_high is None else r.ci_high) for r in rates)


def _drawn(panels: list[Positions], rows: list[Row]) -> Callable[[], Any]:
    return lambda: position_panels(panels, rows)


def _sentences(measured: Measured, lines: list[Line], found: Found) -> list[Block]:
    """A sentence for each model whose choice depends on the order, and one for the rest."""
    notes: list[Block] = []
    even, unknown = [], []
    for n, line in enumerate(lines):
        said, tested = [], False
        for source in _sources(measured):
            for size, rates in sorted(found.get((n, source), {}).items()):
                p, invariant = _test(measured, line, source, size)
                tested = tested or invariant is not None
                if invariant is False:
                    said.append(_said(rates, size, p))
        if said:
            text = f"{line.name} is not order-invariant: {'; '.join(said)}."
            notes.append(Note(text, "warn"))
        elif tested:
            even.append(line.name)
        else:
            unknown.append(line.name)
    if even:
        notes.append(Note(f"Not shown to depend on the order: {joined(even)}."))
    if unknown:
        notes.append(Note(f"Too few choices to tell whether the order matters: {joined(unknown)}."))
    return notes


def _said(rates: Rates, size: int, p: float | None) -> str:
    """The position that is furthest from its uniform share."""
    furthest = max(range(size), key=lambda n: abs((rates[n].value or 0.0) - 1 / size))
    row = rates[furthest]
    name = f"the {_NAMES[furthest]}" if furthest < len(_NAMES) else f"number {furthest + 1}"
    limits = ""
    if row.ci_low is not None and row.ci_high is not None:
        limits = f" ({interval(row.ci_low, row.ci_high)})"
    return (
        f"of {size} variations it takes {name} in {percent(row.value)}{limits} of {row.n:,} choices, where"
        f" {percent(1 / size)} would be even (p {_p(p) if p is not None and p < 0.001 else f'= {_p(p)}'})"
    )


def _table(measured: Measured, lines: list[Line], found: Found, sizes: list[int]) -> Table:
    sources, most = _sources(measured), sizes[-1]
    rows = []
    for source in sources:
        for size in sizes:
            for n, line in enumerate(lines):
                rates = found.get((n, source), {}).get(size)
                if rates is None:
                    continue
                p, invariant = _test(measured, line, source, size)
                cells = [Cell(line.model), Cell(line.rules), Cell(f"{size}", size)]
                cells += [Cell(visible(source))] if len(sources) > 1 else []
                cells.append(Cell(f"{rates[0].n:,}", rates[0].n))
                cells += [share_cell(rate) for rate in rates] + [Cell("")] * (most - size)
                cells += [Cell(_p(p), p), Cell({True: "not shown", False: "yes", None: "–"}[invariant])]
                rows.append(tuple(cells))
    columns = [("Model", False), ("Rules", False), ("Variations", True)]
    columns += [("Items from", False)] if len(sources) > 1 else []
    columns += [("Choices", True), *((f"Position {n}", True) for n in range(1, most + 1))]
    columns += [("p", True), ("Depends on the order", False)]
    note = (
        "p: that every position is equally likely, by the exact binomial test for two variations and the chi-square"
        " test for more, adjusted after Holm over a model's numbers of variations (of each run on its own); none for"
        f" more than two variations with fewer than {FEWEST} choices a position. A model that depends on the order is"
        f" {RULE}."
    )
    return Table("Positions chosen", tuple(columns), tuple(rows), note)
