"""The DTAiLS section of a report: figures 2, 5 and 6 of Barua et al. for the run's models, and each concept.

The paper prints these figures without numbers, so the report shows no published values.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_llmprops.benchmarks.dtails.items import SELECT, TRANSLATE
from pytest_llmprops.benchmarks.dtails.metrics import ALL, RULE
from pytest_llmprops.core.metrics import MetricRow, Place, mean_scores
from pytest_llmprops.core.texts import shortened
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.reports.kit import generic
from pytest_llmprops.reports.kit.blocks import (
    Block,
    Cell,
    Figure,
    Fold,
    Note,
    Section,
    Table,
    counted,
    file_names,
    interval,
    joined,
    language,
    percent,
    visible,
)
from pytest_llmprops.reports.kit.figures import (
    MUTED,
    PAPER,
    TEXT,
    WIDTH,
    colour,
    margins,
    new_figure,
    share_axis,
)
from pytest_llmprops.reports.kit.series import Measured, Series, place_of
from pytest_llmprops.statistics.intervals import clopper_pearson, mean_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

#: Names of the files that ``llmprops lab dtails rules`` writes, without ``.json``.
_FILE = re.compile(r"rules-[a-z]{2,3}-(.+)")
_GROUP = re.compile(r"([1-9][0-9]?)of([1-9][0-9]?)")
#: The panels of figure 2, in the paper's order; the languages of figures 5 and 6; the figures by number of variations.
_PANELS = ("af", "ta", "te", "gl", "hi", "hy", "ja", "fa", "lv")
_COUNTED, _FIGURES = ("af", "lv", "ja"), {2: 5, 3: 6}
#: How a line is labelled, by its rules.
_LABELS = {"": "translates", "none": "no rules", "own": "self rules"}
#: Patterns of bars: no rules, then other rules in order. Patterns of dots would make an SVG of 800 kB.
_PATTERNS = ("", "//", "--", "xx", "||", "++")
#: Height of a panel of bars, space above and below it, space beside it, and its widest group, in inches.
_BARS, _ABOVE, _BELOW, _GAP, _WIDEST = 1.35, 0.32, 0.34, 0.3, 1.7
#: Maximum panels side by side.
_ACROSS = 3
#: Language code and source of items.
Origin = tuple[str, str]
#: A share and the ends of its black line, in [0, 1]; the deviation over runs, None for a single run.
Bar = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Line:
    """One task of one series: choices with some rules, or translations.

    :param rules: ``none``, ``own``, or the name of the rules or of the helper that writes them; empty for translations.
    """

    series: Series
    task: str
    model: str
    rules: str

    @property
    def label(self) -> str:
        return _LABELS.get(self.rules, f"rules of {self.rules}")

    @property
    def name(self) -> str:
        return f"{self.model} ({self.label})"


@dataclass(frozen=True, slots=True)
class Estimate:
    """An accuracy in [0, 1] with its 95% interval, and the standard deviation over runs if there are several."""

    value: float
    low: float
    high: float
    deviation: float | None = None

    @property
    def bar(self) -> Bar:
        if self.deviation is None:
            return self.value, self.low, self.high
        return self.value, max(0.0, self.value - self.deviation), min(1.0, self.value + self.deviation)

    @property
    def text(self) -> str:
        if self.deviation is None:
            return f"{100 * self.value:.1f}"
        return f"{100 * self.value:.1f} ± {100 * self.deviation:.1f}"


def section(measured: Measured) -> Section:
    """Return accuracy by language and rules, positions chosen, the concepts, and the parts of every benchmark."""
    lines = lines_of(measured)
    if not lines:
        return generic.section(measured)
    chosen = [line for line in lines if line.task == SELECT]
    blocks = [*_accuracy(measured, lines), *_unread(measured, chosen), *_order_notes(measured, chosen)]
    blocks += [*_positions(measured, chosen), *_concepts(measured, lines)]
    return Section((*blocks, *generic.tables(measured), *generic.fine_print(measured)))


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

    def place(line: Line) -> tuple[bool, int, int]:
        return line.task == TRANSLATE, order[line.series.model], rank.get(line.rules, 2)

    return sorted(lines, key=place)


def _lines(measured: Measured, task: str) -> list[Line]:
    series_rules: list[tuple[Series, str]] = []
    seen = set()
    for series in measured.series:
        if not any(row.task == task for row in measured.rows(series)):
            continue
        rules = ""
        if task == TRANSLATE:
            # Rules do not affect translations: runs with other rules repeat them.
            outcome = sorted((r.id, r.status, r.given) for r in measured.records(series, [task]))
            mark = (series.model, repr(outcome))
            if mark in seen:
                continue
            seen.add(mark)
        else:
            helper = series.run.facts.helpers.get("rules")
            rules = rules_name(series.settings("dtails").get("rules"), helper.spec if helper else "")
        series_rules.append((series, rules))
    times = Counter((series.model, rules) for series, rules in series_rules)
    lines = []
    for series, rules in series_rules:
        model = visible(series.model) if times[series.model, rules] == 1 else series.label
        lines.append(Line(series, task, model + series.starred.removeprefix(series.label), rules))
    return lines


def estimate(measured: Measured, line: Line, origin: Origin) -> Estimate | None:
    """Return the mean over runs with its interval if an item had several runs, or the summary's accuracy."""
    place: Place = (line.task, *origin)
    row = measured.row(line.series, place)
    if row is None or row.estimate is None:
        return None
    mean = measured.metric(line.series, "accuracy_mean", place)
    if mean is None or mean.value is None:
        return Estimate(*row.estimate)
    records = measured.records(line.series, [line.task])
    scores = mean_scores(r for r in records if (r.language, r.source) == origin)
    limits = mean_interval([score for score, _ in scores], [cluster for _, cluster in scores])
    deviation = measured.metric(line.series, "accuracy_sd", place)
    return Estimate(mean.value, limits.low, limits.high, deviation.value if deviation else None)


def _baselines(measured: Measured, origin: Origin) -> tuple[float, ...]:
    """Return the baseline over the language's whole file; several if the runs used different files."""
    places: list[Place] = [(task, *origin) for task in (SELECT, TRANSLATE)]
    rows = [measured.metric(s, "frequency_baseline", place) for s in measured.series for place in places]
    return tuple(dict.fromkeys(row.value for row in rows if row is not None and row.value is not None))


def _accuracy(measured: Measured, lines: Sequence[Line]) -> list[Block]:
    """Return figure 2, its table, and the gains of section 4."""
    order = {code: n for n, code in enumerate(_PANELS)}
    origins = list(dict.fromkeys((code, source) for _, code, source in measured.places))
    origins.sort(key=lambda origin: order.get(origin[0], len(order)))
    several = len({source for _, source in origins}) > 1
    titles = [language(code) + (f", {visible(source)}" if several else "") for code, source in origins]
    means = [[estimate(measured, line, origin) for origin in origins] for line in lines]
    baselines = [_baselines(measured, origin) for origin in origins]
    panels = [
        BarPanel(title, ("",), (tuple(e.bar if (e := row[n]) else None for row in means),), baselines[n])
        for n, title in enumerate(titles)
    ]
    names = [(line.model, line.label) for line in lines]
    title = "Accuracy by language, model and rules (figure 2)"
    figure = Figure(
        "dtails-figure-2",
        title,
        f"Accuracy of {joined([line.name for line in lines])} in {joined(titles)}; the numbers are in the table.",
        partial(bar_panels, panels, names, "frequency baseline, in-sample"),
        "The black line is ± the standard deviation (n − 1) over runs, or the 95% interval of a single run. Intervals"
        " are over concepts: the items of a concept are not independent.",
    )
    rows = [
        (Cell(line.model), Cell(line.label), *(Cell(e.text, e.value) if e else Cell("") for e in row))
        for line, row in zip(lines, means, strict=True)
    ]
    known = [" or ".join(f"{100 * value:.1f}" for value in values) for values in baselines]
    rows.append((Cell("frequency baseline"), Cell(""), *map(Cell, known)))
    columns = tuple((name, True) for name in titles)
    note = (
        "Percent, mean ± standard deviation (n − 1) over runs. The baseline always chooses a concept's most common"
        " variation. It is in-sample: it is counted and scored on the same rows, the language's whole file. The paper"
        " prints no numbers for its models."
    )
    blocks: list[Block] = [figure]
    blocks.append(Table(title, (("Model", False), ("Rules", False), *columns), tuple(rows), note))
    gains = _gains(lines, means)
    if gains:
        cells = tuple(
            (Cell(name), *(Cell("" if gain is None else f"{100 * gain:+.1f}", gain) for gain in values))
            for name, values in gains
        )
        blocks.append(Table("Gains in percentage points (section 4)", (("Gain", False), *columns), cells))
    return blocks


def _gains(
    lines: Sequence[Line], means: Sequence[Sequence[Estimate | None]]
) -> list[tuple[str, list[float | None]]]:
    """Return (name, difference by language) of the comparisons of section 4.

    They are the best model that selects against the best translation system, and each model with rules against the same
    model without. A model that also selects is not a translation system.
    """
    chosen = [n for n, line in enumerate(lines) if line.task == SELECT]
    selects = {lines[n].series.model for n in chosen}
    systems = [
        n for n, line in enumerate(lines) if line.task == TRANSLATE and line.series.model not in selects
    ]

    def differences(first: Sequence[int], second: Sequence[int]) -> list[float | None]:
        gains: list[float | None] = []
        for place in range(len(means[0])):
            best = [
                max((value.value for n in numbers if (value := means[n][place])), default=None)
                for numbers in (first, second)
            ]
            gains.append(None if best[0] is None or best[1] is None else best[0] - best[1])
        return gains

    gains = []
    if systems and chosen:
        gains.append(("best model that selects, less best translation system", differences(chosen, systems)))
    for n in chosen:
        plain = [
            m for m in chosen if lines[m].series.model == lines[n].series.model and lines[m].rules == "none"
        ]
        if lines[n].rules != "none" and plain:
            gains.append((f"{lines[n].name}, less no rules", differences([n], plain)))
    return [gain for gain in gains if any(value is not None for value in gain[1])]


def _unread(measured: Measured, lines: Sequence[Line]) -> Iterator[Block]:
    """Yield a warning for each model whose own rules could not be read, because some items were not asked."""
    for line in lines:
        records = [r for r in measured.first_samples(line.series, [SELECT]) if "rules_read" in r.values]
        unread = [r for r in records if not r.values["rules_read"]]
        if unread:
            concepts = counted(len({(r.source, r.cluster) for r in unread}), "concept")
            yield Note(
                f"{line.name}: its own rules could not be read for {concepts}. {len(unread):,} of {len(records):,}"
                " items count as not right in every run and have no position chosen.",
                "warn",
            )


def _order_notes(measured: Measured, lines: Sequence[Line]) -> Iterator[Block]:
    """Yield a warning for each model whose choice depends on the order, and notes on the other models."""
    invariant: list[str] = []
    untested: list[str] = []
    for line in lines:
        rows = [row for row in measured.metrics(line.series) if row.name == "order_invariant"]
        # A run of several languages has rows over all of them.
        rows = [row for row in rows if row.language == ALL] or rows
        biases = [_bias(measured, line, row) for row in rows if row.value == 0]
        if biases:
            yield Note(f"{line.name} is not order-invariant: {'; '.join(biases)}.", "warn")
        else:
            (invariant if rows else untested).append(line.name)
    if invariant:
        yield Note(f"Not shown to depend on the order: {joined(invariant)}.")
    if untested:
        yield Note(f"Too few choices to test whether the order matters: {joined(untested)}.")


def _bias(measured: Measured, line: Line, row: MetricRow) -> str:
    """Describe the position with the largest difference from the uniform share."""
    size = int(row.group.removeprefix("of"))
    rates = [
        (number, rate)
        for number in range(1, size + 1)
        if (rate := measured.metric(line.series, "position_rate", place_of(row), f"{number}of{size}"))
        and rate.value is not None
    ]
    p = measured.metric(line.series, "position_p", place_of(row), row.group)
    number, rate = max(rates, key=lambda pair: abs((pair[1].value or 0.0) - 1 / size))
    limits = (
        "" if rate.ci_low is None or rate.ci_high is None else f" ({interval(rate.ci_low, rate.ci_high)})"
    )
    significance = "p < 0.001" if p is None or not p.value or p.value < 0.001 else f"p = {p.value:.3f}"
    return (
        f"of {size} variations it chooses number {number} in {percent(rate.value)}{limits} of {rate.n:,} choices,"
        f" instead of {percent(1 / size)} ({significance})"
    )


def _positions(measured: Measured, lines: Sequence[Line]) -> Iterator[Block]:
    """Yield how often each position was chosen, for each number of variations: figures 5 and 6."""
    sources = list(dict.fromkeys(source for task, _, source in measured.places if task == SELECT))
    groups = {_GROUP.fullmatch(row.group) for line in lines for row in measured.metrics(line.series)}
    for size in sorted({int(match[2]) for match in groups if match}):
        rows, names, shares = [], [], []
        for source in sources:
            for line in lines:
                counts, codes = _counts(measured, line, source, size)
                if not sum(counts):
                    continue
                limits = [clopper_pearson(count, sum(counts)) for count in counts]
                own = [(n / sum(counts), at.low, at.high) for n, at in zip(counts, limits, strict=True)]
                model = line.model + (f", {visible(source)}" if len(sources) > 1 else "")
                cells = [Cell(f"{percent(bar[0])} ({interval(bar[1], bar[2])})", *bar) for bar in own]
                over = Cell(joined([language(code) for code in codes]))
                rows.append(
                    (Cell(model), Cell(line.label), over, Cell(f"{sum(counts):,}", sum(counts)), *cells)
                )
                names.append((model, line.label))
                shares.append(own)
        if not rows:
            continue
        figure = f" (figure {_FIGURES[size]})" if size in _FIGURES else ""
        title = f"Positions chosen of {size} variations{figure}"
        bars = tuple(tuple(own[n] for own in shares) for n in range(size))
        panel = BarPanel(
            f"{size} variations", tuple(f"position {n + 1}" for n in range(size)), bars, (1 / size,)
        )
        columns = [("Model", False), ("Rules", False), ("Languages", False), ("Choices", True)]
        columns += [(f"Position {n}", True) for n in range(1, size + 1)]
        note = (
            "Share of the choices at each position, with 95% intervals (Clopper-Pearson). The paper counts Afrikaans,"
            " Latvian and Japanese. If a run has none of them, all its languages are counted. The order is a new"
            " shuffle for every item and run, so a model that ignores it chooses every position equally often."
            f" A model depends on the order if it is {RULE}."
        )
        plot = Figure(
            f"dtails-figure-{_FIGURES[size]}" if size in _FIGURES else f"dtails-positions-of-{size}",
            title,
            f"Share of choices at each position of {size}; the numbers are in the table.",
            partial(bar_panels, [panel], names, "uniform"),
            "Bars are shares of the choices at each position, black lines 95% intervals.",
        )
        yield Fold(title, (plot, Table(title, tuple(columns), tuple(rows), note)))


def _counts(measured: Measured, line: Line, source: str, size: int) -> tuple[list[int], list[str]]:
    """Return how often each position was chosen, and the languages counted."""
    by_language: dict[str, list[int]] = {}
    for row in measured.metrics(line.series):
        match = _GROUP.fullmatch(row.group) if row.name == "position_rate" else None
        task, code, origin = place_of(row)
        is_wanted = match and int(match[2]) == size and (task, origin) == (SELECT, source) and code != ALL
        if match and is_wanted and row.value is not None:
            by_language.setdefault(code, [0] * size)[int(match[1]) - 1] = round(row.value * row.n)
    codes = [code for code in _COUNTED if code in by_language] or sorted(by_language)
    return [sum(by_language[code][n] for code in codes) for n in range(size)], codes


def _concepts(measured: Measured, lines: Sequence[Line]) -> Iterator[Block]:
    """Yield each model's mean score by concept."""
    scores: dict[tuple[str, str, str], dict[int, list[VerdictRecord]]] = {}
    for number, line in enumerate(lines):
        for record in measured.records(line.series, [line.task]):
            key = (record.language, record.source, record.cluster)
            scores.setdefault(key, {}).setdefault(number, []).append(record)
    rows = []
    for (code, source, cluster), by_line in sorted(scores.items()):
        cells = [Cell(cluster.rpartition("/")[2]), Cell(language(code)), Cell(source)]
        items = len({record.id.partition("+")[0] for records in by_line.values() for record in records})
        cells.append(Cell(f"{items}", items))
        for number in range(len(lines)):
            known = [r.score for r in by_line.get(number, ()) if r.score is not None]
            share = sum(known) / len(known) if known else None
            cells.append(Cell(percent(share), share))
        rows.append(tuple(cells))
    columns = [("Concept", False), ("Language", False), ("Items from", False), ("Sentences", True)]
    columns += [(line.name, True) for line in lines]
    yield Fold(f"Concepts ({len(rows):,})", (Table("Concepts", tuple(columns), tuple(rows)),))


@dataclass(frozen=True, slots=True)
class BarPanel:
    """A panel of bars.

    :param groups: Names on the x axis. :param bars: For each group, one bar per line; None if it was not measured.
    :param dashed: Shares with a dashed line across the panel.
    """

    title: str
    groups: tuple[str, ...]
    bars: tuple[tuple[Bar | None, ...], ...]
    dashed: tuple[float, ...] = ()


def bar_panels(panels: Sequence[BarPanel], lines: Sequence[tuple[str, str]], dashed: str) -> Plot:
    """Draw panels of bars, at most three side by side: the colour is the model, and the pattern the source of rules.

    :param lines: Model and rules of each bar of a group. :param dashed: What the dashed line is.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    models = list(dict.fromkeys(model for model, _ in lines))
    rules = list(dict.fromkeys(name for _, name in lines))
    patterns = {name: 2 * _PATTERNS[n % len(_PATTERNS)] for n, name in enumerate(rules)}
    handles: list[Any] = [
        Patch(facecolor=colour(n), label=shortened(name, 40)) for n, name in enumerate(models)
    ]
    for name in rules:
        label = shortened(name, 40)
        handles.append(Patch(facecolor=MUTED, edgecolor=PAPER, hatch=patterns[name], label=label))
    handles.append(Line2D([], [], color=MUTED, linewidth=1.0, linestyle=(0, (2, 2)), label=dashed))
    longest = max(len(handle.get_label()) for handle in handles)
    abreast = max(1, min(4, len(handles), int(WIDTH / (0.52 + 0.064 * longest))))
    across = min(_ACROSS, len(panels))
    step, top, left = _ABOVE + _BARS + _BELOW, 0.15 + 0.18 * -(-len(handles) // abreast), 0.5
    figure = new_figure(WIDTH, top + -(-len(panels) // across) * step)
    width = (WIDTH - left - 0.1 - _GAP * (across - 1)) / across
    if len(panels) == 1:
        width = min(width, _WIDEST * len(panels[0].groups))
    for number, panel in enumerate(panels):
        column, row = number % across, number // across
        start, up = left + column * (width + _GAP), top + row * step + _ABOVE
        bottom = figure.get_size_inches()[1] - up - _BARS
        axes = figure.add_axes(
            margins(figure, left=start, right=WIDTH - start - width, top=up, bottom=bottom)
        )
        for share in panel.dashed:
            axes.axhline(share, color=MUTED, linewidth=1.0, linestyle=(0, (2, 2)), zorder=4)
        each = 0.8 / len(lines)
        for group, bars in enumerate(panel.bars):
            for n, ((model, name), bar) in enumerate(zip(lines, bars, strict=True)):
                if bar is not None:
                    at = group + each * (n + 0.5) - 0.4
                    axes.bar(
                        at, bar[0], 0.9 * each, color=colour(models.index(model)), edgecolor=PAPER, linewidth=0,
                        hatch=patterns[name], zorder=2,
                    )  # fmt: skip
                    axes.plot([at, at], bar[1:], color=TEXT, linewidth=1.0, zorder=3)
        axes.set_xlim(-0.5, len(panel.groups) - 0.5)
        axes.set_xticks(range(len(panel.groups)), panel.groups)
        share_axis(axes, "y")
        if column:
            axes.set_yticklabels([])
        axes.set_title(shortened(panel.title, 30), loc="left", fontsize=9.5, pad=5, color=TEXT)
    figure.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0.005, 0.995), ncols=abreast, frameon=False, fontsize=8.5,
        handlelength=1.8, columnspacing=1.6, borderaxespad=0.2, borderpad=0,
    )  # fmt: skip
    return figure
