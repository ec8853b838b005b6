"""Trained models in the ERAS section: data, scores and learning curves, as ``llmprops eras train`` writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
from pytest_llmprops.reports.kit.trained import Training

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot


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
