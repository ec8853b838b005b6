"""Reading a run record: its valid part, or an error in one line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.metrics import MetricRow
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.files import from_plain, is_too_deep, run_metadata
from pytest_llmprops.records.rows import SearchRecord
from pytest_llmprops.records.run import SCHEMA, RunMetadata
from pytest_llmprops.runs.benchmark_metadata import cluster_weighted
from pytest_llmprops.runs.integrity import (
    AGAIN,
    SEARCHES,
    VERDICTS,
    changed_content,
    file_hashes,
    problems,
    summary_problems,
)
from pytest_llmprops.runs.json_lines import TOO_DEEP, JsonLines, lock_file, open_record_file, read_record_file
from pytest_llmprops.runs.record import search_counts
from pytest_llmprops.runs.summary import metric_rows, summary_rows

T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """One recorded run.

    :param facts: ``run.json``. ``summary`` and ``metrics`` always agree with the records, and ``complete`` is false if
        verdicts are missing, even if the file says otherwise.
    :param records: the lines of ``verdicts.jsonl``; the last of each key.
    :param notes: one line per problem of the record, with how it was handled.
    :param problems: what is inconsistent in the record, one line each (:mod:`~pytest_llmprops.runs.integrity`). A gate
        does not judge a run that has any.
    :param writing: another process is writing this record now.
    :param searches: the lines of ``searches.jsonl``; of several on one item, the last. If there are any, ``searches``
        of ``facts`` agrees with them. A baseline may have only the counts.
    """

    folder: Path
    facts: RunMetadata
    records: tuple[VerdictRecord, ...]
    notes: tuple[str, ...] = ()
    writing: bool = False
    searches: tuple[SearchRecord, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def run_id(self) -> str:
        """The id of the run; a promoted copy keeps it."""
        return self.facts.run_id

    @property
    def models(self) -> list[str]:
        """The labels of the models under test."""
        return list(dict.fromkeys([*self.facts.models, *(r.model for r in self.records)]))

    @property
    def state(self) -> str:
        """``complete``, ``incomplete`` or ``being written``."""
        return state_of(self.facts, self.writing)

    @property
    def has_errors(self) -> bool:
        """True if a verdict or a search is an error, which a resumed run measures again."""
        return any(r.status == "error" for r in self.records) or any(s.error for s in self.searches)


def state_of(facts: RunMetadata, writing: bool) -> str:
    """Return ``complete``, ``incomplete`` or ``being written``."""
    if writing:
        return "being written"
    return "complete" if facts.complete else "incomplete"


def read_run(folder: Path) -> Run:
    """Read a run's folder, without ``requests.jsonl`` (see :func:`~pytest_llmprops.runs.replies.read_requests`).

    If ``run.json`` and the verdicts disagree, the verdicts count: the summary of a run that did not finish, or whose
    ``run.json`` has other counts, is computed again, and a note says so.

    :raises DataError: without a ``run.json``; if it is not a JSON object or has a newer schema; if a line of
        ``verdicts.jsonl`` or ``searches.jsonl`` other than the last is damaged.
    """
    raw = read_run_json(folder)
    facts = _facts(raw, folder)
    path = folder / VERDICTS
    writing = is_being_written(folder)
    lines, truncated = _lines(path, VerdictRecord)
    if not writing and facts.finished is None:
        # The writer may have finished after run.json was read.
        raw = read_run_json(folder)
        facts = _facts(raw, folder)
        lines, truncated = _lines(path, VerdictRecord)
    if facts.summary and not path.exists():
        raise DataError(f"{path}: is missing; copy the run's whole folder")
    records = tuple({r.key: r for r in lines}.values())
    repeated = [key for key, n in Counter(r.key for r in lines).items() if n > 1]
    hashes = {} if facts.finished is None else file_hashes(folder)
    inconsistent = (*problems(facts, repeated, records, hashes), *changed_content(raw))
    notes = []
    if truncated:
        notes.append("verdicts.jsonl: its last line is truncated and was ignored")
    if len(records) < len(lines):
        notes.append(
            f"{len(lines) - len(records)} verdicts were recorded more than once; the last of each counts"
        )
    facts, settled = _settle(facts, records, len(lines), writing)
    notes += settled
    searches, truncated = _lines(folder / SEARCHES, SearchRecord)
    if truncated:
        notes.append(f"{SEARCHES}: its last line is truncated and was ignored")
    latest_searches = tuple({search.key: search for search in searches}.values())
    if latest_searches:
        facts = replace(facts, searches=search_counts(latest_searches))
    return Run(folder, facts, records, tuple(notes), writing, latest_searches, inconsistent)


def read_facts(folder: Path) -> RunMetadata:
    """Read ``run.json``; missing fields are empty.

    :raises DataError: as :func:`read_run`.
    """
    return _facts(read_run_json(folder), folder)


def read_run_json(folder: Path) -> dict[str, Any]:
    """Read ``run.json`` as JSON.

    :raises DataError: as :func:`read_run`.
    """
    path = folder / "run.json"
    try:
        raw = read_record_file(path)
        if is_too_deep(raw):
            raise DataError(f"{path}: {TOO_DEEP}; {AGAIN}")
        facts = json.loads(raw.decode())
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{folder}: has no run.json, so it is not a run") from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise DataError(f"{path}: is damaged (not JSON); restore it or measure again") from None
    schema = facts.get("schema") if isinstance(facts, dict) else None
    if type(schema) is not int or schema < 1:
        raise DataError(f"{path}: is not a run record (expected an object with a 'schema' number)")
    if schema > SCHEMA:
        raise DataError(
            f"{path}: written by a newer version: schema {schema}, this one reads {SCHEMA}; upgrade pytest-llmprops"
        )
    assert isinstance(facts, dict)
    return facts


def _facts(raw: dict[str, Any], folder: Path) -> RunMetadata:
    try:
        return run_metadata(raw, folder.name)
    except ValueError as error:
        raise DataError(f"{folder / 'run.json'}: {error}; {AGAIN}") from None


def is_being_written(folder: Path) -> bool:
    """Return True if a running process is writing the record; False without file locks."""
    try:
        with open_record_file(folder / VERDICTS) as file:
            return not lock_file(file, shared=True)
    except OSError:
        return False


def _lines(path: Path, kind: type[T]) -> tuple[list[T], bool]:
    """Return the records of a JSON Lines file, and whether a truncated last line was ignored."""
    lines = JsonLines(path, partial(from_plain, kind))
    return list(lines), lines.is_truncated


def _settle(
    facts: RunMetadata, records: tuple[VerdictRecord, ...], lines: int, writing: bool
) -> tuple[RunMetadata, list[str]]:
    """Return ``facts`` with a summary that agrees with the records, and notes on what was changed."""
    notes = []
    fits = not any(summary_problems(facts, records))
    if writing:
        notes.append(f"still being written: {len(records)} verdicts so far")
    elif facts.finished is None:
        notes.append(f"ended without finishing (killed?): {len(records)} verdicts are kept")
    elif not fits and facts.summary:
        expected = sum(row.samples for row in facts.summary)
        if lines < expected:
            notes.append(
                f"verdicts.jsonl is cut short: {lines} verdicts of {expected}; counted as incomplete"
            )
            facts = replace(facts, complete=False)
        else:
            notes.append("run.json and verdicts.jsonl disagree, so one was changed; the verdicts count")
    elif not facts.complete:
        of = f" of {facts.expected}" if isinstance(facts.expected, int) else ""
        notes.append(f"incomplete: {len(records)}{of} cases have a verdict")
    if fits:
        return facts, notes
    if not facts.summary and facts.finished is not None and records:
        notes.append("run.json has no summary; it was computed from the verdicts")
    metrics, unknown = computed_metrics(records)
    summary = summary_rows(records, cluster_weighted(facts))
    return replace(facts, summary=summary, metrics=metrics), notes + unknown


def computed_metrics(records: Sequence[VerdictRecord]) -> tuple[tuple[MetricRow, ...], list[str]]:
    """Compute the metrics from the verdicts; return also one note for each benchmark for which this is not possible."""
    from pytest_llmprops.benchmark_registry import installed_benchmarks

    rows: list[MetricRow] = []
    notes = []
    names = dict.fromkeys(r.benchmark for r in records)
    installed = installed_benchmarks(names)
    for name in names:
        if name not in installed:
            notes.append(f"metrics of {name} could not be computed again")
            continue
        members = [r for r in records if r.benchmark == name]
        own, problems = metric_rows(members, {name: installed[name]})
        rows += own
        # With another version of the benchmark, the values that it needs may not be in the verdicts.
        notes += [f"metrics of {name} could not be computed again: {problem}" for problem in problems[:1]]
    return tuple(rows), notes
