"""Sentiment models in the ERAS section: Table 2, occlusion by the paper's text, and Figure 5."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_llmprops.benchmarks.eras.implicit import SENTIMENTS
from pytest_llmprops.benchmarks.eras.report.cells import (
    NOTE,
    Row,
    add_notes,
    grouped_columns,
    grouped_rows,
    leading_cells,
    measured_cell,
    percent_cell,
    published_cell,
    published_rows,
)
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.metrics import Place
from pytest_llmprops.core.texts import shortened
from pytest_llmprops.data.published_results import find
from pytest_llmprops.reports.kit.blocks import Block, Cell, Figure, Note, Table, visible
from pytest_llmprops.reports.kit.figures import (
    LINE,
    MUTED,
    PAPER,
    WIDTH,
    Label,
    colour,
    legend,
    marker,
    name_points,
    new_figure,
)
from pytest_llmprops.reports.kit.series import Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot


#: The paper's two corpora, by a part of their files' names.
CORPORA = {"asap": "ASAP", "chnsenticorp": "ChnSentiCorp"}
#: ``llmprops eras sentiment-accuracy FILE ... --model SPEC --out RUN/sentiment_accuracy.json`` writes this file.
NAME = "sentiment_accuracy.json"
_NUMBERS = ("accuracy", "ci_low", "ci_high", "n")


def read_accuracies(folder: Path, model: str) -> dict[str, Mapping[str, Any]]:
    """Return file name -> row of ``sentiment_accuracy.json`` for one model; empty without that file.

    :raises DataError: for a file that the command did not write.
    """
    path = folder / NAME
    if not path.is_file():
        return {}
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return {
            str(row["file"]): {**row, **{name: float(row[name]) for name in _NUMBERS}}
            for row in rows
            if row["model"] == model
        }
    except (ValueError, KeyError, TypeError):
        raise DataError(
            f"{path}: not written by `llmprops eras sentiment-accuracy --out`; run the command again"
        ) from None


def accuracies_by_corpus(folder: Path, model: str) -> dict[str, Mapping[str, Any]]:
    """Return corpus -> accuracy row; if several files belong to one corpus, their file names are the keys."""
    rows = read_accuracies(folder, model)
    names = [_corpus(file) for file in rows]
    return {
        name if names.count(name) == 1 else file: row
        for name, (file, row) in zip(names, rows.items(), strict=True)
    }


def _corpus(file: str) -> str:
    return next((name for part, name in CORPORA.items() if part in file.casefold()), file)


@dataclass(frozen=True, slots=True)
class CorpusSpot:
    """A model's accuracy on a corpus and its two ERAS figures; ``series`` is -1 for a published model."""

    label: str
    series: int
    corpus: float
    gper: float | None
    accuracy: float | None


def corpus_plot(
    spots: Sequence[CorpusSpot], corpus: str, labels: Mapping[int, str], notes: Sequence[str] = ()
) -> Plot:
    """Return a plot of two panels, GPER and ERAS accuracy; hollow diamonds are the paper's models.

    :param notes: lines below the panels.
    """
    more = NOTE * len(notes)
    height = 3.6 + more
    figure = new_figure(WIDTH, height)
    left, right = figure.subplots(1, 2, sharex=True)
    figure.subplots_adjust(
        left=0.09, right=0.98, top=1 - 0.5 / height, bottom=(0.54 + more) / height, wspace=0.28
    )
    _panel(left, [(s, s.gper) for s in spots], corpus, "GPER", None)
    _panel(right, [(s, s.accuracy) for s in spots], corpus, "ERAS accuracy", 0.5)
    legend(figure, labels, any(s.series < 0 for s in spots), chance=False)
    add_notes(figure, notes)
    return figure


def _panel(
    axes: Axes, spots: Sequence[tuple[CorpusSpot, float | None]], corpus: str, name: str, target: float | None
) -> None:
    if target is not None:
        axes.axhline(target, color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
    points = [(spot, value) for spot, value in spots if value is not None]
    for spot, value in points:
        is_measured = spot.series >= 0
        shade = colour(spot.series) if is_measured else MUTED
        axes.plot(
            spot.corpus, value, marker=marker(spot.series) if is_measured else "D",
            markersize=8 if is_measured else 6, markerfacecolor=shade if is_measured else PAPER,
            markeredgecolor=shade, linestyle="none", zorder=4,
        )  # fmt: skip
    axes.margins(0.12)
    # Up to three digits, because the panels' ranges differ.
    axes.xaxis.set_major_formatter(lambda x, _: f"{100 * x:.3g}%")
    axes.yaxis.set_major_formatter(lambda y, _: f"{100 * y:.3g}%")
    axes.set_xlabel(f"Accuracy on {corpus}")
    axes.set_ylabel(name)
    axes.grid(color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    labels = [
        Label(shortened(s.label, 20), s.corpus, value, colour(s.series) if s.series >= 0 else MUTED)
        for s, value in points
    ]
    name_points(axes, labels, 7.5)


#: Columns of table 2: measured metric -> (name in the printed results, heading). The paper's figures come from the
#: authors' code, so only the metrics that follow this code are shown next to them.
SCORED = {
    "authors_gper": ("gper", "GPER"),
    "pair_accuracy": ("pair_accuracy", "Accuracy"),
    "authors_necessity": ("necessity", "Necessity"),
    "authors_sufficiency": ("sufficiency", "Sufficiency"),
}


def sentiment_blocks(measured: Measured, places: list[Place]) -> list[Block]:
    """Return Table 2, the occlusion study, notes on sampled scores, and Figure 5."""
    return [
        _sentiment(measured, places),
        _occlusion(measured, places),
        *_sampled(measured, places),
        *_figures(measured, places),
    ]


def _sentiment(measured: Measured, places: list[Place]) -> Table:
    accuracies = {s.index: accuracies_by_corpus(s.run.folder, s.model) for s in measured.series}
    corpora = list(
        dict.fromkeys([*CORPORA.values(), *(name for rows in accuracies.values() for name in rows)])
    )
    rows: list[Row] = []
    for s, place, cells in leading_cells(measured, places):
        cells += [measured_cell(measured, s, name, place, "overall", interval=True) for name in SCORED]
        cells += [measured_cell(measured, s, "tie_rate", place, "")]
        cells += [measured_cell(measured, s, "sentiment_difference", place, group) for group in SENTIMENTS]
        cells += [
            percent_cell(accuracies[s.index][c]["accuracy"]) if c in accuracies[s.index] else Cell("–")
            for c in corpora
        ]
        rows.append(tuple(cells))
    rows += published_rows(
        "2",
        lambda model: [
            *(published_cell(model, name, "overall", "") for name, _ in SCORED.values()),
            Cell("–"),
            *(published_cell(model, "difference", group) for group in SENTIMENTS),
            *(published_cell(model, "sentiment_accuracy", corpus) for corpus in corpora),
        ],
    )
    columns = [("Model", False), ("Items from", False), *((heading, True) for _, heading in SCORED.values())]
    columns += [(name, True) for name in ("Ties", *(f"Diff. {group}" for group in SENTIMENTS))]
    columns += [(visible(c), True) for c in corpora]
    return Table(
        "Sentiment (Table 2)",
        tuple(columns),
        tuple(rows),
        "All values are on a scale of 0 to 100. The best accuracy is 50. Lower GPER, necessity and sufficiency are"
        " better; they are computed as in the authors' code, over all pairs. Ties: pairs with equal scores; a tie is"
        " correct for the accuracy, and an error for necessity and sufficiency. With 100 ties, the other values say"
        " nothing."
        " Diff.: control minus test probability of the positive class, best at 0. Intervals are over"
        " paradigms (95%). Humans: derived from the paper's ranking study (section 4.1). The last columns are"
        " accuracies on labelled files (`llmprops eras sentiment-accuracy`).",
    )


def _occlusion(measured: Measured, places: list[Place]) -> Table:
    return Table(
        "Occlusion by the definitions in the paper's text",
        grouped_columns(("GPER", "necessity", "sufficiency")),
        tuple(grouped_rows(measured, places, ("gper", "necessity", "sufficiency"))),
        "Means over paradigms; a hit is a pair whose scores come closer. Not comparable with Table 2, which comes from"
        " the authors' code. Lower is better. Intervals are over paradigms (95%).",
    )


def _sampled(measured: Measured, places: list[Place]) -> list[Block]:
    notes: list[Block] = []
    for s in measured.series:
        for place in places:
            row = measured.metric(s, "sampled_rate", place)
            if row is not None and row.value is not None:
                share = "all pairs" if row.value == 1 else f"{100 * row.value:.0f}% of the pairs"
                method = (
                    "by the log probabilities of the two answers"
                    if row.value == 0
                    else f"{share} by repeated sampling, which is coarse and gives many ties"
                )
                notes.append(Note(f"{s.starred}, {visible(place[2])}: sentiment {method}."))
    return notes


def _figures(measured: Measured, places: list[Place]) -> list[Block]:
    blocks: list[Block] = []
    accuracies = {s.index: accuracies_by_corpus(s.run.folder, s.model) for s in measured.series}
    for corpus in dict.fromkeys(name for rows in accuracies.values() for name in rows):
        spots = []
        for s in measured.series:
            place = next((p for p in places if measured.row(s, p) is not None), None)
            if corpus in accuracies[s.index] and place is not None:
                numbers = [measured.metric(s, n, place, "overall") for n in ("authors_gper", "pair_accuracy")]
                values = [None if row is None else row.value for row in numbers]
                spots.append(
                    CorpusSpot(
                        s.starred,
                        s.index,
                        float(accuracies[s.index][corpus]["accuracy"]),
                        values[0],
                        values[1],
                    )
                )
        labels = {spot.series: spot.label for spot in spots}
        spots += _published_spots(corpus)
        blocks.append(
            Figure(
                f"eras-figure-5-{len(blocks)}",
                f"Accuracy on {visible(corpus)} against ERAS (figure 5)",
                f"Accuracy on {visible(corpus)} against GPER and ERAS accuracy of "
                f"{', '.join(spot.label for spot in spots)}; the numbers are in the table above.",
                partial(corpus_plot, spots, visible(corpus), labels),
                "Hollow diamonds are the paper's models (Table 2), on the authors' items.",
            )
        )
    return blocks


def _published_spots(corpus: str) -> list[CorpusSpot]:
    return [
        CorpusSpot(
            r.model,
            -1,
            r.value,
            published_cell(r.model, "gper", "").value,
            published_cell(r.model, "pair_accuracy", "overall").value,
        )
        for r in find(paper="eras", table="2", metric="sentiment_accuracy", setting=corpus)
    ]
