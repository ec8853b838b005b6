"""The data of the page's list of items: an index of all rows, and their texts in compressed chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.request_records import RequestRecord
from pytest_llmprops.core.verdicts import STATUSES
from pytest_llmprops.reports.kit.blocks import Failures, ItemData
from pytest_llmprops.reports.kit.series import Series
from pytest_llmprops.reports.kit.text import visible
from pytest_llmprops.reports.page.again import command_again
from pytest_llmprops.reports.page.chunks import cut, pack, packed_rows
from pytest_llmprops.reports.page.upgrade import default_pair
from pytest_llmprops.reports.page.usage import Spending
from pytest_llmprops.runs.benchmark_metadata import tasks_by_answer
from pytest_llmprops.runs.reviews import Review

#: maximum number of calls on the page; beyond it, the number of calls per item is limited
MOST_CALLS = 100_000
#: number of incorrect items of a benchmark that ``report.md`` lists
LISTED = 20
#: rows per chunk, and the number of chunks above which chunks grow
CHUNK, MOST_CHUNKS = 200, 250
ORDER = ("error", *(s for s in STATUSES if s != "correct"), "correct")

#: the names that rows and items refer to by number
NAMES = ("benchmark", "task", "language", "source")


def items_of(
    series: Sequence[Series],
    requests: Mapping[int, Mapping[str, RequestRecord]],
    marks: Iterable[Review] = (),
) -> tuple[ItemData, Spending]:
    """Return the data of the list of items, and what the calls of each task needed.

    Rows of one item are neighbours. Items with errors and incorrect answers come first.

    :param requests: the logged requests of each run by ``id(run)`` (see ``read_requests``).
    :param marks: review marks on the runs.
    """
    groups = _by_item(series)
    spending = Spending(series)
    counts = (_logged(record, requests.get(id(s.run), {})) for rows in groups for s, record in rows)
    most = _each((len(keys) for keys in counts), MOST_CALLS)
    rows = [row for group in groups for row in group]
    per_chunk = max(CHUNK, -(-len(rows) // MOST_CHUNKS))
    texts = _texts(rows, requests, most, spending)
    chunks = tuple(packed_rows(texts, per_chunk))
    index = pack({**_index(series, groups, marks), "per_chunk": per_chunk, "pair": default_pair(series)})
    return ItemData(index, chunks, _failures(series)), spending


def _by_item(series: Sequence[Series]) -> list[list[tuple[Series, VerdictRecord]]]:
    """Return the records of each item with their series, incorrect ones first.

    Records are of one item if ``pair_records`` pairs them: tasks that depend on the answer may be different.
    """
    decided = tasks_by_answer(*(s.run.facts for s in series))
    items: dict[tuple[str, ...], list[tuple[Series, VerdictRecord]]] = {}
    for s in series:
        for benchmark in s.benchmarks:
            for r in s.by_benchmark[benchmark]:
                task = "" if r.task in decided(benchmark) else r.task
                items.setdefault((benchmark, task, r.language, r.source, r.id), []).append((s, r))
    for rows in items.values():
        rows.sort(key=lambda row: (row[0].index, row[1].sample))
    return sorted(items.values(), key=lambda rows: min(ORDER.index(r.status) for _, r in rows))


def _index(
    series: Sequence[Series],
    groups: Sequence[Sequence[tuple[Series, VerdictRecord]]],
    marks: Iterable[Review],
) -> dict[str, Any]:
    """Return the columns of rows and items, with numbers for names."""
    numbers: dict[str, dict[str, int]] = {name: {} for name in NAMES}

    def number(name: str, record: VerdictRecord) -> int:
        known = numbers[name]
        return known.setdefault(getattr(record, name), len(known))

    firsts = [rows[0][1] for rows in groups]
    records = [record for rows in groups for _, record in rows]
    columns: dict[str, Any] = {
        "items": {
            "id": [visible(first.id) for first in firsts],
            "rows": [len(rows) for rows in groups],
            **{
                name: [number(name, first) for first in firsts]
                for name in ("benchmark", "language", "source")
            },
        },
        "rows": {
            "series": [s.index for rows in groups for s, _ in rows],
            "task": [number("task", record) for record in records],
            "status": [ORDER.index(record.status) for record in records],
            "sample": [r.sample for r in records] if any(r.sample for r in records) else [],
        },
    }
    return {
        **columns,
        **{name: [visible(text) for text in known] for name, known in numbers.items()},
        "series": [s.label for s in series],
        "runs": [s.run.run_id for s in series],
        "models": [visible(s.model) for s in series],
        "reviews": [mark.shown() for mark in marks],
        "commands": [command_again(s) for s in series],
        "status": ORDER,
    }


def _logged(record: VerdictRecord, logged: Mapping[str, RequestRecord]) -> list[str]:
    return [key for key in record.requests if key in logged]


def _texts(
    rows: Iterable[tuple[Series, VerdictRecord]],
    requests: Mapping[int, Mapping[str, RequestRecord]],
    most: int,
    spending: Spending,
) -> Iterator[tuple[tuple[Any, ...], list[Any], list[tuple[RequestRecord, list[Any]]]]]:
    """Yield the group in which the prompts of a row share prefixes, its texts, and its calls with their usage.

    The calls of a row are read when it is its turn: together they may be larger than the memory.
    """
    for s, record in rows:
        logged = requests.get(id(s.run), {})
        calls = [logged[key] for key in _logged(record, logged)]
        spending.add(s, record, calls)
        texts = [cut(getattr(record, name)) for name in ("expected", "given", "reason")]
        shown = [(call, spending.usage(s, call)) for call in _foremost(calls, most)]
        group = (s.index, record.benchmark, record.task)
        yield group, [*texts, record.values or 0, max(0, len(calls) - most)], shown


def _each(counts: Iterable[int], most: int) -> int:
    """Return the largest limit per count, at least 1, with which the limited counts add up to at most ``most``."""
    ordered = sorted(counts)
    for place, count in enumerate(ordered):
        others = len(ordered) - place
        if count * others > most:
            return max(1, most // others)
        most -= count
    return max(ordered, default=1) or 1


def _foremost(calls: list[RequestRecord], most: int) -> list[RequestRecord]:
    """Return at most ``most`` of an item's calls, in order; calls to the model under test have priority."""
    if len(calls) <= most:
        return calls
    first = sorted(range(len(calls)), key=lambda n: (calls[n].role != "subject", n))[:most]
    return [calls[n] for n in sorted(first)]


def _failures(series: Sequence[Series]) -> dict[str, Failures]:
    """Return the number of incorrect items of each benchmark, and the first ones."""
    failures: dict[str, Failures] = {}
    for s in series:
        for benchmark, records in s.by_benchmark.items():
            wrong = [record for record in records if record.status != "correct"]
            known = failures.get(benchmark, Failures(0, ()))
            listed = [(s.label, record) for record in wrong[: LISTED - len(known.first)]]
            failures[benchmark] = Failures(known.total + len(wrong), (*known.first, *listed))
    return failures


def row_id(record: VerdictRecord) -> str:
    """Return the id of a row: the item's, with the number of the repeat."""
    text = visible(record.id)
    return f"{text} #{record.sample}" if record.sample else text
