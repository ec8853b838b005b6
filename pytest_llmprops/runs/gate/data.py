"""The data that one rule of a gate judges: its answers and pairs, and the items without them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Literal

from pytest_llmprops.core.field_types import UNANSWERED
from pytest_llmprops.core.items import ItemPlace, task_key_of
from pytest_llmprops.core.metrics import MetricRow
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.runs.benchmark_metadata import IsWeighted, cluster_weighted
from pytest_llmprops.runs.gate.checks import Answer
from pytest_llmprops.runs.gate.file import Rule
from pytest_llmprops.runs.pairs import (
    ABSENT_HERE,
    ABSENT_THERE,
    FEWEST,
    IN_ERROR,
    Item,
    Member,
    Pair,
    cluster_label,
    members,
    pairs_of,
    score_pairs,
)
from pytest_llmprops.statistics.bounded_mean import cluster_means
from pytest_llmprops.statistics.paired import Pairs

#: some samples of the item are in error, others are not
PARTLY = "partly in error"


@dataclass(frozen=True, slots=True)
class Terms:
    """How the records of a gate's runs are averaged.

    :param is_weighted: whether each cluster of a benchmark counts once.
    :param unselected: benchmark -> number of its items that the run under test leaves out, if it is known.
    """

    is_weighted: IsWeighted
    unselected: Mapping[str, int]

    @classmethod
    def of(cls, *runs: RunMetadata) -> Terms:
        """Return what ``run.json`` of these runs says; the first is the run under test."""
        unselected = {name: of - selected for name, (selected, of) in runs[0].selected_items.items()}
        return cls(cluster_weighted(*runs), unselected)


@dataclass(frozen=True, eq=False)
class RuleData:
    """The items of one rule.

    :param items: those of the run, and if the rule compares, those of the baseline.
    :param metrics: the run's rows of the rule's metric. :param metric_names: of all metrics where the rule applies.
    """

    rule: Rule
    items: Sequence[Item]
    metrics: Sequence[MetricRow]
    metric_names: Sequence[str]
    terms: Terms

    @classmethod
    def of(cls, rule: Rule, metrics: Iterable[MetricRow], items: Iterable[Item], terms: Terms) -> RuleData:
        """Return a rule's data.

        :param metrics: rows of ``run.json``. :param items: of the run and its baseline.
        """
        items = list(items)
        places = {key for key in {task_key_of(item.key) for item in items} if rule.matches(key)}
        there = [row for row in metrics if rule.metric and rule.matches(row)]
        # Without a group, the rule is about all groups.
        group = "*" if rule.group is None else rule.group
        rows = [row for row in there if fnmatchcase(row.name, rule.metric) and fnmatchcase(row.group, group)]
        judged = [i for i in items if task_key_of(i.key) in places and (i.candidate or rule.paired)]
        return cls(rule, judged, rows, sorted({row.name for row in there}), terms)

    @property
    def is_empty(self) -> bool:
        """True if the run has no item of the rule."""
        return not any(item.candidate for item in self.items)

    @cached_property
    def answers(self) -> Mapping[ItemPlace, Answer]:
        """The items with an answer; samples are averaged."""
        answers = ((item.key, _answer(item.candidate)) for item in self.items)
        return {key: answer for key, answer in answers if answer is not None}

    @cached_property
    def scores(self) -> tuple[Sequence[float], Sequence[str], str]:
        """What counts once in the accuracy: scores, their clusters, and their name.

        A score is that of an item, or the mean of a cluster of a benchmark whose clusters count once.
        """
        is_weighted = self.terms.is_weighted
        averaged = [answer for key, answer in self.answers.items() if is_weighted(key.benchmark)]
        others = [answer for key, answer in self.answers.items() if not is_weighted(key.benchmark)]
        means, labels = cluster_means([a.correct for a in averaged], [a.cluster for a in averaged])
        scores, clusters = [a.correct for a in others], [a.cluster for a in others]
        return [*scores, *means], [*clusters, *labels], "cluster" if means and not others else "item"

    @cached_property
    def pairs(self) -> Sequence[Pair]:
        """The items with an answer in both runs; empty if the rule does not compare."""
        return pairs_of(self.items) if self.rule.paired else ()

    @property
    def judged(self) -> int:
        """Number of items or pairs that the checks use."""
        return len(self.pairs) if self.rule.paired else len(self.answers)

    @cached_property
    def comparison(self) -> Pairs:
        """The scores and clusters of the pairs, or of the clusters of a benchmark whose clusters count once."""
        return score_pairs(self.pairs, self.terms.is_weighted)

    @cached_property
    def members(self) -> dict[Member, Pairs]:
        """The scores of each member of a ``no_collapse`` rule that could be worse; empty for other rules."""
        each = self.rule.each
        known = {} if each is None else members(self.pairs, [each], self.terms.is_weighted)
        return {member: pairs for member, pairs in known.items() if pairs.cluster_count >= FEWEST}

    @cached_property
    def faults(self) -> Mapping[str, Mapping[ItemPlace, float]]:
        """The items without all their answers by kind of fault: key -> 1, or the share of its samples in error.

        Of an item in two runs, the larger share counts. An untested item is neither answered nor in error.
        """
        faults: dict[str, dict[ItemPlace, float]]
        faults = {kind: {} for kind in (IN_ERROR, ABSENT_HERE, ABSENT_THERE, PARTLY)}
        for item in self.items:
            runs = (item.baseline, item.candidate) if self.rule.paired else (item.candidate,)
            share = max(_errors(records) for records in runs)
            kind = item.fault if self.rule.paired else IN_ERROR if share == 1 else ""
            if kind:
                share = 1.0
            if share:
                faults[kind or PARTLY][item.key] = share
        return faults

    @property
    def fault_size(self) -> float:
        """Number of items among the faults; an item that is partly in error counts as its share."""
        return math.fsum(share for kind in self.faults.values() for share in kind.values())

    @property
    def faulty(self) -> list[str]:
        """Ids of all items with a fault, sorted within each kind because workers report in any order."""
        return [key.id for keys in self.faults.values() for key in sorted(keys)]

    @property
    def spare(self) -> int | None:
        """Number of items of its benchmarks that the run leaves out; None if it is unknown."""
        names, left = {item.key.benchmark for item in self.items if item.candidate}, self.terms.unselected
        return sum(left[name] for name in names) if names <= left.keys() else None

    def at_worst(self) -> RuleData:
        """Return the data with errors and missing items counted against the candidate.

        Errors of the candidate and items that only the baseline has become wrong. Errors of the baseline and items that
        only the candidate has become correct for the baseline.
        """
        items = [
            Item.of(
                item.key,
                _answered(item.baseline or item.candidate, "correct", everything=not item.baseline),
                _answered(item.candidate or item.baseline, "wrong", everything=not item.candidate),
            )
            for item in self.items
        ]
        return replace(self, items=items)


def _answered(
    records: Sequence[VerdictRecord], status: Literal["correct", "wrong"], *, everything: bool
) -> list[VerdictRecord]:
    return [replace(r, status=status) if everything or r.status == "error" else r for r in records]


def _errors(records: Sequence[VerdictRecord]) -> float:
    return sum(r.status == "error" for r in records) / max(1, len(records))


def _answer(records: Sequence[VerdictRecord]) -> Answer | None:
    statuses = [r.status for r in records if r.status not in UNANSWERED]
    if not statuses:
        return None
    shares = (statuses.count(status) / len(statuses) for status in ("correct", "refused", "unparsed"))
    first = records[0]
    return Answer(cluster_label(first.benchmark, first.source, first.cluster), *shares)
