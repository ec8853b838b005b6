"""The ERAS section of a report: tables 1 and 2 of Li & Hao for the measured models, figure 5, and one example pair."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pytest_llmprops.benchmarks.eras.report.figures import CorpusSpot, corpus_plot
from pytest_llmprops.benchmarks.eras.report.pair import chosen_pair, segmentations
from pytest_llmprops.benchmarks.eras.report.sentiment_accuracy import CORPORA, accuracies_by_corpus
from pytest_llmprops.core.metrics import Place
from pytest_llmprops.core.numbers import interval as limits
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.data.published_results import find
from pytest_llmprops.reports.kit.blocks import Block, Cell, Figure, Fold, Note, Section, Table
from pytest_llmprops.reports.kit.generic import detailed, fine_print
from pytest_llmprops.reports.kit.series import Measured, Series
from pytest_llmprops.reports.kit.text import visible

EXPLICIT, IMPLICIT = "explicit", "implicit"
GROUPS = ("overall", "left", "right")
SEGMENTED = ("test_accuracy", "control_accuracy", "difference")
SENTIMENTS = ("+/-", "+/0", "-/0", "-/+")
#: Columns of table 2: measured metric -> (name in the printed results, heading). The paper's figures come from the
#: authors' code, so only the metrics that follow this code are shown next to them.
SCORED = {
    "authors_gper": ("gper", "GPER"),
    "pair_accuracy": ("pair_accuracy", "Accuracy"),
    "authors_necessity": ("necessity", "Necessity"),
    "authors_sufficiency": ("sufficiency", "Sufficiency"),
}
PAPER = "the paper"
Row = tuple[Cell, ...]


def section(measured: Measured) -> Section:
    """Return both tables with the paper's rows, the figure, an example pair, and the general parts."""
    blocks: list[Block] = []
    explicit = [place for place in measured.places if place[0] == EXPLICIT]
    implicit = [place for place in measured.places if place[0] == IMPLICIT]
    if explicit:
        blocks += [_segmenters(measured, explicit), *_pair(measured), *_paradigms(measured, explicit)]
    if implicit:
        blocks += [
            _sentiment(measured, implicit),
            _occlusion(measured, implicit),
            *_sampled(measured, implicit),
            *_figures(measured, implicit),
        ]
    blocks += detailed(measured)
    return Section((*blocks, *fine_print(measured)))


def _percent_cell(value: float | None, low: float | None = None, high: float | None = None) -> Cell:
    """Return a number on the paper's scale of 0 to 100."""
    if value is None:
        return Cell("–")
    text = f"{100 * value:.1f}"
    if low is not None and high is not None:
        text += f" ({limits(low, high)})"
    return Cell(text, value)


def _measured_cell(
    measured: Measured, s: Series, name: str, place: Place, group: str, *, interval: bool = False
) -> Cell:
    row = measured.metric(s, name, place, group)
    if row is None:
        return Cell("–")
    limits = (row.ci_low, row.ci_high) if interval else (None, None)
    return _percent_cell(row.value, *limits)


def _leading_cells(measured: Measured, places: Iterable[Place]) -> list[tuple[Series, Place, list[Cell]]]:
    return [
        (s, place, [Cell(s.starred), Cell(visible(place[2]) + _script(s))])
        for place in places
        for s in measured.series
        if measured.row(s, place) is not None
    ]


def _script(series: Series) -> str:
    script = str(series.settings("eras").get("script") or "simplified")
    return "" if script == "simplified" else f", traditional ({visible(script)})"


def _segmenters(measured: Measured, places: list[Place]) -> Table:
    rows = _grouped_rows(measured, places, SEGMENTED)
    rows += _published_rows(
        "1", lambda model: [_published_cell(model, n, g) for g in GROUPS for n in SEGMENTED]
    )
    return Table(
        "Segmenters (Table 1)",
        _grouped_columns(("test", "control", "difference")),
        tuple(rows),
        "Percent of sentences with a correctly segmented site, mean over paradigms. Difference: control minus test."
        " Intervals are over paradigms (95%). Left: the true word is the first one."
        " In the paper's four Transformer rows the overall figures are not the mean of left and right.",
    )


def _grouped_rows(measured: Measured, places: list[Place], names: Iterable[str]) -> list[Row]:
    """Return one row per measured model, with these metrics overall, left and right."""
    return [
        (
            *cells,
            *(
                _measured_cell(measured, s, name, place, group, interval=group == "overall")
                for group in GROUPS
                for name in names
            ),
        )
        for s, place, cells in _leading_cells(measured, places)
    ]


def _grouped_columns(names: Iterable[str]) -> tuple[tuple[str, bool], ...]:
    columns = [("Model", False), ("Items from", False), *((n[0].upper() + n[1:], True) for n in names)]
    columns += [(f"{group.capitalize()}: {n}", True) for group in ("left", "right") for n in names]
    return tuple(columns)


def _published_rows(table: str, cells: Callable[[str], list[Cell]]) -> list[Row]:
    models = dict.fromkeys(r.model for r in find(paper="eras", table=table))
    return [(Cell(model), Cell(PAPER), *cells(model)) for model in models]


def _published_cell(model: str, metric: str, *settings: str) -> Cell:
    for setting in settings:
        results = find(paper="eras", model=model, metric=metric, setting=setting)
        if results:
            return _percent_cell(results[0].value)
    return Cell("–")


def _pair(measured: Measured) -> list[Block]:
    records = {s.index: measured.records(s, [EXPLICIT]) for s in measured.series}
    chosen = chosen_pair(list(records.values()))
    if chosen is None:
        return []
    rows = []
    for s in measured.series:
        record = next((r for r in records[s.index] if r.id == chosen and "test" in r.values), None)
        if record is not None:
            test, control = segmentations(record)
            outcome = "right" if record.values["test"] else "wrong"
            rows.append((Cell(s.starred), Cell(visible(test)), Cell(visible(control)), Cell(outcome)))
    expected = next(r.expected for members in records.values() for r in members if r.id == chosen)
    columns = (("Model", False), ("Test sentence", False), ("Control sentence", False), ("Test site", False))
    note = f"{chosen}; correct: {visible(expected)}. | is a word boundary, 【 】 mark a wrongly segmented canary word."
    return [Table("One minimal pair", columns, tuple(rows), note)]


def _paradigms(measured: Measured, places: list[Place]) -> list[Block]:
    rows = []
    shown = _leading_cells(measured, places)
    clusters: dict[str, dict[int, list[VerdictRecord]]] = {}
    for number, (s, place, _) in enumerate(shown):
        for record in measured.records(s, [EXPLICIT]):
            if record.source == place[2] and "test" in record.values:
                clusters.setdefault(record.cluster, {}).setdefault(number, []).append(record)
    for cluster, members in sorted(clusters.items()):
        first = next(iter(members.values()))[0]
        cells = [Cell(visible(cluster)), Cell(visible(first.expected))]
        for number in range(len(shown)):
            values = [r.values for r in members.get(number, ())]
            for name in ("test", "control"):
                cells.append(_percent_cell(sum(v[name] for v in values) / len(values) if values else None))
        rows.append(tuple(cells))
    columns = [("Paradigm", False), ("Site, canary word", False)]
    for s, place, _ in shown:
        name = s.starred if len({p for _, p, _ in shown}) == 1 else f"{s.starred}, {visible(place[2])}"
        columns += [(f"{name}: test", True), ("Control", True)]
    return [Fold("Paradigm by paradigm", (Table("Paradigms", tuple(columns), tuple(rows)),))] if rows else []


def _sentiment(measured: Measured, places: list[Place]) -> Table:
    accuracies = {s.index: accuracies_by_corpus(s.run.folder, s.model) for s in measured.series}
    corpora = list(
        dict.fromkeys([*CORPORA.values(), *(name for rows in accuracies.values() for name in rows)])
    )
    rows: list[Row] = []
    for s, place, cells in _leading_cells(measured, places):
        cells += [_measured_cell(measured, s, name, place, "overall", interval=True) for name in SCORED]
        cells += [_measured_cell(measured, s, "sentiment_difference", place, group) for group in SENTIMENTS]
        cells += [
            _percent_cell(accuracies[s.index][c]["accuracy"]) if c in accuracies[s.index] else Cell("–")
            for c in corpora
        ]
        rows.append(tuple(cells))
    rows += _published_rows(
        "2",
        lambda model: [
            *(_published_cell(model, name, "overall", "") for name, _ in SCORED.values()),
            *(_published_cell(model, "difference", group) for group in SENTIMENTS),
            *(_published_cell(model, "sentiment_accuracy", corpus) for corpus in corpora),
        ],
    )
    columns = [("Model", False), ("Items from", False), *((heading, True) for _, heading in SCORED.values())]
    columns += [(f"Diff. {group}", True) for group in SENTIMENTS] + [(visible(c), True) for c in corpora]
    return Table(
        "Sentiment (Table 2)",
        tuple(columns),
        tuple(rows),
        "All values are on a scale of 0 to 100. The best accuracy is 50. Lower GPER, necessity and sufficiency are"
        " better; they are computed as in the authors' code, over all pairs. Diff.: control minus test probability of"
        " the positive class, best at 0. Intervals are over"
        " paradigms (95%). Humans: derived from the paper's ranking study (section 4.1). The last columns are"
        " accuracies on labelled files (`llmprops eras sentiment-accuracy`).",
    )


def _occlusion(measured: Measured, places: list[Place]) -> Table:
    return Table(
        "Occlusion by the definitions in the paper's text",
        _grouped_columns(("GPER", "necessity", "sufficiency")),
        tuple(_grouped_rows(measured, places, ("gper", "necessity", "sufficiency"))),
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
                f"eras-{len(blocks)}",
                f"Accuracy on {visible(corpus)} against ERAS (figure 5)",
                f"Accuracy on {visible(corpus)} against GPER and ERAS accuracy of "
                f"{', '.join(spot.label for spot in spots)}; the numbers are in the table above.",
                _draw(spots, visible(corpus), labels),
                "Hollow diamonds are the paper's models (Table 2), on the authors' items.",
            )
        )
    return blocks


def _draw(spots: list[CorpusSpot], corpus: str, labels: Mapping[int, str]) -> Callable[[], Any]:
    return lambda: corpus_plot(spots, corpus, labels)


def _published_spots(corpus: str) -> list[CorpusSpot]:
    return [
        CorpusSpot(
            r.model,
            -1,
            r.value,
            _published_cell(r.model, "gper", "").value,
            _published_cell(r.model, "pair_accuracy", "overall").value,
        )
        for r in find(paper="eras", table="2", metric="sentiment_accuracy", setting=corpus)
    ]
