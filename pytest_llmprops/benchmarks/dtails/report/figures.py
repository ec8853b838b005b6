"""DTAiLS's plots of accuracy by language (figure 2) and positions chosen (figures 5 and 6).

Each is drawn with intervals, and as the paper's bars.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_llmprops.benchmarks.dtails.items import SELECT, TRANSLATE
from pytest_llmprops.core.texts import shortened
from pytest_llmprops.reports.kit.blocks import file_names, visible
from pytest_llmprops.reports.kit.figures import (
    LINE,
    MUTED,
    PAPER,
    TEXT,
    WIDTH,
    colour,
    margins,
    marker,
    new_figure,
    room,
    share_axis,
)
from pytest_llmprops.reports.kit.series import Measured, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot


# The lines of DTAiLS's report section: each series' choices by rules setting, and its translations.

#: A table with more rows than this is folded.
LONG = 20
#: Names of the files that ``llmprops dtails rules`` writes, without ``.json``.
_FILE = re.compile(r"rules-[a-z]{2,3}-(.+)")
#: Maximum characters of a model's name and of its rules' name in a plot.
_NAME, _RULES = 22, 26


@dataclass(frozen=True, slots=True)
class Line:
    """One task of one series.

    :param model: Its name in a table with a separate column for rules.
    :param rules: ``none``, ``own``, or the name of the rules or of the helper that writes them; empty for translations.
    :param name: Model and rules, unique within the task. :param short: The same, for a plot.
    """

    series: Series
    task: str
    model: str
    rules: str
    name: str
    short: str


def rules_name(setting: object, helper: str = "") -> str:
    """Return the setting ``rules`` in words: ``none``, ``own``, the helper, or the model in the file's name.

    :param helper: The specification of the helper that writes the rules.
    """
    text = str(setting or "none")
    if text == "helper":
        return visible(helper) or text
    if text in ("none", "self"):
        return {"none": "none", "self": "own"}[text]
    names = [name.removesuffix(".json") for name in file_names(text)]
    models = {match[1] for name in names if (match := _FILE.fullmatch(name))}
    if len(models) == 1 and all(map(_FILE.fullmatch, names)):
        return visible(models.pop())
    if names in (["none"], ["own"]):
        return f"{names[0]}.json"
    return visible(names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more")


def lines_of(measured: Measured) -> list[Line]:
    """Return choices first, then translations, grouped by model; no rules come before rules."""
    lines = [*_lines(measured, SELECT), *_lines(measured, TRANSLATE)]
    order = {name: n for n, name in enumerate(dict.fromkeys(line.series.model for line in lines))}
    rank = {"none": 0, "own": 1}
    tasks = (SELECT, TRANSLATE)
    return sorted(
        lines,
        key=lambda line: (tasks.index(line.task), order[line.series.model], rank.get(line.rules, 2)),
    )


def _lines(measured: Measured, task: str) -> list[Line]:
    series_rules: list[tuple[Series, str]] = []
    seen = set()
    for s in measured.series:
        rows = [row for row in measured.rows(s) if row.task == task]
        if not rows:
            continue
        if task == TRANSLATE:
            # Rules do not affect translations: runs with other rules repeat them.
            outcome = sorted((r.id, r.status, r.given) for r in measured.records(s, [task]))
            if (s.model, repr(outcome)) in seen:
                continue
            seen.add((s.model, repr(outcome)))
        series_rules.append((s, _rules_of(s) if task == SELECT else ""))
    times = Counter((s.model, rules) for s, rules in series_rules)
    lines = []
    for s, rules in series_rules:
        is_unique = times[s.model, rules] == 1
        star = s.starred.removeprefix(s.label)
        model = (visible(s.model) if is_unique else s.label) + star
        label = {"": "", "none": "no rules", "own": "own rules"}.get(rules, f"rules of {rules}")
        short = (middle(visible(s.model)) if is_unique else middle(s.label, 2 * _NAME)) + star
        short_label = shortened(label, _RULES)
        lines.append(Line(s, task, model, rules, _with_rules(model, label), _with_rules(short, short_label)))
    return lines


def _rules_of(series: Series) -> str:
    helper = series.run.facts.helpers.get("rules")
    return rules_name(series.settings("dtails").get("rules"), helper.spec if helper else "")


def _with_rules(model: str, rules: str) -> str:
    return f"{model} ({rules})" if rules else model


def middle(text: str, most: int = _NAME) -> str:
    """Return ``text`` cut in its middle to ``most`` characters: models of a family often differ at the end."""
    if len(text) <= most:
        return text
    head = (most - 1) // 2
    return f"{text[:head]}…{text[head + 1 - most :]}"


#: Height of a row of marks and space around a panel, in inches; maximum panels side by side.
_ROW, _GAP, _ACROSS = 0.2, 0.3, 3
#: Maximum positions side by side, and the maximum width of one position in inches.
_ABREAST, _WIDEST = 6, 1.7


@dataclass(frozen=True, slots=True)
class Estimate:
    """An accuracy with its 95% interval in [0, 1].

    :param deviation: Standard deviation over ``runs``; None for one run.
    """

    value: float
    low: float
    high: float
    deviation: float | None = None
    runs: int = 1


@dataclass(frozen=True, slots=True)
class Row:
    """A row of every panel. :param heading: Shown above this row and the rows after it."""

    label: str
    series: int
    heading: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A language: an estimate for each row, None if it was not measured, and the baselines."""

    title: str
    values: tuple[Estimate | None, ...]
    baselines: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Positions:
    """Shares of the positions in lists of ``size`` variations, by row; each is (share, low, high)."""

    title: str
    size: int
    shares: tuple[tuple[tuple[float, float, float], ...] | None, ...]


def accuracy_panels(panels: Sequence[Panel], rows: Sequence[Row]) -> Plot:
    """Draw one panel per language, at most three side by side; every panel has the same rows."""
    across = min(_ACROSS, len(panels))
    down = -(-len(panels) // across)
    lines = len(rows) + 1.1 * sum(bool(row.heading) for row in rows)
    height = _ROW * lines + 0.08
    drawn = [value for panel in panels for value in panel.values if value is not None]
    handles = _accuracy_handles(
        any(value.deviation is not None for value in drawn), any(panel.baselines for panel in panels)
    )
    names = [shortened(row.label, 40) for row in rows]
    left = room([*names, *(row.heading for row in rows)]) + 0.06
    top, bottom, above = 0.1 + _legend_height(handles), 0.36, 0.34
    figure = new_figure(WIDTH, top + down * (above + height) + bottom)
    right = 0.6 if across == 1 else 0.2
    width = (WIDTH - left - right - _GAP * (across - 1)) / across
    for number, panel in enumerate(panels):
        column, line = number % across, number // across
        start = left + column * (width + _GAP)
        up = top + line * (above + height) + above
        axes = _axes(figure, start, width, up, height)
        _accuracy_panel(axes, panel, rows, names if not column else None, numbers=across == 1)
        share_axis(axes, "x", few=across > 1)
        if number + across < len(panels):
            axes.set_xticklabels([])
        axes.set_ylim(lines + 0.2, 0)
    _legend(figure, handles)
    return figure


def _axes(figure: Plot, left: float, width: float, top: float, height: float) -> Axes:
    """Add axes whose sides are at distances in inches from the left and the top of the figure."""
    bottom = figure.get_size_inches()[1] - top - height
    return figure.add_axes(margins(figure, left=left, right=WIDTH - left - width, top=top, bottom=bottom))


def _accuracy_panel(
    axes: Axes, panel: Panel, rows: Sequence[Row], names: Sequence[str] | None, *, numbers: bool
) -> None:
    at, ticks = 0.0, []
    for baseline in panel.baselines:
        axes.axvline(baseline, color=MUTED, linewidth=1.0, linestyle=(0, (2, 2)), zorder=1)
    for row, value in zip(rows, panel.values, strict=True):
        if row.heading:
            axes.axhline(at, color=LINE, linewidth=0.5)
            at += 1.1
            if names is not None:
                axes.annotate(
                    row.heading, (0, at - 0.5), xytext=(-8, 0), xycoords=("axes fraction", "data"),
                    textcoords="offset points", va="center", ha="right", weight="bold", annotation_clip=False,
                )  # fmt: skip
        middle = at + 0.5
        ticks.append(middle)
        if value is not None:
            _estimate(axes, value, middle, row.series)
            if numbers:
                axes.annotate(
                    f"{100 * value.value:.1f}", (1, middle), xytext=(8, 0), textcoords="offset points",
                    xycoords=("axes fraction", "data"), va="center", color=colour(row.series),
                    annotation_clip=False,
                )  # fmt: skip
        at += 1
    axes.set_yticks(ticks, names if names is not None else [""] * len(rows))
    # Without padding, a mark at 0% touches its name.
    axes.tick_params(axis="y", pad=8)
    axes.set_title(shortened(panel.title, 30), loc="left", fontsize=9.5, pad=5, color=TEXT)


def _estimate(axes: Axes, value: Estimate, y: float, series: int) -> None:
    shade = colour(series)
    axes.plot([value.low, value.high], [y, y], color=shade, linewidth=1.2, solid_capstyle="butt", zorder=3)
    if value.deviation is not None:
        ends = [max(0.0, value.value - value.deviation), min(1.0, value.value + value.deviation)]
        axes.plot(ends, [y, y], color=shade, linewidth=6, alpha=0.35, solid_capstyle="butt", zorder=2)
    axes.plot(
        value.value, y, marker=marker(series), markersize=5.5, color=shade, linestyle="none", zorder=4,
        clip_on=False,
    )  # fmt: skip


def _accuracy_handles(deviations: bool, baselines: bool) -> list[Any]:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=TEXT, linewidth=1.2, label="95% interval")]
    if deviations:
        label = "± standard deviation over runs"
        handles.append(
            Line2D([], [], color=MUTED, linewidth=6, alpha=0.35, solid_capstyle="butt", label=label)
        )
    if baselines:
        label = "frequency baseline, in-sample"
        handles.append(Line2D([], [], color=MUTED, linewidth=1.0, linestyle=(0, (2, 2)), label=label))
    return handles


def position_panels(panels: Sequence[Positions], rows: Sequence[Row]) -> Plot:
    """Draw how often each position was chosen: one panel per number of variations; the uniform share is dashed."""
    from matplotlib.lines import Line2D

    lines = _packed(panels)
    handles: list[Any] = [
        Line2D([], [], color=colour(row.series), marker=marker(row.series), markersize=5.5, linewidth=1.2,
               label=shortened(row.label, 40))
        for row in rows
    ]  # fmt: skip
    handles.append(Line2D([], [], color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)), label="uniform"))
    top, above, height, below = 0.12 + _legend_height(handles), 0.32, 1.75, 0.3
    figure = new_figure(WIDTH, top + len(lines) * (above + height + below) + 0.05)
    left = 0.5
    for number, line in enumerate(lines):
        start, gaps = left, 0.45 * (len(line) - 1)
        each = min(_WIDEST, (WIDTH - left - 0.1 - gaps) / sum(panel.size for panel in line))
        up = top + number * (above + height + below) + above
        for panel in line:
            width = each * panel.size
            _positions_panel(_axes(figure, start, width, up, height), panel, rows)
            start += width + 0.45
    _legend(figure, handles)
    return figure


def _packed(panels: Sequence[Positions]) -> list[list[Positions]]:
    """Return the panels in rows, in order; the panels of a row have at most :data:`_ABREAST` positions."""
    lines: list[list[Positions]] = []
    for panel in panels:
        if not lines or sum(p.size for p in lines[-1]) + panel.size > _ABREAST:
            lines.append([])
        lines[-1].append(panel)
    return lines


def _positions_panel(axes: Axes, panel: Positions, rows: Sequence[Row]) -> None:
    axes.axhline(1 / panel.size, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
    shown = [(row, shares) for row, shares in zip(rows, panel.shares, strict=True) if shares is not None]
    step = min(0.1, 0.7 / max(1, len(shown)))
    for number, (row, shares) in enumerate(shown):
        shade = colour(row.series)
        places = [n + step * (number - (len(shown) - 1) / 2) for n in range(panel.size)]
        for place, (_, low, high) in zip(places, shares, strict=True):
            axes.plot([place, place], [low, high], color=shade, linewidth=1.2, zorder=3)
        values = [value for value, _, _ in shares]
        axes.plot(places, values, color=shade, linewidth=0.8, alpha=0.4, zorder=2)
        axes.plot(
            places, values, color=shade, marker=marker(row.series), markersize=5, linestyle="none", zorder=4
        )
    axes.set_xticks(range(panel.size), [str(n + 1) for n in range(panel.size)])
    axes.set_xlim(-0.5, panel.size - 0.5)
    share_axis(axes, "y")
    axes.set_title(panel.title, loc="left", fontsize=9.5, pad=5, color=TEXT)
    axes.set_xlabel("position in the list", fontsize=8, labelpad=1)


# The paper's form of figures 2, 5 and 6: bars whose colour is the model and whose pattern is the source of rules.

#: Patterns of bars: no rules, then other rules in order. Patterns of dots would make an SVG of 800 kB.
_PATTERNS = ("", "//", "--", "xx", "||", "++")
#: Height of a panel of bars, and space above and below it, in inches.
_BARS, _BARS_ABOVE, _BARS_BELOW = 1.35, 0.32, 0.34


@dataclass(frozen=True, slots=True)
class BarPanel:
    """A panel of bars.

    :param groups: Names on the x axis. :param bars: For each group, one (share, low, high) per line; None if it was not
        measured. :param dashed: Shares with a dashed line across the panel.
    """

    title: str
    groups: tuple[str, ...]
    bars: tuple[tuple[tuple[float, float, float] | None, ...], ...]
    dashed: tuple[float, ...] = ()


def bar_panels(panels: Sequence[BarPanel], lines: Sequence[tuple[str, str]], dashed: str) -> Plot:
    """Draw panels of bars, at most three side by side.

    :param lines: Model and rules of each bar of a group; rules may be empty. :param dashed: What the dashed line is.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    models = list(dict.fromkeys(model for model, _ in lines))
    rules = list(dict.fromkeys(name for _, name in lines))
    patterns = {name: _PATTERNS[n % len(_PATTERNS)] for n, name in enumerate(rules)}
    handles: list[Any] = [
        Patch(facecolor=colour(n), label=shortened(model, 40)) for n, model in enumerate(models)
    ]
    handles += [
        Patch(facecolor=MUTED, edgecolor=PAPER, hatch=2 * patterns[name], label=shortened(name, 40))
        for name in rules
        if name
    ]
    handles.append(Line2D([], [], color=MUTED, linewidth=1.0, linestyle=(0, (2, 2)), label=dashed))
    across = min(_ACROSS, len(panels))
    down = -(-len(panels) // across)
    step, top, left = _BARS_ABOVE + _BARS + _BARS_BELOW, 0.1 + _legend_height(handles), 0.5
    figure = new_figure(WIDTH, top + down * step)
    width = (WIDTH - left - 0.1 - _GAP * (across - 1)) / across
    if len(panels) == 1:
        width = min(width, _WIDEST * len(panels[0].groups))
    for number, panel in enumerate(panels):
        column, row = number % across, number // across
        start, up = left + column * (width + _GAP), top + row * step + _BARS_ABOVE
        axes = _axes(figure, start, width, up, _BARS)
        for share in panel.dashed:
            axes.axhline(share, color=MUTED, linewidth=1.0, linestyle=(0, (2, 2)), zorder=4)
        each = 0.8 / len(lines)
        for group, bars in enumerate(panel.bars):
            for n, ((model, name), bar) in enumerate(zip(lines, bars, strict=True)):
                if bar is None:
                    continue
                value, low, high = bar
                at = group + each * (n + 0.5) - 0.4
                axes.bar(
                    at, value, 0.9 * each, color=colour(models.index(model)), edgecolor=PAPER, linewidth=0,
                    hatch=2 * patterns[name], zorder=2,
                )  # fmt: skip
                axes.plot([at, at], [low, high], color=TEXT, linewidth=1.0, zorder=3)
        axes.set_xlim(-0.5, len(panel.groups) - 0.5)
        axes.set_xticks(range(len(panel.groups)), panel.groups)
        share_axis(axes, "y")
        if column:
            axes.set_yticklabels([])
        axes.set_title(shortened(panel.title, 30), loc="left", fontsize=9.5, pad=5, color=TEXT)
    _legend(figure, handles)
    return figure


def _columns(handles: Sequence[Any]) -> int:
    longest = max(len(handle.get_label()) for handle in handles)
    return max(1, min(4, len(handles), int(WIDTH / (0.52 + 0.064 * longest))))


def _legend_height(handles: Sequence[Any]) -> float:
    return 0.05 + 0.18 * -(-len(handles) // _columns(handles))


def _legend(figure: Plot, handles: Sequence[Any]) -> None:
    figure.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0.005, 0.995), ncols=_columns(handles), frameon=False,
        fontsize=8.5, handlelength=1.8, columnspacing=1.6, borderaxespad=0.2, borderpad=0,
    )  # fmt: skip
