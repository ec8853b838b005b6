"""What the controller keeps of searches: ``searches.jsonl`` in the run's folder, counts for ``run.json``, lines.

A line of ``searches.jsonl``: ``{model, benchmark, task, language, source, id, examples, requests, calls, spent,
counterexample, error}``. ``requests`` are those of the search itself, ``calls`` the ones that the store did not answer.
``counterexample`` is null, or holds ``why``, ``evidence`` (texts) and what the benchmark says of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from pytest_llmprops.plugin.hypothesis_search import CUT_SHORT
from pytest_llmprops.plugin.outcomes import printable

Row = dict[str, Any]
#: counterexamples that the summary shows of each model and benchmark
SHOWN = 5


class SearchRecord:
    """The searches of one run, appended and flushed as they come."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "searches.jsonl"
        self._file: IO[str] | None = None
        self._rows: dict[tuple[str, str, str], Row] = {}

    def add(self, row: Row) -> None:
        """Append one; of several on an item the last counts.

        :raises OSError: on a full disk; the lines before are whole.
        """
        kept = {**row, "counterexample": None}
        if row["counterexample"] is not None:
            kept["counterexample"] = row["counterexample"]["why"]
        self._rows[row["benchmark"], row["model"], row["id"]] = kept
        if self._file is None:
            self._file = open(self._path, "a", encoding="utf-8", errors="replace")
        self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
        self._file.flush()

    @property
    def rows(self) -> list[Row]:
        """One an item, ``counterexample`` cut down to its ``why``."""
        return list(self._rows.values())

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


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
            {"benchmark": place[0], "model": place[1]}
            | dict.fromkeys(("searched", "counterexamples", "examples", "calls", "spent", "errors"), 0),
        )
        error = bool(row["error"])
        counts["errors"] += error
        counts["searched"] += not error
        counts["counterexamples"] += row["counterexample"] is not None
        counts["spent"] += row["spent"]
        for name in ("examples", "calls"):
            counts[name] += row[name]
    return list(found.values())


def search_lines(rows: Sequence[Row]) -> list[str]:
    """The summary's lines on searches."""
    lines = []
    counted = search_counts(rows)
    for counts in counted:
        own = [r for r in rows if (r["benchmark"], r["model"]) == (counts["benchmark"], counts["model"])]
        of = f" of {counts['model']}" if len(counted) > 1 else ""
        line = (
            f"search{of}: {counts['searched']} sentences searched, {counts['counterexamples']} counterexamples,"
            f" {counts['examples']} examples, {counts['calls']} calls"
        )
        if counts["spent"]:
            line += f"; {counts['spent']} stopped when their calls were spent"
        if counts["errors"]:
            line += f"; {counts['errors']} ended by a backend error"
        lines.append(line)
        bad = [row for row in own if row["counterexample"] is not None]
        lines += [f"  {r['id']}: {r['counterexample']}{CUT_SHORT if r['spent'] else ''}" for r in bad[:SHOWN]]
        if len(bad) > SHOWN:
            lines.append(f"  … and {len(bad) - SHOWN} more in searches.jsonl")
    return [printable(line) for line in lines]
