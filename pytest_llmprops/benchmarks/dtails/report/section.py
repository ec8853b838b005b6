"""DTAiLS in a report: figures 2, 5 and 6 of Barua et al. for the models at hand, and a page for each concept.

The paper prints these figures without numbers, so no row of it stands beside ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_llmprops.benchmarks.dtails.items import SELECT, TRANSLATE
from pytest_llmprops.benchmarks.dtails.report.concepts import concept_pages, concept_table
from pytest_llmprops.benchmarks.dtails.report.figures import Estimate, Panel, Row, accuracy_panels
from pytest_llmprops.benchmarks.dtails.report.lines import LONG, Line, lines_of
from pytest_llmprops.benchmarks.dtails.report.positions import positions_blocks
from pytest_llmprops.core.metrics import Place
from pytest_llmprops.core.statistics import mean_interval
from pytest_llmprops.reports.kit import generic
from pytest_llmprops.reports.kit.blocks import Block, Cell, Figure, Fold, Note, Section, Table
from pytest_llmprops.reports.kit.generic import detailed, fine_print, share_cell
from pytest_llmprops.reports.kit.series import Measured
from pytest_llmprops.reports.kit.text import counted, joined, language, percent, visible

HEADINGS = {SELECT: "Selects from a list", TRANSLATE: "Translates"}
INTERVALS = (
    "Intervals are bootstraps over concepts; where all concepts agree, Wilson's with each counted once."
)
#: language and source
Where = tuple[str, str]


def section(measured: Measured) -> Section:
    """Accuracy by language and rules, positions chosen, concept by concept, and what every benchmark has."""
    lines = lines_of(measured)
    if not lines:
        return generic.section(measured)
    table = _table(measured, lines)
    numbers: Block = Fold("The numbers behind the figure", (table,)) if len(table.rows) > LONG else table
    blocks: list[Block] = [_figure(measured, lines), numbers, *_unread(measured, lines)]
    blocks += positions_blocks(measured, [line for line in lines if line.task == SELECT])
    pages = concept_pages(measured, lines)
    blocks += concept_table(pages, lines)
    parts = (*blocks, *detailed(measured), *fine_print(measured))
    return Section(parts, tuple(page for _, page in pages if page is not None))


def _wheres(measured: Measured) -> list[Where]:
    return list(dict.fromkeys((code, source) for _, code, source in measured.places))


def _title(where: Where, measured: Measured) -> str:
    several = len({source for _, source in _wheres(measured)}) > 1
    return f"{language(where[0])}, {visible(where[1])}" if several else language(where[0])


def estimate(measured: Measured, line: Line, where: Where) -> Estimate | None:
    """The mean over runs with its interval where there were several; else the accuracy of the summary."""
    place: Place = (line.task, *where)
    row = measured.row(line.series, place)
    if row is None or row.estimate is None:
        return None
    mean = measured.metric(line.series, "accuracy_mean", place)
    if mean is None or mean.value is None:
        return Estimate(*row.estimate)
    asked = [
        (r.score, r.cluster)
        for r in measured.records(line.series, [line.task])
        if (r.language, r.source) == where and r.score is not None
    ]
    interval = mean_interval([score for score, _ in asked], [cluster for _, cluster in asked])
    deviation = measured.metric(line.series, "accuracy_sd", place)
    return Estimate(
        mean.value, interval.low, interval.high, deviation.value if deviation else None, int(mean.n)
    )


def _baselines(measured: Measured, where: Where) -> tuple[float, ...]:
    """Of the language's whole file; more than one where the runs had different files."""
    found = (
        measured.metric(s, "frequency_baseline", (task, *where))
        for s in measured.series
        for task in (SELECT, TRANSLATE)
    )
    return tuple(dict.fromkeys(row.value for row in found if row is not None and row.value is not None))


def _figure(measured: Measured, lines: list[Line]) -> Figure:
    rows = [
        Row(
            line.short, line.series.index, "" if n and lines[n - 1].task == line.task else HEADINGS[line.task]
        )
        for n, line in enumerate(lines)
    ]
    panels = [
        Panel(
            _title(where, measured),
            tuple(estimate(measured, line, where) for line in lines),
            _baselines(measured, where),
        )
        for where in _wheres(measured)
    ]
    several = any(value and value.deviation is not None for panel in panels for value in panel.values)
    names = joined(list(dict.fromkeys(line.name for line in lines)))
    note = (
        "Where a choice was asked for several times, each time in another order, the mark is the mean over runs, and"
        " the band its standard deviation (n − 1) over runs. "
        if several
        else ""
    )
    return Figure(
        "dtails-accuracy",
        "Accuracy by language and rules (figure 2)",
        f"Accuracy with 95% intervals of {names} in {joined([panel.title for panel in panels])}, beside the"
        " frequency baseline; the numbers are in the table below.",
        _drawn(panels, rows),
        f"{note}{INTERVALS} The baseline always takes a concept's most common variation;"
        " it is in-sample: counted on the rows that it is scored on, the language's whole file. The paper prints this"
        " figure without numbers, so none of its models stand here.",
    )


def _drawn(panels: list[Panel], rows: list[Row]) -> Callable[[], Any]:
    return lambda: accuracy_panels(panels, rows)


def _table(measured: Measured, lines: list[Line]) -> Table:
    shown = []
    over_runs = any(
        measured.metric(line.series, "accuracy_mean", place) for line in lines for place in measured.places
    )
    for where in _wheres(measured):
        for line in lines:
            place = (line.task, *where)
            row = measured.row(line.series, place)
            if row is None:
                continue
            cells = [Cell(language(where[0])), Cell(where[1]), Cell(HEADINGS[line.task]), Cell(line.model)]
            cells += [Cell(line.rules), share_cell(row)]
            cells += [_over_runs(measured, line, where)] if over_runs else []
            items = row.items - row.errors
            cells += [Cell(f"{items:,}", items), Cell(f"{row.clusters:,}", row.clusters)]
            baseline = measured.metric(line.series, "frequency_baseline", place)
            value = None if baseline is None else baseline.value
            cells.append(Cell(percent(value), value))
            shown.append(tuple(cells))
    columns = [
        ("Language", False),
        ("Items from", False),
        ("Task", False),
        ("Model", False),
        ("Rules", False),
    ]
    columns += [("Accuracy (95% interval)", True)]
    columns += [("Mean ± deviation over runs", True)] if over_runs else []
    columns += [("Answered items", True), ("Concepts", True), ("Frequency baseline, in-sample", True)]
    note = INTERVALS
    if over_runs:
        note += (
            " Accuracy counts an item of several runs as right when more than half of them are; the mean over runs"
            " counts every choice. The deviation is the sample's (n − 1)."
        )
    return Table("Accuracy by language", tuple(columns), tuple(shown), note)


def _over_runs(measured: Measured, line: Line, where: Where) -> Cell:
    found = estimate(measured, line, where)
    if found is None or found.runs < 2:
        return Cell("–")
    spread = "" if found.deviation is None else f" ± {100 * found.deviation:.1f}"
    return Cell(f"{percent(found.value)}{spread} ({found.runs} runs)", found.value)


def _unread(measured: Measured, lines: list[Line]) -> list[Block]:
    """Models whose own rules could not be read were not asked every item."""
    notes: list[Block] = []
    for line in lines:
        if line.task != SELECT:
            continue
        records = [r for r in measured.records(line.series, [SELECT]) if "rules_read" in r.values]
        unread = [r for r in records if not r.values["rules_read"]]
        if unread:
            concepts = len({(r.source, r.cluster) for r in unread})
            notes.append(
                Note(
                    f"{line.name}: its own rules could not be read for {counted(concepts, 'concept')}."
                    f" {len(unread):,} of {len(records):,} items therefore count as not right in every run; no"
                    " position was chosen there.",
                    "warn",
                )
            )
    return notes
