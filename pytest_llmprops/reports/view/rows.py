"""What the page shows of a run: plain texts, with the numbers already written for readers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from pytest_llmprops.core.field_types import UNANSWERED
from pytest_llmprops.core.numbers import (
    MISSING,
    cost,
    count,
    counted,
    duration,
    interval,
    number,
    percent,
)
from pytest_llmprops.core.records import SummaryRow
from pytest_llmprops.core.registration import BenchmarkMetadata
from pytest_llmprops.core.run_metadata import RunMetadata
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.reports.columns import columns_of
from pytest_llmprops.reports.kit.series import Share
from pytest_llmprops.reports.view.following import Counts, Follower, Part
from pytest_llmprops.runs.benchmark_metadata import facts_of, headline
from pytest_llmprops.runs.catalog import BASELINES, Listed
from pytest_llmprops.runs.parts import shard_steps
from pytest_llmprops.runs.recorded_command import resume_command
from pytest_llmprops.runs.summary import pooled_accuracy

#: a run that makes no progress for this time says so
STALLED_SECONDS = 30.0
#: the longest name and the longest remark on the page
MOST, MOST_REMARK = 120, 400


class PartRow(TypedDict):
    """One model on one benchmark."""

    model: str
    benchmark: str
    accuracy: str
    interval: str
    counts: dict[str, str]
    calls: str
    cost: str


class Progress(TypedDict):
    """How far a run is that has not finished."""

    done: str
    expected: str
    share: float | None
    calls: str
    speed: str
    left: str


class Row(TypedDict):
    """One run."""

    id: str
    name: str
    place: str
    path: str
    started: str
    state: str
    models: list[str]
    parts: list[PartRow]
    counts: dict[str, str]
    items: str
    cost: str
    gate: str
    remarks: list[str]
    command: str
    progress: Progress | None


def id_of(folder: Path) -> str:
    """Return an opaque id for a folder, used in URLs instead of its path."""
    return hashlib.sha256(str(folder.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def row_of(run: Listed, follower: Follower | None, shares: Mapping[Part, Share], now: float) -> Row:
    """Return the row of a run.

    :param follower: the counts of a run that has not finished, or that finished while it was followed.
    :param shares: the accuracies over several tasks, with their intervals, as far as they are known.
    :param now: the clock that the follower was advanced with.
    """
    facts = run.facts
    row: Row = {
        "id": id_of(run.folder),
        "name": one_line(run.folder.name, MOST),
        "place": BASELINES.name if run.folder.parent.name == BASELINES.name else "",
        "path": one_line(str(run.folder), MOST_REMARK),
        "started": "",
        "state": run.state,
        "models": [],
        "parts": [],
        "counts": {},
        "items": MISSING,
        "cost": MISSING,
        "gate": "",
        "remarks": [one_line(run.problem, MOST_REMARK)] if run.problem else [],
        "command": "",
        "progress": None,
    }
    if facts is None:
        return row
    row["started"] = one_line(facts.started[:16]).replace("T", " ")
    row["models"] = [one_line(label, MOST) for label in facts.models]
    row["gate"] = one_line(facts.gate.decision, 20) if facts.gate is not None else ""
    row["state"] = _state(run.state, facts)
    remarks = [facts.gate.line] if facts.gate is not None else []
    if facts.stopped:
        remarks.append(f"stopped: {facts.stopped}")
    if facts.finished is None and follower is not None:
        _show_progress(row, facts, follower, now)
    else:
        spent = {} if follower is None else follower.parts
        row["parts"] = _finished_parts(facts, shares, spent)
        row["counts"] = _counts(facts.summary)
        row["items"] = count(sum(r.items for r in facts.summary))
        row["cost"] = facts.cost_text
        if not facts.complete:
            recorded = sum(r.samples for r in facts.summary)
            remarks.append(f"incomplete: {count(recorded)} of {_expected(facts)} cases have a verdict")
    if steps := shard_steps(facts):
        remarks.append(f"to complete it: {steps}")
    elif row["state"] in ("killed", "incomplete"):
        row["command"] = resume_command(run.folder)
    row["remarks"] += [one_line(text, MOST_REMARK) for text in (*remarks, *facts.notes[:5])]
    return row


def _state(state: str, facts: RunMetadata) -> str:
    if state == "being written":
        return "running"
    if facts.finished is None:
        return "killed"
    return state


def _expected(facts: RunMetadata) -> str:
    return count(facts.expected) if isinstance(facts.expected, int) else "?"


def _counts(counted: Sequence[SummaryRow] | Mapping[str, int]) -> dict[str, str]:
    """Return the numbers by title, without zeros, except those that every run is asked about.

    :param counted: rows of the summary, or the counts of statuses of a run that goes on.
    """
    texts = {}
    rows = () if isinstance(counted, Mapping) else counted
    for column in (c for columns in columns_of("view", rows) for c in columns):
        if not isinstance(counted, Mapping):
            value = column.value(counted)
        else:
            value = counted.get(column.status, 0) if column.status else None
        if value or column.status in ("correct", "wrong", "error"):
            texts[column.title] = column.text(value or 0)
    return texts


def _show_progress(row: Row, facts: RunMetadata, follower: Follower, now: float) -> None:
    total, expected = follower.total, facts.expected
    speed, left = follower.calls_per_second, follower.seconds_left
    is_running = row["state"] == "running"
    row["progress"] = {
        "done": count(total.done),
        "expected": _expected(facts),
        "share": min(1.0, total.done / expected) if isinstance(expected, int) and expected > 0 else None,
        "calls": counted(total.calls, "call"),
        "speed": f"{number(speed)} calls a second" if is_running and speed is not None else "",
        "left": f"{duration(left)} left" if is_running and left is not None and total.done else "",
    }
    row["parts"] = [_running_part(part, counts, facts) for part, counts in follower.parts.items()]
    row["counts"], row["cost"] = _counts(total.statuses), cost(total.calls, total.usd)
    if total.estimated and total.usd:
        row["cost"] = f"≈{row['cost']}"
    row["items"] = count(total.done)
    if not follower.is_current:
        row["remarks"].append("The record is being read: the counts are of its beginning.")
    if follower.problem:
        lines = f"{counted(follower.damaged, 'line')} cannot be read: " if follower.damaged else ""
        row["remarks"].append(one_line(lines + follower.problem, MOST_REMARK))
    if not is_running:
        row["remarks"].append(
            f"Ended without finishing (killed?): {count(total.done)} of {_expected(facts)} cases have a verdict."
        )
    elif follower.progress_at is not None and now - follower.progress_at >= STALLED_SECONDS:
        row["remarks"].append(f"No progress for {duration(now - follower.progress_at)}.")


def _running_part(part: Part, counts: Counts, facts: RunMetadata) -> PartRow:
    known = facts_of(part.benchmark, facts) or BenchmarkMetadata.unknown(part.benchmark)
    counted = [counts.tasks[task] for task in known.headline_tasks(counts.tasks)]
    answered = sum(statuses.total() - sum(statuses[s] for s in UNANSWERED) for statuses in counted)
    is_shown = answered and known.is_ranked(counts.tasks)
    share = sum(statuses["correct"] for statuses in counted) / answered if is_shown else None
    return _part(part, facts, percent(share), "", _counts(counts.statuses), counts)


def _part(
    part: Part,
    facts: RunMetadata,
    accuracy: str,
    limits: str,
    counts: dict[str, str],
    spent: Counts | None,
) -> PartRow:
    known = facts_of(part.benchmark, facts)
    return {
        "model": one_line(part.model, MOST),
        "benchmark": one_line(known.title if known is not None else part.benchmark, MOST),
        "accuracy": accuracy,
        "interval": limits,
        "counts": counts,
        "calls": "" if spent is None else count(spent.calls),
        "cost": "" if spent is None else spent.cost_text,
    }


def _finished_parts(
    facts: RunMetadata, shares: Mapping[Part, Share], spent: Mapping[Part, Counts]
) -> list[PartRow]:
    members: dict[Part, list[SummaryRow]] = {}
    for row in facts.summary:
        members.setdefault(Part(row.model, row.benchmark), []).append(row)
    parts = []
    for part, rows in members.items():
        share = shares.get(part) or single_share(rows, facts)
        limits = "" if share is None else interval(share.low, share.high)
        accuracy = percent(pooled_accuracy(headline(rows, facts)) if share is None else share.value)
        parts.append(_part(part, facts, accuracy, limits, _counts(rows), spent.get(part)))
    return parts


def single_share(rows: Iterable[SummaryRow], facts: RunMetadata) -> Share | None:
    """Return the accuracy of one model on a benchmark with its interval, if one row of the summary has it."""
    rows = headline(rows, facts)
    if len(rows) != 1 or rows[0].estimate is None:
        return None
    return Share(*rows[0].estimate, rows[0].answered)
