"""The oracle-checker's plots: acceptance (figure 6 of Zeng et al.) and sentence by sentence (figure 10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_llmprops.benchmarks.oracle.linearity_evidence import LossEvidence
from pytest_llmprops.core.texts import one_line, shortened
from pytest_llmprops.reports.kit.figures import (
    FAINT,
    INK,
    LINE,
    MUTED,
    PAPER,
    SERIES,
    TEXT,
    WIDTH,
    Label,
    colour,
    margins,
    marker,
    name_points,
    new_figure,
    room,
    share_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot


# The map of a rejected sentence: which entity is lost when which other entity is replaced.

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
    shown = {"dependent": one.p_unrelated, "varying": one.p}
    name = "varies between sentences" if one.outcome == "varying" else one.outcome
    return f"{lost}: {name}" + (f", p = {shown[one.outcome]:.3f}" if one.outcome in shown else "")


#: height of a bar with the space around it, and of the panels of figure 10, in inches
_BAR, _PANEL = 0.21, 0.85
#: opacity of rejected shares
_REJECTED = 0.32
#: maximum sentences in figure 10; of more, an evenly spaced selection is drawn
MOST_DRAWN = 800
#: maximum groups of equal answers with their own colour; smaller groups share one
_GROUPS = 5


@dataclass(frozen=True, slots=True)
class Bar:
    """The accepted and rejected shares of sentences or entities. The rest was not extracted.

    :param n: total number; None if the paper does not print it.
    """

    name: str
    accepted: float
    rejected: float
    n: int | None


@dataclass(frozen=True, slots=True)
class Bars:
    """The bars of a model on one kind of sentences; ``series`` is -1 for a paper."""

    title: str
    series: int
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """One sentence in figure 10.

    :param a_test: share of its tests that pass.
    :param a_rate: share of all combinations of samples that pass.
    :param entities: number of entities.
    :param groups: groups of equal answers about the original sentence, as shares of the samples, largest first (Con_o).
        The rest up to 1 is unreadable replies.
    """

    a_test: float
    a_rate: float
    entities: float
    groups: tuple[float, ...]


def acceptance_plot(groups: Sequence[Bars]) -> Plot:
    """Draw stacked bars, one block per model: accepted is solid, rejected pale, not extracted outlined."""
    names = [bar.name for group in groups for bar in group.bars]
    titles = [shortened(group.title, 60) for group in groups]
    left, top = room(names), 0.36
    lines = len(names) + 1.5 * len(groups)
    figure = new_figure(WIDTH, top + _BAR * lines + 0.4)
    axes = figure.add_axes(margins(figure, left=left, right=1.6, top=top, bottom=0.36))
    at, ticks = 0.0, []
    for title, group in zip(titles, groups, strict=True):
        axes.annotate(
            title, (0, at + 0.75), xytext=(2, 0), textcoords="offset points",
            xycoords=("axes fraction", "data"), va="center", weight="bold", color=TEXT,
        )  # fmt: skip
        at += 1.3
        for bar in group.bars:
            ticks.append(at + 0.5)
            _stacked(axes, bar, at + 0.5, MUTED if group.series < 0 else colour(group.series))
            at += 1
        at += 0.2
    axes.set_yticks(ticks, names, color=TEXT)
    share_axis(axes, "x")
    axes.set_ylim(at, 0)
    _legend(
        figure,
        [
            ("accepted", MUTED, 1.0),
            ("rejected", MUTED, _REJECTED),
            ("not extracted or not tested", PAPER, 1.0),
        ],
    )
    return figure


def _stacked(axes: Axes, bar: Bar, y: float, shade: str) -> None:
    rest = max(0.0, 1 - bar.accepted - bar.rejected)
    at = 0.0
    for share, fill, alpha in ((bar.accepted, shade, 1.0), (bar.rejected, shade, _REJECTED)):
        if share:
            axes.barh(y, share, 0.62, at, color=fill, alpha=alpha, linewidth=0)
        at += share
    if rest > 1e-9:
        axes.barh(y, rest, 0.62, at, color=PAPER, edgecolor=shade, linewidth=0.7)
    count = f" of {bar.n:,}" if bar.n is not None else ""
    axes.annotate(
        f"{100 * bar.accepted:.1f}%{count}", (1, y), xytext=(8, 0), textcoords="offset points",
        xycoords=("axes fraction", "data"), va="center", color=shade, annotation_clip=False,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class RiskLine:
    """A model's answers on pairs.

    :param wrong: share of wrong answers among all answers.
    :param coverage: share of accepted answers. :param risk: share of wrong answers among these.
    """

    name: str
    series: int
    wrong: float
    coverage: float
    risk: float


def risk_plot(lines: Sequence[RiskLine], nulls: Mapping[str, tuple[float, float]]) -> Plot:
    """Draw the share of wrong answers against coverage: of all answers, and of the accepted ones.

    :param nulls: coverage and risk of each oracle that knows nothing.
    """
    figure = new_figure(WIDTH, 3.6)
    axes = figure.add_axes(margins(figure, left=0.75, right=0.3, top=0.15, bottom=0.6))
    share_axis(axes, "x")
    share_axis(axes, "y")
    labels = []
    for name, (x, y) in nulls.items():
        axes.plot(x, y, marker="x", color=MUTED, linestyle="none")
        labels.append(Label(name, x, y, MUTED))
    for line in lines:
        shade, shape = colour(line.series), marker(line.series)
        axes.plot([1, line.coverage], [line.wrong, line.risk], color=shade, linewidth=1.4)
        axes.plot(1, line.wrong, marker=shape, color=shade, fillstyle="none", linestyle="none", clip_on=False)
        axes.plot(line.coverage, line.risk, marker=shape, color=shade, linestyle="none", clip_on=False)
        labels.append(Label(line.name[:40], line.coverage, line.risk, shade, bold=True))
    axes.set_xlabel("coverage: share of answers that are accepted")
    axes.set_ylabel("wrong answers among these")
    name_points(axes, labels, 8.5)
    return figure


def selected(profiles: Sequence[Profile]) -> list[Profile]:
    """Return at most :data:`MOST_DRAWN` sentences, evenly spaced, the highest Con_o first."""
    order = sorted(profiles, key=lambda p: (-p.groups[0], -p.a_rate, p.entities))
    if len(order) <= MOST_DRAWN:
        return order
    return [order[int((n + 0.5) * len(order) / MOST_DRAWN)] for n in range(MOST_DRAWN)]


def profile_plot(profiles: Sequence[Profile], series: int) -> Plot:
    """Draw four bar charts over the same sentences, in the order of :func:`selected`."""
    shown, shade = selected(profiles), colour(series)
    left, top, gap = 0.75, 0.42, 0.2
    figure = new_figure(WIDTH, top + 4 * (_PANEL + gap) + 0.35)
    height = figure.get_size_inches()[1]
    panels = []
    for number in range(4):
        up = top + number * (_PANEL + gap)
        box = margins(figure, left=left, right=0.15, top=up, bottom=height - up - _PANEL)
        panels.append(figure.add_axes(box))
    charts = (
        ("A_test", [p.a_test for p in shown]),
        ("A_rate", [p.a_rate for p in shown]),
        ("#E", [p.entities for p in shown]),
    )
    for axes, (name, values) in zip(panels, charts, strict=False):
        axes.stairs(values, fill=True, color=shade)
        _panel(axes, name, shares=name != "#E")
    layers = _layers(shown, series)
    _groups(panels[3], shown, layers)
    _panel(panels[3], "Con_o", shares=True)
    for axes in panels:
        axes.set_xlim(0, len(shown))
        axes.set_xticks([])
    panels[3].set_xlabel(f"{len(shown):,} sentences, by Con_o", fontsize=8, labelpad=3)
    _legend(figure, layers)
    return figure


#: name, colour, opacity
Layer = tuple[str, str, float]


def _layers(shown: Sequence[Profile], series: int) -> list[Layer]:
    """Return the layers of the Con_o chart from the bottom, without empty ones."""
    most = max(len(p.groups) for p in shown)
    layers: list[Layer] = [("most frequent answer", colour(series), 1.0)]
    for n in range(1, min(most, _GROUPS)):
        layers.append((f"{_ORDINALS[n]}", SERIES[(series + n) % len(SERIES)], 0.75))
    if most > _GROUPS:
        layers.append(("others", FAINT, 1.0))
    if any(sum(p.groups) < 1 - 1e-9 for p in shown):
        layers.append(("unreadable", _DARK, 1.0))
    return layers


_ORDINALS = ("first", "second", "third", "fourth", "fifth")
#: the paper's dark grey
_DARK = list(INK)[1]


def _groups(axes: Axes, shown: Sequence[Profile], layers: Sequence[Layer]) -> None:
    base = [0.0] * len(shown)
    for n, (name, shade, alpha) in enumerate(layers):
        if name == "unreadable":
            top = [1.0] * len(shown)
        elif name == "others":
            top = [sum(p.groups) for p in shown]
        else:
            top = [sum(p.groups[: n + 1]) for p in shown]
        axes.stairs(top, baseline=base, fill=True, color=shade, alpha=alpha, linewidth=0)
        base = top


def _panel(axes: Axes, name: str, *, shares: bool) -> None:
    from matplotlib.ticker import MaxNLocator

    if shares:
        axes.set_ylim(0, 1)
        axes.set_yticks([0, 0.5, 1], ["0%", "50%", "100%"])
    else:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    axes.set_ylabel(name, fontsize=8.5)
    axes.grid(axis="y", color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _legend(figure: Plot, layers: Sequence[Layer]) -> None:
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Patch(facecolor=shade, alpha=alpha, edgecolor=MUTED if shade == PAPER else "none", label=name)
        for name, shade, alpha in layers
    ]
    figure.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0.005, 0.995), ncols=len(handles), frameon=False,
        fontsize=8.5, handlelength=1.2, columnspacing=1.4, borderaxespad=0.2, borderpad=0,
    )  # fmt: skip
