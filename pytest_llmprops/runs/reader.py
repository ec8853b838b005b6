"""Reading a run record back (DESIGN, "Run record"): the valid part of it, or one line that says why not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.records import SearchRecord, VerdictRecord
from pytest_llmprops.runs.record import SCHEMA
from pytest_llmprops.runs.searches import FILE as SEARCHES
from pytest_llmprops.runs.searches import search_counts
from pytest_llmprops.runs.summary import GROUP, metric_rows, summary_rows

#: what ``run.json`` must hold where it is there at all; absent ones are read as empty
OBJECTS = ("models", "helpers", "protocols", "options", "versions", "data", "deviations", "calls")
T = TypeVar("T")
COUNTS = ("correct", "wrong", "refused", "unparsed", "errors")
_NUMBER = (int, float, type(None))
#: the tables of ``run.json``: what a row must hold, by type
ROWS: dict[str, dict[str, tuple[type, ...]]] = {
    "summary": {
        **dict.fromkeys(GROUP, (str,)),
        **dict.fromkeys(("items", "clusters", *COUNTS), (int,)),
        **dict.fromkeys(("accuracy", "ci_low", "ci_high"), _NUMBER),
        "ci_method": (str, type(None)),
    },
    "metrics": {
        **dict.fromkeys((*GROUP, "group", "name", "direction"), (str,)),
        **dict.fromkeys(("value", "n", "ci_low", "ci_high"), _NUMBER),
    },
    "searches": {
        **dict.fromkeys(("benchmark", "model"), (str,)),
        **dict.fromkeys(("searched", "counterexamples", "examples", "calls", "spent", "errors"), (int,)),
    },
}


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
    facts: dict[str, Any]
    records: tuple[VerdictRecord, ...]
    notes: tuple[str, ...] = ()
    writing: bool = False
    searches: tuple[SearchRecord, ...] = ()

    @property
    def run_id(self) -> str:
        """The id given when the run started; a promoted copy keeps it."""
        return str(self.facts["run_id"])

    @property
    def models(self) -> list[str]:
        """Labels of the models under test."""
        return list(dict.fromkeys([*self.facts["models"], *(r.model for r in self.records)]))

    @property
    def state(self) -> str:
        """``complete``, ``incomplete`` or ``being written``."""
        return state_of(self.facts, self.writing)


def state_of(facts: Mapping[str, Any], writing: bool) -> str:
    """``complete``, ``incomplete`` or ``being written``."""
    if writing:
        return "being written"
    return "complete" if facts["complete"] else "incomplete"


def stopped_by_gate(facts: Mapping[str, Any]) -> bool:
    """Whether a sequential gate ended the run because its decision was settled."""
    # The gate's own "stopped_early" is also true of a run that was interrupted before its decision.
    drawing = facts.get("sequential")
    return isinstance(drawing, dict) and drawing.get("ended") is True


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
    if not writing and facts["finished"] is None:
        # The writer may have finished between the two readings.
        facts = read_facts(folder)
        lines, torn = _verdicts(path)
    if facts["summary"] and not path.exists():
        raise DataError(f"{path}: is missing; copy the run's whole folder")
    latest = {r.key: r for r in lines}
    records = tuple(latest.values())
    notes = []
    if torn:
        notes.append("verdicts.jsonl: its last line is torn and was left out")
    if len(records) < len(lines):
        notes.append(f"{len(lines) - len(records)} verdicts were recorded again; the last of each counts")
    notes += _settle(facts, records, lines, writing)
    searches = _searches(folder / SEARCHES, facts, notes)
    return Run(folder, facts, records, tuple(notes), writing, searches)


def _searches(path: Path, facts: dict[str, Any], notes: list[str]) -> tuple[SearchRecord, ...]:
    rows, torn = json_lines(path, SearchRecord.from_json)
    if torn:
        notes.append(f"{SEARCHES}: its last line is torn and was left out")
    found = tuple({row.key: row for _, row in rows}.values())
    if found:
        facts["searches"] = [counts.to_json() for counts in search_counts(found)]
    return found


def read_facts(folder: Path) -> dict[str, Any]:
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
    facts = {"run_id": folder.name, "started": "", "finished": None, "complete": False, **facts}
    for names, kind in ((OBJECTS, dict), (tuple(ROWS), list)):
        for name in names:
            if facts.get(name) is None:
                facts[name] = kind()
            elif not isinstance(facts[name], kind):
                raise DataError(f"{path}: '{name}' must be {'an object' if kind is dict else 'a list'}")
    if not isinstance(facts["run_id"], str) or not isinstance(facts["complete"], bool):
        raise DataError(f"{path}: 'run_id' must be a text and 'complete' true or false")
    wrong = next(filter(None, (_wrong_table(name, facts[name]) for name in ROWS)), "") or _wrong_members(
        facts
    )
    if wrong:
        raise DataError(f"{path}: {wrong}; restore the file or measure again")
    return facts


def _wrong_table(name: str, rows: Iterable[Any]) -> str:
    for number, row in enumerate(rows, 1):
        for column, kinds in ROWS[name].items():
            if not isinstance(row, dict) or not isinstance(row.get(column, ...), kinds):
                return f"row {number} of '{name}' has no fitting '{column}'"
    return ""


def _wrong_members(facts: Mapping[str, Any]) -> str:
    for name, kind in (("models", dict), ("protocols", dict), ("deviations", list)):
        for member, value in facts[name].items():
            if not isinstance(value, kind):
                return f"'{name}' has a '{member}' of the wrong kind ({type(value).__name__})"
    return ""


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
    facts: dict[str, Any],
    records: tuple[VerdictRecord, ...],
    lines: list[VerdictRecord],
    writing: bool,
) -> list[str]:
    """Make ``facts`` fit the records; what had to be done, as notes."""
    notes = []
    counted = _counts_of_summary(facts["summary"])
    # A case that was reported twice stands twice in the summary of its session.
    fits = counted == _counts(lines)
    if writing:
        notes.append(f"still being written: {len(records)} verdicts so far")
    elif facts["finished"] is None:
        notes.append(f"ended without finishing (killed?): {len(records)} verdicts are kept")
    elif not fits and facts["summary"]:
        said, held = sum(counted.values()), len(lines)
        if held < said:
            notes.append(f"verdicts.jsonl is cut short: {held} verdicts of {said}; counted as incomplete")
            facts["complete"] = False
        else:
            notes.append("run.json and verdicts.jsonl disagree, so one was changed; the verdicts count")
    elif not facts["complete"]:
        of = f" of {facts['expected']}" if isinstance(facts.get("expected"), int) else ""
        why = "stopped early by its gate" if stopped_by_gate(facts) else "incomplete"
        notes.append(f"{why}: {len(records)}{of} cases have a verdict")
    if fits and len(lines) == len(records):
        return notes
    if not facts["summary"] and facts["finished"] is not None and records:
        notes.append("run.json has no summary; it was computed from the verdicts")
    facts["summary"] = summary_rows(records)
    facts["metrics"], unknown = _metrics(records)
    return notes + unknown


def _counts(records: Iterable[VerdictRecord]) -> Counter[tuple[str, ...]]:
    return Counter((*r.group, "errors" if r.status == "error" else r.status) for r in records)


def _counts_of_summary(rows: Iterable[Mapping[str, Any]]) -> Counter[tuple[str, ...]]:
    found: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        found.update({(*(row[g] for g in GROUP), name): row[name] for name in COUNTS if row[name]})
    return found


def _metrics(records: tuple[VerdictRecord, ...]) -> tuple[list[dict[str, Any]], list[str]]:
    from pytest_llmprops.benchmarks import find_benchmark

    rows, notes = [], []
    for name in dict.fromkeys(r.benchmark for r in records):
        members = [r for r in records if r.benchmark == name]
        try:
            rows += metric_rows(members, {name: find_benchmark(name).metrics})
        except (LookupError, TypeError, ValueError, ArithmeticError):
            # Defined beside its suite, so not known here; or its numbers are not in the verdicts.
            notes.append(f"metrics of {name} could not be computed again")
    return rows, notes
