"""Models that ``llmprops htest train`` wrote, in the H-TEST section: Table 8 and Figure 6 of Lee & Lim."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from pytest_llmprops.benchmarks.htest.benchmark import TASKS, HTest
from pytest_llmprops.core.paired import holm, mcnemar_drop
from pytest_llmprops.core.strict_json import JSON
from pytest_llmprops.data.published_results import find
from pytest_llmprops.reports.kit.blocks import Block, Cell, Figure, Table, visible, words
from pytest_llmprops.reports.kit.figures import (
    FAINT,
    LINE,
    MUTED,
    PAPER,
    TEXT,
    WIDTH,
    colour,
    margins,
    new_figure,
    room,
    share_axis,
)
from pytest_llmprops.reports.kit.series import Measured, Series, Share
from pytest_llmprops.reports.kit.trained import Training, read_training

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot

ORIGINAL = "original"
AVERAGE = "average"
#: Level of the tests of a change.
ALPHA = 0.05
_TUNED = "fine-tuned on "


@dataclass(frozen=True, slots=True)
class Condition:
    """A row of Table 8: the base, or a model that was trained on one task, on all ten tasks.

    :param base: The model before training. :param trained_on: The task; empty for the base itself.
    :param how: Seed, items and epochs of the training, in this order; ``–`` where there is none.
    :param held_out: Accuracy on further items of the task, without examples; None if it is not known.
    :param shares: Accuracy by task, with ``average``.
    :param p_values: Of the change from the base by task, two-sided, adjusted over all cells of the base.
    :param series: Its index in the report; -1 for the paper's.
    """

    base: str
    trained_on: str
    how: tuple[str, str, str]
    shares: Mapping[str, Share]
    p_values: Mapping[str, float] = field(default_factory=dict)
    series: int = -1
    held_out: float | None = None


def conditions(measured: Measured) -> list[Condition]:
    """Return the bases in a report, each followed by the models that were trained from it; empty without any."""
    trainings = [
        (s, t) for s in measured.series if (t := read_training(s)) is not None and "task" in t.options
    ]
    rows: list[Condition] = []
    for name in dict.fromkeys(training.base for _, training in trainings):
        tuned = [(s, t) for s, t in trainings if t.base == name]
        base = next((s for s in measured.series if _model(s) == name), None)
        label = visible(Path(name).name if base is None else base.label)
        if base is not None:
            rows.append(Condition(label, "", ("–", "–", "–"), _shares(measured, base), {}, base.index))
        changes = [_changes(measured, base, s) if base is not None else {} for s, _ in tuned]
        adjusted = iter(holm([p for one in changes for p in one.values()]))
        for (s, training), change in zip(tuned, changes, strict=True):
            p_values = dict(zip(change, adjusted, strict=False))
            task = visible(str(training.options["task"]))
            # The only scored file of such a training is its held-out part.
            held_out = training.scores[0][1].get("accuracy") if training.scores else None
            shares = _shares(measured, s)
            rows.append(Condition(label, task, _how(training), shares, p_values, s.index, held_out))
    return rows


def printed() -> list[Condition]:
    """Return the paper's rows (Table 8)."""
    settings: dict[str, dict[str, Share]] = {}
    results = find(paper="htest", table="8", metric="accuracy")
    for r in results:
        settings.setdefault(r.setting, {})[r.task] = Share(r.value, r.value, r.value, r.n or 0)
    how = ("–", "about 1,000", "3")
    return [
        Condition(results[0].model, setting.removeprefix(_TUNED), how, shares)
        if setting.startswith(_TUNED)
        else Condition(results[0].model, "", ("–", "–", "–"), shares)
        for setting, shares in settings.items()
    ]


def _model(series: Series) -> str:
    """Return the folder or repository that a series' model was loaded from."""
    facts = series.run.facts.models.get(series.model)
    return facts.spec.removeprefix("hf:").partition("?")[0] if facts else ""


def _how(training: Training) -> tuple[str, str, str]:
    def number(value: JSON) -> str:
        return f"{value:,g}" if isinstance(value, int | float) else "–"

    settings = training.settings
    return number(settings.get("seed")), number(training.options.get("items")), number(settings.get("epochs"))


def _shares(measured: Measured, series: Series) -> dict[str, Share]:
    """Return the accuracy of each task, and their mean if all ten were measured."""
    shares = {task: share for task in TASKS if (share := measured.accuracy(series, [task])) is not None}
    if len(shares) == len(TASKS):
        values = list(shares.values())
        mean = fmean(share.value for share in values)
        shares[AVERAGE] = Share(mean, mean, mean, sum(share.n for share in values))
    return shares


def _changes(measured: Measured, base: Series, trained: Series) -> dict[str, float]:
    """Return the two-sided p-value of the change on each task: McNemar's exact test over the common items."""
    p_values = {}
    for task in TASKS:
        before, after = ({r.id: r.status == "correct" for r in measured.first_samples(s, [task]) if r.status != "error"}
                         for s in (base, trained))  # fmt: skip
        common = before.keys() & after.keys()
        losses = sum(before[name] and not after[name] for name in common)
        gains = sum(after[name] and not before[name] for name in common)
        if common:
            p_values[task] = min(1.0, 2 * min(mcnemar_drop(losses, gains), mcnemar_drop(gains, losses)))
    return p_values


def training_blocks(measured: Measured) -> list[Block]:
    """Return Table 8 and Figure 6 with the paper's figures next to yours; nothing if no model was fine-tuned."""
    rows = conditions(measured)
    return [training_table(rows), training_figure(rows)] if rows else []


def training_table(rows: Sequence[Condition]) -> Table:
    """Return the table of these rows and the paper's."""
    columns = [("Model", False), ("Fine-tuned on", False), ("Seed", True), ("Items", True), ("Epochs", True)]
    columns += [("Held out", True), *((words(task), True) for task in (*TASKS, AVERAGE))]
    cells = tuple(
        (
            Cell(row.base if row.series >= 0 else f"{row.base} (paper)"),
            Cell(words(row.trained_on) or ORIGINAL),
            *map(Cell, row.how),
            Cell("–") if row.held_out is None else Cell(f"{100 * row.held_out:.1f}", row.held_out),
            *(_cell(row, task) for task in (*TASKS, AVERAGE)),
        )
        for row in (*rows, *printed())
    )
    tests = sum(len(row.p_values) for row in rows)
    note = (
        "Accuracy in percent; guessing gets 50. In parentheses: measured on the task that the model was trained on."
        " Held out: further items of that task, without examples in the prompt."
    )
    if tests:
        changed = sum(p < ALPHA for row in rows for p in row.p_values.values())
        note += (
            f" *: differs from the original at {ALPHA:.0%} (exact McNemar test, Holm over {tests} cells):"
            f" {changed} of them."
        )
    return Table(
        "Before and after fine-tuning", tuple(columns), cells, f"{note} The paper's rows are from Table 8."
    )


def _cell(row: Condition, task: str) -> Cell:
    share = row.shares.get(task)
    if share is None:
        return Cell("–")
    # The paper prints one figure with two decimals.
    text = f"{100 * share.value:.1f}" if row.series >= 0 else f"{100 * share.value:.2f}".removesuffix("0")
    if task == row.trained_on:
        text = f"({text})"
    if row.p_values.get(task, 1.0) < ALPHA:
        text += "*"
    return Cell(text, share.value)


CSV_COLUMNS = (
    "model", "fine_tuned_on", "seed", "items", "epochs", "held_out", "task", "accuracy", "ci_low", "ci_high", "n",
    "p_value",
)  # fmt: skip


def training_csv(rows: Sequence[Condition]) -> str:
    """Return the same figures as CSV, as fractions, one line per model and task.

    The paper's figures and the averages have no interval; ``p_value`` is that of the change from the original.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for row in (*rows, *printed()):
        name = row.base if row.series >= 0 else f"{row.base} (paper)"
        how = ["" if value == "–" else value.replace(",", "") for value in row.how]
        for task, share in row.shares.items():
            interval = [share.low, share.high] if share.low < share.high else ["", ""]
            p_value = row.p_values.get(task, "")
            held_out = "" if row.held_out is None else row.held_out
            who = [name, row.trained_on or ORIGINAL, *how, held_out]
            writer.writerow([*who, task, share.value, *interval, share.n, p_value])
    return text.getvalue()


def training_figure(rows: Sequence[Condition]) -> Figure:
    """Return the plot of Figure 6: each task before and after fine-tuning, one panel per base, the paper's last."""
    panels = [[row for row in rows if row.base == base] for base in dict.fromkeys(row.base for row in rows)]
    panels.append(printed())
    names = [panel[0].base + ("" if panel[0].series >= 0 else " (paper)") for panel in panels]
    return Figure(
        "htest-fine-tuning",
        "Accuracy before and after fine-tuning",
        f"The accuracy on each task before and after fine-tuning of {', '.join(names)}; the numbers are in the table.",
        lambda: before_and_after(list(zip(names, panels, strict=True))),
        "Diamond: before training. Filled circle: after training on this task. Grey circles: after training on another"
        " task. Dashed line: guessing.",
    )


def before_and_after(panels: Sequence[tuple[str, Sequence[Condition]]]) -> Plot:
    """Return a plot with one panel per base, next to each other, and one line per task."""
    tasks = (*TASKS, AVERAGE)
    names = [words(task) for task in tasks]
    left, gap, top, bottom = room(names), 0.25, 0.4, 0.42
    figure = new_figure(WIDTH, top + bottom + 0.26 * len(tasks))
    width = (WIDTH - left - 0.2 - gap * (len(panels) - 1)) / len(panels)
    for number, (title, rows) in enumerate(panels):
        start = left + number * (width + gap)
        axes = figure.add_axes(
            margins(figure, left=start, right=WIDTH - start - width, top=top, bottom=bottom)
        )
        axes.axvline(HTest.chance[""], color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
        for line, task in enumerate(tasks):
            axes.axhline(line + 0.5, color=LINE, linewidth=0.5)
            for row in rows:
                _draw(axes, row, task, line)
        axes.set_yticks(range(len(tasks)), names if not number else [""] * len(tasks), color=TEXT)
        share_axis(axes, "x", few=True)
        axes.set_ylim(len(tasks) - 0.5, -0.5)
        axes.set_title(title, loc="left", fontsize=9, pad=5, color=TEXT)
    return figure


def _draw(axes: Axes, row: Condition, task: str, line: int) -> None:
    share = row.shares.get(task)
    if share is None:
        return
    shade = colour(0) if row.series >= 0 else MUTED
    if not row.trained_on:
        axes.plot(
            share.value,
            line,
            marker="D",
            markersize=6,
            markerfacecolor=PAPER,
            markeredgecolor=shade,
            zorder=3,
        )
    elif row.trained_on == task:
        axes.plot(share.value, line, marker="o", markersize=6, color=shade, zorder=4)
    else:
        axes.plot(
            share.value,
            line,
            marker="o",
            markersize=3.5,
            markerfacecolor=PAPER,
            markeredgecolor=FAINT,
            zorder=2,
        )
