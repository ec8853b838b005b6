"""Trained models in the ERAS section: data, scores and learning curves, as ``llmprops eras train`` writes them."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_llmprops.core.strict_json import JSON, parsed_json
from pytest_llmprops.core.texts import shortened
from pytest_llmprops.reports.kit.blocks import (
    Block,
    Cell,
    Figure,
    Table,
    joined,
    percent,
    visible,
    with_interval,
)
from pytest_llmprops.reports.kit.figures import LINE, WIDTH, colour, legend, legend_height, marker, new_figure
from pytest_llmprops.reports.kit.series import Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot


#: The files of a trained model's folder (``tools/training``): its record, and its learning curve.
RECORD, CURVE = "training.json", "curve.csv"
#: Names of the score that chose the checkpoint, in the columns of the curve.
METRICS = ("f1", "accuracy")
#: Larger files are not read, because a run's record may name any folder. :data:`_MOST_POINTS` limits the plot.
_MOST_BYTES, _MOST_POINTS = 8_000_000, 500


@dataclass(frozen=True, slots=True)
class Training:
    """How a model was trained.

    :param base: the model that the training started from; empty if it started from random weights.
    :param data: names of the training files.
    :param scores: per scored file, its name and its numbers by name.
    :param metric: one of :data:`METRICS`, or empty.
    :param losses: (step, loss). :param held_out: (step, score on the held-out part).
    """

    title: str
    base: str
    data: tuple[str, ...]
    scores: tuple[tuple[str, Mapping[str, float]], ...]
    metric: str
    losses: tuple[tuple[float, float], ...]
    held_out: tuple[tuple[float, float], ...]


def read_training(series: Series) -> Training | None:
    """Return how a model was trained; None if the report cannot know it."""
    facts = series.run.facts.models.get(series.model)
    backend, _, rest = facts.spec.partition(":") if facts else ("", "", "")
    if backend != "hf" or not rest:
        return None
    try:
        folder = Path(rest.partition("?")[0]).expanduser()
        record = parsed_json(_text(folder / RECORD))
        curve = list(csv.DictReader(_text(folder / CURVE).splitlines()))
    except (OSError, ValueError, RuntimeError, csv.Error):
        return None
    description = record.get("description") if isinstance(record, dict) else None
    if not isinstance(description, dict):
        return None
    scores = record.get("scores")
    metric = next((name for name in METRICS if curve and name in curve[0]), "")
    return Training(
        title=_string(description.get("title")),
        base=_string(description.get("base")),
        data=tuple(_training_files(description.get("data"))),
        scores=tuple(_scores(scores if isinstance(scores, list) else [])),
        metric=metric,
        losses=_points(curve, "loss"),
        held_out=_points(curve, metric) if metric else (),
    )


def _text(path: Path) -> str:
    with open(path, "rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"{path} is too large")
    return content.decode("utf-8")


def _string(value: JSON) -> str:
    return value if isinstance(value, str) else ""


def _training_files(rows: JSON) -> Iterator[str]:
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, list) and len(row) > 1 and row[0] == "training":
            yield _string(row[1])


def _scores(rows: Sequence[JSON]) -> Iterator[tuple[str, Mapping[str, float]]]:
    for row in rows:
        if isinstance(row, dict):
            numbers = {n: float(x) for n, x in row.items() if isinstance(x, int | float) and math.isfinite(x)}
            yield _string(row.get("file")), numbers


def _points(rows: Sequence[Mapping[str, str | None]], name: str) -> tuple[tuple[float, float], ...]:
    """Return (step, value) of the rows that have the value; of very many, evenly chosen ones with the last."""
    points = []
    for row in rows:
        try:
            point = float(row.get("step") or "nan"), float(row.get(name) or "nan")
        except ValueError:
            continue
        if all(map(math.isfinite, point)):
            points.append(point)
    every = -(-len(points) // _MOST_POINTS) or 1
    return tuple(points[::-1][::every][::-1])


Trained = tuple[Series, Training]
_NAMES = {"f1": "F1", "accuracy": "Accuracy"}


def trained_blocks(trainings: Sequence[Trained]) -> list[Block]:
    """Return a table of the trained models and a figure of their learning curves; nothing without any."""
    blocks: list[Block] = [_table(trainings)] if trainings else []
    curves = [(s, t) for s, t in trainings if t.losses or t.held_out]
    if curves:
        names = joined([s.starred for s, _ in curves])
        blocks.append(
            Figure(
                "eras-learning-curves",
                "Learning curves",
                f"Loss in training and score on the held-out part, by step, of {names}.",
                _drawn(curves),
                "From `curve.csv` in the folders of the models.",
            )
        )
    return blocks


def _table(trainings: Sequence[Trained]) -> Table:
    rows = []
    for s, training in trainings:
        first = [
            Cell(s.starred),
            Cell(visible(joined(list(training.data))) or "–"),
            Cell(visible(training.base) or "random weights"),
        ]
        for file, numbers in training.scores or (("–", {}),):
            rows.append((*first, Cell(visible(file)), *_score_cells(numbers)))
    columns = (
        ("Model", False), ("Trained on", False), ("Base", False), ("Scored on", False),
        ("F1 or accuracy", True), ("Recall of unknown words", True),
    )  # fmt: skip
    note = (
        "As recorded by `llmprops eras train` in the model's folder, for models of this report whose folder is on this"
        " machine. Segmenters have F1 with a 95% interval over lines, sentiment models accuracy."
    )
    return Table("Trained models", columns, tuple(rows), note)


def _score_cells(numbers: Mapping[str, float]) -> tuple[Cell, Cell]:
    name = next((name for name in _NAMES if name in numbers), None)
    if name is None:
        return Cell("–"), Cell("–")
    value, low, high = (numbers.get(key) for key in (name, f"{name}_low", f"{name}_high"))
    unknown = numbers.get("oov_recall")
    return Cell(f"{_NAMES[name]} {with_interval(value, low, high)}", value), Cell(percent(unknown), unknown)


def _drawn(curves: Sequence[Trained]) -> Callable[[], Any]:
    return lambda: curves_plot(curves)


def curves_plot(curves: Sequence[Trained]) -> Plot:
    """Return a plot with two panels: the loss of training and the score on the held-out part, by step."""
    labels = {s.index: s.starred for s, _ in curves}
    height = 2.9 + legend_height(labels)
    figure = new_figure(WIDTH, height)
    left, right = figure.subplots(1, 2)
    figure.subplots_adjust(
        left=0.09, right=0.98, top=1 - (legend_height(labels) + 0.25) / height, bottom=0.16, wspace=0.26
    )
    for s, training in curves:
        if training.losses:
            left.plot(*zip(*training.losses, strict=True), color=colour(s.index), linewidth=1.1)
        if training.held_out:
            right.plot(
                *zip(*training.held_out, strict=True), color=colour(s.index), linewidth=1.2,
                marker=marker(s.index), markersize=4,
            )  # fmt: skip
    left.set_ylim(bottom=min(0.0, *left.get_ylim()))
    scores = " or ".join(dict.fromkeys(_NAMES[t.metric] for _, t in curves if t.metric)) or "score"
    left.set_ylabel("Loss")
    right.set_ylabel(shortened(f"{scores} (held out)", 40))
    for axes in (left, right):
        axes.set_xlabel("Step")
        axes.grid(color=LINE, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(length=0, which="both")
        for side in ("top", "right", "left", "bottom"):
            axes.spines[side].set_visible(False)
    legend(figure, labels, published=False, chance=False)
    return figure
