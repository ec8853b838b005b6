"""Searches for counterexamples in a run record: writing ``searches.jsonl`` and counting them for ``run.json``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import IO

from pytest_llmprops.core.records import SearchCounts, SearchRecord

FILE = "searches.jsonl"
#: remark on a counterexample that more calls might have made smaller
CUT_SHORT = "; the calls were spent before it was shrunk further"


class SearchLog:
    """The searches of one run; each is flushed when it is added."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._file: IO[str] | None = None
        self._records: dict[tuple[str, str, str], SearchRecord] = {}

    def add(self, record: SearchRecord) -> None:
        """Append a search.

        :raises OSError: on a full disk; earlier lines are complete.
        """
        # The evidence is dropped because a long run would collect too much of it in memory.
        short = None if record.counterexample is None else {"why": record.why}
        self._records[record.key] = replace(record, counterexample=short)
        if self._file is None:
            self._file = open(self._path, "a", encoding="utf-8", errors="replace")
        self._file.write(json.dumps(record.to_json(), ensure_ascii=False) + "\n")
        self._file.flush()

    @property
    def records(self) -> list[SearchRecord]:
        """One record per item; a counterexample has only its ``why``."""
        return list(self._records.values())

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def search_counts(records: Iterable[SearchRecord]) -> tuple[SearchCounts, ...]:
    """Count the searches of each benchmark and model."""
    counts: dict[tuple[str, str], SearchCounts] = {}
    for record in records:
        key = record.benchmark, record.model
        before = counts.get(key, SearchCounts(*key))
        failed = bool(record.error)
        counts[key] = replace(
            before,
            searched=before.searched + (not failed),
            counterexamples=before.counterexamples + (record.counterexample is not None),
            examples=before.examples + record.examples,
            calls=before.calls + record.calls,
            spent=before.spent + record.spent,
            errors=before.errors + failed,
        )
    return tuple(counts.values())
