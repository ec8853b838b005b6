"""The map of a rejected sentence: which entity is lost when which other entity is replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_llmprops.benchmarks.oracle.linearity_evidence import LossEvidence
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.reports.kit.figures import LINE, MUTED, SERIES, TEXT, margins, new_figure, room

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

#: size of a cell, in inches, and maximum characters of a name
_WIDE, _HIGH, _NAME = 0.62, 0.3, 24
#: colours of entities that are lost more often, and less often, when the other one is replaced
_MORE, _LESS = SERIES[1], SERIES[0]


def loss_map(losses: Sequence[LossEvidence]) -> Plot:
    """Draw a grid: a row per entity that is lost, a column per entity that is replaced.

    A cell has the change of the loss in percentage points; a frame marks an entity that explains the losses alone.
    """
    from matplotlib.patches import Rectangle

    size = len(losses)
    names = [one_line(one.name, _NAME) for one in losses]
    remarks = [_remark(one) for one in losses]
    left, right, top = room(names), room(remarks), 0.3 + 0.62 * 0.078 * max(map(len, names))
    figure = new_figure(left + size * _WIDE + right, top + size * _HIGH + 0.1)
    axes = figure.add_axes(margins(figure, left=left, right=right, top=top, bottom=0.1))
    for row, one in enumerate(losses):
        for column, change in enumerate(one.changes):
            if column == row or change is None:
                continue
            shade = _MORE if change > 0 else _LESS
            axes.add_patch(
                Rectangle((column, row), 1, 1, facecolor=shade, alpha=0.75 * min(1, abs(change)), linewidth=0)
            )
            number = f"{100 * change:+.0f}".replace("-", "−") if round(change, 2) else "0"
            axes.text(
                column + 0.5, row + 0.5, number, ha="center", va="center", fontsize=8,
                color=TEXT if round(change, 2) else MUTED,
            )  # fmt: skip
            if losses[column].name in one.on:
                axes.add_patch(
                    Rectangle(
                        (column + 0.05, row + 0.08), 0.9, 0.84, fill=False, edgecolor=TEXT, linewidth=1.4
                    )
                )
        axes.text(size + 0.12, row + 0.5, remarks[row], va="center", fontsize=8, color=MUTED)
        axes.text(row + 0.5, row + 0.5, "·", ha="center", va="center", color=MUTED)
    axes.set_xlim(0, size)
    axes.set_ylim(size, 0)
    axes.set_yticks([n + 0.5 for n in range(size)], names, color=TEXT)
    axes.set_xticks([n + 0.5 for n in range(size)], names, color=TEXT, rotation=40, ha="left")
    axes.xaxis.tick_top()
    axes.set_xticks(range(size + 1), minor=True)
    axes.set_yticks(range(size + 1), minor=True)
    axes.grid(which="minor", color=LINE, linewidth=0.6)
    axes.tick_params(which="both", length=0)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_color(LINE)
    return figure


def _remark(one: LossEvidence) -> str:
    lost = f"lost in {one.lost} of {one.of}"
    return f"{lost}: {one.outcome}" + (f", p = {one.p:.3f}" if one.outcome == "dependent" else "")
