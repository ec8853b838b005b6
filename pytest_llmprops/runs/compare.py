"""Comparing two runs item by item: the common items, and which of them were lost or gained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.field_types import UNANSWERED
from pytest_llmprops.core.items import ItemPlace, TaskKey, grouped, task_key_of
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.rows import SummaryRow
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.runs.benchmark_metadata import cluster_weighted, tasks_by_answer
from pytest_llmprops.runs.comparable import caveats, differences
from pytest_llmprops.runs.pairs import (
    ABSENT_HERE,
    ABSENT_THERE,
    IN_ERROR,
    Item,
    Member,
    judgement,
    pair_items,
    pairs_of,
    score_pairs,
)
from pytest_llmprops.runs.reader import Run
from pytest_llmprops.runs.replies import Requests, read_requests, reply_of

if TYPE_CHECKING:
    from pytest_llmprops.statistics.judgement import Change


@dataclass(frozen=True)
class Column:
    """One model of one run, called ``letter`` in tables."""

    letter: str
    run: Run
    model: str

    @property
    def records(self) -> list[VerdictRecord]:
        """The model's verdicts."""
        return [r for r in self.run.records if r.model == self.model]

    def row(self, task_key: TaskKey) -> SummaryRow | None:
        """Return the model's row of the run's summary; None if it has none for this task."""
        for row in self.run.facts.summary:
            if row.model == self.model and task_key_of(row) == task_key:
                return row
        return None


@dataclass(frozen=True)
class Row:
    """The change on one part of the common items.

    :param member: the part; of items that rank no models, a part that the judgement leaves out.
    :param task_key: of a part with one task; None for a larger one, or a cluster.
    :param result: None without pairs.
    """

    member: Member
    task_key: TaskKey | None
    pairs: int
    only_baseline: int
    only_candidate: int
    errors: int
    lost: int
    gained: int
    result: Change | None


@dataclass(frozen=True)
class Side:
    """One run's part of a flip: the status and reply of one sample, and the share of correct samples."""

    status: str
    score: float
    reply: str


@dataclass(frozen=True)
class Flip:
    """An item on which the two runs differ."""

    key: ItemPlace
    expected: str
    baseline: Side
    candidate: Side


@dataclass(frozen=True)
class Contrast:
    """Two columns compared: the change of each part, and the items that flipped in either direction.

    :param changes: one row per part, and one per other member of the judgement that is worse or better.
    """

    baseline: Column
    candidate: Column
    changes: tuple[Row, ...]
    lost: tuple[Flip, ...]
    gained: tuple[Flip, ...]
    differences: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """The result of ``llmprops compare``; ``task_keys`` are in order of appearance."""

    columns: tuple[Column, ...]
    task_keys: tuple[TaskKey, ...]
    contrasts: tuple[Contrast, ...]
    notes: tuple[str, ...]


def with_baseline_first(runs: Sequence[Run], baseline: Run | None = None) -> list[Run]:
    """Return the runs with the baseline first: every difference is candidate minus baseline.

    :param baseline: another run, or one of them; by default the one that the gates of others name.
    """
    if baseline is None:
        named = {run.facts.gate.baseline for run in runs if run.facts.gate is not None}
        known = [run for run in runs if run.run_id in named]
        if len(known) != 1:
            return list(runs)
        baseline = known[0]
    return [baseline, *(run for run in runs if run.folder.resolve() != baseline.folder.resolve())]


def compare(runs: Sequence[Run], *, all_pairs: bool = False) -> Comparison:
    """Compare the first run with each other run, or every pair of runs.

    Models of the same name are compared. If two runs have no model name in common, every model of one is compared
    with every model of the other. In a single run with several models, the models are compared.

    :raises UsageError: for one run with one model.
    """
    columns = _columns(runs)
    notes = [f"{run.run_id}: {note}" for run in runs for note in run.notes]
    if len(runs) == 1:
        if len(columns) < 2:
            raise UsageError("one run with one model cannot be compared; name another run")
        chosen = list(combinations(columns, 2)) if all_pairs else [(columns[0], c) for c in columns[1:]]
    else:
        chosen = []
        numbers = range(len(runs))
        for one, other in combinations(numbers, 2) if all_pairs else [(0, n) for n in numbers[1:]]:
            pairs, note = _models(
                [c for c in columns if c.run is runs[one]], [c for c in columns if c.run is runs[other]]
            )
            chosen += pairs
            notes += note
    rows = [row for column in columns for row in column.run.facts.summary]
    task_keys = tuple(dict.fromkeys(task_key_of(row) for row in rows))
    replies: dict[int, Requests] = {}
    contrasts = tuple(_contrast(*pair, replies) for pair in chosen)
    return Comparison(tuple(columns), task_keys, contrasts, tuple(notes))


def _columns(runs: Sequence[Run]) -> list[Column]:
    models = [(run, model) for run in runs for model in run.models]
    return [Column(_letter(number), run, model) for number, (run, model) in enumerate(models)]


def _letter(number: int) -> str:
    letter = chr(ord("A") + number % 26)
    return letter if number < 26 else f"{letter}{number // 26}"


def _models(one: list[Column], other: list[Column]) -> tuple[list[tuple[Column, Column]], list[str]]:
    names = {c.model for c in one} & {c.model for c in other}
    if not names:
        return [(a, b) for a in one for b in other], []
    same = [(a, b) for a in one for b in other if a.model == b.model]
    unmatched = [f"{c.letter} ({c.model})" for c in (*one, *other) if c.model not in names]
    note = f"only models of the same name are compared: not {', '.join(unmatched)}" if unmatched else ""
    return same, [note] if note else []


def _contrast(baseline: Column, candidate: Column, replies: dict[int, Requests]) -> Contrast:
    facts = baseline.run.facts, candidate.run.facts
    items = pair_items(baseline.records, candidate.records, tasks_by_answer(*facts))
    flipped = [item for item in items if item.pair is not None and item.pair.baseline != item.pair.candidate]
    if flipped:
        for column in (baseline, candidate):
            if id(column.run) not in replies:
                replies[id(column.run)] = read_requests(column.run.folder)
    flips = [_flip(item, *(replies[id(column.run)] for column in (baseline, candidate))) for item in flipped]
    common = {item.key.benchmark for item in items if item.pair is not None}
    differ = [*differences(*facts, sorted(common)), *caveats(facts)]
    return Contrast(
        baseline,
        candidate,
        tuple(_rows(items, *facts)),
        tuple(f for f in flips if f.candidate.score < f.baseline.score),
        tuple(f for f in flips if f.candidate.score > f.baseline.score),
        tuple(differ),
    )


def _shown(records: Sequence[VerdictRecord], correct: bool) -> VerdictRecord:
    """Return a sample with the given correctness; otherwise the first one."""
    fitting = [r for r in records if (r.status == "correct") == correct and r.status not in UNANSWERED]
    return (fitting or records)[0]


def _flip(item: Item, old_requests: Requests, new_requests: Requests) -> Flip:
    assert item.pair is not None
    lost = item.pair.candidate < item.pair.baseline
    first, second = _shown(item.baseline, lost), _shown(item.candidate, not lost)
    return Flip(
        item.key,
        first.expected or second.expected,
        Side(first.status, item.pair.baseline, reply_of(first, old_requests)),
        Side(second.status, item.pair.candidate, reply_of(second, new_requests)),
    )


def _rows(items: Sequence[Item], *runs: RunMetadata) -> list[Row]:
    """Return the row of each part, of all headline tasks if there are several parts, and of what else is clear."""
    from pytest_llmprops.statistics.judgement import measured

    parts = grouped(items, lambda item: task_key_of(item.key))
    # Records are in the order in which workers ended the cases; the rows of the summary are in that of the suites.
    order = dict.fromkeys(task_key_of(row) for run in runs for row in run.summary)
    judged, is_weighted = judgement(pairs_of(items), *runs), cluster_weighted(*runs)
    rows = []
    for key in [*(key for key in order if key in parts), *(key for key in parts if key not in order)]:
        pairs, member = pairs_of(parts[key]), Member.part(key)
        change = judged.get(member)
        if change is None and pairs:
            change = measured(score_pairs(pairs, is_weighted))
        lost = sum(p.candidate < p.baseline for p in pairs)
        gained = sum(p.candidate > p.baseline for p in pairs)
        faults = Counter(item.fault for item in parts[key])
        counts = (len(pairs), faults[ABSENT_HERE], faults[ABSENT_THERE], faults[IN_ERROR], lost, gained)
        rows.append(Row(member, key, *counts, change))
    shown = {id(row.result) for row in rows}
    for member, change in judged.items():
        # Members with the same pairs share one change.
        if id(change) not in shown and (change.is_clear or member.kind == "all"):
            shown.add(id(change))
            rows.append(Row(member, None, change.pairs, 0, 0, 0, change.lost, change.gained, change))
    return rows
