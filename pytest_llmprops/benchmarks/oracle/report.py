"""The oracle-checker's section of a report: each figure and table of Zeng et al. for the run's models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_llmprops.benchmarks.oracle.equivalence import confirmed_in, refused_in, uncovered
from pytest_llmprops.benchmarks.oracle.extraction import contains_words, normalised
from pytest_llmprops.benchmarks.oracle.items import LINEARITY, NO, RULES, YES
from pytest_llmprops.benchmarks.oracle.metric_names import CATEGORIES, CONSISTENCY, OWN, PAIRS, RANDOM
from pytest_llmprops.benchmarks.oracle.metrics import a_rate, a_test, domain_of
from pytest_llmprops.core.metrics import Place
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.texts import one_line, shortened, unicode_words, visible
from pytest_llmprops.core.verdicts import Evidence, count_in, object_in, objects_in, text_in, texts_in
from pytest_llmprops.data.published_results import find
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
    file_name,
    joined,
    percent,
)
from pytest_llmprops.reports.kit.figures import (
    FAINT,
    INK,
    LINE,
    MUTED,
    PAPER,
    SERIES,
    TEXT,
    WIDTH,
    colour,
    margins,
    new_figure,
    room,
    share_axis,
)
from pytest_llmprops.reports.kit.generic import detailed, fine_print, metric_cell, share_cell
from pytest_llmprops.reports.kit.series import Measured, Series, place_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot

Row = tuple[Cell, ...]
Values = Mapping[str, float]
DASH = Cell("–")
#: maximum figures of sentences that are not folded, cases per kind and model, and characters of one text
_OPEN, MOST, _LONG = 2, 5, 400
PHI = {"or": "φ_or", "and": "φ_and"}
CORPORA = ("DOCRED", "RISC-V")
#: the printed rank correlations: group of our metric -> the paper's setting
CORRELATIONS = {
    f"{row.lower()} ~ {column.lower()}".replace("#e", "entities"): f"{row} and {column}"
    for row in ("A_test", "A_rate", "#E")
    for column in ("Con_o", "Con_rs", "#E")
    if row != column
}
OUTCOMES = (
    "A checker asks the model further questions and accepts its answer if the replies agree; it needs no right answers."
    " A rejected answer is not trusted, but never turned into its opposite."
)


def section(measured: Measured) -> Section:
    """Return the section: what was accepted, its bounds, the paper's numbers, and the parts of every benchmark."""
    tasks = {task for task, _, _ in measured.places}
    if not tasks & {LINEARITY, YES, NO, CONSISTENCY, OWN, RANDOM}:
        return generic.section(measured)
    blocks: list[Block] = [Note(OUTCOMES), *_remarks(measured)]
    groups = [
        group for place in measured.places if place[0] == LINEARITY for group in _groups(measured, place)
    ]
    if groups:
        blocks += [acceptance_figure(measured, groups), linearity_table(groups), *profile_figures(groups)]
        blocks += [correlation_table(groups), *sentence_cases(measured)]
    if tasks & {YES, NO}:
        blocks += [*pair_tables(measured), *pair_cases(measured)]
    if OWN in tasks:
        blocks += [_table(measured, _OWN_TABLE), *denied_paraphrases(measured)]
    if tasks & {CONSISTENCY, OWN, RANDOM}:
        blocks.append(sanity_table(measured))
    return Section((*blocks, *detailed(measured), *fine_print(measured)))


def _remarks(measured: Measured) -> list[Block]:
    """Return the remarks of the runs, with their models if not all models have the remark."""
    remarks: dict[str, list[str]] = {}
    for s in measured.series:
        for row in s.run.facts.remarks:
            # OUTCOMES says what a rejected answer is.
            if (row.model, row.benchmark) == (
                s.model,
                measured.benchmark,
            ) and "a rejected answer" not in row.text:
                remarks.setdefault(visible(row.text), []).append(s.label)
    all_labels = [s.label for s in measured.series]
    return [
        Note(f"{text[:1].upper()}{text[1:]}." if labels == all_labels else f"{joined(labels)}: {text}.")
        for text, labels in remarks.items()
    ]


def own(measured: Measured, s: Series, name: str, place: Place, group: str = "") -> Cell:
    """Return the cell of a measured share, which may have an interval and open its items; a dash without it."""
    row = measured.metric(s, name, place, group)
    return DASH if row is None else metric_cell(measured, s, row)


def complement_of(measured: Measured, s: Series, name: str, place: Place, group: str = "") -> Cell:
    """Return the cell of 1 minus a share, with its interval."""
    row = measured.metric(s, name, place, group)
    if row is None or row.value is None:
        return DASH
    low, high = (None if limit is None else 1 - limit for limit in (row.ci_high, row.ci_low))
    return share_cell(replace(row, value=1 - row.value, ci_low=low, ci_high=high))


def number_of(measured: Measured, s: Series, name: str, place: Place, group: str = "") -> Cell:
    """Return the cell of the number of observations of a share."""
    row = measured.metric(s, name, place, group)
    return DASH if row is None else count_cell(row.n)


def count_cell(number: int | None) -> Cell:
    """Return the cell of a whole number."""
    return DASH if number is None else Cell(f"{number:,}", number)


def as_printed(value: float) -> str:
    """Return a share as a percentage with at most two decimals, as the paper prints it."""
    return f"{100 * value:.2f}".rstrip("0").rstrip(".") + "%"


def signed(value: float | None) -> str:
    """Return a correlation."""
    return "–" if value is None else f"{value:.3f}".replace("-", "−")


def printed(table: str, metric: str, setting: str, form: Callable[[float], str] = as_printed) -> Cell:
    """Return the cell of a number that the paper prints; a dash if it prints none."""
    results = find(paper="oracle", table=table, metric=metric, setting=setting)
    return Cell(form(results[0].value), results[0].value) if results else DASH


def headings(texts: Sequence[str], numbers: Iterable[str]) -> tuple[tuple[str, bool], ...]:
    """Return the columns of a table: texts, then numbers."""
    return (*((name, False) for name in texts), *((name, True) for name in numbers))


# Sentences: figure 6, the numbers of section 5.1, table 1 and figure 10


@dataclass(frozen=True)
class Group:
    """The readable sentences of a series from one place, or of one of its domains."""

    measured: Measured
    series: Series
    place: Place
    domain: str
    records: Sequence[VerdictRecord]

    @property
    def title(self) -> str:
        """The source of the sentences, with their domain if there are several."""
        name = {"p": "published"}.get(self.domain, self.domain)
        return visible(f"{self.place[2]}, {name}" if name else self.place[2])

    @property
    def tested(self) -> list[Values]:
        """The values of the sentences with something to test."""
        return [r.values for r in self.records if r.values.get("tests")]

    @property
    def rule(self) -> str:
        """The rule by which they were tested."""
        codes = sorted({int(v["rule"]) for v in self.tested if 0 <= v.get("rule", -1) < len(RULES)})
        return ", ".join(RULES[code] for code in codes) or "–"

    @property
    def heading(self) -> Row:
        """The first cells of a row."""
        return Cell(self.series.starred), Cell(self.title), Cell(self.rule), count_cell(len(self.tested))

    def cell(self, name: str, group: str = "") -> Cell:
        """Return the cell of a metric; ``group`` follows the domain."""
        full = ", ".join(filter(None, (self.domain, group)))
        return own(self.measured, self.series, name, self.place, full)


_HEADING = ("Model", "Sentences from", "Rule", "Sentences")


def _groups(measured: Measured, place: Place) -> list[Group]:
    """Return the groups of sentences of a place: those of all domains, if there are several, otherwise one."""
    groups = []
    for s in measured.series:
        every = measured.first_samples(s, [LINEARITY])
        records = [r for r in every if place_of(r) == place and "entities" in r.values]
        domains = dict.fromkeys(map(domain_of, records))
        for domain in domains if len(domains) > 1 else [""]:
            members = [r for r in records if domain in ("", domain_of(r))]
            groups.append(Group(measured, s, place, domain, members))
    return groups


#: heading -> our metric and its group, and the table, metric and setting of the printed number
_LINEARITY_COLUMNS: Mapping[str, tuple[str, str, str, str, str]] = {
    "Accepted": ("acceptance_rate", "", "section 5.1", "acceptance_rate", "{}"),
    "Linear and faithful": ("faithful_acceptance_rate", "", "", "", ""),
    "Overlap with labels": ("label_overlap", "", "section 5.1", "label_overlap_rate", "{}"),
    "Entities in accepted": ("entity_acceptance_rate", "", "section 5.1", "entity_acceptance_rate", "{}"),
    "Labelled in accepted": (
        "entity_acceptance_rate", "labelled", "section 5.1", "entity_acceptance_rate", "{}; labelled entities",
    ),
    "A_rate": ("a_rate", "", "", "", ""),
    "A_rate, accepted": ("a_rate", "accepted", "section 5.1", "combination_pass_rate", "{}"),
    "Identity": ("identity_rate", "", "", "", ""),
    "Named": ("named_share", "", "appendix A.4", "named_entity_rate", "{}"),
    "By vote": ("named_share", "by vote", "appendix A.2", "named_entity_undecided_rate", "{}"),
}  # fmt: skip


def linearity_table(groups: Sequence[Group]) -> Table:
    """Return the table of acceptances, by source and domain (section 5.1, figure 6)."""
    columns = _LINEARITY_COLUMNS
    rows = [(*g.heading, *(g.cell(name, group) for name, group, *_ in columns.values())) for g in groups]
    for corpus in CORPORA:
        [accepted] = find(paper="oracle", table="section 5.1", metric="acceptance_rate", setting=corpus)
        cells = (
            printed(table, metric, setting.format(corpus)) if table else DASH
            for _, _, table, metric, setting in columns.values()
        )  # fmt: skip
        texts = map(Cell, (accepted.model, f"the paper, {corpus}", "any"))
        rows.append((*texts, count_cell(accepted.n), *cells))
    note = (
        "Sentences with something to test. Accepted: all tests pass by the rule, as in the paper. Correct: the inserted"
        " names are found, too (linear and faithful). Acceptances by different rules cannot be compared:"
        " any, the paper's, takes the best combination of samples and has no power against noise. Entities in accepted"
        " sentences are those that were tested; the paper counts all. A_rate: combinations of samples that pass."
        " Identity: changed sentences from which exactly the inserted names are extracted. By vote: no rule decided"
        " whether the entity is named. The hardware sentences replace the paper's RISC-V sentences."
    )
    return Table(
        "Linearity of entity extraction", headings(_HEADING[:3], (_HEADING[3], *columns)), tuple(rows), note
    )


def correlation_table(groups: Sequence[Group]) -> Table:
    """Return table 1: Spearman's rank correlations over sentences."""
    rows: list[Row] = []
    for g in groups:
        prefix = f"{g.domain}, " if g.domain else ""
        metrics = [g.measured.metric(g.series, "spearman", g.place, prefix + name) for name in CORRELATIONS]
        if any(metrics):
            rows.append(
                (*g.heading, *(DASH if r is None else Cell(signed(r.value), r.value) for r in metrics))
            )
    for corpus in CORPORA:
        first = find(paper="oracle", table="1", setting=f"{corpus}; A_test and Con_o")[0]
        cells = (
            printed("1", "spearman_correlation", f"{corpus}; {name}", signed)
            for name in CORRELATIONS.values()
        )
        rows.append((*map(Cell, (first.model, f"the paper, {corpus}", "any")), count_cell(first.n), *cells))
    columns = (_HEADING[3], *(name.replace(" and ", " ~ ") for name in CORRELATIONS.values()))
    note = (
        "Con_o: samples of the sentence with its most frequent answer; Con_rs: the lowest such number over the"
        " transformed sentences; #E: entities. A dash: one of the two does not vary."
    )
    return Table("Correlations (Table 1)", headings(_HEADING[:3], columns), tuple(rows), note)


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


def acceptance_figure(measured: Measured, groups: Sequence[Group]) -> Figure:
    """Return figure 6."""
    shown = []
    for g in groups:
        title = f"{g.series.starred}: {g.title}" if len(measured.series) > 1 else g.title.capitalize()
        # A rule other than the paper's is named, because it accepts less.
        title += "" if g.rule in ("any", "–") else f" (rule {g.rule})"
        shown.append(Bars(title, g.series.index, _bars(g)))
    shown += map(_printed_bars, CORPORA)
    return Figure(
        "oracle-acceptance",
        "What was accepted (figure 6)",
        f"Shares of sentences, of tested and of labelled entities that were accepted, of"
        f" {joined([bars.title for bars in shown])}; the numbers are in the table below.",
        lambda: acceptance_plot(shown),
        "Sentences with something to test. Tested entities are accepted with their sentence; the paper counts all"
        " extracted ones. Acceptances by different rules cannot be compared. Grey: the paper's GPT3.5 on the authors'"
        " sentences. Its share of labelled entities is computed from the printed numbers.",
    )


def _bars(group: Group) -> tuple[Bar, ...]:
    tested = group.tested
    accepted = [v for v in tested if v["accepted"]]
    entities = sum(v["tested"] for v in tested)
    bars = [
        _bar("Sentences", len(accepted), len(tested), len(tested)),
        _bar("Entities tested", sum(v["tested"] for v in accepted), entities, entities),
    ]
    if labelled := sum(r.values.get("labelled", 0) for r in group.records):
        number, kept = (sum(v.get("labelled_tested", 0) for v in some) for some in (tested, accepted))
        bars.append(_bar("Entities labelled", kept, number, labelled))
    return tuple(bars)


def _bar(name: str, accepted: float, decided: float, every: float) -> Bar:
    """Return a bar. ``decided`` counts accepted and rejected."""
    shares = (accepted / every, (decided - accepted) / every) if every else (0.0, 0.0)
    return Bar(name, *shares, int(every))


def _printed_bars(corpus: str) -> Bars:
    [sentences] = find(paper="oracle", table="section 5.1", metric="acceptance_rate", setting=corpus)
    [entities] = find(paper="oracle", table="section 5.1", metric="entity_acceptance_rate", setting=corpus)
    bars = [
        Bar("Sentences", sentences.value, 1 - sentences.value, sentences.n),
        Bar("Entities extracted", entities.value, 1 - entities.value, entities.n),
    ]
    both = find(paper="oracle", table="section 5.1", setting=f"{corpus}; labelled entities")
    labels = find(paper="oracle", metric="entity_count", model="human labels", setting=corpus)
    if both and both[0].n and labels:
        bars.append(_bar("Entities labelled", both[0].value * both[0].n, both[0].n, labels[0].value))
    return Bars(f"GPT3.5: the paper, {corpus}", -1, tuple(bars))


#: height of a bar with the space around it, and of the panels of figure 10, in inches; opacity of rejected shares
_BAR, _PANEL, _REJECTED = 0.21, 0.85, 0.32


def acceptance_plot(groups: Sequence[Bars]) -> Plot:
    """Draw stacked bars, one block per model: accepted is solid, rejected pale, not extracted outlined."""
    names = [bar.name for group in groups for bar in group.bars]
    left, top = room(names), 0.36
    figure = new_figure(WIDTH, top + _BAR * (len(names) + 1.5 * len(groups)) + 0.4)
    axes = figure.add_axes(margins(figure, left=left, right=1.6, top=top, bottom=0.36))
    at, ticks = 0.0, []
    for group in groups:
        axes.annotate(
            shortened(group.title, 60), (0, at + 0.75), xytext=(2, 0), textcoords="offset points",
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
    rest = "not extracted or not tested"
    _legend(figure, [("accepted", MUTED, 1.0), ("rejected", MUTED, _REJECTED), (rest, PAPER, 1.0)])
    return figure


def _stacked(axes: Axes, bar: Bar, y: float, shade: str) -> None:
    at = 0.0
    for share, alpha in ((bar.accepted, 1.0), (bar.rejected, _REJECTED)):
        if share:
            axes.barh(y, share, 0.62, at, color=shade, alpha=alpha, linewidth=0)
        at += share
    if 1 - at > 1e-9:
        axes.barh(y, 1 - at, 0.62, at, color=PAPER, edgecolor=shade, linewidth=0.7)
    count = f" of {bar.n:,}" if bar.n is not None else ""
    axes.annotate(
        f"{100 * bar.accepted:.1f}%{count}", (1, y), xytext=(8, 0), textcoords="offset points",
        xycoords=("axes fraction", "data"), va="center", color=shade, annotation_clip=False,
    )  # fmt: skip


#: maximum sentences in figure 10; of more, an evenly spaced selection is drawn
MOST_DRAWN = 800
#: the groups of equal answers with their own colour; smaller groups share one
_LAYERS = ("most frequent answer", "second", "third", "fourth", "fifth")


@dataclass(frozen=True, slots=True)
class Profile:
    """One sentence in figure 10.

    :param a_test: share of its tests that pass. :param a_rate: share of all combinations of samples that pass.
    :param entities: number of entities.
    :param groups: groups of equal answers about the original sentence, as shares of the samples, largest first (Con_o).
        The rest up to 1 is unreadable replies.
    """

    a_test: float
    a_rate: float
    entities: float
    groups: tuple[float, ...]


def profile_figures(groups: Sequence[Group]) -> list[Block]:
    """Return figure 10 of each group; folded if there are many."""
    figures: list[Block] = []
    for g in groups:
        profiles = [_profile(v) for v in g.tested]
        if not profiles:
            continue
        selection = f" {MOST_DRAWN:,} of {len(profiles):,} are drawn." if len(profiles) > MOST_DRAWN else ""
        figures.append(
            Figure(
                f"oracle-sentences-{len(figures)}-{file_name(g.title)}",
                f"Sentence by sentence (figure 10): {g.series.starred}, {g.title}",
                f"A_test, A_rate, number of entities and Con_o of {len(profiles):,} sentences of {g.title} for"
                f" {g.series.starred}, the most consistent first.",
                _plot_function(profiles, g.series.index),
                "Each column is a sentence, the most consistent first. A_test: tests passed; A_rate: combinations of"
                " samples that pass; #E: entities; Con_o: samples of the original sentence with its most frequent"
                f" answer, and above it the sizes of the groups of other answers.{selection}",
            )
        )
    return [Fold("Sentence by sentence (figure 10)", tuple(figures))] if len(figures) > _OPEN else figures


def _plot_function(profiles: Sequence[Profile], series: int) -> Callable[[], Any]:
    return lambda: profile_plot(profiles, series)


def _profile(values: Values) -> Profile:
    sizes = [values["con_o"]]
    while (size := values.get(f"con_o_{len(sizes) + 1}")) is not None:
        sizes.append(size)
    shares = tuple(size / values["samples"] for size in sizes)
    return Profile(a_test(values), a_rate(values), values["entities"], shares)


def selected(profiles: Sequence[Profile]) -> list[Profile]:
    """Return at most :data:`MOST_DRAWN` sentences, evenly spaced, the highest Con_o first."""
    order = sorted(profiles, key=lambda p: (-p.groups[0], -p.a_rate, p.entities))
    if len(order) <= MOST_DRAWN:
        return order
    return [order[int((n + 0.5) * len(order) / MOST_DRAWN)] for n in range(MOST_DRAWN)]


def profile_plot(profiles: Sequence[Profile], series: int) -> Plot:
    """Draw four bar charts over the same sentences, in the order of :func:`selected`."""
    from matplotlib.ticker import MaxNLocator

    shown, shade, gap, top = selected(profiles), colour(series), 0.2, 0.42
    figure = new_figure(WIDTH, top + 4 * (_PANEL + gap) + 0.35)
    height = figure.get_size_inches()[1]
    charts = {
        "A_test": [p.a_test for p in shown], "A_rate": [p.a_rate for p in shown],
        "#E": [p.entities for p in shown], "Con_o": None,
    }  # fmt: skip
    layers = _layers(shown, series)
    for number, (name, values) in enumerate(charts.items()):
        up = top + number * (_PANEL + gap)
        box = margins(figure, left=0.75, right=0.15, top=up, bottom=height - up - _PANEL)
        axes = figure.add_axes(box)
        if values is not None:
            axes.stairs(values, fill=True, color=shade)
        else:
            _stack_groups(axes, shown, layers)
            axes.set_xlabel(f"{len(shown):,} sentences, by Con_o", fontsize=8, labelpad=3)
        if name == "#E":
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
        else:
            axes.set_ylim(0, 1)
            axes.set_yticks([0, 0.5, 1], ["0%", "50%", "100%"])
        axes.set_ylabel(name, fontsize=8.5)
        axes.grid(axis="y", color=LINE, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(length=0)
        axes.set_xlim(0, len(shown))
        axes.set_xticks([])
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
    _legend(figure, layers)
    return figure


#: name, colour, opacity
Layer = tuple[str, str, float]


def _layers(shown: Sequence[Profile], series: int) -> list[Layer]:
    """Return the layers of the Con_o chart from the bottom, without empty ones."""
    most = max(len(p.groups) for p in shown)
    layers: list[Layer] = [(_LAYERS[0], colour(series), 1.0)]
    for n in range(1, min(most, len(_LAYERS))):
        layers.append((_LAYERS[n], SERIES[(series + n) % len(SERIES)], 0.75))
    if most > len(_LAYERS):
        layers.append(("others", FAINT, 1.0))
    if any(sum(p.groups) < 1 - 1e-9 for p in shown):
        layers.append(("unreadable", list(INK)[1], 1.0))
    return layers


def _stack_groups(axes: Axes, shown: Sequence[Profile], layers: Sequence[Layer]) -> None:
    base = [0.0] * len(shown)
    for n, (name, shade, alpha) in enumerate(layers):
        last = None if name == "others" else n + 1
        top = [1.0 if name == "unreadable" else sum(p.groups[:last]) for p in shown]
        axes.stairs(top, baseline=base, fill=True, color=shade, alpha=alpha, linewidth=0)
        base = top


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


# Cases: figures 8 and 9 and tables 6 to 15. The texts come from models and data, so they are untrusted.

#: kind of culprit -> title and note of its table
_KIND_TABLES = {
    "multi-form": (
        "Forms of an entity (figure 8, Table 8)",
        "The model gives a longer or shorter form in place of the entity or its replacement.",
    ),
    "weak": (
        "Weak entities (figure 9)",
        "The entity or its replacement is in some of the replies about a sentence, but not in nearly all.",
    ),
    "synonym fault": (
        "Synonyms that cause a failure (Table 6)",
        "The entity is extracted from every sentence that has it, its replacement is not.",
    ),
    "assumed knowledge": (
        "Assumed knowledge (Table 7)",
        "The entity is extracted or not, depending on other entities. The paper's is not in the sentence.",
    ),
    "unexplained": ("Other rejected sentences", "No entity of the sentence is of one of the kinds above."),
}


def sentence_cases(measured: Measured) -> list[Block]:
    """Return some rejected sentences of each kind of entity (appendix A.3)."""
    rows: dict[str, list[Row]] = {kind: [] for kind in _KIND_TABLES}
    for s in measured.series:
        rejected = [r for r in measured.first_samples(s, [LINEARITY]) if r.status == "wrong"]
        for kind, known in rows.items():
            cases = [(r, c) for r in rejected for c in _culprits(r, kind)[:1]]
            known += [(*_case(s, record), *_culprit_cells(record, c, kind)) for record, c in cases[:MOST]]
    tables = [
        _examples(title, (*_culprit_heads(kind), "Entity", "Replacement", "Why"), rows[kind], note)
        for kind, (title, note) in _KIND_TABLES.items()
        if rows[kind]
    ]
    return [Fold("Some rejected sentences", tuple(tables))] if tables else []


def _culprits(record: VerdictRecord, kind: str) -> list[Evidence]:
    """Return the entities of a kind; for the last kind, one without a name if the sentence has no entity at fault."""
    culprits = objects_in(record.evidence, "culprits")
    if kind == "unexplained" and not culprits:
        return [{"why": record.reason}]
    return [one for one in culprits if kind in texts_in(one, "kinds")]


def _culprit_heads(kind: str) -> tuple[str, ...]:
    return ("Sentences and entities",) if kind == "assumed knowledge" else ("Sentence",)


def _culprit_cells(record: VerdictRecord, culprit: Evidence, kind: str) -> Row:
    two = kind == "assumed knowledge"
    text = _two_extractions(record, culprit) if two else text_in(record.evidence, "sentence")
    texts = (text, *(text_in(culprit, name) for name in ("name", "synonym", "why")))
    return tuple(_text(one, 2 * _LONG) for one in texts)


def _two_extractions(record: VerdictRecord, culprit: Evidence) -> str:
    """Return a sentence from which the entity is extracted, and one with the entity from which it is not (table 7)."""
    key = normalised(text_in(culprit, "name"))
    both: dict[bool, str] = {}
    for part in (object_in(t, x) for t in objects_in(record.evidence, "tests") for x in ("x", "y", "x+y")):
        sentence, names = text_in(part, "sentence"), texts_in(part, "entities")
        if contains_words(normalised(sentence), key):
            both.setdefault(key in map(normalised, names), f"{sentence} → [{', '.join(names)}]")
    return " / ".join(both[is_extracted] for is_extracted in (True, False) if is_extracted in both)


def _case(s: Series, record: VerdictRecord) -> Row:
    return Cell(visible(record.id)), Cell(s.starred)


def _text(text: str, most: int = _LONG) -> Cell:
    return Cell(one_line(text, most) or "–")


def _examples(title: str, heads: Sequence[str], rows: Sequence[Row], note: str) -> Table:
    """Return a table of examples, which begins with item and model."""
    return Table(title, headings(("Item", "Model", *heads), ()), tuple(rows), note)


_DISAGREEMENT = ("Words of one sentence only", "The model's explanation", "Checker")
_MANY = "one sentence has more than twice as many words of its own as the other one"
#: key -> title, further columns and note of a table of pairs
_CASE_TABLES = {
    "table 9": (
        "Yes, labelled no: one sentence adds words (Table 9)",
        _DISAGREEMENT,
        f"{_MANY[0].upper()}{_MANY[1:]}.",
    ),
    "table 10": (
        "No, labelled yes (Table 10)",
        _DISAGREEMENT,
        "In the paper's examples, both sentences have words of their own.",
    ),
    "table 11": (
        "Yes, labelled no: both sentences differ (Table 11)",
        _DISAGREEMENT,
        "Neither sentence has more than twice as many words of its own as the other one.",
    ),
    "proof": (
        "Proofs (Table 13)",
        ("Phrases that the model calls equivalent",),
        "Accepted answers of yes. Phrases with the same words are not listed if the model was not asked about them.",
    ),
    "leftover": ("Leftover words (Table 12)", ("Not covered by an alignment",), "Rejected answers of yes."),
    "triangle": (
        "Triangular evidence (Table 15)",
        ("Paraphrase, said to be equivalent to both", "Indifferentiable"),
        "Rejected answers of no: the model calls its own paraphrase of one sentence equivalent to both.",
    ),
}


def pair_cases(measured: Measured) -> list[Block]:
    """Return disagreements with the labels, proofs, failed proofs with leftover words, and rejected "no"."""
    notes: list[Block] = []
    counts: list[Row] = []
    tables: dict[str, list[Row]] = {key: [] for key in _CASE_TABLES}
    for s in measured.series:
        records = measured.first_samples(s, [YES, NO])
        missing = sum(r.status in ("correct", "wrong") and not r.evidence for r in records)
        if missing:
            notes.append(
                Note(
                    f"{s.starred}: the record lacks the evidence of {counted(missing, 'pair')} (records of schema 1"
                    " have none), so their sentences, proofs and paraphrases cannot be shown.",
                    "warn",
                )
            )
        found: dict[str, list[tuple[Any, Row]]] = {key: [] for key in _CASE_TABLES}
        one_sided: Counter[tuple[str, bool]] = Counter()
        for record in (r for r in records if r.evidence):
            first, second = (text_in(record.evidence, f"sentence_{number}") for number in (1, 2))
            for key, order, cells in _cases_of(record, first, second):
                found[key].append((order, (*_case(s, record), _text(first), _text(second), *cells)))
                one_sided[key, adds_words(first, second)] += key.startswith("table")
        for key, cases in found.items():
            tables[key] += [row for _, row in sorted(cases, key=lambda case: case[0])[:MOST]]
        if one_sided.total():
            keys = (("table 9", True), ("table 11", False), ("table 10", True), ("table 10", False))
            counts.append((Cell(s.starred), *(count_cell(one_sided[key]) for key in keys)))
    blocks = [
        _examples(title, ("Sentence 1", "Sentence 2", *heads), tables[key], note)
        for key, (title, heads, note) in _CASE_TABLES.items()
        if tables[key]
    ]
    if counts:
        kinds = ("one sentence adds words", "both differ")
        names = [f"{answer}: {kind}" for answer in ("Yes, labelled no", "No, labelled yes") for kind in kinds]
        note = f"Numbers of pairs. A sentence adds words if {_MANY}. The paper sorts its seven examples by hand; this"
        note += " rule sorts them alike."
        title = "Answers that differ from the label (Tables 9 to 11)"
        blocks.insert(0, Table(title, headings(("Model",), names), tuple(counts), note))
    return [*notes, *([Fold("Some cases", tuple(blocks))] if blocks else [])]


def _cases_of(record: VerdictRecord, first: str, second: str) -> Iterator[tuple[str, Any, Row]]:
    """Yield the tables that show a pair, with its place in the order of the table and its further cells."""
    evidence = record.evidence
    said, label = (record.values.get(name, -1) for name in ("said_yes", "label"))
    if said >= 0 and label >= 0 and said != label and record.status in ("correct", "wrong"):
        parts = enumerate(own_words(first, second), start=1)
        words = ", ".join(f"s{number}: {{ {' '.join(words)} }}" for number, words in parts if words)
        key = "table 10" if label else "table 9" if adds_words(first, second) else "table 11"
        explanation = _text(text_in(evidence, "explanation"))
        yield key, 0, (_text(words), explanation, Cell(visible(record.given)))
    proof = object_in(evidence, "proof")
    confirmed, refused = (
        [(text_in(one, "first"), text_in(one, "second")) for one in phrases]
        for phrases in (confirmed_in(proof), refused_in(proof))
    )
    if record.task == YES and record.status == "correct" and confirmed:
        # Phrases with the same words prove little, so proofs with more different phrases come first.
        weight = sum(one.casefold() != other.casefold() for one, other in confirmed)
        lines = "; ".join(f"“{one}” = “{other}”" for one, other in confirmed)
        yield "proof", -weight, (_text(lines, 4 * _LONG),)
    if record.task == YES and record.status == "wrong" and proof and not text_in(proof, "missing"):
        left = uncovered(proof)
        text = "; ".join((left, *(f"“{one}” ≠ “{other}”" for one, other in refused)))
        yield "leftover", (len(left), record.id), (_text(text, 4 * _LONG),)
    test = next(iter(objects_in(evidence, "tests")), {})
    if record.status == "wrong" and text_in(test, "outcome") == "triangular":
        category = text_in(evidence, "category")
        seen = "yes" if category in ("AI", "ĀI") else "no" if category else "not searched for"
        text = f"of sentence {count_in(test, 'source')}: {text_in(test, 'paraphrase')}"
        yield "triangle", 0, (_text(text, 4 * _LONG), Cell(seen))


def own_words(first: str, second: str) -> tuple[list[str], list[str]]:
    """Return the words that each of two texts has more often than the other, folded, in their order.

    The paper sorts its examples by where the "major differences in wording" are (appendix B.2). Here words are counted,
    which puts each of the seven where the paper has it.
    """
    one, two = unicode_words(first), unicode_words(second)
    return _more_often(one, two), _more_often(two, one)


def _more_often(words: Sequence[str], others: Sequence[str]) -> list[str]:
    left, kept = Counter(others), []
    for word in words:
        if left[word]:
            left[word] -= 1
        else:
            kept.append(word)
    return kept


def adds_words(first: str, second: str) -> bool:
    """Return True if one text has more than twice as many words of its own as the other one."""
    few, many = sorted(map(len, own_words(first, second)))
    return 2 * few < many


_TRUST = {
    "accepted": "accepted",
    "triangular": "rejected: triangular evidence",
    "inconsistent": "rejected: contradicts its paraphrase",
    "unreadable": "an answer cannot be read",
    "untested": "no paraphrase to test it with",
}


def denied_paraphrases(measured: Measured) -> list[Table]:
    """Return table 14: own paraphrases that the model denies, with the attempt to prove the opposite (B.3.3)."""
    rows: list[Row] = []
    for s in measured.series:
        denied = [r for r in measured.first_samples(s, [OWN]) if r.values.get("said_yes") == 0 and r.evidence]
        rows += [(*_case(s, record), *_denied(record)) for record in denied[:MOST]]
    heads = (
        "Sentence", "The model's paraphrase", "Proof that they are equivalent", "Answer of no", "Explanation",
    )  # fmt: skip
    note = (
        "The model's first answer is that its own paraphrase is not equivalent to the sentence. The proof is for"
        " reference: it could only accept a yes. The answer of no is tested like that on any pair, but never with the"
        " same paraphrase."
    )
    return [_examples("Own paraphrases that the model denies (Table 14)", heads, rows, note)] if rows else []


def _denied(record: VerdictRecord) -> Iterator[Cell]:
    evidence, values = record.evidence, record.values
    proved = [name for phi, name in PHI.items() if values.get(f"phi_{phi}")]
    proof = object_in(evidence, "proof")
    missing = text_in(proof, "missing") or uncovered(proof)
    result = f"proved: {', '.join(proved)}" if proved else f"not proved: {missing}"
    answer = _TRUST.get(text_in(evidence, "trust"), "not tested")
    for test in objects_in(evidence, "tests"):
        paraphrase, other, of_own = (text_in(test, key) for key in ("paraphrase", "other", "own"))
        answer += f"; “{paraphrase}”: {other} to the other sentence, {of_own} to its own"
    texts = [text_in(evidence, key) for key in ("sentence", "paraphrase", "explanation")]
    return map(_text, (*texts[:2], result, answer, texts[2]))


# Pairs: tables 2 to 5 and the sanity checks

_Cells = Callable[[Measured, Series, str, Place, str], Cell]


@dataclass(frozen=True)
class PairTable:
    """A table on pairs: the model's numbers above those of the paper.

    :param task: the task of its metrics, of which ``needs`` must exist.
    :param columns: heading, what the cell has of a metric, the metric, and its group.
    :param paper: the printed cells.
    """

    title: str
    task: str
    needs: str
    columns: tuple[tuple[str, _Cells, str, str], ...]
    paper: Callable[[], list[Cell]]
    note: str = ""


def _answers_printed() -> list[Cell]:
    cells: list[Cell] = []
    for label in ("yes", "no"):
        [result] = find(paper="oracle", table="2", metric="yes_rate", setting=f"labelled {label}")
        cells += [count_cell(result.n), Cell(as_printed(result.value), result.value)]
        cells.append(printed("2", "no_rate", f"labelled {label}"))
    return [*cells, printed("2", "label_agreement", "MSRP pairs")]


def _own_printed() -> list[Cell]:
    [yes] = find(paper="oracle", table="4", metric="yes_count")
    assert yes.n is not None
    settings = [f"own paraphrases; phi_{phi}; GPT3.5 {answer}" for answer in ("yes", "no") for phi in PHI]
    cells = [printed("4", "acceptance_rate", setting) for setting in settings]
    cells += [printed("appendix B.3.3", "acceptance_rate", "own paraphrases")] * len(PHI)
    return [count_cell(yes.n), Cell(as_printed(yes.value / yes.n), yes.value / yes.n), *cells]


_PAIR_TABLES = (
    PairTable(
        "Answers by label (Table 2)", PAIRS, "yes_rate",
        (
            *(
                column
                for label in ("yes", "no")
                for column in (
                    (f"Labelled {label}", number_of, "yes_rate", f"label {label}"),
                    (f"Labelled {label}: says yes", own, "yes_rate", f"label {label}"),
                    (f"Labelled {label}: says no", complement_of, "yes_rate", f"label {label}"),
                )
            ),
            ("Agrees", own, "label_agreement", ""),
        ),
        _answers_printed,
        "Agreement with the labels is not a verdict. Only the checker decides whether an answer is accepted.",
    ),
    PairTable(
        "Accepted answers on pairs", PAIRS, "coverage",
        (
            ("Accepted", own, "coverage", ""), ("Right of accepted", own, "accepted_precision", ""),
            ("Right of all", own, "label_agreement", ""),
        ),
        lambda: [DASH] * 3,
        "An acceptance says something only where the accepted answers are more often right than all answers, and than"
        " those of the null oracles in the summary.",
    ),
    PairTable(
        "Provable pairs (Table 3)", PAIRS, "provable_rate",
        (
            *(
                (f"{name}: {head}", own, "provable_rate", f"{phi}, {group}")
                for phi, name in PHI.items()
                for head, group in (
                    ("labelled yes", "label yes"), ("labelled no", "label no"), ("says yes", "answer yes"),
                    ("says no", "answer no"),
                )
            ),
            ("Aligned before asking: labelled yes", own, "potential_rate", "label yes"),
            ("Aligned before asking: labelled no", own, "potential_rate", "label no"),
        ),
        lambda: [
            *(
                printed("3", "acceptance_rate", f"phi_{phi}; {setting}")
                for phi in PHI
                for setting in ("labelled yes", "labelled no", "GPT3.5 yes", "GPT3.5 no")
            ),
            DASH, DASH,
        ],
        "A proof can only accept the answer yes. The other columns are for reference and need the protocol paper. No"
        " model can prove more pairs than are aligned before it is asked.",
    ),
)  # fmt: skip


def pair_tables(measured: Measured) -> list[Table]:
    """Return tables 2, 3 and 5, and what is accepted."""
    return [_table(measured, spec) for spec in (*_PAIR_TABLES, _TRUST_TABLE)]


#: category of table 5 -> the paper's setting
_CATEGORY = {"AI": "A and I", "ĀI": "not A, I", "AĪ": "A, not I", "ĀĪ": "not A, not I"}


def _of(measured: Measured, s: Series, name: str, place: Place, group: str = "") -> Cell:
    row = measured.metric(s, name, place, group)
    return DASH if row is None or not row.n else Cell(f"{percent(row.value)} of {row.n:,}", row.value)


def _trust_printed() -> list[Cell]:
    cells = []
    for phi in PHI:
        for setting in _CATEGORY.values():
            [row] = find(paper="oracle", table="5", setting=f"phi_{phi}; {setting}")
            cells.append(Cell(f"{as_printed(row.value)} of {row.n:,}", row.value))
    return cells


_TRUST_TABLE = PairTable(
    "Answers of no that are accepted (Table 5)", NO, "acceptance_rate_paper",
    tuple(
        (f"{phi_name}: {category}", _of, "acceptance_rate_paper", f"{category} {phi}")
        for phi, phi_name in PHI.items()
        for category in CATEGORIES.values()
    ),
    _trust_printed,
    "A: the sentences are aligned. I: a paraphrase exists that can be aligned with both (indifferentiable), and the"
    " test asks about it; otherwise about any paraphrase. Accepted of tested answers, as in the paper: only triangular"
    " evidence rejects.",
)  # fmt: skip
_OWN_TABLE = PairTable(
    "Own paraphrases (Table 4)", OWN, "yes_rate",
    (
        ("Paraphrases", number_of, "yes_rate", ""), ("Says yes", own, "yes_rate", ""),
        *(
            (f"Says {answer}: provable, {name}", own, "provable_rate", f"{phi}, answer {answer}")
            for answer in ("yes", "no")
            for phi, name in PHI.items()
        ),
        *(
            (f"Says no: accepted, {name}", own, "acceptance_rate_paper", f"{phi}, answer no")
            for phi, name in PHI.items()
        ),
    ),
    _own_printed,
    "Answers of no are accepted by the paper's rule: unless there is triangular evidence (appendix B.3.3).",
)  # fmt: skip


def sanity_table(measured: Measured) -> Table:
    """Return the table of the sanity checks of section 5.2.1."""
    columns: tuple[tuple[str, _Cells, str, str, str], ...] = (
        ("Asked again: inconsistent", complement_of, CONSISTENCY, "consistency_rate", ""),
        ("Own paraphrase: inconsistent", complement_of, OWN, "consistency_rate", ""),
        ("Random pairs: says no", complement_of, RANDOM, "yes_rate", ""),
        ("Proved, φ_or", own, RANDOM, "provable_rate", "or"),
        ("No accepted", own, RANDOM, "acceptance_rate", "answer no"),
    )
    rows: list[Row] = []
    for where in dict.fromkeys(place[1:] for place in measured.places):
        for s in measured.series:
            if any(measured.row(s, (task, *where)) for _, _, task, _, _ in columns):
                cells = (
                    what(measured, s, name, (task, *where), group) for _, what, task, name, group in columns
                )
                rows.append((Cell(s.starred), Cell(visible(where[1])), *cells))
    text = "section 5.2.1"
    paper = [printed(text, "inconsistency_rate", name) for name in ("MSRP pairs", "own paraphrases")]
    paper += [printed(text, "no_rate", "random pairs")]
    paper += [printed(text, "acceptance_rate", name) for name in ("random pairs; phi_or", "random pairs")]
    rows.append((Cell("GPT3.5"), Cell("the paper"), *paper))
    heads = headings(("Model", "Pairs from"), (name for name, *_ in columns))
    return Table("Sanity checks (section 5.2.1)", heads, tuple(rows))


def _table(measured: Measured, spec: PairTable) -> Table:
    rows: list[Row] = []
    for place in dict.fromkeys((spec.task, *place[1:]) for place in measured.places):
        for s in measured.series:
            if any(m.name == spec.needs and place_of(m) == place for m in measured.metrics(s)):
                cells = (what(measured, s, name, place, group) for _, what, name, group in spec.columns)
                rows.append((Cell(s.starred), Cell(visible(place[2])), *cells))
    rows.append((Cell("GPT3.5"), Cell("the paper"), *spec.paper()))
    columns = headings(("Model", "Pairs from"), (name for name, *_ in spec.columns))
    return Table(spec.title, columns, tuple(rows), spec.note)
