"""The DTAiLS section of a report: figures 2, 5 and 6 of Barua et al. for the run's models, and one page per concept.

Each figure is shown with intervals, and once more in the paper's form, which ``llmprops papers`` prints.

The paper prints these figures without numbers, so the report shows no published values.
"""

from __future__ import annotations

from pytest_llmprops.benchmarks.dtails.items import SELECT, TRANSLATE
from pytest_llmprops.benchmarks.dtails.report.concepts import concept_pages, concept_table
from pytest_llmprops.benchmarks.dtails.report.figures import (
    LONG,
    BarPanel,
    Estimate,
    Line,
    Panel,
    Row,
    accuracy_panels,
    bar_panels,
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
    blocks: list[Block] = [_figure(measured, lines), numbers]
    blocks += [_paper_form(measured, lines), *_unread(measured, lines)]
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


#: The panels of figure 2, in the paper's order.
_PANELS = ("af", "ta", "te", "gl", "hi", "hy", "ja", "fa", "lv")
#: How a line is labelled in the paper's form of figure 2, by its rules.
_RULES = {"": "translates", "none": "no rules", "own": "self rules"}


def _paper_form(measured: Measured, lines: list[Line]) -> Fold:
    """Return figure 2 as the paper draws it, the same as a table, and the gains of section 4."""
    order = {code: n for n, code in enumerate(_PANELS)}
    origins = sorted(_origins(measured), key=lambda origin: order.get(origin[0], len(order)))
    means = [[estimate(measured, line, origin) for origin in origins] for line in lines]
    baselines = [_baselines(measured, origin) for origin in origins]
    names = [(line.model, _RULES.get(line.rules, f"rules of {line.rules}")) for line in lines]
    titles = [_title(origin, measured) for origin in origins]
    panels = [
        BarPanel(title, ("",), (tuple(_bar(row[n]) for row in means),), baselines[n])
        for n, title in enumerate(titles)
    ]
    figure = Figure(
        "dtails-figure-2",
        "Accuracy by language, model and rules (figure 2)",
        f"Accuracy of {joined([f'{model} ({how})' for model, how in names])} in {joined(titles)}; the numbers are in"
        " the table.",
        lambda: bar_panels(panels, names, "frequency baseline, in-sample"),
        "The black line is ± the standard deviation (n − 1) over runs; a single run has none.",
    )
    rows = [
        (Cell(model), Cell(how), *(_mean_cell(value) for value in row))
        for (model, how), row in zip(names, means, strict=True)
    ]
    known = [" or ".join(f"{100 * value:.1f}" for value in values) for values in baselines]
    rows.append((Cell("frequency baseline"), Cell(""), *map(Cell, known)))
    columns = (("Model", False), ("Rules", False), *((title, True) for title in titles))
    note = (
        "Percent, mean ± standard deviation (n − 1) over runs. The baseline always chooses a concept's most common"
        " variation and is counted on the same rows. The paper prints no numbers for its models."
    )
    table = Table("Accuracy by language, model and rules (figure 2)", columns, tuple(rows), note)
    gains = _gains(lines, means)
    more: tuple[Block, ...] = ()
    if gains:
        cells = tuple((Cell(name), *map(_gain_cell, values)) for name, values in gains)
        columns = (("Gain", False), *((title, True) for title in titles))
        more = (Table("Gains in percentage points (section 4)", columns, cells),)
    return Fold("In the paper's form (figure 2)", (figure, table, *more))


def _bar(value: Estimate | None) -> tuple[float, float, float] | None:
    if value is None:
        return None
    spread = value.deviation or 0.0
    return value.value, max(0.0, value.value - spread), min(1.0, value.value + spread)


def _mean_cell(value: Estimate | None) -> Cell:
    if value is None:
        return Cell("")
    spread = "" if value.deviation is None else f" ± {100 * value.deviation:.1f}"
    return Cell(f"{100 * value.value:.1f}{spread}", value.value)


def _gain_cell(value: float | None) -> Cell:
    return Cell("" if value is None else f"{100 * value:+.1f}", value)


def _gains(
    lines: list[Line], means: list[list[Estimate | None]]
) -> list[tuple[str, tuple[float | None, ...]]]:
    """Return (name, difference by language) of the comparisons of section 4.

    They are the best model that selects against the best translation system, and each model with rules against the same
    model without. A model that also selects is not a translation system.
    """
    selects = {line.series.model for line in lines if line.task == SELECT}
    systems = [
        n for n, line in enumerate(lines) if line.task == TRANSLATE and line.series.model not in selects
    ]
    chosen = [n for n, line in enumerate(lines) if line.task == SELECT]

    def best(numbers: list[int], place: int) -> float | None:
        values = [value.value for n in numbers if (value := means[n][place]) is not None]
        return max(values, default=None)

    def differences(first: list[int], second: list[int]) -> tuple[float | None, ...]:
        pairs = [(best(first, place), best(second, place)) for place in range(len(means[0]))]
        return tuple(None if a is None or b is None else a - b for a, b in pairs)

    gains = []
    if systems and chosen:
        gains.append(("best model that selects, less best translation system", differences(chosen, systems)))
    for n in chosen:
        plain = [
            m for m in chosen if (lines[m].series.model, lines[m].rules) == (lines[n].series.model, "none")
        ]
        if lines[n].rules != "none" and plain:
            gains.append((f"{lines[n].name}, less no rules", differences([n], plain)))
    return [gain for gain in gains if any(value is not None for value in gain[1])]


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
