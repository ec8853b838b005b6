"""The items of two runs, paired, and the judgement of the pair: the change of each headline task, language and cluster.

The comparisons depend on the two runs alone, not on a gate or a report, so that all outputs agree on each of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytest_llmprops.core.field_types import UNANSWERED
from pytest_llmprops.core.items import ItemPlace, TaskKey, task_key_of
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.gate import ChangeKind, MemberChange
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.runs.benchmark_metadata import (
    IsWeighted,
    TasksByAnswer,
    cluster_weighted,
    facts_of,
    headline,
    tasks_by_answer,
    title_of,
)
from pytest_llmprops.statistics.bounded_mean import cluster_means

if TYPE_CHECKING:
    from pytest_llmprops.statistics.judgement import Change
    from pytest_llmprops.statistics.paired import Pairs

#: kinds of faults of an item in a comparison
IN_ERROR, ABSENT_HERE, ABSENT_THERE = "in error", "missing in this run", "missing in the baseline"


@dataclass(frozen=True, slots=True)
class Pair:
    """One item with an answer in both runs; scores are the share of its samples that are correct.

    :param key: without the cluster; records of two runs with the same key are paired.
    """

    key: ItemPlace
    cluster: str
    baseline: float
    candidate: float


@dataclass(frozen=True, slots=True)
class Item:
    """One item of two runs.

    :param baseline: its samples in the baseline; empty if there is none. :param candidate: those of the candidate.
    :param pair: its scores; None without an answer in both runs.
    """

    key: ItemPlace
    baseline: Sequence[VerdictRecord]
    candidate: Sequence[VerdictRecord]
    pair: Pair | None

    @classmethod
    def of(
        cls, key: ItemPlace, baseline: Sequence[VerdictRecord], candidate: Sequence[VerdictRecord]
    ) -> Item:
        """Return the item of these samples; errors and untested ones are left out of its scores."""
        old, new = _share(baseline), _share(candidate)
        pair = None if old is None or new is None else Pair(key, baseline[0].cluster, old, new)
        return cls(key, baseline, candidate, pair)

    @property
    def fault(self) -> str:
        """Why the item is no pair: its kind of fault; empty for a pair, and for an item that is untested."""
        if not self.candidate:
            return ABSENT_HERE
        if not self.baseline:
            return ABSENT_THERE
        has_error = any(r.status == "error" for r in (*self.baseline, *self.candidate))
        return IN_ERROR if has_error and self.pair is None else ""


def _share(records: Sequence[VerdictRecord]) -> float | None:
    answered = [r.status == "correct" for r in records if r.status not in UNANSWERED]
    return sum(answered) / len(answered) if answered else None


def pair_items(
    baseline: Iterable[VerdictRecord],
    candidate: Iterable[VerdictRecord],
    decided: TasksByAnswer | None = None,
) -> list[Item]:
    """Return the items of two models by benchmark, task, language, source and id, in the baseline's order.

    If a task depends on the answer (``Benchmark.tasks_by_answer``), an item may have different tasks for two models
    and in its samples: it has the most frequent one of the candidate's samples.

    :param decided: the tasks that depend on the answer, by benchmark; by default those of the installed benchmarks.
    """
    decided = decided or tasks_by_answer()
    items: dict[tuple[str, ...], tuple[list[VerdictRecord], list[VerdictRecord]]] = {}
    for run, records in enumerate((baseline, candidate)):
        for r in records:
            task = "" if r.task in decided(r.benchmark) else r.task
            items.setdefault((r.benchmark, task, r.language, r.source, r.id), ([], []))[run].append(r)
    return [Item.of(_key_of(old, new), old, new) for old, new in items.values()]


def _key_of(old: Sequence[VerdictRecord], new: Sequence[VerdictRecord]) -> ItemPlace:
    first, *others = samples = new or old
    task = Counter(r.task for r in samples).most_common(1)[0][0] if others else first.task
    return ItemPlace(first.benchmark, task, first.language, first.source, first.id)


def pairs_of(items: Iterable[Item]) -> list[Pair]:
    """Return the scores of the items that both runs answer."""
    return [item.pair for item in items if item.pair is not None]


def cluster_label(benchmark: str, source: str, cluster: str) -> str:
    """Return a name of a cluster that no cluster of another benchmark or source has."""
    return f"{benchmark} {source} {cluster}"


def score_pairs(pairs: Sequence[Pair], is_weighted: IsWeighted) -> Pairs:
    """Return the scores and clusters of the pairs, as the functions of ``core`` need them.

    If the clusters of a benchmark count once, its pairs are one per cluster, with the mean scores of its items.

    :param is_weighted: says so for a benchmark (:func:`~pytest_llmprops.runs.benchmark_metadata.cluster_weighted`).
    """
    from pytest_llmprops.statistics.paired import Pairs

    averaged = [p for p in pairs if is_weighted(p.key.benchmark)]
    items = [p for p in pairs if not is_weighted(p.key.benchmark)]
    labels = [cluster_label(p.key.benchmark, p.key.source, p.cluster) for p in averaged]
    baseline, clusters = cluster_means([p.baseline for p in averaged], labels)
    candidate, _ = cluster_means([p.candidate for p in averaged], labels)
    return Pairs(
        (*(p.baseline for p in items), *baseline),
        (*(p.candidate for p in items), *candidate),
        (*(cluster_label(p.key.benchmark, p.key.source, p.cluster) for p in items), *clusters),
        "cluster" if averaged and not items else "pair",
    )


#: With fewer independent pairs, no change can be significant.
FEWEST = 6

#: the kinds of members that a judgement has
KINDS: tuple[ChangeKind, ...] = ("all", "benchmark", "task", "language", "part", "cluster")


class Member(NamedTuple):
    """A part of the items of two runs: all of them, or one benchmark, task, language, part or cluster.

    :param benchmark: empty for all benchmarks together.
    :param name: of the task, the language or the cluster. A *part* is one task in one language from one source.
    """

    benchmark: str
    kind: ChangeKind
    name: str

    @classmethod
    def part(cls, key: TaskKey) -> Member:
        """Return the part of a benchmark with this key."""
        return cls(key.benchmark, "part", "/".join(key[1:]))


def members(
    pairs: Iterable[Pair], kinds: Iterable[ChangeKind], is_weighted: IsWeighted
) -> dict[Member, Pairs]:
    """Return the scores of each member; of clusters, those with enough items for a significant change.

    :param is_weighted: whether each cluster of a benchmark counts once. A single cluster is compared item by item.
    """
    from pytest_llmprops.statistics.paired import Pairs

    groups: dict[Member, list[Pair]] = {}
    kinds = tuple(kinds)
    for pair in pairs:
        key = pair.key
        names = {
            "all": "", "benchmark": key.benchmark, "task": key.task, "language": key.language,
            "part": "/".join(task_key_of(key)[1:]), "cluster": pair.cluster,
        }  # fmt: skip
        for kind in kinds:
            benchmark = "" if kind == "all" else key.benchmark
            groups.setdefault(Member(benchmark, kind, names[kind]), []).append(pair)
    scores = {}
    for member, group in groups.items():
        if member.kind == "cluster":
            if len(group) < FEWEST:
                continue
            baseline, candidate = (tuple(getattr(p, run) for p in group) for run in ("baseline", "candidate"))
            scores[member] = Pairs(baseline, candidate, tuple(f"{p.key.source} {p.key.id}" for p in group))
            continue
        # The only task of a benchmark is all of its items.
        same = (m for m in scores if m.kind != "cluster" and groups[m] == group)
        scores[member] = scores[known] if (known := next(same, None)) else score_pairs(group, is_weighted)
    return scores


def headline_members(pairs: Sequence[Pair], *runs: RunMetadata) -> dict[Member, Pairs]:
    """Return the scores of all members of two runs.

    Controls, side tasks, and tasks whose accuracy is not best at 1 are left out.

    :param runs: ``run.json`` of both runs.
    """
    counted = {
        key
        for key in headline({task_key_of(pair.key) for pair in pairs}, *runs)
        if (facts := facts_of(key.benchmark, *runs)) is None or key.task not in facts.accuracy_targets
    }
    chosen = [pair for pair in pairs if task_key_of(pair.key) in counted]
    return members(chosen, KINDS, cluster_weighted(*runs))


def judgement(pairs: Sequence[Pair], *runs: RunMetadata) -> dict[Member, Change]:
    """Judge all members of two runs together.

    :param runs: ``run.json`` of both runs.
    """
    from pytest_llmprops.statistics.judgement import judge

    return judge(headline_members(pairs, *runs))


def judged_runs(
    baseline: Iterable[VerdictRecord], candidate: Iterable[VerdictRecord], *runs: RunMetadata
) -> dict[Member, Change]:
    """Judge the records of one model in each of two runs.

    :param runs: ``run.json`` of both runs.
    """
    return judgement(pairs_of(pair_items(baseline, candidate, tasks_by_answer(*runs))), *runs)


_RECORDED = ("word", "difference", "low", "high", "p", "pairs", "lost", "gained")


def recorded_changes(changes: Mapping[Member, Change], *runs: RunMetadata) -> tuple[MemberChange, ...]:
    """Return the changes as ``run.json`` has them; of clusters, only those that are worse or better.

    :param runs: ``run.json`` of both runs, which have the titles of the benchmarks.
    """
    return tuple(
        MemberChange(
            member.benchmark,
            title_of(member.benchmark, *runs) if member.benchmark else "",
            member.kind,
            member.name,
            *(getattr(change, name) for name in _RECORDED),
        )
        for member, change in changes.items()
        if change.is_clear or member.kind != "cluster"
    )
