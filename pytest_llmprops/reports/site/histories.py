"""Each item's history: its status in every run, in compressed chunks that the page reads on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pytest_llmprops.reports.kit.blocks import visible
from pytest_llmprops.reports.page.items import pack
from pytest_llmprops.reports.site.contributions import LETTERS, Verdicts
from pytest_llmprops.reports.site.measurements import Measurement, SiteRun, comparable
from pytest_llmprops.runs.benchmark_metadata import tasks_by_answer

#: items of one chunk
CHUNK = 250
#: an item that a run does not have, and one of which some samples are correct
NONE, MIXED = ".", "m"


class Item(NamedTuple):
    """What distinguishes an item from others of its benchmark. The task is empty if it depends on the answer."""

    id: str
    task: str
    language: str
    source: str


@dataclass(frozen=True)
class Matrix:
    """The statuses of all items in all measurements of a benchmark: one byte each.

    :param cells: letters by item and measurement. :param shares: "3/5" of items with several samples.
    """

    items: list[Item]
    columns: list[Measurement]
    cells: NDArray[np.uint8]
    shares: dict[tuple[int, int], str]


def matrix_of(measurements: Sequence[Measurement], read: Callable[[SiteRun], Verdicts]) -> Matrix:
    """Return the statuses of one benchmark; columns are sorted by model and time.

    :param read: returns the verdicts of a run. One run's are in memory at a time.
    """
    columns = sorted(measurements, key=lambda m: (m.model, m.order))
    places: dict[Item, int] = {}
    letters: list[bytes] = []
    shares: dict[tuple[int, int], str] = {}
    for n, column in enumerate(columns):
        own, parts = _column(column, read, places)
        letters.append(own)
        shares |= {(row, n): text for row, text in parts.items()}
    cells = np.full((len(columns), len(places)), ord(NONE), dtype=np.uint8)
    for n, own in enumerate(letters):
        cells[n, : len(own)] = np.frombuffer(own, dtype=np.uint8)
        letters[n] = b""
    return Matrix(list(places), columns, np.ascontiguousarray(cells.T), shares)


def _column(
    m: Measurement, read: Callable[[SiteRun], Verdicts], places: dict[Item, int]
) -> tuple[bytes, dict[int, str]]:
    """Return the letters of a measurement by item, and shares; new items get a place."""
    verdicts = read(m.run)
    decided = tasks_by_answer(m.facts)(m.benchmark)
    model = verdicts.labels.index(m.model)
    statuses: dict[int, str] = {}
    for n, (place, letter) in enumerate(zip(verdicts.order, verdicts.statuses, strict=True)):
        benchmark, task, language, source, name, _ = verdicts.items[place]
        if benchmark != m.benchmark or (verdicts.models and verdicts.models[n] != model):
            continue
        item = Item(name, "" if task in decided else task, language, source)
        number = places.setdefault(item, len(places))
        statuses[number] = statuses.get(number, "") + letter
    letters, shares = bytearray(NONE.encode() * len(places)), {}
    for number, samples in statuses.items():
        letters[number] = ord(_together(samples))
        if len(samples) > 1:
            shares[number] = f"{samples.count('c')}/{len(samples) - samples.count('e')}"
    return bytes(letters), shares


def _together(samples: str) -> str:
    """Return one letter for the samples of an item."""
    answered = samples.replace("e", "")
    if not answered:
        return "e"
    if "c" in answered:
        return "c" if answered.count("c") == len(answered) else MIXED
    return max(sorted(set(answered)), key=answered.count)


def changes_of(matrix: Matrix) -> NDArray[np.int64]:
    """Return for each item how often one model's result changed between right and not right from run to run.

    Only changes between runs that may be compared count.
    """
    changes = np.zeros(len(matrix.items), dtype=np.int64)
    numbers = {id(m): n for n, m in enumerate(matrix.columns)}
    for model in dict.fromkeys(m.model for m in matrix.columns):
        own = [m for m in matrix.columns if m.model == model]
        for group in comparable(own, deviations=False):
            latest = np.full(len(matrix.items), -1, dtype=np.int8)
            for m in group:
                letters = matrix.cells[:, numbers[id(m)]]
                is_answered = ~np.isin(letters, [ord(NONE), ord("e")])
                is_right = (letters == ord("c")).astype(np.int8)
                changes += is_answered & (latest >= 0) & (latest != is_right)
                latest = np.where(is_answered, is_right, latest)
    return changes


def chunks_of(matrix: Matrix) -> tuple[dict[str, Any], Iterator[str]]:
    """Return the index of the page, and its chunks: items that changed most come first.

    A chunk is ``{"rows": [letters of an item, …], "shares": {"row,column": "3/5"}}``. The index has columns by item,
    with numbers for names, and the models of the columns.
    """
    changes = changes_of(matrix)
    order = sorted(range(len(matrix.items)), key=lambda n: (-int(changes[n]), matrix.items[n]))
    answered = ~np.isin(matrix.cells, [ord(NONE), ord("e")])
    right = (matrix.cells == ord("c")).sum(axis=1)
    names: dict[str, dict[str, int]] = {name: {} for name in Item._fields[1:]}
    items: dict[str, list[Any]] = {"id": [visible(matrix.items[n].id) for n in order]}
    for name, known in names.items():
        items[name] = [known.setdefault(getattr(matrix.items[n], name), len(known)) for n in order]
    items["changes"] = [int(changes[n]) for n in order]
    items["right"] = [int(right[n]) for n in order]
    items["answered"] = [int(count) for count in answered[order].sum(axis=1)]
    models = list(dict.fromkeys(m.model for m in matrix.columns))
    index = {
        "items": items,
        **{name: [visible(text) for text in known] for name, known in names.items()},
        "models": [visible(model) for model in models],
        "model": [models.index(m.model) for m in matrix.columns],
        "settings": _settings(matrix.columns),
        "per_chunk": CHUNK,
    }
    return index, _chunks(matrix, order)


def _settings(columns: Sequence[Measurement]) -> list[int]:
    """Return the number of each column's settings, from 0; most runs have the first."""
    groups = sorted(comparable(columns, deviations=False), key=len, reverse=True)
    numbers = {id(m): number for number, group in enumerate(groups) for m in group}
    return [numbers[id(m)] for m in columns]


def _chunks(matrix: Matrix, order: Sequence[int]) -> Iterator[str]:
    by_item: dict[int, dict[int, str]] = {}
    for (item, column), text in matrix.shares.items():
        by_item.setdefault(item, {})[column] = text
    for start in range(0, len(order), CHUNK):
        part = order[start : start + CHUNK]
        rows = [matrix.cells[n].tobytes().decode("ascii") for n in part]
        shares = {
            f"{place},{column}": text
            for place, n in enumerate(part)
            for column, text in by_item.get(n, {}).items()
        }
        yield pack({"rows": rows, "shares": shares})


assert {*LETTERS.values(), NONE, MIXED} == set("cwrute.m")
