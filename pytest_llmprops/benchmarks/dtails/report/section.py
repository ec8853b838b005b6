"""The DTAiLS section of a report: figures 2, 5 and 6 of Barua et al. for the run's models, and one page per concept.

The paper prints these figures without numbers, so the report shows no published values.
"""

from __future__ import annotations

from pytest_llmprops.benchmarks.dtails.items import SELECT, TRANSLATE
from pytest_llmprops.benchmarks.dtails.report.concepts import concept_pages, concept_table
from pytest_llmprops.benchmarks.dtails.report.figures import (
    LONG,
    Estimate,
    Line,
    Panel,
    Row,
    accuracy_panels,
    lines_of,
)
from pytest_llmprops.benchmarks.dtails.report.positions import positions_blocks
from pytest_llmprops.core.metrics import Place, mean_scores
from pytest_llmprops.core.statistics import mean_interval
from pytest_llmprops.reports.kit import generic
from pytest_llmprops.reports.kit.blocks import (
    Block,
    Cell,
    Figure,
    Fold,
    Note,
    Section,
    Table,
    counted,
    joined,
    language,
    percent,
    visible,
)
from pytest_llmprops.reports.kit.generic import detailed, fine_print, place_cell
from pytest_llmprops.reports.kit.series import Measured

HEADINGS = {SELECT: "Selects from a list", TRANSLATE: "Translates"}
INTERVALS = "Intervals are over concepts: the items of a concept are not independent."
#: Language code and source of items.
Origin = tuple[str, str]


def section(measured: Measured) -> Section:
    """Return accuracy by language and rules, positions chosen, the concepts, and the parts of every benchmark."""
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


def _origins(measured: Measured) -> list[Origin]:
    return list(dict.fromkeys((code, source) for _, code, source in measured.places))


def _title(origin: Origin, measured: Measured) -> str:
    several = len({source for _, source in _origins(measured)}) > 1
    return f"{language(origin[0])}, {visible(origin[1])}" if several else language(origin[0])


def estimate(measured: Measured, line: Line, origin: Origin) -> Estimate | None:
    """Return the mean over runs with its interval if an item had several runs, or the summary's accuracy."""
    place: Place = (line.task, *origin)
    row = measured.row(line.series, place)
    if row is None or row.estimate is None:
        return None
    mean = measured.metric(line.series, "accuracy_mean", place)
    if mean is None or mean.value is None:
        return Estimate(*row.estimate)
    records = measured.records(line.series, [line.task])
    scores = mean_scores(r for r in records if (r.language, r.source) == origin)
    interval = mean_interval([score for score, _ in scores], [cluster for _, cluster in scores])
    deviation = measured.metric(line.series, "accuracy_sd", place)
    return Estimate(
        mean.value, interval.low, interval.high, deviation.value if deviation else None, int(mean.n)
    )


def _baselines(measured: Measured, origin: Origin) -> tuple[float, ...]:
    """Return the baseline over the language's whole file; several if the runs used different files."""
    rows = (
        measured.metric(s, "frequency_baseline", (task, *origin))
        for s in measured.series
        for task in (SELECT, TRANSLATE)
    )
    return tuple(dict.fromkeys(row.value for row in rows if row is not None and row.value is not None))


def _figure(measured: Measured, lines: list[Line]) -> Figure:
    rows = [
        Row(
            line.short, line.series.index, "" if n and lines[n - 1].task == line.task else HEADINGS[line.task]
        )
        for n, line in enumerate(lines)
    ]
    panels = [
        Panel(
            _title(origin, measured),
            tuple(estimate(measured, line, origin) for line in lines),
            _baselines(measured, origin),
        )
        for origin in _origins(measured)
    ]
    several = any(value and value.deviation is not None for panel in panels for value in panel.values)
    names = joined(list(dict.fromkeys(line.name for line in lines)))
    note = (
        "If each choice was asked for in several runs, each in another order, the mark is the mean over runs, and the"
        " band is the standard deviation (n − 1) over runs. "
        if several
        else ""
    )
    return Figure(
        "dtails-accuracy",
        "Accuracy by language and rules (figure 2)",
        f"Accuracy of {names} in {joined([panel.title for panel in panels])}, with 95% intervals and the frequency"
        " baseline; the numbers are in the table below.",
        lambda: accuracy_panels(panels, rows),
        f"{note}{INTERVALS} The baseline always chooses a concept's most common variation. It is in-sample: it is"
        " counted and scored on the same rows, the language's whole file. The paper prints this figure without"
        " numbers, so its models are not shown.",
    )


def _table(measured: Measured, lines: list[Line]) -> Table:
    shown = []
    over_runs = any(
        measured.metric(line.series, "accuracy_mean", place) for line in lines for place in measured.places
    )
    for origin in _origins(measured):
        for line in lines:
            place = (line.task, *origin)
            row = measured.row(line.series, place)
            if row is None:
                continue
            cells = [Cell(language(origin[0])), Cell(origin[1]), Cell(HEADINGS[line.task]), Cell(line.model)]
            cells += [Cell(line.rules), place_cell(measured, place, line.series)]
            cells += [_over_runs(measured, line, origin)] if over_runs else []
            items = row.answered
            cells += [Cell(f"{items:,}", items), Cell(f"{row.clusters:,}", row.clusters)]
            baseline = measured.metric(line.series, "frequency_baseline", place)
            value = None if baseline is None else baseline.value
            cells.append(Cell(percent(value), value))
            shown.append(tuple(cells))
    columns = [(name, False) for name in ("Language", "Items from", "Task", "Model", "Rules")]
    columns += [("Accuracy (95% interval)", True)]
    columns += [("Mean ± deviation over runs", True)] if over_runs else []
    columns += [("Answered items", True), ("Concepts", True), ("Frequency baseline, in-sample", True)]
    note = INTERVALS
    if over_runs:
        note += (
            " Accuracy counts an item with several runs as right if more than half of them are right. The mean over"
            " runs counts every choice. The deviation is the sample standard deviation (n − 1)."
        )
    return Table("Accuracy by language", tuple(columns), tuple(shown), note)


def _over_runs(measured: Measured, line: Line, origin: Origin) -> Cell:
    mean = estimate(measured, line, origin)
    if mean is None or mean.runs < 2:
        return Cell("–")
    spread = "" if mean.deviation is None else f" ± {100 * mean.deviation:.1f}"
    return Cell(f"{percent(mean.value)}{spread} ({mean.runs} runs)", mean.value)


def _unread(measured: Measured, lines: list[Line]) -> list[Block]:
    """Return a warning for each model whose own rules could not be read, because some items were not asked."""
    notes: list[Block] = []
    for line in lines:
        if line.task != SELECT:
            continue
        records = [r for r in measured.first_samples(line.series, [SELECT]) if "rules_read" in r.values]
        unread = [r for r in records if not r.values["rules_read"]]
        if unread:
            concepts = len({(r.source, r.cluster) for r in unread})
            notes.append(
                Note(
                    f"{line.name}: its own rules could not be read for {counted(concepts, 'concept')}."
                    f" {len(unread):,} of {len(records):,} items count as not right in every run and have no"
                    " position chosen.",
                    "warn",
                )
            )
    return notes
