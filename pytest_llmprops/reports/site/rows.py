"""What the page shows of a run that it follows: plain texts, with the numbers already written for readers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_llmprops.core.field_types import UNANSWERED
from pytest_llmprops.core.numbers import cost, count, counted, duration, number, percent
from pytest_llmprops.core.registration import BenchmarkMetadata
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.reports.columns import columns_of
from pytest_llmprops.reports.site.following import Counts, Follower, Part
from pytest_llmprops.runs.benchmark_metadata import facts_of, title_of
from pytest_llmprops.runs.catalog import Listed
from pytest_llmprops.runs.merge import shard_steps
from pytest_llmprops.runs.recorded_command import resume_command

#: a run that makes no progress for this time says so
STALLED_SECONDS = 30.0
#: the longest name and the longest remark on the page
MOST, MOST_REMARK = 120, 400


#: texts by name, which the page writes as they are
Row = dict[str, Any]


def id_of(folder: Path) -> str:
    """Return an opaque id for a folder, used in URLs instead of its path."""
    return hashlib.sha256(str(folder.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def row_of(run: Listed, facts: RunMetadata, follower: Follower, now: float) -> Row:
    """Return the row of a run.

    :param now: the clock that the follower was advanced with.
    """
    total, expected = follower.total, facts.expected
    speed, left = follower.calls_per_second, follower.seconds_left
    state = "running" if run.state == "being written" else run.state if facts.finished else "killed"
    is_running, spent = state == "running", cost(total.calls, total.usd)
    remarks = list(_remarks(facts, follower, state, now))
    steps = shard_steps(facts)
    if steps:
        remarks.append(f"to complete it: {steps}")
    return {
        "id": id_of(run.folder),
        "name": one_line(run.folder.name, MOST),
        "state": state,
        "parts": [_part(part, counts, facts) for part, counts in follower.parts.items()],
        "counts": _counts(total.statuses),
        "cost": f"≈{spent}" if total.estimated and total.usd else spent,
        "gate": one_line(facts.gate.decision, 20) if facts.gate is not None else "",
        "remarks": [one_line(text, MOST_REMARK) for text in (*remarks, *facts.notes[:5])],
        "command": resume_command(run.folder) if state in ("killed", "incomplete") and not steps else "",
        "progress": {
            "done": count(total.done),
            "expected": _expected(facts),
            "share": min(1.0, total.done / expected) if isinstance(expected, int) and expected > 0 else None,
            "calls": counted(total.calls, "call"),
            "speed": f"{number(speed)} calls a second" if is_running and speed is not None else "",
            "left": f"{duration(left)} left" if is_running and left is not None and total.done else "",
        },
    }


def _remarks(facts: RunMetadata, follower: Follower, state: str, now: float) -> Iterator[str]:
    if facts.gate is not None:
        yield facts.gate.line
    if facts.stopped:
        yield f"stopped: {facts.stopped}"
    if not follower.is_current:
        yield "The record is being read: the counts are of its beginning."
    if follower.problem:
        lines = f"{counted(follower.damaged, 'line')} cannot be read: " if follower.damaged else ""
        yield lines + follower.problem
    done = f"{count(follower.total.done)} of {_expected(facts)} cases have a verdict"
    if state == "killed":
        yield f"Ended without finishing (killed?): {done}."
    elif state == "incomplete":
        yield f"incomplete: {done}"
    idle = 0.0 if follower.progress_at is None else now - follower.progress_at
    if state == "running" and idle >= STALLED_SECONDS:
        yield f"No progress for {duration(idle)}."


def _expected(facts: RunMetadata) -> str:
    return count(facts.expected) if isinstance(facts.expected, int) else "?"


def _counts(statuses: Mapping[str, int]) -> dict[str, str]:
    """Return the numbers by title, without zeros, except those that every run is asked about."""
    texts = {}
    for column in (c for columns in columns_of("view", ()) for c in columns):
        value = statuses.get(column.status, 0) if column.status else None
        if value or column.status in ("correct", "wrong", "error"):
            texts[column.title] = column.text(value or 0)
    return texts


def _part(part: Part, counts: Counts, facts: RunMetadata) -> Row:
    known = facts_of(part.benchmark, facts) or BenchmarkMetadata.unknown(part.benchmark)
    counted = [counts.tasks[task] for task in known.headline_tasks(counts.tasks)]
    answered = sum(statuses.total() - sum(statuses[s] for s in UNANSWERED) for statuses in counted)
    is_shown = answered and known.is_ranked(counts.tasks)
    share = sum(statuses["correct"] for statuses in counted) / answered if is_shown else None
    return {
        "model": one_line(part.model, MOST),
        "benchmark": one_line(title_of(part.benchmark, facts), MOST),
        "accuracy": percent(share),
        "counts": _counts(counts.statuses),
        "calls": count(counts.calls),
        "cost": counts.cost_text,
    }
