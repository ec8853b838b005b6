"""The ERAS section of a report: tables 1 and 2 of Li & Hao with their figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from pytest_llmprops.benchmarks.eras.implicit import SENTIMENTS
from pytest_llmprops.benchmarks.eras.items import EXPLICIT, IMPLICIT
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.metrics import Place
from pytest_llmprops.core.numbers import interval as limits
from pytest_llmprops.data.published_results import find
from pytest_llmprops.reports.kit.blocks import Block, Cell, Figure, Note, Section, Table, visible
from pytest_llmprops.reports.kit.figures import ForestRow, Mark, Point, Spot, panels, scatter
from pytest_llmprops.reports.kit.generic import detailed, fine_print, item_link
from pytest_llmprops.reports.kit.series import Measured, Series

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
    """Return warnings, both tables with the paper's rows, figures, and the general parts."""
    blocks: list[Block] = [
        Note(f"{s.label}: {visible(row.text)}.", "warn" if row.warning else "plain")
        for s in measured.series
        for row in measured.remarks(s)
    ]
    explicit, implicit = (
        [place for place in measured.places if place[0] == task] for task in (EXPLICIT, IMPLICIT)
    )
    if explicit:
        blocks += [_segmenters(measured, explicit), *_branching(measured, explicit)]
    if implicit:
        accuracies = {s.index: read_accuracies(s.run.folder, s.model) for s in measured.series}
        blocks += [_sentiment(measured, implicit, accuracies), _occlusion(measured, implicit)]
        blocks += _figure_5(measured, implicit, accuracies)
    return Section((*blocks, *detailed(measured), *fine_print(measured)))


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
            values = (None,) if row is None else (row.value, row.ci_low, row.ci_high)
            points = () if None in values else (Point(s.index, *values),)
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


#: Accuracies of each series by corpus.
Accuracies = Mapping[int, Mapping[str, float]]


def corpus_of(file: str) -> str:
    """Return the corpus that a file's name has; empty without one."""
    return next((name for part, name in CORPORA.items() if part in file.casefold()), "")


def read_accuracies(folder: Path, model: str) -> dict[str, float]:
    """Return a model's accuracies in :data:`ACCURACIES` by corpus; empty without that file.

    :raises DataError: for a file that the command did not write.
    """
    path = folder / ACCURACIES
    if not path.is_file():
        return {}
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return {corpus_of(row["file"]): float(row["accuracy"]) for row in rows if row["model"] == model}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError(
            f"{path}: not written by `llmprops lab eras sentiment-accuracy`; run the command again"
        ) from None


def _sentiment(measured: Measured, places: list[Place], accuracies: Accuracies) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for s, place, cells in _leading_cells(measured, places):
        cells += [_measured_cell(measured, s, name, place, "overall") for name in SCORED]
        cells += [_measured_cell(measured, s, "tie_rate", place, "")]
        cells += [_measured_cell(measured, s, "sentiment_difference", place, group) for group in SENTIMENTS]
        rows.append((*cells, *(percent_cell(accuracies[s.index].get(corpus)) for corpus in CORPORA.values())))
    rows += _published_rows(
        "2",
        lambda model: [
            *(_printed(model, name, "overall", "") for name, _ in SCORED.values()),
            Cell("–"),
            *(_printed(model, "difference", group) for group in SENTIMENTS),
            *(_printed(model, "sentiment_accuracy", corpus) for corpus in CORPORA.values()),
        ],
    )
    headings = [heading for _, heading in SCORED.values()]
    headings += ["Ties", *(f"Diff. {group}" for group in SENTIMENTS), *CORPORA.values()]
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


def _figure_5(measured: Measured, places: list[Place], accuracies: Accuracies) -> Iterable[Figure]:
    """Yield two plots per corpus: its accuracy against GPER, and against the ERAS accuracy."""
    for corpus in (name for name in CORPORA.values() if any(name in rows for rows in accuracies.values())):
        for name, printed, title in (
            ("authors_gper", "gper", "GPER"),
            ("pair_accuracy", "pair_accuracy", "ERAS accuracy"),
        ):
            spots = []
            for s in measured.series:
                place = next((p for p in places if measured.row(s, p) is not None), None)
                row = None if place is None else measured.metric(s, name, place, "overall")
                if corpus in accuracies[s.index] and row is not None and row.value is not None:
                    spots.append(_spot(s.starred, s.index, accuracies[s.index][corpus], row.value))
            for r in find(paper="eras", table="2", metric="sentiment_accuracy", setting=corpus):
                value = _printed(r.model, printed, "overall", "").value
                if value is not None:
                    spots.append(_spot(r.model, -1, r.value, value))
            if not spots:
                continue
            yield Figure(
                f"eras-figure-5-{corpus.casefold()}-{printed}",
                f"Accuracy on {corpus} against {title} (figure 5)",
                f"Accuracy on {corpus} against {title} of {', '.join(spot.label for spot in spots)};"
                " the numbers are in the table above.",
                partial(scatter, spots, f"Accuracy on {corpus}", title, None),
                "Hollow diamonds are the paper's models (Table 2), on the authors' items.",
            )


def _spot(label: str, series: int, x: float, y: float) -> Spot:
    """Return a point without intervals; ``series`` is -1 for a published one."""
    return Spot(label, Point(series, x, x, x), Point(series, y, y, y), series)
