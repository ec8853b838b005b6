"""Searches for counterexamples in a run record: ``searches.jsonl``, and their counts in ``run.json``.

A line of ``searches.jsonl``: ``{model, benchmark, task, language, source, id, examples, requests, calls, spent,
counterexample, error}``. ``requests`` are those of the search itself, ``calls`` the ones that the store did not answer.
``spent``: it stopped at the limit of its calls. ``error``: what ended it, a call that could not be made; else empty.
``counterexample`` is null, or holds ``why``, ``evidence`` (texts) and what the benchmark says of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

Row = dict[str, Any]
FILE = "searches.jsonl"
#: what is said of a counterexample that might have become smaller
CUT_SHORT = "; the calls were spent before it was shrunk further"
#: what ``run.json`` counts of a benchmark and model
SEARCH_COUNTS = ("searched", "counterexamples", "examples", "calls", "spent", "errors")
_TEXTS = ("model", "benchmark", "task", "language", "source", "id", "error")
_COUNTS = ("examples", "requests", "calls")


def search_key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Of several searches with one key the last counts."""
    return row["model"], row["benchmark"], row["id"]


class SearchRecord:
    """The searches of one run, appended and flushed as they come."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._file: IO[str] | None = None
        self._rows: dict[tuple[str, str, str], Row] = {}

    def add(self, row: Row) -> None:
        """Append one.

        :raises OSError: on a full disk; the lines before are whole.
        """
        found = row["counterexample"]
        # The evidence of a long run would pile up.
        self._rows[search_key(row)] = {**row, "counterexample": found and {"why": found["why"]}}
        if self._file is None:
            self._file = open(self._path, "a", encoding="utf-8", errors="replace")
        self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
        self._file.flush()

    @property
    def rows(self) -> list[Row]:
        """One an item, of its counterexample the ``why`` only."""
        return list(self._rows.values())

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def wrong_search(row: Mapping[str, Any]) -> str:
    """What keeps ``row`` from being a line of ``searches.jsonl``; an empty text where nothing does."""
    for name in _TEXTS:
        if not isinstance(row.get(name), str):
            return f"has no text '{name}'"
    for name in _COUNTS:
        if type(row.get(name)) is not int:
            return f"has no whole number '{name}'"
    if not isinstance(row.get("spent"), bool):
        return "has no 'spent', true or false"
    found = row.get("counterexample", ...)
    if found is not None and not (isinstance(found, dict) and isinstance(found.get("why"), str)):
        return "has no 'counterexample', null or an object with a text 'why'"
    return ""


def search_counts(rows: Iterable[Row]) -> list[Row]:
    """``searches`` of ``run.json``: a row for each benchmark and model, apart from every verdict.

    ``searched`` items, ``counterexamples`` among them, ``examples`` that hypothesis tried, ``calls`` that were made
    for them, ``spent``: searches that stopped at the limit of their calls, ``errors``: searches that a call which could
    not be made ended, none of which is in ``searched``.
    """
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        place = row["benchmark"], row["model"]
        counts = found.setdefault(
            place,
            {"benchmark": place[0], "model": place[1]} | dict.fromkeys(SEARCH_COUNTS, 0),
        )
        error = bool(row["error"])
        counts["errors"] += error
        counts["searched"] += not error
        counts["counterexamples"] += row["counterexample"] is not None
        counts["spent"] += row["spent"]
        for name in ("examples", "calls"):
            counts[name] += row[name]
    return list(found.values())
