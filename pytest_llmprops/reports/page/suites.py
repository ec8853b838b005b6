"""The first table of a report, one line per suite or per model, and the changes of all tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_llmprops.reports.kit.blocks import (
    Cell,
    Table,
    joined,
    language,
    percent,
    points,
    with_interval,
    words,
)
from pytest_llmprops.reports.kit.generic import (
    item_link,
    pair_cells,
    place_cell,
    place_label,
    published_headline,
)
from pytest_llmprops.reports.kit.series import Measured, Series
from pytest_llmprops.reports.tables import line_of
from pytest_llmprops.runs.pairs import Member

if TYPE_CHECKING:
    from pytest_llmprops.core.metrics import Place
    from pytest_llmprops.statistics.judgement import Change

NO_CELL = Cell("–")


def worst_first(parts: Sequence[Measured], models: int) -> list[Measured]:
    """Return the suites by change of two models, or by the accuracy of one, the worst first.

    Suites without such a number are last; those of more than two models keep their order.
    """

    def number(measured: Measured) -> float | None:
        if models == 1:
            return share.value if (share := measured.headline(measured.series[0])) else None
        change = _change(measured) if len(measured.series) == 2 else None
        return None if change is None else change.difference

    if models > 2:
        return list(parts)
    return sorted(parts, key=lambda one: math.inf if (n := number(one)) is None else n)


def suites_table(parts: Sequence[Measured], series: Sequence[Series]) -> Table | None:
    """Return a line per suite with one or two models, otherwise a line per model; None without a suite."""
    common = [measured for measured in parts if len(measured.series) == len(series)]
    if len(series) == 2:
        return _two(common, series) if common else None
    if len(series) > 2:
        return _several(parts, series)
    return _one(common, series[0]) if common else None


def _one(parts: Sequence[Measured], series: Series) -> Table:
    rows = []
    for measured in parts:
        share, tasks = measured.headline(series), measured.headline_tasks
        chance = measured.facts.chance_of() if share else None
        rest = line_of([row for row in measured.rows(series) if row.task in tasks])
        number = NO_CELL if share is None else Cell(f"{share.n:,}", share.n)
        guess = NO_CELL if chance is None else Cell(f"{100 * chance:.0f}%", chance)
        printed = published_headline(measured, series)
        best = f"{printed[0].model} {percent(printed[0].value)}" if printed else ""
        numbers = (accuracy_cell(measured, series), number, guess)
        rows.append((Cell(measured.facts.title), *numbers, Cell(best), Cell(rest)))
    columns = (
        ("Suite", False), ("Accuracy", True), ("Items", True), ("Guessing", True), ("Best of the paper", False),
        ("Other replies", False),
    )  # fmt: skip
    return Table("Suites", columns, tuple(rows), "Accuracy on the headline tasks, with its 95% interval.")


def _two(parts: Sequence[Measured], series: Sequence[Series]) -> Table:
    rows = []
    for measured in parts:
        pairs = [pair for place in _headline_places(measured) for pair in measured.changes[place][0]]
        shares = (replace(accuracy_cell(measured, s), low=None, high=None) for s in measured.series)
        change = pair_cells(measured, pairs, _change(measured), {"benchmark": measured.benchmark})
        rows.append((Cell(measured.facts.title), *shares, *change, Cell(_worst_task(measured))))
    first, second = (s.starred for s in series)
    numbers = (first, second, "Change", "Lost", "Gained")
    columns = [("Suite", False), *((name, True) for name in numbers)]
    if any(row[-1].text for row in rows):
        columns.append(("Worst task", False))
    note = (
        f"Accuracy on the headline tasks. Change: {second} minus {first} in points, on the items that both have,"
        " with its 95% interval."
    )
    return Table("Suites", tuple(columns), tuple(row[: len(columns)] for row in rows), note)


def _several(parts: Sequence[Measured], series: Sequence[Series]) -> Table:
    has_gates = any(s.run.facts.gate for s in series)
    columns = [("Model", False), *([("Decision", False)] if has_gates else [])]
    columns += [(measured.facts.title, True) for measured in parts]
    rows = []
    for s in series:
        cells = [Cell(s.starred)]
        if has_gates:
            cells.append(Cell(gate.decision.upper() if (gate := s.run.facts.gate) else "–"))
        rows.append((*cells, *(accuracy_cell(measured, s) for measured in parts)))
    return Table(
        "Models", tuple(columns), tuple(rows), "Accuracy on the headline tasks, with its 95% interval."
    )


def accuracy_cell(measured: Measured, series: Series) -> Cell:
    """Return a cell with the accuracy on the headline tasks, which opens the items."""
    share = measured.headline(series) if series in measured.series else None
    if share is None:
        return NO_CELL
    link = {"benchmark": measured.benchmark, "series": str(series.index)}
    return Cell(with_interval(share.value, share.low, share.high), share.value, share.low, share.high, link)


def _headline_places(measured: Measured) -> list[Place]:
    """Return the places that two models have in common and whose accuracy ranks them, best at 1."""
    facts, tasks = measured.facts, set(measured.headline_tasks)
    tasks -= {*facts.unranked, *facts.accuracy_targets}
    return [place for place in measured.changes if place[0] in tasks]


def _change(measured: Measured) -> Change | None:
    """Return the change of a suite between two models; None if no common task ranks them."""
    first, second = measured.series
    member = Member(measured.benchmark, "benchmark", measured.benchmark)
    return first.judgement(second).get(member)


def _worst_task(measured: Measured) -> str:
    """Return the task that lost most among those that are worse, with its change; empty if none is."""
    places = _headline_places(measured)
    changes = {place: measured.changes[place][1] for place in places}
    worse = [(change.difference, place) for place, change in changes.items() if change.word == "worse"]
    if not worse or len(places) == 1:
        return ""
    difference, place = min(worse)
    return f"{place_label(place, places)} {points(difference)}"


def changes_by_task(parts: Sequence[Measured]) -> Table | None:
    """Return the headline tasks that two models have in common, by change, worst first; None without any.

    Tasks whose accuracy ranks no models, or is best at another value than 1, are left out.
    """
    rows = []
    for measured in parts:
        if len(measured.series) != 2:
            continue
        for place in _headline_places(measured):
            pairs, change = measured.changes[place]
            shares = (replace(place_cell(measured, place, s), low=None, high=None) for s in measured.series)
            place_cells = (Cell(f"{measured.facts.title}: {words(place[0])}"), Cell(language(place[1])))
            lost = pair_cells(measured, pairs, change, item_link(measured, place))
            rows.append((*place_cells, *shares, *lost))
    if not rows:
        return None
    rows.sort(key=lambda row: row[4].value or 0.0)
    names = (*(s.starred for s in parts[0].series), "Change", "Lost", "Gained")
    columns = (("Task", False), ("Language", False), *((name, True) for name in names))
    return Table("Change by task", columns, tuple(rows))


def measured_for_one(parts: Sequence[Measured], series: Sequence[Series]) -> str:
    """Return which suites only one of two models has, in a sentence; empty without any."""
    lines = []
    for s in series if len(series) == 2 else ():
        titles = [m.facts.title for m in parts if m.series == (s,)]
        lines += [f"Only {s.starred} was measured on {joined(titles)}."] if titles else []
    return " ".join(lines)
