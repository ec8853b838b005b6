"""Searches for counterexamples in a run record: writing ``searches.jsonl`` and counting them for ``run.json``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from pytest_llmprops.core.records import SearchCounts, SearchRecord
from pytest_llmprops.data.whole_files import replacing

FILE = "searches.jsonl"
#: remark on a counterexample that more calls might have made smaller
CUT_SHORT = "; the calls were spent before it was shrunk further"


def counterexample_text(record: SearchRecord) -> str:
    """Return what the counterexample of a search shows, how often it repeats, and whether it was cut short."""
    text = record.why
    if record.replications:
        text += f"; repeats in {record.replicated} of {record.replications}"
        text += ", so it may be noise" if record.is_noise else ""
    return text + (CUT_SHORT if record.spent else "")


class SearchLog:
    """The searches of one run; each is flushed when it is added."""

    def __init__(self, folder: Path, kept: Sequence[SearchRecord] | None = None) -> None:
        """Begin the file.

        :param kept: the searches that stay in the record of a resumed run; None for a new run.
        """
        self._path = folder / FILE
        self._file: IO[str] | None = None
        self._records: dict[tuple[str, str, str, str], SearchRecord] = {}
        if kept is not None and self._path.exists():
            with replacing(self._path, sync=True) as draft:
                text = "".join(json.dumps(record.to_json(), ensure_ascii=False) + "\n" for record in kept)
                draft.write_text(text, encoding="utf-8", errors="replace")
            self._records = {record.key: _without_evidence(record) for record in kept}

    def add(self, record: SearchRecord) -> None:
        """Append a search.

        :raises OSError: on a full disk; earlier lines are complete.
        """
        self._records[record.key] = _without_evidence(record)
        if self._file is None:
            self._file = open(self._path, "a", encoding="utf-8", errors="replace")
        self._file.write(json.dumps(record.to_json(), ensure_ascii=False) + "\n")
        self._file.flush()

    @property
    def records(self) -> list[SearchRecord]:
        """One record per item and property; a counterexample has only its ``why`` and its replications."""
        return list(self._records.values())

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _without_evidence(record: SearchRecord) -> SearchRecord:
    """Return the search without its evidence, of which a long run would collect too much in memory."""
    kept = ("why", "replications", "replicated")
    short = record.counterexample and {k: v for k, v in record.counterexample.items() if k in kept}
    return replace(record, counterexample=short)


def search_counts(records: Iterable[SearchRecord]) -> tuple[SearchCounts, ...]:
    """Count the searches of each benchmark, model and property."""
    counts: dict[tuple[str, str, str], SearchCounts] = {}
    for record in records:
        key = record.benchmark, record.model, record.property
        before = counts.get(key, SearchCounts(*key))
        failed = bool(record.error)
        counts[key] = replace(
            before,
            searched=before.searched + (not failed),
            counterexamples=before.counterexamples + (record.counterexample is not None),
            noise=before.noise + record.is_noise,
            examples=before.examples + record.examples,
            calls=before.calls + record.calls,
            spent=before.spent + record.spent,
            errors=before.errors + failed,
        )
    return tuple(counts.values())
