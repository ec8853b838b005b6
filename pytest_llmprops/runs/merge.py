"""``llmprops runs merge``: the shards of a run (``--llm-shard I/N``) as one run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmark_registry import installed_benchmarks
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.items import Shard
from pytest_llmprops.core.texts import first_names
from pytest_llmprops.core.verdicts import Group, VerdictKey, VerdictRecord
from pytest_llmprops.records.run import GitState, ModelMetadata, RunMetadata
from pytest_llmprops.runs.benchmark_metadata import cluster_weighted
from pytest_llmprops.runs.integrity import REQUESTS, UNFINISHED
from pytest_llmprops.runs.json_lines import open_record_file
from pytest_llmprops.runs.parts import (
    MERGED,
    SAME_OPTIONS,
    merged_deviations,
    merged_models,
    merged_option,
    summed_calls,
)
from pytest_llmprops.runs.reader import Run, computed_metrics
from pytest_llmprops.runs.record import RunRecord, SearchLog, new_run_folder, remove_record, search_counts
from pytest_llmprops.runs.summary import remarks_on, summary_rows

AGAIN = "run the shards with the same command except --llm-shard and --llm-run"


@dataclass(frozen=True)
class Merged:
    """The folder of a merged run, and notes on it, one line each."""

    folder: Path
    notes: tuple[str, ...]


def merge(runs: Sequence[Run], out: Path) -> Merged:
    """Write the shards as one run to the new folder ``out``.

    Its verdicts, metrics and gate decisions are those of one run of all items. It is incomplete if a shard is missing
    or incomplete.

    :raises UsageError: if a run is not a shard, two are the same shard, they differ in more than their shard, or
        ``out`` has a run.
    :raises DataError: if the record of a shard is inconsistent.
    """
    runs = _in_order(runs)
    _check_records(runs)
    _check_same(runs)
    records = _records(runs)
    facts, notes = _facts(runs, records)
    folder = new_run_folder(str(out), (), Path())
    try:
        _write(folder, replace(facts, run_id=folder.name, notes=tuple(notes)), runs, records)
    except BaseException:
        remove_record(folder)
        raise
    return Merged(folder, tuple(notes))


def _shard(run: Run) -> Shard:
    match run.facts.options.get("shard"):
        case [int(number), int(total)]:
            return Shard(number, total)
    raise UsageError(f"{run.folder}: is not a shard; only runs with --llm-shard can be merged")


def _in_order(runs: Sequence[Run]) -> list[Run]:
    first: dict[Shard, Run] = {}
    for run in runs:
        shard = _shard(run)
        if shard in first:
            raise UsageError(f"{first[shard].folder} and {run.folder} are both shard {shard}; name only one")
        first[shard] = run
    totals = {shard.total: run for shard, run in first.items()}
    if len(totals) > 1:
        (total, one), (other_total, other), *_ = totals.items()
        raise UsageError(
            f"{one.folder} is one of {total} shards and {other.folder} one of {other_total}; name shards of one run"
        )
    return [first[shard] for shard in sorted(first)]


def _check_records(runs: Sequence[Run]) -> None:
    seen: dict[VerdictKey, Run] = {}
    for run in runs:
        if run.writing:
            raise UsageError(f"{run.folder}: is still being written; merge it when it has finished")
        for problem in run.problems:
            if problem != UNFINISHED:
                raise DataError(f"{run.folder}: {problem}")
        double = [record.id for record in run.records if record.key in seen]
        if double:
            raise DataError(f"{run.folder}: has items of another shard ({first_names(double)}); {AGAIN}")
        seen |= dict.fromkeys((record.key for record in run.records), run)


#: what shards of one run have in common: name, and its values in the facts of a shard
_COMMON: Mapping[str, Callable[[RunMetadata], Mapping[str, Any]]] = {
    "model": lambda facts: {label: model.spec for label, model in facts.models.items()},
    "protocol": lambda facts: facts.protocols,
    "data": lambda facts: facts.data,
    "number of items": lambda facts: {name: counts.get("of") for name, counts in facts.selection.items()},
    "option": lambda facts: {name: facts.options.get(key) for key, name in SAME_OPTIONS.items()},
    "selection": lambda facts: {"the tests": facts.options.get("selected")},
    "version": lambda facts: facts.versions,
    "commit": lambda facts: {"git": facts.git.commit if facts.git else None},
}


def _check_same(runs: Sequence[Run]) -> None:
    first, *others = runs
    for other in others:
        for what, values in _COMMON.items():
            one, two = values(first.facts), values(other.facts)
            for name in {**one, **two}:
                if one.get(name) != two.get(name):
                    _refuse(first, other, f"{what} of {name}", one.get(name), two.get(name))
        for label, one_model, two_model in _pairs_of(first.facts, other.facts):
            if one_model.spec != two_model.spec:
                _refuse(first, other, f"helper {label}", one_model.spec, two_model.spec)
            if (
                None not in (one_model.identity, two_model.identity)
                and one_model.identity != two_model.identity
            ):
                _refuse(first, other, f"version of {label}", one_model.identity, two_model.identity)


def _pairs_of(one: RunMetadata, other: RunMetadata) -> Iterator[tuple[str, ModelMetadata, ModelMetadata]]:
    """Yield the models and helpers that both parts have; a default helper is recorded only where it was used."""
    for models, others in ((one.models, other.models), (one.helpers, other.helpers)):
        for label in models.keys() & others.keys():
            yield label, models[label], others[label]


def _refuse(first: Run, other: Run, what: str, one: object, two: object) -> None:
    texts = [_short(value) for value in (one, two)]
    values = f": {texts[0]} and {texts[1]}" if texts[0] != texts[1] else ""
    raise UsageError(f"{first.folder} and {other.folder} differ in the {what}{values}; {AGAIN}")


def _short(value: object) -> str:
    text = "(none)" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _facts(runs: Sequence[Run], records: Sequence[VerdictRecord]) -> tuple[RunMetadata, list[str]]:
    """Return the facts of the merged run, without an id, and the notes on it.

    :param records: the verdicts of all shards, in the order of the suites.
    """
    parts = [run.facts for run in runs]
    first = parts[0]
    shards = [_shard(run) for run in runs]
    total = shards[0].total
    missing = [str(shard) for n in range(total) if (shard := Shard(n + 1, total)) not in shards]
    notes = list(dict.fromkeys(note for part in parts for note in part.notes))
    notes.append(f"merged from {len(runs)} of {total} shards: {', '.join(run.run_id for run in runs)}")
    if missing:
        notes.append(f"incomplete: missing shards {first_names(missing)}")
    notes += [f"incomplete: {run.run_id} is shard {_shard(run)}" for run in runs if not run.facts.complete]
    unfinished = [run.folder for run in runs if not run.facts.complete or run.has_errors]
    expected = [part.expected for part in parts]
    metrics, unknown = computed_metrics(records)
    remarks, problems = remarks_on(
        records, installed_benchmarks(dict.fromkeys(record.benchmark for record in records))
    )
    notes += [*unknown, *problems]
    facts = replace(
        first,
        started=min(part.started for part in parts),
        finished=None,
        complete=not missing and all(part.complete for part in parts),
        models=reduce(merged_models, (part.models for part in parts)),
        helpers=reduce(merged_models, (part.helpers for part in parts)),
        options={**first.options, "shard": None, "run": None, MERGED: merged_option(missing, unfinished)},
        benchmarks={name: value for part in parts for name, value in part.benchmarks.items()},
        git=None
        if first.git is None
        else GitState(first.git.commit, any(p.git and p.git.dirty for p in parts)),
        deviations=reduce(merged_deviations, (part.deviations for part in parts)),
        calls=reduce(summed_calls, (part.calls for part in parts)),
        metrics=metrics,
        remarks=remarks,
        expected=None if missing or None in expected else sum(filter(None, expected)),
        not_served=_added([part.not_served for part in parts]),
        selection={
            name: {
                **counts,
                "items": sum(part.selection[name]["items"] for part in parts if name in part.selection),
            }
            for part in reversed(parts)
            for name, counts in part.selection.items()
        },
        searches=search_counts(search for run in runs for search in run.searches),
        stopped=next((part.stopped for part in parts if part.stopped), None),
        files={},
    )
    return replace(facts, summary=summary_rows(records, cluster_weighted(facts))), notes


def _records(runs: Sequence[Run]) -> list[VerdictRecord]:
    groups: list[Group] = []
    for run in runs:
        place = 0
        for row in run.facts.summary:
            # A group that earlier shards do not have follows the one that it follows here.
            if row.group not in groups:
                groups.insert(place, row.group)
            place = groups.index(row.group) + 1
    places = {group: place for place, group in enumerate(groups)}
    records = [record for run in runs for record in run.records]
    return sorted(records, key=lambda record: places.get(record.group, len(places)))


def _added(parts: Sequence[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    total: dict[str, Counter[str]] = {}
    for part in parts:
        for name, numbers in part.items():
            total.setdefault(name, Counter()).update(numbers)
    return {name: dict(numbers) for name, numbers in total.items()}


def _write(folder: Path, facts: RunMetadata, runs: Sequence[Run], records: Sequence[VerdictRecord]) -> None:
    logs = [path for run in runs if os.path.lexists(path := run.folder / REQUESTS)]
    if logs:
        with open(folder / REQUESTS, "wb") as file:
            for path in logs:
                file.writelines(_whole_lines(path))
    searches = SearchLog(folder)
    for run in runs:
        for search in run.searches:
            searches.add(search)
    searches.close()
    RunRecord(folder, facts, records).finish(facts)


def _whole_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file without an incomplete last line, which a killed run leaves."""
    with open_record_file(path) as file:
        yield from (line for line in file if line.endswith(b"\n"))
