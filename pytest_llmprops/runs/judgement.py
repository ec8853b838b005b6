"""The judgement of a pair of runs: the change of each headline task, language and cluster.

The comparisons depend on the two runs alone, not on a gate or a report, so that all outputs agree on each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.gate import ChangeKind, MemberChange
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.runs.benchmark_metadata import (
    IsWeighted,
    cluster_weighted,
    facts_of,
    headline,
    tasks_by_answer,
    title_of,
)
from pytest_llmprops.runs.pairs import Pair, TaskKey, pair_items, pairs_of, score_pairs

if TYPE_CHECKING:
    from pytest_llmprops.statistics.judgement import Change
    from pytest_llmprops.statistics.paired import Pairs

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
            "part": "/".join(key.task_key[1:]), "cluster": pair.cluster,
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
        for key in headline({pair.key.task_key for pair in pairs}, *runs)
        if (facts := facts_of(key.benchmark, *runs)) is None or key.task not in facts.accuracy_targets
    }
    chosen = [pair for pair in pairs if pair.key.task_key in counted]
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
            change.word,
            change.difference,
            change.low,
            change.high,
            change.p,
            change.pairs,
            change.lost,
            change.gained,
        )
        for member, change in changes.items()
        if change.is_clear or member.kind != "cluster"
    )
