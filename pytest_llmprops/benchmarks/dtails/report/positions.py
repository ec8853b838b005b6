"""Positions chosen in the list, in DTAiLS's report section (Barua et al., appendix B.4)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial

from pytest_llmprops.benchmarks.dtails.items import SELECT
from pytest_llmprops.benchmarks.dtails.metrics import ALL
from pytest_llmprops.benchmarks.dtails.positions import FEWEST, RULE
from pytest_llmprops.benchmarks.dtails.report.figures import (
    LONG,
    BarPanel,
    Line,
    Positions,
    Row,
    bar_panels,
    position_panels,
)
from pytest_llmprops.core.metrics import Place
from pytest_llmprops.core.records import MetricRow
from pytest_llmprops.core.statistics import clopper_pearson
from pytest_llmprops.reports.kit.blocks import (
    Block,
    Cell,
    Figure,
    Fold,
    Note,
    Table,
    interval,
    joined,
    language,
    percent,
    visible,
)
from pytest_llmprops.reports.kit.generic import share_cell
from pytest_llmprops.reports.kit.series import Measured, place_of

#: Names of the first positions in a sentence.
_NAMES = ("first", "second", "third", "fourth", "fifth", "sixth")
_GROUP = re.compile(r"([1-9][0-9]?)of([1-9][0-9]?)")
Rates = list[MetricRow]
#: Rates by number of variations, by index of the line and source.
RatesBySize = Mapping[tuple[int, str], Mapping[int, Rates]]


def positions_blocks(measured: Measured, lines: list[Line]) -> list[Block]:
    """Return the figure, notes on its results, and its table; nothing if no choice was read."""
    rates = {
        (n, source): _rates_by_size(measured, line, source) for n, line, source in _each(measured, lines)
    }
    sizes = sorted({size for by_size in rates.values() for size in by_size})
    if not sizes:
        return []
    table = _table(measured, lines, rates, sizes)
    return [
        _figure(measured, lines, rates, sizes),
        *_notes(measured, lines, rates),
        Fold("The numbers of positions chosen", (table,)) if len(table.rows) > LONG else table,
        *_paper_form(measured, lines),
    ]


#: The languages of figures 5 and 6, and their numbers of variations.
_LANGUAGES, _FIGURES = ("af", "lv", "ja"), {2: 5, 3: 6}


def _paper_form(measured: Measured, lines: list[Line]) -> list[Block]:
    """Return figures 5 and 6 as the paper draws them, each with its table, over the paper's three languages."""
    blocks: list[Block] = []
    for size, number in _FIGURES.items():
        rows, names, shares = [], [], []
        for _, line, source in _each(measured, lines):
            counts, codes = _counts(measured, line, source, size)
            if not sum(counts):
                continue
            limits = [clopper_pearson(count, sum(counts)) for count in counts]
            own = [(n / sum(counts), at.low, at.high) for n, at in zip(counts, limits, strict=True)]
            name = line.model + (f", {visible(source)}" if len(_sources(measured)) > 1 else "")
            rules = {"none": "no rules", "own": "self rules"}.get(line.rules, f"rules of {line.rules}")
            cells = [
                Cell(f"{percent(share)} ({interval(low, high)})", share, low, high)
                for share, low, high in own
            ]
            over = Cell(", ".join(map(language, codes)))
            rows.append((Cell(name), Cell(rules), over, Cell(f"{sum(counts):,}", sum(counts)), *cells))
            names.append((name, rules))
            shares.append(own)
        if not rows:
            continue
        title = f"Positions chosen of {size} variations (figure {number})"
        panel = BarPanel(
            f"{size} variations", tuple(f"position {n + 1}" for n in range(size)),
            tuple(tuple(own[n] for own in shares) for n in range(size)), (1 / size,),
        )  # fmt: skip
        columns = (
            ("Model", False), ("Rules", False), ("Languages", False), ("Choices", True),
            *((f"Position {n}", True) for n in range(1, size + 1)),
        )  # fmt: skip
        note = (
            "Share of the choices at each position, with 95% intervals (Clopper-Pearson). The paper counts Afrikaans,"
            " Latvian and Japanese. If a run has none of them, all its languages are counted."
        )
        figure = Figure(
            f"dtails-figure-{number}",
            title,
            f"Share of choices at each position of {size}; the numbers are in the table.",
            partial(bar_panels, [panel], names, "uniform"),
            "Bars are shares of the choices at each position, black lines 95% intervals.",
        )
        blocks.append(
            Fold(f"In the paper's form (figure {number})", (figure, Table(title, columns, tuple(rows), note)))
        )
    return blocks


def _counts(measured: Measured, line: Line, source: str, size: int) -> tuple[list[int], list[str]]:
    """Return how often each position was chosen, and the languages counted."""
    by_language: dict[str, list[int]] = {}
    for row in measured.metrics(line.series):
        match = _GROUP.fullmatch(row.group) if row.name == "position_rate" else None
        task, code, origin = place_of(row)
        is_wanted = match and int(match[2]) == size and (task, origin) == (SELECT, source) and code != ALL
        if match and is_wanted and row.value is not None:
            by_language.setdefault(code, [0] * size)[int(match[1]) - 1] = round(row.value * row.n)
    codes = [code for code in _LANGUAGES if code in by_language] or sorted(by_language)
    return [sum(by_language[code][n] for code in codes) for n in range(size)], codes


def _each(measured: Measured, lines: list[Line]) -> Iterator[tuple[int, Line, str]]:
    for source in dict.fromkeys(source for _, _, source in measured.places):
        for n, line in enumerate(lines):
            yield n, line, source


def _place(measured: Measured, line: Line, source: str) -> Place | None:
    """Return the place of all languages together, or of the series' only language."""
    own = [row for row in measured.rows(line.series) if (row.task, row.source) == (SELECT, source)]
    codes = list(dict.fromkeys(row.language for row in own))
    if not codes:
        return None
    return SELECT, codes[0] if len(codes) == 1 else ALL, source


def _rates_by_size(measured: Measured, line: Line, source: str) -> dict[int, Rates]:
    """Return the rows of ``position_rate`` by number of variations, in the order of positions."""
    place = _place(measured, line, source)
    by_size: dict[int, dict[int, MetricRow]] = {}
    for row in measured.metrics(line.series):
        match = _GROUP.fullmatch(row.group) if row.name == "position_rate" else None
        if match and place_of(row) == place and row.value is not None:
            by_size.setdefault(int(match[2]), {})[int(match[1])] = row
    return {
        size: [rows[n] for n in range(1, size + 1)]
        for size, rows in by_size.items()
        if set(rows) == set(range(1, size + 1))
    }


def _test(measured: Measured, line: Line, source: str, size: int) -> tuple[float | None, bool | None]:
    """Return the adjusted p-value and whether the model counts as order-invariant; None if not tested."""
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
    """Return, in words, the languages that the choices are from."""
    codes = {place[1] for line in lines if (place := _place(measured, line, source)) is not None}
    return "all languages of a run together" if ALL in codes else joined(sorted(map(language, codes)))


def _sources(measured: Measured) -> list[str]:
    return list(dict.fromkeys(source for task, _, source in measured.places if task == SELECT))


def _figure(measured: Measured, lines: list[Line], rates: RatesBySize, sizes: list[int]) -> Figure:
    sources = _sources(measured)
    panels = []
    for source in sources:
        for size in sizes:
            shares = tuple(_shares(rates.get((n, source), {}).get(size)) for n in range(len(lines)))
            title = f"{size} variations" + (f", {visible(source)}" if len(sources) > 1 else "")
            if any(shares):
                panels.append(Positions(title, size, shares))
    rows = [Row(line.short, line.series.index) for line in lines]
    return Figure(
        "dtails-positions",
        "How often each position of the list was chosen (figures 5 and 6)",
        f"Share of choices at each position of the list of {joined([line.name for line in lines])}, with 95%"
        " intervals and the uniform share; the numbers are in the table below.",
        lambda: position_panels(panels, rows),
        "The order is a new shuffle for every item and run. A model that ignores the order therefore chooses every"
        " position equally often, for any accuracy. Intervals are 95% (Clopper-Pearson); choices in"
        f" {joined(sorted({_over(measured, lines, source) for source in sources}))}.",
    )


def _shares(rates: Rates | None) -> tuple[tuple[float, float, float], ...] | None:
    if rates is None:
        return None
    return tuple((r.value or 0.0, r.ci_low or 0.0, 1.0 if r.ci_high is None else r.ci_high) for r in rates)


def _notes(measured: Measured, lines: list[Line], rates: RatesBySize) -> list[Block]:
    """Return a warning for each model whose choice depends on the order, and notes on the other models."""
    notes: list[Block] = []
    invariant_names, untested_names = [], []
    for n, line in enumerate(lines):
        biases, is_tested = [], False
        for source in _sources(measured):
            for size, rows in sorted(rates.get((n, source), {}).items()):
                p, invariant = _test(measured, line, source, size)
                is_tested = is_tested or invariant is not None
                if invariant is False:
                    biases.append(_bias(rows, size, p))
        if biases:
            notes.append(Note(f"{line.name} is not order-invariant: {'; '.join(biases)}.", "warn"))
        elif is_tested:
            invariant_names.append(line.name)
        else:
            untested_names.append(line.name)
    if invariant_names:
        notes.append(Note(f"Not shown to depend on the order: {joined(invariant_names)}."))
    if untested_names:
        notes.append(Note(f"Too few choices to test whether the order matters: {joined(untested_names)}."))
    return notes


def _bias(rows: Rates, size: int, p: float | None) -> str:
    """Describe the position with the largest difference from the uniform share."""
    furthest = max(range(size), key=lambda n: abs((rows[n].value or 0.0) - 1 / size))
    row = rows[furthest]
    name = f"the {_NAMES[furthest]}" if furthest < len(_NAMES) else f"number {furthest + 1}"
    limits = ""
    if row.ci_low is not None and row.ci_high is not None:
        limits = f" ({interval(row.ci_low, row.ci_high)})"
    return (
        f"of {size} variations it chooses {name} in {percent(row.value)}{limits} of {row.n:,} choices, instead of"
        f" {percent(1 / size)} (p {_p(p) if p is not None and p < 0.001 else f'= {_p(p)}'})"
    )


def _table(measured: Measured, lines: list[Line], rates: RatesBySize, sizes: list[int]) -> Table:
    sources, most = _sources(measured), sizes[-1]
    rows = []
    for source in sources:
        for size in sizes:
            for n, line in enumerate(lines):
                shares = rates.get((n, source), {}).get(size)
                if shares is None:
                    continue
                p, invariant = _test(measured, line, source, size)
                cells = [Cell(line.model), Cell(line.rules), Cell(f"{size}", size)]
                cells += [Cell(visible(source))] if len(sources) > 1 else []
                cells.append(Cell(f"{shares[0].n:,}", shares[0].n))
                cells += [share_cell(share) for share in shares] + [Cell("")] * (most - size)
                cells += [Cell(_p(p), p), Cell({True: "not shown", False: "yes", None: "–"}[invariant])]
                rows.append(tuple(cells))
    columns = [("Model", False), ("Rules", False), ("Variations", True)]
    columns += [("Items from", False)] if len(sources) > 1 else []
    columns += [("Choices", True), *((f"Position {n}", True) for n in range(1, most + 1))]
    columns += [("p", True), ("Depends on the order", False)]
    note = (
        'p is the p-value of "every position is equally likely": the exact binomial test for two variations, the'
        " chi-square test for more, Holm-adjusted over the numbers of variations within a run. More than two"
        f" variations need at least {FEWEST} choices per position. A model depends on the order if it is {RULE}."
    )
    return Table("Positions chosen", tuple(columns), tuple(rows), note)
