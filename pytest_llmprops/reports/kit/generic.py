"""The common parts of all benchmarks' sections, and the section of a benchmark without its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_llmprops.benchmark_registry import benchmark_names, find_registration
from pytest_llmprops.core.errors import LLMPropsError, UsageError
from pytest_llmprops.core.faults import fault_text
from pytest_llmprops.core.metrics import MetricRow, Place
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.data.published_results import PublishedResult, ranked
from pytest_llmprops.records.rows import SummaryRow
from pytest_llmprops.reports.kit.blocks import (
    Block,
    Cell,
    Figure,
    Fold,
    Note,
    Section,
    Table,
    file_name,
    interval,
    language,
    percent,
    point_range,
    points,
    visible,
    with_interval,
    words,
)
from pytest_llmprops.reports.kit.series import Measured, Series, place_of
from pytest_llmprops.reports.tables import columns_of
from pytest_llmprops.runs.pairs import Pair

if TYPE_CHECKING:
    from pytest_llmprops.statistics.judgement import Change

#: maximum number of published results per row
MOST = 3
#: the columns of :func:`_place_cells`
_PLACE = (("Task", False), ("Language", False), ("Items from", False))
#: note on a run with repeats
REPEATS = (
    "Items have {n} samples. An accuracy is the mean over the items of their shares of correct samples, and the counts"
    " are of samples. Figures and examples of single items show their first sample."
)


def section(measured: Measured) -> Section:
    """Return the section of a benchmark without its own: accuracies, counts, metrics, protocol."""
    blocks: tuple[Block, ...] = (accuracy_figure(measured), *tables(measured), *fine_print(measured))
    return Section(blocks)


def accuracy_figure(measured: Measured, tasks: Iterable[str] | None = None) -> Figure:
    """Return a plot of accuracy by task (and language and source, if there are several) with published figures."""
    from pytest_llmprops.reports.kit.figures import ForestRow, Mark, Point, forest

    task_names = None if tasks is None else set(tasks)
    places = [p for p in measured.places if task_names is None or p[0] in task_names]
    rows = []
    for place in places:
        estimates = [(s, row.estimate) for s in measured.series if (row := measured.row(s, place))]
        dots = tuple(Point(s.index, *estimate) for s, estimate in estimates if estimate is not None)
        marks = tuple(Mark(model, value) for model, value in published_beside(measured, place)[:MOST])
        chance = measured.facts.chance_of(place[0])
        rows.append(ForestRow(place_label(place, places), dots, marks, chance))
    labels = {s.index: s.starred for s in measured.series}
    return Figure(
        f"{file_name(measured.benchmark)}-accuracy",
        "Accuracy by task",
        f"Accuracy with 95% intervals of {', '.join(labels.values())} on {len(rows)} tasks of "
        f"{measured.benchmark}; the numbers are in the table below.",
        lambda: forest(rows, labels),
        published_note(measured),
    )


def published_beside(
    measured: Measured, place: Place, series: Iterable[Series] | None = None
) -> list[tuple[str, float]]:
    """Return the published accuracies for a place and the protocols of the series, best first."""
    best: dict[str, float] = {}
    for s in measured.series if series is None else series:
        row = measured.row(s, place)
        if row is not None:
            for result in ranked(measured.benchmark, row.task, row.language, s.protocol(measured.benchmark)):
                best.setdefault(result.model, result.value)
    return sorted(best.items(), key=lambda pair: -pair[1])


def _published_cell(measured: Measured, place: Place, series: Iterable[Series] | None = None) -> Cell:
    best = published_beside(measured, place, series)[:MOST]
    return Cell(", ".join(f"{model} {100 * value:.1f}" for model, value in best))


def published_headline(measured: Measured, series: Series) -> list[PublishedResult]:
    """Return the published accuracies that correspond to a series' headline figure, one per model, best first."""
    places = {(task, code) for task, code, _ in measured.places if task in measured.headline_tasks}
    task = measured.facts.printed_task or (next(iter(places))[0] if len(places) == 1 else "")
    languages = {code for _, code in places}
    if not task or len(languages) != 1:
        return []
    return ranked(measured.benchmark, task, languages.pop(), series.protocol(measured.benchmark))


def published_note(measured: Measured) -> str:
    """Return a note on the meaning of published marks; empty without any."""
    if not any(published_beside(measured, place) for place in measured.places):
        return ""
    sources = sorted({source for _, _, source in measured.places if source != "published"})
    text = "Diamonds are the paper's own figures, measured on the authors' items"
    return f"{text}; those of this report are {' and '.join(sources)}." if sources else f"{text}."


def place_label(place: Place, places: list[Place]) -> str:
    """Return the task's name; with language and source if there are several."""
    task, code, source = place
    same = [p for p in places if p[0] == task]
    parts = [words(task)]
    if len({p[1] for p in same}) > 1:
        parts.append(language(code))
    if len({p[2] for p in places}) > 1:
        parts.append(visible(source))
    return ", ".join(parts)


def tables(measured: Measured) -> list[Block]:
    """Return the table of results; with several series, a comparison and the collapsed counts."""
    counts = counts_table(measured)
    if len(measured.series) == 1:
        return [counts]
    return [_comparison(measured), Fold("Counts of every run", (counts,))]


def detailed(measured: Measured) -> list[Block]:
    """Return :func:`tables`, collapsed except the comparison of two series.

    Use it in a section that shows the accuracies in its own table.
    """
    blocks = tables(measured)
    if len(measured.series) == 2:
        return blocks
    return [Fold("Counts" if len(measured.series) == 1 else "Task by task", tuple(blocks))]


def counts_table(measured: Measured) -> Table:
    """Return a table with the counts and the accuracy of each task and series."""
    sizes, others = columns_of("page", [row for s in measured.series for row in measured.rows(s)])
    columns = [("Model", False), *_PLACE, *((c.title, True) for c in sizes), ("Accuracy", True)]
    columns += [*((c.title, True) for c in others), ("Published", False)]
    rows = []
    for place in measured.places:
        for s in measured.series:
            row = measured.row(s, place)
            if row is None:
                continue
            link = item_link(measured, place, s)
            cells = [Cell(s.starred), *_place_cells(place, link)]
            cells += [Cell(c.cell([row], "–"), c.value([row])) for c in sizes]
            cells.append(replace(share_cell(row), items=link))
            for column in others:
                value = column.value([row])
                opened = {**link, "status": column.status} if column.status and value else {}
                cells.append(Cell(column.cell([row], "–"), value, items=opened))
            rows.append((*cells, _published_cell(measured, place, [s])))
    note = ""
    if any("cluster" in (r.ci_method or "") for s in measured.series for r in measured.rows(s)):
        note = (
            "Where items come in clusters, intervals are over clusters; otherwise they are Clopper-Pearson's."
        )
    return _table("Results", columns, rows, note, several=len(measured.series) > 1)


def _place_cells(place: Place, link: Mapping[str, str] | None = None) -> list[Cell]:
    """Return a cell for each column of ``_PLACE``."""
    return [Cell(words(place[0]), items=link or {}), Cell(language(place[1])), Cell(place[2])]


def _table(
    title: str,
    columns: Sequence[tuple[str, bool]],
    rows: Sequence[Sequence[Cell]],
    note: str = "",
    *,
    several: bool,
) -> Table:
    """Return a table without its first column unless there are several models, and without an empty last one."""
    first = 0 if several else 1
    end = len(columns) - (not any(row[-1].text for row in rows))
    return Table(title, tuple(columns[first:end]), tuple(tuple(row[first:end]) for row in rows), note)


def share_cell(row: SummaryRow | MetricRow | None) -> Cell:
    """Return a cell with a row's accuracy or value and its interval; a dash if there is none."""
    if row is None:
        return Cell("–")
    if isinstance(row, SummaryRow):
        return Cell("–") if row.estimate is None else Cell(with_interval(*row.estimate), *row.estimate)
    if row.value is None:
        return Cell("–")
    low, high = row.ci_low, row.ci_high
    return Cell(with_interval(row.value, low, high), row.value, low, high)


def item_link(
    measured: Measured, place: Place, series: Series | None = None, /, **more: str
) -> dict[str, str]:
    """Return the filter of the page's list that shows the items of a task (see :class:`Cell`).

    :param more: ``status`` of one series; ``tab``, ``baseline`` and ``candidate`` of two.
    """
    link = {"benchmark": measured.benchmark, "task": place[0], "language": place[1], "source": place[2]}
    link |= more if series is None else {"series": str(series.index), **more}
    return {name: visible(value) for name, value in link.items()}


def place_cell(measured: Measured, place: Place, series: Series) -> Cell:
    """Return a cell with a series' accuracy on a task, which opens the items."""
    row = measured.row(series, place)
    cell = share_cell(row)
    return cell if row is None else replace(cell, items=item_link(measured, place, series))


def metric_cell(measured: Measured, series: Series, row: MetricRow | None) -> Cell:
    """Return :func:`share_cell` of a metric, which opens the items of its task if it is about all of them."""
    cell = share_cell(row)
    if row is None or row.group or measured.row(series, place_of(row)) is None:
        return cell
    return replace(cell, items=item_link(measured, place_of(row), series))


def change_cells(measured: Measured, place: Place) -> list[Cell]:
    """Return :func:`pair_cells` of the common items of two series on a place."""
    pairs, change = measured.changes.get(place, ((), None))
    return pair_cells(measured, pairs, change, item_link(measured, place))


def pair_cells(
    measured: Measured, pairs: Iterable[Pair], change: Change | None, link: Mapping[str, str]
) -> list[Cell]:
    """Return three cells on pairs of items of two series.

    The first has the difference in points, with its interval and the judgement. The others have the numbers of items
    that the second series lost and gained, and open them.

    :param link: the filter of the page's list that shows the items.
    """
    if change is None:
        cell = Cell("no common items")
    else:
        numbers = f"{points(change.difference)} ({point_range(change.low, change.high)})"
        cell = Cell(f"{numbers}, {change.word}", change.difference)
    first, second = measured.series
    sides = {**link, "baseline": str(first.index), "candidate": str(second.index)}
    counts = {
        "lost": sum(pair.candidate < pair.baseline for pair in pairs),
        "gained": sum(pair.candidate > pair.baseline for pair in pairs),
    }
    return [
        cell,
        *(Cell(f"{n:,}", n, items={**sides, "tab": tab} if n else {}) for tab, n in counts.items()),
    ]


def _comparison(measured: Measured) -> Table:
    columns = [*_PLACE, *((s.starred, True) for s in measured.series)]
    note = ""
    two = len(measured.series) == 2
    if two:
        columns += [("Change", True), ("Lost", True), ("Gained", True)]
        note = (
            f"Change: {measured.series[1].starred} minus {measured.series[0].starred} in points, on the items that both"
            " have, with its 95% interval."
        )
    rows = []
    for place in measured.places:
        cells = [*_place_cells(place), *(place_cell(measured, place, s) for s in measured.series)]
        cells += change_cells(measured, place) if two else []
        rows.append((*cells, _published_cell(measured, place)))
    return _table("Comparison", [*columns, ("Published", False)], rows, note, several=True)


_SEARCHED = {
    "searched": "Searched",
    "counterexamples": "Counterexamples",
    "not_repeated": "Not repeated",
    "examples": "Examples tried",
    "calls": "Calls",
    "spent": "Cut short",
    "errors": "Errors",
}
#: maximum counterexamples shown per model
_MOST = 10
#: maximum characters of a counterexample
_LONG = 400


def _searches(measured: Measured) -> list[Block]:
    """Return the searches of a benchmark, one row per property, and some counterexamples; empty without searches."""
    counts, rows = [], []
    for s in measured.series:
        for one in s.run.facts.searches:
            if (one.model, one.benchmark) == (s.model, measured.benchmark):
                numbers = (getattr(one, name) for name in _SEARCHED)
                names = (Cell(s.starred), Cell(visible(one.property) or "–"))
                counts.append((*names, *(Cell(f"{number:,}", number) for number in numbers)))
        for r in [row for row in measured.searches(s) if row.counterexample][:_MOST]:
            name = visible(r.property) or "–"
            texts = (visible(r.id), s.starred, name, r.repeats or "–", one_line(r.why, _LONG))
            rows.append(tuple(map(Cell, texts)))
    if not counts:
        return []
    table = Table(
        "Searches for counterexamples",
        (("Model", False), ("Property", False), *((title, True) for title in _SEARCHED.values())),
        tuple(counts),
        "Hypothesis searches for the smallest change of an item after which the model's answer contradicts its answer"
        " to the item. A search does not show how often that happens, and has no bound. A counterexample is repeated by"
        " more than 60% of its replications; what is not repeated is counted apart.",
    )
    if not rows:
        return [table]
    columns = tuple((head, False) for head in ("Item", "Model", "Property", "Repeats", "Counterexample"))
    return [table, Fold("Some counterexamples", (Table("Counterexamples", columns, tuple(rows)),))]


def fine_print(measured: Measured) -> list[Block]:
    """Return blocks with searches, metrics, protocols and their compromises, and deviations."""
    blocks = _searches(measured)
    table = _metrics(measured)
    if table.rows:
        blocks.append(Fold("Further metrics", (table,)))
    labels_by_line: dict[str, list[str]] = {}
    for s in measured.series:
        for line in protocol_lines(s, measured.benchmark):
            labels_by_line.setdefault(line, []).append(s.label)
    everyone = [s.label for s in measured.series]
    repeats = [
        row.samples // row.items for s in measured.series for row in measured.rows(s) if row.has_repeats
    ]
    if repeats:
        blocks.append(Note(REPEATS.format(n=max(repeats))))
    notes = [
        Note(line if labels == everyone else f"{', '.join(labels)}: {line}")
        for line, labels in labels_by_line.items()
    ]
    if notes:
        blocks.append(Fold("How it was measured", tuple(notes)))
    blocks += [
        Note(f"* {s.label}: the API forced {'; '.join(s.deviations)}.", "warn")
        for s in measured.series
        if s.deviations
    ]
    return blocks


def protocol_lines(series: Series, benchmark: str) -> list[str]:
    """Return the protocol in words: settings, compromises, and what the paper does not specify."""
    protocol = series.protocol(benchmark)
    if not protocol.name:
        return []
    settings = ", ".join(f"{name} {value}" for name, value in series.settings(benchmark).items())
    lines = [f"Protocol {protocol.name}: {settings or 'no settings'}."]
    if protocol.gives_up:
        lines.append(f"Compared with the paper, it leaves out: {protocol.gives_up}.")
    return lines + [f"Assumed, since the paper leaves it open: {text}." for text in protocol.assumed]


def _metrics(measured: Measured) -> Table:
    rows = []
    for s in measured.series:
        for m in measured.metrics(s):
            value = "–" if m.value is None else f"{m.value:.3f}"
            low, high = m.ci_low, m.ci_high
            if m.value is not None and low is not None and high is not None and 0 <= m.value <= 1:
                value = f"{percent(m.value)} ({interval(low, high)})"
            names = (words(m.name), words(m.task), language(m.language), words(m.group))
            link = metric_cell(measured, s, m).items
            numbers = (Cell(value, m.value, items=link), Cell(f"{m.n:,}", m.n))
            better = Cell("" if m.direction == "none" else m.direction)
            rows.append([Cell(s.starred), *map(Cell, names), *numbers, better])
    columns = [("Model", False), ("Metric", False), ("Task", False), ("Language", False), ("Group", False)]
    columns += [("Value", True), ("Items", True), ("Better", False)]
    return _table("Metrics", columns, rows, several=len(measured.series) > 1)


def section_of(measured: Measured) -> Section:
    """Return a benchmark's section with its title: the common one with a warning if its own cannot be made.

    :raises UsageError: if the registration's section is not a function that returns a :class:`Section`.
    """
    name = measured.benchmark
    make = find_registration(name).load("section") if name in benchmark_names() else None
    try:
        made = (make or section)(measured)
    except LLMPropsError:
        raise
    except Exception as error:
        # The verdicts may be of another version or person, and lack what the code expects.
        if make is None:
            raise
        made = section(measured)
        why = f"The tables and figures of {name} cannot be made from this record: {fault_text(error)}"
        made = replace(made, blocks=(Note(why, "warn"), *made.blocks))
    if not isinstance(made, Section):
        raise UsageError(f"benchmark {name}, section: returns {made!r}, not a Section")
    return replace(made, key=name, title=measured.facts.title, about=measured.facts.about)
