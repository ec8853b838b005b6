"""The data that one rule of a gate judges: its answers and pairs, and the items without them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import NamedTuple

from pytest_llmprops.core.field_types import UNANSWERED
from pytest_llmprops.core.metrics import MetricRow
from pytest_llmprops.core.numbers import count
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.runs.benchmark_metadata import (
    IsWeighted,
    TasksByAnswer,
    cluster_weighted,
    tasks_by_answer,
)
from pytest_llmprops.runs.gate.checks import Answer
from pytest_llmprops.runs.gate.file import Gate, Rule
from pytest_llmprops.runs.judgement import FEWEST, Member, members
from pytest_llmprops.runs.pairs import ItemKey, Pair, cluster_label, pair_records, score_pairs, with_tasks_of
from pytest_llmprops.statistics.bounded_mean import cluster_means
from pytest_llmprops.statistics.paired import Pairs

#: kinds of faults of an item in a comparison
IN_ERROR, ABSENT_HERE, ABSENT_THERE = "in error", "missing in this run", "missing in the baseline"
#: some samples of the item are in error, others are not
PARTLY = "partly in error"


@dataclass(frozen=True, slots=True)
class PairingRules:
    """How the records of the runs are paired and averaged.

    :param decided: the tasks that depend on the answer, by benchmark.
    :param is_weighted: whether each cluster of a benchmark counts once.
    :param benchmarks: those in the records of the runs.
    :param unselected: benchmark -> number of its items that the run under test leaves out, if it is known.
    """

    decided: TasksByAnswer
    is_weighted: IsWeighted
    benchmarks: frozenset[str]
    unselected: Mapping[str, int]

    @classmethod
    def of(cls, *runs: RunMetadata) -> PairingRules:
        """Return what ``run.json`` of these runs says; the first is the run under test."""
        names = (name for run in runs for name in (*run.benchmarks, *(row.benchmark for row in run.summary)))
        unselected = {name: of - selected for name, (selected, of) in runs[0].selected_items.items()}
        return cls(tasks_by_answer(*runs), cluster_weighted(*runs), frozenset(names), unselected)

    def spare(self, records: Iterable[VerdictRecord]) -> int | None:
        """Return the number of items that the benchmarks of these records have left; None if it is unknown."""
        names = {r.benchmark for r in records}
        return sum(self.unselected[name] for name in names) if names <= self.unselected.keys() else None

    def weighs_clusters(self, rule: Rule, records: Iterable[VerdictRecord]) -> bool:
        """Return True if the rule is about a benchmark whose clusters count once."""
        names = self.benchmarks | {r.benchmark for r in records}
        return any(self.is_weighted(name) and rule.concerns(name) for name in names)


@dataclass(frozen=True, eq=False)
class RuleData:
    """The items of one rule.

    :param answers: items with an answer; samples are averaged.
    :param units: what counts once in the accuracy: the answers, or clusters with the mean of their answers.
    :param noun: what a unit is, for messages: ``item`` or ``cluster``.
    :param pairs: items with an answer in both runs; empty if the rule does not compare.
    :param metrics: the run's rows of the rule's metric. :param metric_names: of all metrics where the rule applies.
    :param items: number of items of the run.
    :param faults: items without all their answers in at least one run, by kind of fault.
    :param either: number of items that at least one run has.
    :param fault_size: number of items among the faults. An item of which only some samples are in error counts as their
        share, in the run where it is larger.
    :param samples: smallest number of samples of an item in this run, and in the baseline if the rule compares; None
        without items.
    :param is_weighted: whether each cluster of a benchmark counts once.
    :param weighs_clusters: whether the rule is about such a benchmark. The items of its clusters have unequal weights.
    :param spare: number of items of its benchmarks that the run leaves out; None if it is unknown.
    """

    rule: Rule
    answers: Sequence[Answer]
    units: Sequence[Answer]
    noun: str
    pairs: Sequence[Pair]
    metrics: Sequence[MetricRow]
    metric_names: Sequence[str]
    items: int
    faults: Mapping[str, Sequence[_Item]]
    either: int
    fault_size: float
    samples: tuple[int | None, int | None]
    is_weighted: IsWeighted
    weighs_clusters: bool
    spare: int | None

    @classmethod
    def of(
        cls,
        rule: Rule,
        metrics: Iterable[MetricRow],
        candidate: Iterable[VerdictRecord],
        baseline: Iterable[VerdictRecord],
        terms: PairingRules,
    ) -> RuleData:
        """Return a rule's data, given the records of a run and of its baseline.

        :param metrics: rows of ``run.json``. :param terms: how records are paired and averaged.
        """
        records = list(candidate)
        own = rule.select(records)
        # If the task depends on the answer, this run's task counts for both models.
        others = rule.select(with_tasks_of(baseline, records, terms.decided)) if rule.paired else []
        items, theirs = _by_item(own), _by_item(others)
        answers = {key: answer for key, records in items.items() if (answer := _answer(records)) is not None}
        # An item that is untested is neither answered nor in error.
        faults = {IN_ERROR: [key for key, rs in items.items() if all(r.status == "error" for r in rs)]}
        pairs: Sequence[Pair] = ()
        if rule.paired:
            paired = pair_records(others, own, terms.decided)
            pairs = paired.pairs
            keys = {IN_ERROR: paired.errors, ABSENT_HERE: paired.missing, ABSENT_THERE: paired.added}
            faults = {what: [_item_of(key) for key in item_keys] for what, item_keys in keys.items()}
        whole = {key for keys in faults.values() for key in keys}
        shares = _largest(_error_shares(items), _error_shares(theirs))
        partly = {key: share for key, share in shares.items() if share and key not in whole}
        faults = {**faults, PARTLY: list(partly)}
        there = [row for row in metrics if rule.metric and rule.matches(row)]
        rows = [row for row in there if _row_matches(rule, row)]
        return cls(
            rule, list(answers.values()), *_units(answers, terms.is_weighted), pairs, rows,
            sorted({row.name for row in there}), len(items), faults, len(items) + len(faults.get(ABSENT_HERE, ())),
            len(whole) + math.fsum(partly.values()),
            (_fewest(items), _fewest({key: theirs[key] for key in theirs.keys() & items.keys()})),
            terms.is_weighted, terms.weighs_clusters(rule, records), terms.spare(own),
        )  # fmt: skip

    @property
    def faulty(self) -> list[str]:
        """Ids of all items with a fault, sorted within each kind because workers report in any order."""
        return [key.id for keys in self.faults.values() for key in sorted(keys)]

    @property
    def judged(self) -> int:
        """Number of items or pairs that the checks use."""
        return len(self.pairs) if self.rule.paired else len(self.answers)

    @cached_property
    def comparison(self) -> Pairs:
        """The scores and clusters of the pairs, or of the clusters of a benchmark whose clusters count once."""
        return score_pairs(self.pairs, self.is_weighted)

    @cached_property
    def members(self) -> dict[Member, Pairs]:
        """The scores of each member of a ``no_collapse`` rule that could be worse; empty for other rules."""
        each = self.rule.each
        known = {} if each is None else members(self.pairs, [each], self.is_weighted)
        return {member: pairs for member, pairs in known.items() if pairs.cluster_count >= FEWEST}


class _Item(NamedTuple):
    """One item of a rule. Items of several benchmarks or sources may have equal ids."""

    benchmark: str
    source: str
    id: str


def _item_of(place: VerdictRecord | ItemKey) -> _Item:
    return _Item(place.benchmark, place.source, place.id)


def _by_item(records: Iterable[VerdictRecord]) -> dict[_Item, list[VerdictRecord]]:
    items: dict[_Item, list[VerdictRecord]] = {}
    for record in records:
        items.setdefault(_item_of(record), []).append(record)
    return items


def _error_shares(items: Mapping[_Item, Sequence[VerdictRecord]]) -> dict[_Item, float]:
    return {key: sum(r.status == "error" for r in rs) / len(rs) for key, rs in items.items()}


def _largest(*shares: Mapping[_Item, float]) -> dict[_Item, float]:
    keys = dict.fromkeys(key for one in shares for key in one)
    return {key: max(one.get(key, 0.0) for one in shares) for key in keys}


def _fewest(items: Mapping[_Item, Sequence[VerdictRecord]]) -> int | None:
    return min(map(len, items.values()), default=None)


def _answer(records: Sequence[VerdictRecord]) -> Answer | None:
    statuses = [r.status for r in records if r.status not in UNANSWERED]
    if not statuses:
        return None
    shares = (statuses.count(status) / len(statuses) for status in ("correct", "refused", "unparsed"))
    first = records[0]
    return Answer(cluster_label(first.benchmark, first.source, first.cluster), *shares)


def _units(answers: Mapping[_Item, Answer], is_weighted: IsWeighted) -> tuple[Sequence[Answer], str]:
    """Return the answers, or one per cluster for a benchmark whose clusters count once, and what they are."""
    averaged = [answer for key, answer in answers.items() if is_weighted(key.benchmark)]
    others = [answer for key, answer in answers.items() if not is_weighted(key.benchmark)]
    if not averaged:
        return others, "item"
    clusters = [a.cluster for a in averaged]
    correct, labels = cluster_means([a.correct for a in averaged], clusters)
    refused, _ = cluster_means([a.refused for a in averaged], clusters)
    unparsed, _ = cluster_means([a.unparsed for a in averaged], clusters)
    units = list(map(Answer, labels, correct, refused, unparsed))
    return [*others, *units], "item" if others else "cluster"


def _row_matches(rule: Rule, row: MetricRow) -> bool:
    group = rule.group is None or fnmatchcase(row.group, rule.group)
    return group and fnmatchcase(row.name, rule.metric)


# Rules that compare count items that one run lacks (``max_errors``). ``min_accuracy`` alone would be met by a
# selection of easy items without a word.
def selection_notes(
    gate: Gate,
    facts: RunMetadata,
    rules: Iterable[RuleData],
    candidate: Sequence[VerdictRecord],
    baseline: Sequence[VerdictRecord],
    decided: TasksByAnswer,
) -> list[str]:
    """Return one note for each selection of items on which a ``min_accuracy`` was judged.

    :param baseline: the verdicts of the baseline; empty without one.
    """
    with_accuracy = [data for data in rules if data.rule.min_accuracy is not None]
    notes = [
        f"min_accuracy is on a selection: {count(selected)} of {count(available)} {name} items ({_how(facts)})"
        for name, (selected, available) in facts.selected_items.items()
        if selected < available and any(data.rule.concerns(name) for data in with_accuracy)
    ]
    for data in with_accuracy:
        if data.rule.paired or not baseline:
            continue
        ours = {(r.benchmark, r.source, r.id) for r in data.rule.select(candidate)}
        others = data.rule.select(with_tasks_of(baseline, candidate, decided))
        theirs = {(r.benchmark, r.source, r.id) for r in others}
        if ours != theirs:
            missing, more, here = (count(len(ids)) for ids in (theirs - ours, ours - theirs, ours))
            notes.append(
                f"{data.rule.name}: min_accuracy is not on the items of the baseline: {missing} of its"
                f" {count(len(theirs))} are missing here, and {more} of the {here} here are missing there"
            )
    return notes


def _how(facts: RunMetadata) -> str:
    limit = facts.options.get("limit")
    return f"--llm-limit {limit}" if limit is not None else "selected by -k, -m, --deselect or name"
