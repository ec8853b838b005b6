"""One run from several parts: the shards of ``llmprops runs merge``, or the sessions of a resumed run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import reduce
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmark_registry import installed_benchmarks
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.items import Shard
from pytest_llmprops.core.texts import first_names, shortened
from pytest_llmprops.core.verdicts import Group, VerdictKey, VerdictRecord
from pytest_llmprops.records.files import from_plain
from pytest_llmprops.records.requests import DiscardedReply, PaidReply, RequestRecord
from pytest_llmprops.records.run import CallFacts, GitState, ModelMetadata, OldReplies, RunMetadata
from pytest_llmprops.runs.benchmark_metadata import cluster_weighted
from pytest_llmprops.runs.integrity import REQUESTS, UNFINISHED
from pytest_llmprops.runs.json_lines import JsonLines, open_record_file
from pytest_llmprops.runs.reader import Run, computed_metrics
from pytest_llmprops.runs.record import RunRecord, new_run_folder, remove_record, search_counts
from pytest_llmprops.runs.summary import remarks_on, summary_rows

#: the entry of a merged run's options that says how to complete it; empty if nothing is missing
MERGED = "merged"
AGAIN = "run the shards with the same command except --llm-shard and --llm-run"


def shard_steps(facts: RunMetadata) -> str:
    """Return what completes a merged run; empty if nothing is missing, or the run was not merged."""
    return str(facts.options.get(MERGED) or "")


def _steps(missing: Sequence[str], unfinished: Sequence[Path]) -> str:
    steps = []
    if missing:
        steps.append(f"measure the missing shards with --llm-shard ({first_names(missing)})")
    if unfinished:
        names = first_names(map(str, unfinished))
        steps.append(f"complete the others with 'llmprops run --resume RUN' ({names})")
    return f"{', '.join(steps)}, then merge all shards again with 'llmprops runs merge'" if steps else ""


def merged_problem(facts: RunMetadata) -> str:
    """Return why a merged run is not resumed, and what to do instead; empty for another run."""
    if MERGED not in facts.options:
        return ""
    steps = shard_steps(facts) or "they are complete and have no errors, so there is nothing to run"
    return f"was merged from shards; {steps}"


def merge(runs: Sequence[Run], out: Path) -> tuple[Path, list[str]]:
    """Write the shards as one run to the new folder ``out``; return it, and notes on the run, one line each.

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
    return folder, notes


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
    texts = ["(none)" if value is None else shortened(str(value), 60) for value in (one, two)]
    values = f": {texts[0]} and {texts[1]}" if texts[0] != texts[1] else ""
    raise UsageError(f"{first.folder} and {other.folder} differ in the {what}{values}; {AGAIN}")


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
        options={**first.options, "shard": None, "run": None, MERGED: _steps(missing, unfinished)},
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
    RunRecord(folder, facts, records, [search for run in runs for search in run.searches]).finish(facts)


def _whole_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file without an incomplete last line, which a killed run leaves."""
    with open_record_file(path) as file:
        yield from (line for line in file if line.endswith(b"\n"))


#: the options that decide what is asked and how it is judged, and their names on the command line
SAME_OPTIONS: Mapping[str, str] = {
    "protocol": "--llm-protocol",
    "sets": "--llm-set",
    "params": "--llm-param",
    "source": "-o llm_source",
    "seed": "--llm-seed",
    "limit": "--llm-limit",
    "size": "--llm-size",
    "repeats": "--llm-repeats",
    "base_url": "--llm-base-url",
}
#: of these counters, the highest one counts; all others are added
_HIGHEST = ("oldest_seconds", "in_flight")
#: :meth:`CallFacts.with_amount` sets them; ``counted_bytes`` is of one session in progress
_OF_COST = ("cost_usd", "estimated_usd", "counted_bytes")


def summed_calls(one: CallFacts, other: CallFacts) -> CallFacts:
    """Return the calls of both parts; the cost is unknown if that of a part is."""
    total: dict[str, Any] = {}
    amounts = one.amount, other.amount
    for name in (field.name for field in fields(CallFacts)):
        if name in _OF_COST:
            continue
        first, second = getattr(one, name), getattr(other, name)
        if name in _HIGHEST:
            total[name] = max(first, second)
        elif None in (first, second):
            # A part without models in process has no requests to them.
            total[name] = first or second
        else:
            total[name] = round(first + second, 9)
    amount = None if None in amounts else round(sum(filter(None, amounts)), 9)
    return CallFacts(**total).with_amount(amount)


def logged_calls(folder: Path, after: int = 0) -> CallFacts:
    """Return the calls of a session that could not report them, because it was killed: those that its log has.

    Retries and failed calls are not in the log. Each sample counts as a call.

    :param after: number of bytes of ``requests.jsonl`` whose calls are counted already.
    :raises DataError: for a damaged line that is not the last.
    """
    calls, amount = CallFacts(), 0.0

    def count(row: dict[str, Any]) -> None:
        nonlocal amount
        if lines.offset < after or "prefix_id" in row:
            return
        is_discarded = "discarded" in row
        paid: PaidReply
        if is_discarded:
            paid = from_plain(DiscardedReply, row)
        else:
            paid = request = from_plain(RequestRecord, row)
            if request.reply.note:
                # Computed, not called.
                return
            calls.requests += 1
            if request.cached:
                calls.cache_hits += 1
                return
        usage = paid.usage
        calls.sent += 1
        calls.answered += not is_discarded
        calls.prompt_tokens += usage.prompt_tokens
        calls.completion_tokens += usage.completion_tokens
        calls.cached_tokens += usage.cached_tokens
        calls.estimated += usage.estimated
        calls.unpriced += paid.cost_usd is None
        amount += paid.cost_usd or 0.0

    lines: JsonLines[None] = JsonLines(folder / REQUESTS, count)
    for _ in lines:
        pass
    return calls.with_amount(None if calls.unpriced else amount)


def merged_models(
    one: Mapping[str, ModelMetadata], other: Mapping[str, ModelMetadata]
) -> dict[str, ModelMetadata]:
    """Return the models of both parts by label, with what both know about them; the version is that of ``other``."""
    merged = {**one, **other}
    for label in one.keys() & other.keys():
        first, second = one[label], other[label]
        served = tuple(dict.fromkeys([*(first.served_as or ()), *(second.served_as or ())]))
        merged[label] = replace(
            second,
            identity=first.identity if second.identity is None else second.identity,
            pinned=first.pinned if second.pinned is None else second.pinned,
            served_as=served if first.served_as is not None or second.served_as is not None else None,
            served_counts=dict(Counter(first.served_counts) + Counter(second.served_counts)),
            service_tiers=tuple(dict.fromkeys([*first.service_tiers, *second.service_tiers])),
            old_replies=OldReplies(
                first.old_replies.older_than_a_day + second.old_replies.older_than_a_day,
                max(first.old_replies.oldest_seconds, second.old_replies.oldest_seconds),
            ),
            newest_reply=max(filter(None, (first.newest_reply, second.newest_reply)), default=None),
        )
    return merged


def merged_deviations(
    one: Mapping[str, Sequence[str]], other: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """Return the deviations of both parts by label."""
    return {
        label: tuple(dict.fromkeys([*one.get(label, ()), *other.get(label, ())]))
        for label in {**one, **other}
    }
