"""The homophones section of a report: accuracy by language, next to the two controls that give only one clue.

Liu & Ross report accuracies by language in Table 2. The controls address their sections 10.1 and 10.2.
"""

from __future__ import annotations

from pytest_llmprops.records.rows import SummaryRow
from pytest_llmprops.reports.kit import generic
from pytest_llmprops.reports.kit.blocks import Block, Cell, Figure, Section, Table, language, points, visible
from pytest_llmprops.reports.kit.figures import ForestRow, Mark, Point, panels
from pytest_llmprops.reports.kit.generic import (
    detailed,
    fine_print,
    place_cell,
    published_beside,
    published_note,
)
from pytest_llmprops.reports.kit.series import Measured, Series

ASKED = "asked"
CLUES = {ASKED: "Asked", "context_only": "Context only", "word_only": "Word only"}
EXPLANATION = (
    "Asked: the sentence with the homophone. Context only: the word is left out. Word only: the word alone. "
    "If asked is no better than context only, the model did not use the sound."
)


def section(measured: Measured) -> Section:
    """Return the section: accuracy by language, next to the two controls."""
    if not any(task in CLUES for task, _, _ in measured.places):
        return generic.section(measured)
    blocks: list[Block] = [_figure(measured), _clues(measured)]
    blocks += detailed(measured)
    return Section((*blocks, *fine_print(measured)))


def _languages(measured: Measured) -> list[tuple[str, str]]:
    return list(dict.fromkeys((code, source) for _, code, source in measured.places))


def _title(pair: tuple[str, str], measured: Measured) -> str:
    several = len({source for _, source in _languages(measured)}) > 1
    return f"{language(pair[0])}, {visible(pair[1])}" if several else language(pair[0])


def _figure(measured: Measured) -> Figure:
    pairs = _languages(measured)
    printed = {pair: dict(published_beside(measured, (ASKED, *pair))) for pair in pairs}
    models = list(dict.fromkeys(model for accuracies in printed.values() for model in accuracies))
    columns = []
    for pair in pairs:
        rows = []
        for task in CLUES:
            for s in _with(measured, task):
                row = measured.row(s, (task, *pair))
                dots: tuple[Point, ...] = ()
                if row is not None and row.estimate is not None:
                    dots = (Point(s.index, *row.estimate),)
                rows.append(ForestRow(s.starred, dots))
            if task == ASKED:
                for model in models:
                    value = printed[pair].get(model)
                    marks = () if value is None else (Mark(model, value),)
                    rows.append(ForestRow(f"{model}, paper", (), marks))
        columns.append((_title(pair, measured), rows))
    groups, line = {}, 0
    for task, name in CLUES.items():
        height = len(_with(measured, task)) + (len(models) if task == ASKED else 0)
        if height:
            groups[line] = name
        line += height
    labels = {s.index: s.starred for s in measured.series}
    return Figure(
        "homophones-clues",
        "Accuracy by language and clue",
        f"Accuracy with 95% intervals of {', '.join(labels.values())} in "
        f"{', '.join(_title(pair, measured) for pair in pairs)}, with both clues and with each clue alone; "
        "the numbers are in the table below.",
        lambda: panels(columns, labels, groups),
        f"{EXPLANATION} {published_note(measured)}".strip(),
    )


def _with(measured: Measured, task: str) -> list[Series]:
    return [s for s in measured.series if any(r.task == task for r in measured.rows(s))]


def _clues(measured: Measured) -> Table:
    pairs = _languages(measured)
    several = len(measured.series) > 1
    controls = any(task != ASKED for task, _, _ in measured.places)
    any_printed = any(published_beside(measured, (ASKED, *pair)) for pair in pairs)
    rows = []
    for pair in pairs:
        for s in measured.series:
            results = {task: measured.row(s, (task, *pair)) for task in CLUES}
            if not any(results.values()):
                continue
            cells = [Cell(language(pair[0])), Cell(pair[1])]
            cells += [Cell(s.starred)] if several else []
            cells += [place_cell(measured, (task, *pair), s) for task in (CLUES if controls else [ASKED])]
            if controls:
                cells.append(_gain(results[ASKED], results["context_only"]))
            if any_printed:
                printed = published_beside(measured, (ASKED, *pair))
                cells.append(Cell(", ".join(f"{model} {100 * value:.1f}" for model, value in printed)))
            rows.append(tuple(cells))
    columns = [("Language", False), ("Items from", False), *([("Model", False)] if several else [])]
    columns += [(name, True) for name in (CLUES.values() if controls else [CLUES[ASKED]])]
    columns += [("Sound adds", True)] if controls else []
    columns += [("Published, asked", False)] if any_printed else []
    note = "Sound adds: asked minus context only, in percentage points." if controls else ""
    return Table("By language and clue", tuple(columns), tuple(rows), note)


def _gain(asked: SummaryRow | None, context: SummaryRow | None) -> Cell:
    values = [row.accuracy for row in (asked, context) if row is not None and row.accuracy is not None]
    if len(values) < 2:
        return Cell("–")
    return Cell(points(values[0] - values[1]), values[0] - values[1])
