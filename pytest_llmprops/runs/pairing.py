"""Pairing the records of two runs by item, and judging a candidate by the pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from pytest_llmprops.core.items import Placed, PlacedItem
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.weighting import cluster_means
from pytest_llmprops.runs.benchmark_facts import IsWeighted, TasksByAnswer, cluster_weighted, tasks_by_answer

if TYPE_CHECKING:
    from pytest_llmprops.core.comparison import PairedResult
    from pytest_llmprops.core.pairs import Pairs


class TaskKey(NamedTuple):
    """One benchmark, task, language and source."""

    benchmark: str
    task: str
    language: str
    source: str


class ItemKey(NamedTuple):
    """One item: records of two runs with the same key are paired."""

    benchmark: str
    task: str
    language: str
    source: str
    id: str

    @property
    def task_key(self) -> TaskKey:
        """The key of the item's task."""
        return TaskKey(*self[:4])


@dataclass(frozen=True, slots=True)
class Pair:
    """One item with an answer in both runs; scores are the share of its samples that are correct."""

    key: ItemKey
    cluster: str
    baseline: float
    candidate: float


@dataclass(frozen=True, slots=True)
class Paired:
    """The items of two runs.

    :param pairs: items that both runs have an answer to.
    :param missing: items of the baseline that the candidate has no record of.
    :param added: items of the candidate that the baseline has no record of.
    :param errors: items that both runs have, with an error in at least one.
    """

    pairs: list[Pair]
    missing: list[ItemKey]
    added: list[ItemKey]
    errors: list[ItemKey]

    def of_tasks(self, task_keys: Collection[TaskKey]) -> Paired:
        """Return the items of these tasks."""
        return Paired(
            [pair for pair in self.pairs if pair.key.task_key in task_keys],
            *(
                [key for key in keys if key.task_key in task_keys]
                for keys in (self.missing, self.added, self.errors)
            ),
        )


def with_tasks_of(
    records: Iterable[VerdictRecord], others: Iterable[PlacedItem], decided: TasksByAnswer | None = None
) -> list[VerdictRecord]:
    """Return ``records``, each with the task that the same item has in ``others``.

    If a task depends on the answer (``Benchmark.tasks_by_answer``), an item may have different tasks for two models.
    The task of other items does not change.

    :param others: records or cases.
    :param decided: the tasks that depend on the answer, by benchmark; by default those of the installed benchmarks.
    """
    decided = decided or tasks_by_answer()
    tasks = {_without_task(r): r.task for r in others}
    moved = []
    for record in records:
        task = tasks.get(_without_task(record), record.task)
        if task != record.task and {task, record.task} <= set(decided(record.benchmark)):
            record = replace(record, task=task)
        moved.append(record)
    return moved


def with_one_task(
    records: Iterable[VerdictRecord], decided: TasksByAnswer | None = None
) -> list[VerdictRecord]:
    """Return ``records``, in which all samples of an item have the same task.

    If a task depends on the answer, samples of an item may have different tasks. The most frequent one counts; of
    equally frequent ones, that of the first sample.

    :param decided: as for :func:`with_tasks_of`.
    """
    records = list(records)
    if all(r.sample == 0 for r in records):
        return records
    tasks: dict[tuple[str, ...], Counter[str]] = {}
    for r in records:
        tasks.setdefault((r.model, *_without_task(r)), Counter())[r.task] += 1
    most = {key: counts.most_common(1)[0][0] for key, counts in tasks.items() if len(counts) > 1}
    decided = decided or tasks_by_answer()
    return [
        replace(r, task=task)
        if (task := most.get((r.model, *_without_task(r)))) and {task, r.task} <= set(decided(r.benchmark))
        else r
        for r in records
    ]


def _without_task(record: PlacedItem) -> tuple[str, str, str, str]:
    return record.benchmark, record.language, record.source, record.id


def pair_records(
    baseline: Iterable[VerdictRecord],
    candidate: Iterable[VerdictRecord],
    decided: TasksByAnswer | None = None,
) -> Paired:
    """Pair the records of two models by benchmark, task (the candidate's), language, source and id.

    Samples of an item are averaged first, without errors; an item of which every sample is an error counts as an
    error. The results are in the baseline's order.

    :param decided: as for :func:`with_tasks_of`.
    """
    candidate = with_one_task(candidate, decided)
    before, after = by_item(with_tasks_of(baseline, candidate, decided)), by_item(candidate)
    paired = Paired([], [], [key for key in after if key not in before], [])
    for key, records in before.items():
        others = after.get(key)
        if others is None:
            paired.missing.append(key)
            continue
        old, new = _share(records), _share(others)
        if old is None or new is None:
            paired.errors.append(key)
        else:
            paired.pairs.append(Pair(key, records[0].cluster, old, new))
    return paired


def by_item(records: Iterable[VerdictRecord]) -> dict[ItemKey, list[VerdictRecord]]:
    """Group records by item; a group has an item's samples."""
    items: dict[ItemKey, list[VerdictRecord]] = {}
    for r in records:
        key = ItemKey(r.benchmark, r.task, r.language, r.source, r.id)
        items.setdefault(key, []).append(r)
    return items


def _share(records: Sequence[VerdictRecord]) -> float | None:
    answered = [r.status == "correct" for r in records if r.status != "error"]
    return sum(answered) / len(answered) if answered else None


def task_key_of(row: Placed) -> TaskKey:
    """Benchmark, task, language and source of a summary row or a record."""
    return TaskKey(row.benchmark, row.task, row.language, row.source)


def score_pairs(pairs: Sequence[Pair], is_weighted: IsWeighted) -> Pairs:
    """Return the scores and clusters of the pairs, as the functions of ``core`` need them.

    If the clusters of a benchmark count once, its pairs are one per cluster, with the mean scores of its items.

    :param is_weighted: says so for a benchmark (:func:`~pytest_llmprops.runs.benchmark_facts.cluster_weighted`).
    """
    from pytest_llmprops.core.pairs import Pairs

    averaged = [p for p in pairs if is_weighted(p.key.benchmark)]
    items = [p for p in pairs if not is_weighted(p.key.benchmark)]
    labels = [f"{p.key.benchmark} {p.cluster}" for p in averaged]
    baseline, clusters = cluster_means([p.baseline for p in averaged], labels)
    candidate, _ = cluster_means([p.candidate for p in averaged], labels)
    return Pairs(
        (*(p.baseline for p in items), *baseline),
        (*(p.candidate for p in items), *candidate),
        (*(p.cluster for p in items), *clusters),
        "cluster" if averaged and not items else "pair",
    )


def judge_pairs(pairs: Sequence[Pair], is_weighted: IsWeighted | None = None) -> PairedResult | None:
    """Judge the candidate by its pairs; None without pairs.

    :param is_weighted: as for :func:`score_pairs`; by default that of the installed benchmarks.
    """
    from pytest_llmprops.core.comparison import judge

    return judge(score_pairs(pairs, is_weighted or cluster_weighted())) if pairs else None
