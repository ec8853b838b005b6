"""The ERAS section of a report: tables 1 and 2 of Li & Hao with their figures, one pair, and accuracies by paradigm."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_llmprops.benchmarks.eras.explicit import NEXT
from pytest_llmprops.benchmarks.eras.implicit import SENTIMENTS, PairResult, count
from pytest_llmprops.benchmarks.eras.items import EXPLICIT, IMPLICIT
from pytest_llmprops.benchmarks.eras.paradigms import facts_of
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.metrics import Place
from pytest_llmprops.core.numbers import interval as limits
from pytest_llmprops.core.texts import shortened
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.data.published_results import find
from pytest_llmprops.reports.kit.blocks import Block, Cell, Figure, Fold, Note, Section, Table, visible
from pytest_llmprops.reports.kit.figures import (
    LINE,
    MUTED,
    PAPER,
    WIDTH,
    ForestRow,
    Label,
    Mark,
    Point,
    colour,
    legend,
    marker,
    name_points,
    new_figure,
    panels,
)
from pytest_llmprops.reports.kit.generic import detailed, fine_print, item_link
from pytest_llmprops.reports.kit.series import Measured, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot

GROUPS = ("overall", "left", "right")
PANELS = {"left": "Left", "right": "Right"}
SEGMENTED = ("test_accuracy", "control_accuracy", "difference")
#: Columns of table 2: measured metric -> (name in the printed results, heading). The paper's figures come from the
#: authors' code, so only the metrics that follow this code are shown next to them.
SCORED = {
    "authors_gper": ("gper", "GPER"),
    "pair_accuracy": ("pair_accuracy", "Accuracy"),
    "authors_necessity": ("necessity", "Necessity"),
    "authors_sufficiency": ("sufficiency", "Sufficiency"),
}
#: The paper's two corpora, by a part of their files' names.
CORPORA = {"asap": "ASAP", "chnsenticorp": "ChnSentiCorp"}
#: The file in a run's folder with accuracies on labelled reviews (``llmprops lab eras sentiment-accuracy``).
ACCURACIES = "sentiment_accuracy.json"


def section(measured: Measured) -> Section:
    """Return warnings, both tables with the paper's rows, figures, an example pair, paradigms and the general parts."""
    blocks: list[Block] = [
        Note(f"{s.label}: {visible(row.text)}.", "warn" if row.warning else "plain")
        for s in measured.series
        for row in s.run.facts.remarks
        if (row.model, row.benchmark) == (s.model, measured.benchmark)
    ]
    explicit, implicit = (
        [place for place in measured.places if place[0] == task] for task in (EXPLICIT, IMPLICIT)
    )
    if explicit:
        blocks += [_segmenters(measured, explicit), *_branching(measured, explicit), *_pair(measured)]
    if implicit:
        accuracies = {s.index: read_accuracies(s.run.folder, s.model) for s in measured.series}
        blocks += [_sentiment(measured, implicit, accuracies), _occlusion(measured, implicit)]
        blocks += [*_sampled(measured, implicit), *_figure_5(measured, implicit, accuracies)]
    return Section((*blocks, *_paradigms(measured), *detailed(measured), *fine_print(measured)))


def percent_cell(value: float | None, low: float | None = None, high: float | None = None) -> Cell:
    """Return a number on the paper's scale of 0 to 100."""
    if value is None:
        return Cell("–")
    shown = "" if low is None or high is None else f" ({limits(low, high)})"
    return Cell(f"{100 * value:.1f}{shown}", value)


def _measured_cell(measured: Measured, s: Series, name: str, place: Place, group: str) -> Cell:
    """Return the value of a metric; one over all pairs has its 95% interval and opens the pairs."""
    row = measured.metric(s, name, place, group)
    if row is None:
        return Cell("–")
    if group != "overall":
        return percent_cell(row.value)
    return replace(percent_cell(row.value, row.ci_low, row.ci_high), items=item_link(measured, place, s))


def _leading_cells(measured: Measured, places: Iterable[Place]) -> list[tuple[Series, Place, list[Cell]]]:
    """Return each measured model and place with the cells that name the model and its items."""
    cells = []
    for place in places:
        for s in measured.series:
            script = str(s.settings("eras").get("script") or "simplified")
            items = visible(place[2]) + (
                "" if script == "simplified" else f", traditional ({visible(script)})"
            )
            if measured.row(s, place) is not None:
                cells.append((s, place, [Cell(s.starred), Cell(items)]))
    return cells


def _grouped_rows(measured: Measured, places: list[Place], names: Iterable[str]) -> list[tuple[Cell, ...]]:
    """Return one row per measured model, with these metrics overall, left and right."""
    return [
        (*cells, *(_measured_cell(measured, s, name, place, group) for group in GROUPS for name in names))
        for s, place, cells in _leading_cells(measured, places)
    ]


def _grouped_columns(names: Iterable[str]) -> tuple[tuple[str, bool], ...]:
    """Return the columns of :func:`_grouped_rows`; ``names`` are headings in words."""
    columns = [("Model", False), ("Items from", False), *((n[0].upper() + n[1:], True) for n in names)]
    columns += [(f"{group.capitalize()}: {n}", True) for group in ("left", "right") for n in names]
    return tuple(columns)


def _published_rows(table: str, cells: Callable[[str], list[Cell]]) -> list[tuple[Cell, ...]]:
    """Return one row per model of a printed table; ``cells`` returns the numbers of a model."""
    rows = []
    for model in dict.fromkeys(result.model for result in find(paper="eras", table=table)):
        # The paper says it of the trained models only; the note says what the others fit.
        notes = " ".join(result.note for result in find(paper="eras", table=table, model=model))
        script = next((f", {s}" for s in ("traditional", "simplified") if f"{s} characters" in notes), "")
        rows.append((Cell(model), Cell(f"the paper{script}"), *cells(model)))
    return rows


def _printed(model: str, metric: str, *settings: str) -> Cell:
    """Return a printed number, of the first of ``settings`` that has one; otherwise a dash."""
    for setting in settings:
        results = find(paper="eras", model=model, metric=metric, setting=setting)
        if results:
            return percent_cell(results[0].value)
    return Cell("–")


def _segmenters(measured: Measured, places: list[Place]) -> Table:
    rows = _grouped_rows(measured, places, SEGMENTED)
    rows += _published_rows("1", lambda model: [_printed(model, n, g) for g in GROUPS for n in SEGMENTED])
    return Table(
        "Segmenters (Table 1)",
        _grouped_columns(("test", "control", "difference")),
        tuple(rows),
        "Percent of sentences with a correctly segmented site, mean over paradigms. Difference: control minus test."
        " Intervals are over paradigms (95%). Left: the true word is the first one. Compare rows of one script."
        " In the paper's four Transformer rows the overall figures are not the mean of left and right.",
    )


def _branching(measured: Measured, places: list[Place]) -> list[Block]:
    names: list[str] = []
    columns: dict[tuple[str, str], list[ForestRow]] = {(g, n): [] for g in PANELS for n in SEGMENTED[:2]}
    for s, place, cells in _leading_cells(measured, places):
        names.append(s.starred if len(places) == 1 else f"{s.starred}, {cells[1].text}")
        for (group, name), rows in columns.items():
            row = measured.metric(s, name, place, group)
            points: tuple[Point, ...] = ()
            if (
                row is not None
                and row.value is not None
                and row.ci_low is not None
                and row.ci_high is not None
            ):
                points = (Point(s.index, row.value, row.ci_low, row.ci_high),)
            rows.append(ForestRow(names[-1], points))
    if not any(row.points for rows in columns.values() for row in rows):
        return []
    groups = {0: "Measured", len(names): "The paper"}
    for model in dict.fromkeys(result.model for result in find(paper="eras", table="1")):
        names.append(model)
        for (group, name), rows in columns.items():
            value = _printed(model, name, group).value
            rows.append(ForestRow(model, (), () if value is None else (Mark(model, value),)))
    titled = [(f"{PANELS[g]}, {n.partition('_')[0]}", rows) for (g, n), rows in columns.items()]
    labels = {s.index: s.starred for s in measured.series}
    return [
        Figure(
            "eras-branching",
            "Left- and right-branching paradigms (Table 1)",
            f"Test and control accuracy of {', '.join(names)} in left- and right-branching"
            " paradigms; the numbers are in the table above.",
            partial(panels, titled, labels, groups),
            "The difference of test and control is the garden path effect. Diamonds are the paper's models, on the"
            " authors' items.",
        )
    ]


def chosen_pair(records: Iterable[VerdictRecord]) -> str | None:
    """Return the id of the pair that most segmenters get wrong in the test sentence and right in the control.

    The first of several such pairs is chosen. If there is none, it is the first pair with a wrong test
    sentence, otherwise the first pair; None without records.
    """
    votes: dict[str, int] = {}
    for record in records:
        if "test" in record.values:
            is_missed = not record.values["test"]
            missed = 2 * (is_missed and bool(record.values["control"])) + is_missed
            votes[record.id] = votes.get(record.id, 0) + missed
    return max(votes, key=lambda name: votes[name], default=None)


def _pair(measured: Measured) -> list[Block]:
    records = [(s, r) for s in measured.series for r in measured.records(s, [EXPLICIT])]
    chosen = chosen_pair(record for _, record in records)
    if chosen is None:
        return []
    shown: dict[int, tuple[Cell, ...]] = {}
    for s, record in records:
        if record.id == chosen and "test" in record.values and s.index not in shown:
            test, _, control = record.given.partition(NEXT)
            outcome = "right" if record.values["test"] else "wrong"
            shown[s.index] = (Cell(s.starred), Cell(visible(test)), Cell(visible(control)), Cell(outcome))
    expected = next(record.expected for _, record in records if record.id == chosen)
    columns = (("Model", False), ("Test sentence", False), ("Control sentence", False), ("Test site", False))
    note = f"{chosen}; correct: {visible(expected)}. | is a word boundary, 【 】 mark a wrongly segmented canary word."
    return [Table("One minimal pair", columns, tuple(shown.values()), note)]


#: Accuracies on labelled reviews of each series: by corpus, or by file if the file is not of a corpus.
Accuracies = Mapping[int, Mapping[str, float]]


def corpus_of(file: str) -> str:
    """Return the corpus that a file's name has; empty without one."""
    return next((name for part, name in CORPORA.items() if part in file.casefold()), "")


def read_accuracies(folder: Path, model: str) -> dict[str, float]:
    """Return a model's accuracies in :data:`ACCURACIES`; empty without that file.

    If several files belong to one corpus, their names are the keys.

    :raises DataError: for a file that the command did not write.
    """
    path = folder / ACCURACIES
    if not path.is_file():
        return {}
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        files = {str(row["file"]): float(row["accuracy"]) for row in rows if row["model"] == model}
    except (ValueError, KeyError, TypeError):
        raise DataError(
            f"{path}: not written by `llmprops lab eras sentiment-accuracy`; run the command again"
        ) from None
    corpora = [corpus_of(file) for file in files]
    return {
        name if name and corpora.count(name) == 1 else file: value
        for name, (file, value) in zip(corpora, files.items(), strict=True)
    }


def _sentiment(measured: Measured, places: list[Place], accuracies: Accuracies) -> Table:
    corpora = list(
        dict.fromkeys([*CORPORA.values(), *(name for rows in accuracies.values() for name in rows)])
    )
    rows: list[tuple[Cell, ...]] = []
    for s, place, cells in _leading_cells(measured, places):
        cells += [_measured_cell(measured, s, name, place, "overall") for name in SCORED]
        cells += [_measured_cell(measured, s, "tie_rate", place, "")]
        cells += [_measured_cell(measured, s, "sentiment_difference", place, group) for group in SENTIMENTS]
        rows.append((*cells, *(percent_cell(accuracies[s.index].get(corpus)) for corpus in corpora)))
    rows += _published_rows(
        "2",
        lambda model: [
            *(_printed(model, name, "overall", "") for name, _ in SCORED.values()),
            Cell("–"),
            *(_printed(model, "difference", group) for group in SENTIMENTS),
            *(_printed(model, "sentiment_accuracy", corpus) for corpus in corpora),
        ],
    )
    headings = [heading for _, heading in SCORED.values()]
    headings += ["Ties", *(f"Diff. {group}" for group in SENTIMENTS), *map(visible, corpora)]
    return Table(
        "Sentiment (Table 2)",
        (("Model", False), ("Items from", False), *((heading, True) for heading in headings)),
        tuple(rows),
        "All values are on a scale of 0 to 100. The best accuracy is 50. Lower GPER, necessity and sufficiency are"
        " better; they are computed as in the authors' code, over all pairs. Ties: pairs with equal scores; a tie is"
        " correct for the accuracy, and an error for necessity and sufficiency. With 100 ties, the other values say"
        " nothing."
        " Diff.: control minus test probability of the positive class, best at 0. Intervals are over"
        " paradigms (95%). Humans: derived from the paper's ranking study (section 4.1). The last columns are"
        " accuracies on labelled reviews (`llmprops lab eras sentiment-accuracy`).",
    )


def _occlusion(measured: Measured, places: list[Place]) -> Table:
    return Table(
        "Occlusion by the definitions in the paper's text",
        _grouped_columns(("GPER", "necessity", "sufficiency")),
        tuple(_grouped_rows(measured, places, ("gper", "necessity", "sufficiency"))),
        "Means over paradigms; a hit is a pair whose scores come closer. Not comparable with Table 2, which comes from"
        " the authors' code. Lower is better. Intervals are over paradigms (95%).",
    )


def _sampled(measured: Measured, places: list[Place]) -> Iterable[Note]:
    for s in measured.series:
        for place in places:
            row = measured.metric(s, "sampled_rate", place)
            if row is not None and row.value is not None:
                share = "all pairs" if row.value == 1 else f"{100 * row.value:.0f}% of the pairs"
                way = f"{share} by repeated sampling, which is coarse and gives many ties"
                way = way if row.value else "by the log probabilities of the two answers"
                yield Note(f"{s.starred}, {visible(place[2])}: sentiment {way}.")


@dataclass(frozen=True, slots=True)
class CorpusPoint:
    """A model in Figure 5: its accuracy on a corpus and its two ERAS figures; ``series`` is -1 for a published one."""

    label: str
    series: int
    corpus: float
    gper: float | None
    accuracy: float | None


def _figure_5(measured: Measured, places: list[Place], accuracies: Accuracies) -> list[Block]:
    blocks: list[Block] = []
    for corpus in dict.fromkeys(name for rows in accuracies.values() for name in rows):
        points = []
        for s in measured.series:
            place = next((p for p in places if measured.row(s, p) is not None), None)
            if corpus in accuracies[s.index] and place is not None:
                numbers = [measured.metric(s, n, place, "overall") for n in ("authors_gper", "pair_accuracy")]
                gper, accuracy = (None if row is None else row.value for row in numbers)
                points.append(CorpusPoint(s.starred, s.index, accuracies[s.index][corpus], gper, accuracy))
        points += [
            CorpusPoint(
                r.model, -1, r.value, _printed(r.model, "gper", "").value,
                _printed(r.model, "pair_accuracy", "overall").value,
            )
            for r in find(paper="eras", table="2", metric="sentiment_accuracy", setting=corpus)
        ]  # fmt: skip
        blocks.append(
            Figure(
                f"eras-figure-5-{len(blocks)}",
                f"Accuracy on {visible(corpus)} against ERAS (figure 5)",
                f"Accuracy on {visible(corpus)} against GPER and ERAS accuracy of "
                f"{', '.join(point.label for point in points)}; the numbers are in the table above.",
                partial(_corpus_plot, points, visible(corpus)),
                "Hollow diamonds are the paper's models (Table 2), on the authors' items.",
            )
        )
    return blocks


def _corpus_plot(points: Sequence[CorpusPoint], corpus: str) -> Plot:
    """Return a plot of two panels, GPER and ERAS accuracy; hollow diamonds are the paper's models."""
    figure = new_figure(WIDTH, 3.6)
    left, right = figure.subplots(1, 2, sharex=True)
    figure.subplots_adjust(left=0.09, right=0.98, top=0.86, bottom=0.15, wspace=0.28)
    right.axhline(0.5, color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
    _corpus_panel(left, [(p, p.gper) for p in points], corpus, "GPER")
    _corpus_panel(right, [(p, p.accuracy) for p in points], corpus, "ERAS accuracy")
    labels = {p.series: p.label for p in points if p.series >= 0}
    legend(figure, labels, any(p.series < 0 for p in points), chance=False)
    return figure


def _corpus_panel(
    axes: Axes, points: Sequence[tuple[CorpusPoint, float | None]], corpus: str, name: str
) -> None:
    labels = []
    for point, value in points:
        if value is None:
            continue
        is_measured = point.series >= 0
        shade = colour(point.series) if is_measured else MUTED
        axes.plot(
            point.corpus, value, marker=marker(point.series) if is_measured else "D",
            markersize=8 if is_measured else 6, markerfacecolor=shade if is_measured else PAPER,
            markeredgecolor=shade, linestyle="none", zorder=4,
        )  # fmt: skip
        labels.append(Label(shortened(point.label, 20), point.corpus, value, shade))
    axes.margins(0.12)
    # Up to three digits, because the panels' ranges differ.
    axes.xaxis.set_major_formatter(lambda x, _: f"{100 * x:.3g}%")
    axes.yaxis.set_major_formatter(lambda y, _: f"{100 * y:.3g}%")
    axes.set_xlabel(f"Accuracy on {corpus}")
    axes.set_ylabel(name)
    axes.grid(color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    name_points(axes, labels, 7.5)


def _paradigms(measured: Measured) -> list[Block]:
    """Return a folded table with each model's accuracies by paradigm."""
    lines = [
        (s, task) for task in (EXPLICIT, IMPLICIT) for s in measured.series if measured.records(s, [task])
    ]
    paradigms: dict[tuple[str, str], dict[tuple[int, str], list[VerdictRecord]]] = {}
    for s, task in lines:
        for record in measured.records(s, [task]):
            if "test" in record.values:
                of_paradigm = paradigms.setdefault((record.source, record.cluster), {})
                of_paradigm.setdefault((s.index, task), []).append(record)
    if not paradigms:
        return []
    rows = []
    for (source, cluster), by_line in sorted(paradigms.items()):
        records = [record for some in by_line.values() for record in some]
        facts = facts_of(records[0].values)
        cuts = [record.expected for record in records if record.task == EXPLICIT]
        cells = [Cell(visible(cluster)), Cell(visible(source)), Cell(visible(cuts[0]) if cuts else "–")]
        cells += [Cell(facts.branching), Cell(facts.sentiment)]
        for s, task in lines:
            cells += _paradigm_cells(by_line.get((s.index, task), []), task)
        rows.append(tuple(cells))
    names = ("Paradigm", "Items from", "Site", "Branching", "Sentiment")
    columns = [(name, False) for name in names]
    for s, task in lines:
        heads = ("test", "control") if task == EXPLICIT else ("accuracy", "difference")
        columns += [(f"{s.starred}: {head}", True) for head in heads]
    note = (
        "Percent of sentences with a correctly segmented site; for sentiment, percent of correct pairs (best at 50) and"
        " control minus test."
    )
    table = Table("Paradigms", tuple(columns), tuple(rows), note)
    return [Fold(f"Accuracies by paradigm ({len(rows):,})", (table,))]


def _paradigm_cells(records: Sequence[VerdictRecord], task: str) -> list[Cell]:
    if not records:
        return [Cell("–"), Cell("–")]
    if task == EXPLICIT:
        return [
            percent_cell(sum(r.values[name] for r in records) / len(records)) for name in ("test", "control")
        ]
    counts = count(PairResult.of(record.values) for record in records)
    return [percent_cell(counts.accuracy), percent_cell(counts.difference / 100)]
