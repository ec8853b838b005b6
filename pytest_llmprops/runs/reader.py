"""Reading a run record back (DESIGN, "Run record"): the valid part of it, or one line that says why not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.records import MetricRow, SearchRecord, SummaryRow, VerdictRecord
from pytest_llmprops.core.run_facts import SCHEMA, RunFacts
from pytest_llmprops.runs.searches import FILE as SEARCHES
from pytest_llmprops.runs.searches import search_counts
from pytest_llmprops.runs.summary import metric_rows, summary_rows

T = TypeVar("T")
COUNTS = ("correct", "wrong", "refused", "unparsed", "errors")


@dataclass(frozen=True)
class Run:
    """One recorded run.

    :param facts: ``run.json``; ``summary`` and ``metrics`` always fit the records, and ``complete`` is
        false where verdicts are missing, whatever the file says.
    :param records: the lines of ``verdicts.jsonl``; of several for one (model, benchmark, id, sample),
        the last.
    :param notes: one line each: what is wrong with the record, and what was made of it.
    :param writing: another process is writing this record now.
    :param searches: the lines of ``searches.jsonl``; of several on one item, the last. ``searches`` of ``facts``, where
        there are any, always fits them; a baseline may have kept only those counts.
    """

    folder: Path
    facts: RunFacts
    records: tuple[VerdictRecord, ...]
    notes: tuple[str, ...] = ()
    writing: bool = False
    searches: tuple[SearchRecord, ...] = ()

    @property
    def run_id(self) -> str:
        """The id given when the run started; a promoted copy keeps it."""
        return self.facts.run_id

    @property
    def models(self) -> list[str]:
        """Labels of the models under test."""
        return list(dict.fromkeys([*self.facts.models, *(r.model for r in self.records)]))

    @property
    def state(self) -> str:
        """``complete``, ``incomplete`` or ``being written``."""
        return state_of(self.facts, self.writing)


def state_of(facts: RunFacts, writing: bool) -> str:
    """``complete``, ``incomplete`` or ``being written``."""
    if writing:
        return "being written"
    return "complete" if facts.complete else "incomplete"


def read_run(folder: Path) -> Run:
    """Read a run's folder; ``requests.jsonl`` is left to :func:`~pytest_llmprops.runs.replies.read_requests`.

    What one of the two files lacks is settled by the verdicts: the summary of a run that never finished,
    or whose ``run.json`` counts something else, is computed again, and a note says so.

    :raises DataError: without a ``run.json``; when it is no JSON object or of a newer schema; when a line
        of ``verdicts.jsonl`` or ``searches.jsonl`` other than the last is damaged.
    """
    facts = read_facts(folder)
    path = folder / "verdicts.jsonl"
    writing = is_being_written(folder)
    lines, torn = _verdicts(path)
    if not writing and facts.finished is None:
        # The writer may have finished between the two readings.
        facts = read_facts(folder)
        lines, torn = _verdicts(path)
    if facts.summary and not path.exists():
        raise DataError(f"{path}: is missing; copy the run's whole folder")
    latest = {r.key: r for r in lines}
    records = tuple(latest.values())
    notes = []
    if torn:
        notes.append("verdicts.jsonl: its last line is torn and was left out")
    if len(records) < len(lines):
        notes.append(f"{len(lines) - len(records)} verdicts were recorded again; the last of each counts")
    facts, settled = _settle(facts, records, lines, writing)
    notes += settled
    searches, torn = json_lines(folder / SEARCHES, SearchRecord.from_json)
    if torn:
        notes.append(f"{SEARCHES}: its last line is torn and was left out")
    latest_searches = tuple({search.key: search for _, search in searches}.values())
    if latest_searches:
        facts = replace(facts, searches=search_counts(latest_searches))
    return Run(folder, facts, records, tuple(notes), writing, latest_searches)


def read_facts(folder: Path) -> RunFacts:
    """``run.json`` with what it lacks filled in as empty.

    :raises DataError: in one line, as :func:`read_run`.
    """
    path = folder / "run.json"
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{folder}: holds no run.json, so it is no recorded run") from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise DataError(f"{path}: is damaged (no JSON); restore it or measure again") from None
    schema = facts.get("schema") if isinstance(facts, dict) else None
    if type(schema) is not int or schema < 1:
        raise DataError(f"{path}: is no run record (an object with a 'schema' number is expected)")
    if schema > SCHEMA:
        raise DataError(
            f"{path}: written by a newer version: schema {schema}, this one reads {SCHEMA}; upgrade pytest-llmprops"
        )
    try:
        return RunFacts.from_json(facts, folder.name)
    except ValueError as error:
        raise DataError(f"{path}: {error}; restore the file or measure again") from None


def is_being_written(folder: Path) -> bool:
    """Whether a live process holds the record open for writing (see :class:`~.record.RunRecord`).

    False where the platform or the file system has no file locks.
    """
    try:
        import fcntl
    except ImportError:
        return False
    try:
        with open(folder / "verdicts.jsonl", "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def json_lines(path: Path, read: Callable[[dict[str, Any]], T]) -> tuple[list[tuple[int, T]], bool]:
    """Read the JSON objects of ``path`` as (line number, record), and whether a torn last line was left out.

    :param read: makes a record of an object; raises ValueError with a phrase that completes "line 7 …".
    :raises DataError: for a damaged line that is not the last, and for a last line that is JSON but wrong.
    """
    try:
        # Not as text: a reply may hold characters that str.splitlines() takes for the end of a line.
        raw = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return [], False
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    last = max((n for n, line in enumerate(raw, 1) if line.strip()), default=0)
    rows: list[tuple[int, T]] = []
    for number, line in enumerate(raw, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            if number == last:
                return rows, True
            raise DataError(
                f"{path}: line {number} is damaged (no JSON); restore the file, or take the line out"
            ) from None
        try:
            if not isinstance(row, dict):
                raise ValueError("is no object")
            rows.append((number, read(row)))
        except ValueError as error:
            raise DataError(
                f"{path}: line {number} {error}; restore the file, or take the line out"
            ) from None
    return rows, False


def _verdicts(path: Path) -> tuple[list[VerdictRecord], bool]:
    rows, torn = json_lines(path, VerdictRecord.from_json)
    return [row for _, row in rows], torn


def _settle(
    facts: RunFacts, records: tuple[VerdictRecord, ...], lines: list[VerdictRecord], writing: bool
) -> tuple[RunFacts, list[str]]:
    """Return ``facts`` made to fit the records, and what had to be done as notes."""
    notes = []
    counted = _counts_of_summary(facts.summary)
    # A case that was reported twice stands twice in the summary of its session.
    fits = counted == _counts(lines)
    if writing:
        notes.append(f"still being written: {len(records)} verdicts so far")
    elif facts.finished is None:
        notes.append(f"ended without finishing (killed?): {len(records)} verdicts are kept")
    elif not fits and facts.summary:
        said, held = sum(counted.values()), len(lines)
        if held < said:
            notes.append(f"verdicts.jsonl is cut short: {held} verdicts of {said}; counted as incomplete")
            facts = replace(facts, complete=False)
        else:
            notes.append("run.json and verdicts.jsonl disagree, so one was changed; the verdicts count")
    elif not facts.complete:
        of = f" of {facts.expected}" if isinstance(facts.expected, int) else ""
        why = "stopped early by its gate" if facts.stopped_by_gate else "incomplete"
        notes.append(f"{why}: {len(records)}{of} cases have a verdict")
    if fits and len(lines) == len(records):
        return facts, notes
    if not facts.summary and facts.finished is not None and records:
        notes.append("run.json has no summary; it was computed from the verdicts")
    metrics, unknown = _metrics(records)
    return replace(facts, summary=summary_rows(records), metrics=metrics), notes + unknown


def _counts(records: Iterable[VerdictRecord]) -> Counter[tuple[str, ...]]:
    return Counter((*r.group, "errors" if r.status == "error" else r.status) for r in records)


def _counts_of_summary(rows: Iterable[SummaryRow]) -> Counter[tuple[str, ...]]:
    found: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        counts = {name: getattr(row, name) for name in COUNTS}
        found.update({(*row.group, name): count for name, count in counts.items() if count})
    return found


def _metrics(records: tuple[VerdictRecord, ...]) -> tuple[tuple[MetricRow, ...], list[str]]:
    from pytest_llmprops.benchmark_registry import find_benchmark

    rows: list[MetricRow] = []
    notes = []
    for name in dict.fromkeys(r.benchmark for r in records):
        members = [r for r in records if r.benchmark == name]
        try:
            rows += metric_rows(members, {name: find_benchmark(name).metrics})
        except (LookupError, TypeError, ValueError, ArithmeticError):
            # Defined beside its suite, so not known here; or its numbers are not in the verdicts.
            notes.append(f"metrics of {name} could not be computed again")
    return tuple(rows), notes
