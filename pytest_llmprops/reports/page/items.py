"""The data of the page's list of items. Rows have indexes into lists of names; long prefixes are stored once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.request_records import RequestRecord
from pytest_llmprops.core.verdicts import STATUSES
from pytest_llmprops.reports.kit.series import Series
from pytest_llmprops.reports.kit.text import visible

#: maximum number of rows on the page; incorrect items come first
MOST_ROWS = 20_000
#: maximum number of calls on the page; beyond it, the number of calls per item is limited
MOST_CALLS = 30_000
#: maximum characters of one text on the page
MOST = 20_000
#: minimum length of a shared prefix that is stored once
SHORTEST_PREFIX = 120
ORDER = ("error", *(s for s in STATUSES if s != "correct"), "correct")

#: names of a row's fields, for the page's script
FIELDS = (
    "series", "benchmark", "task", "language", "source", "status", "id", "expected", "given", "reason", "values",
    "calls", "calls_left_out",
)  # fmt: skip


def items_of(series: Sequence[Series], requests: Mapping[int, Mapping[str, RequestRecord]]) -> dict[str, Any]:
    """Return the data of the list of items, as JSON.

    :param requests: the logged requests of each run by ``id(run)`` (see ``read_requests``).
    """
    names: dict[str, dict[str, int]] = {name: {} for name in ("benchmark", "task", "language", "source")}
    prefixes = _Prefixes()
    rows: list[list[Any]] = []
    # The keys of the calls of each row, with the run's requests and the group in which their texts share prefixes.
    calls_of_rows: list[tuple[tuple[Any, ...], Mapping[str, RequestRecord], list[str]]] = []
    kept = _kept(series)
    for s in series:
        logged = requests.get(id(s.run), {})
        for benchmark in s.benchmarks:
            for record in s.by_benchmark[benchmark]:
                if kept is not None and id(record) not in kept:
                    continue
                row: list[Any] = [s.index]
                row += [index.setdefault(getattr(record, name), len(index)) for name, index in names.items()]
                row.append(ORDER.index(record.status))
                row.append(_id(record))
                row += [_cut(getattr(record, name)) for name in ("expected", "given", "reason")]
                row.append(record.values or 0)
                rows.append(row)
                keys = [key for key in record.requests if key in logged]
                calls_of_rows.append(((s.index, record.benchmark, record.task), logged, keys))
    most = _each((len(keys) for _, _, keys in calls_of_rows), MOST_CALLS)
    for row, (place, logged, keys) in zip(rows, calls_of_rows, strict=True):
        # Each row's calls are read only here: together they may be larger than the memory.
        calls = _foremost([logged[key] for key in keys], most)
        row.append([_call(call, place, prefixes) for call in calls])
        row.append(max(0, len(keys) - most))
    stored = prefixes.finish()
    return {
        "fields": FIELDS,
        "series": [s.label for s in series],
        **{name: [visible(text) for text in index] for name, index in names.items()},
        "status": ORDER,
        "prefixes": stored,
        "rows": rows,
    }


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


def left_out(series: Sequence[Series]) -> int:
    """Return the number of records that the page does not list."""
    return max(0, sum(len(s.by_benchmark[b]) for s in series for b in s.benchmarks) - MOST_ROWS)


def _kept(series: Sequence[Series]) -> set[int] | None:
    """Return ``id()`` of the listed records; None if all are listed."""
    if not left_out(series):
        return None
    records = [r for s in series for b in s.benchmarks for r in s.by_benchmark[b]]
    records.sort(key=lambda record: record.status == "correct")
    return {id(record) for record in records[:MOST_ROWS]}


def _id(record: VerdictRecord) -> str:
    text = visible(record.id)
    return f"{text} #{record.sample}" if record.sample else text


def _cut(text: str) -> str:
    if len(text) <= MOST:
        return visible(text)
    return f"{visible(text[:MOST])}… ({len(text) - MOST:,} characters more in the run record)"


class _Prefixes:
    """Stores the common prefix of texts of the same kind (few-shot examples) once."""

    def __init__(self) -> None:
        self._groups: dict[tuple[Any, ...], list[list[Any]]] = {}

    def hold(self, text: str, group: tuple[Any, ...]) -> list[Any]:
        """Add a text; return a list that :meth:`finish` turns into ``[number of the prefix or -1, rest]``."""
        held = [-1, _cut(text)]
        self._groups.setdefault(group, []).append(held)
        return held

    def finish(self) -> list[str]:
        """Remove the common prefixes from the texts, and return the prefixes."""
        stored: dict[str, int] = {}
        for held in self._groups.values():
            texts = [text for _, text in held]
            common = os.path.commonprefix((min(texts), max(texts)))  # noqa: RUF071 - characters are meant
            common = common[: common.rfind("\n") + 1]
            if len(common) < SHORTEST_PREFIX or len(held) < 2:
                continue
            number = stored.setdefault(common, len(stored))
            for one in held:
                one[:] = [number, one[1][len(common) :]]
        return list(stored)


def _call(call: RequestRecord, place: tuple[Any, ...], prefixes: _Prefixes) -> list[Any]:
    """Return ``[role, [[speaker, text], …], reply, remarks]``; a request other than a chat is shown as JSON."""
    messages = call.messages
    if "messages" not in call.request:
        fields = {name: value for name, value in call.request.items() if value not in (None, [], {})}
        messages = [(call.kind, _plain(fields))]
    texts = [
        [speaker, prefixes.hold(text, (*place, call.role, number))]
        for number, (speaker, text) in enumerate(messages)
    ]
    reply = call.reply or ("" if call.reply_value is None else _plain(call.reply_value))
    remarks = []
    if call.finish_reason not in ("", "stop"):
        remarks.append(f"ended by {call.finish_reason}")
    if call.cached:
        remarks.append("from the store")
    return [call.role, texts, _cut(reply), ", ".join(map(visible, remarks))]


def _plain(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, indent=1)
