"""The series of a report: one model of one run each, with a unique label."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_llmprops.core.items import Placed, TaskKey, grouped, task_key_of
from pytest_llmprops.core.metrics import MetricRow, Place, items_of, samples_of
from pytest_llmprops.core.registration import BenchmarkMetadata
from pytest_llmprops.core.strict_json import JSON
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.rows import Remark, SearchRecord, SummaryRow
from pytest_llmprops.records.run import ProtocolMetadata
from pytest_llmprops.reports.kit.blocks import file_names, visible
from pytest_llmprops.runs.benchmark_metadata import facts_of, tasks_by_answer
from pytest_llmprops.runs.pairs import Member, Pair, judged_runs, pair_items, pairs_of, score_pairs
from pytest_llmprops.runs.reader import Run
from pytest_llmprops.statistics.bounded_mean import cluster_means
from pytest_llmprops.statistics.intervals import Interval, mean_interval

if TYPE_CHECKING:
    from pytest_llmprops.statistics.judgement import Change

#: a row of a record that names its model and benchmark
R = TypeVar("R", MetricRow, Remark, SearchRecord, SummaryRow)


@dataclass(frozen=True)
class Series:
    """One model of one run. ``index`` is its position among all series and determines its colour."""

    index: int
    label: str
    model: str
    run: Run

    def settings(self, benchmark: str) -> Mapping[str, JSON]:
        """Return the settings of a benchmark's protocol; empty if the run did not record them."""
        return self.protocol(benchmark).settings

    def protocol(self, benchmark: str) -> ProtocolMetadata:
        """Return the recorded protocol of a benchmark; without a name if the run did not record it."""
        return self.run.facts.protocols.get(benchmark, ProtocolMetadata())

    @property
    def deviations(self) -> list[str]:
        """The changes of requests that the API forced."""
        return list(self.run.facts.deviations.get(self.model, ()))

    @property
    def starred(self) -> str:
        """The label, with a star if the API forced a deviation."""
        return f"{self.label}{'*' if self.deviations else ''}"

    @cached_property
    def _judgements(self) -> dict[int, Mapping[Member, Change]]:
        return {}

    def judgement(self, candidate: Series) -> Mapping[Member, Change]:
        """Return the judgement of a candidate with this series as the baseline."""
        if candidate.index not in self._judgements:
            before, after = ([r for r in s.run.records if r.model == s.model] for s in (self, candidate))
            self._judgements[candidate.index] = judged_runs(
                before, after, candidate.run.facts, self.run.facts
            )
        return self._judgements[candidate.index]

    @cached_property
    def benchmarks(self) -> list[str]:
        """The benchmarks with a verdict, in order of appearance."""
        return list(dict.fromkeys(r.benchmark for r in self.run.records if r.model == self.model))

    @cached_property
    def by_benchmark(self) -> dict[str, list[VerdictRecord]]:
        """The records of this model by benchmark."""
        own = (record for record in self.run.records if record.model == self.model)
        return grouped(own, lambda record: record.benchmark)


def series_of(runs: Sequence[Run]) -> tuple[Series, ...]:
    """Return every model of every run, in order.

    Equal model labels are distinguished by the settings in which their protocols differ, otherwise by the run's id.
    Labels say which benchmarks are scored by likelihood, because these scores are not comparable with those of texts.
    """
    pairs = [(run, model) for run in runs for model in run.models]
    plain = [Series(n, visible(model), model, run) for n, (run, model) in enumerate(pairs)]
    labels = [_label(s, [other for other in plain if other.model == s.model]) for s in plain]
    for more in ([f" · {visible(s.run.run_id)}" for s in plain], [f" ({s.index + 1})" for s in plain]):
        number = Counter(labels)
        labels = [
            f"{label}{rest if number[label] > 1 else ''}" for label, rest in zip(labels, more, strict=True)
        ]
    return tuple(replace(s, label=label) for s, label in zip(plain, labels, strict=True))


def _label(one: Series, same_model: Sequence[Series]) -> str:
    name = one.run.facts.marked(one.label)
    if len(same_model) == 1:
        return name
    parts = []
    for benchmark in one.benchmarks:
        others = [s.settings(benchmark) for s in same_model if benchmark in s.benchmarks]
        for field, value in one.settings(benchmark).items():
            differs = any(other.get(field) != value for other in others)
            # The name of a model that is scored by likelihood says so already.
            if differs and (field, value) != ("answer", "likelihood"):
                parts.append(setting(field, value))
    return " · ".join([name, *dict.fromkeys(filter(None, parts))])


def setting(name: str, value: Any) -> str:
    """Return a setting as a label: ``k 14``, ``with CoT``. A false setting is empty; files lose their folders."""
    if isinstance(value, bool):
        return f"with {'CoT' if name == 'cot' else name}" if value else ""
    if isinstance(value, str) and re.search(r"[\\/]|\.\w+(,|$)", value):
        first, *others = file_names(value)
        value = f"{first} and {len(others)} more" if others else first
    return f"{name} {value}"


@dataclass(frozen=True)
class Measured:
    """The data of one benchmark in all runs of a report: the input of its section."""

    benchmark: str
    series: tuple[Series, ...]

    @cached_property
    def facts(self) -> BenchmarkMetadata:
        """The recorded facts of the benchmark (title, controls, targets, chance levels), from the newest run."""
        runs = sorted((s.run.facts for s in self.series), key=lambda facts: facts.started, reverse=True)
        return facts_of(self.benchmark, *runs) or BenchmarkMetadata.unknown(self.benchmark)

    @property
    def is_cluster_weighted(self) -> bool:
        """True if each cluster counts once in accuracies and comparisons, whatever its number of items."""
        return self.facts.weighting == "cluster"

    def accuracy(self, series: Series, tasks: Iterable[str] | None = None) -> Share | None:
        """Return the accuracy of a series over all tasks or the given ones, by cluster or by item."""
        chosen = None if tasks is None else frozenset(tasks)
        key = series.index, chosen
        if key not in self._accuracies:
            records = self.records(series, chosen)
            self._accuracies[key] = accuracy(records, by_cluster=self.is_cluster_weighted)
        return self._accuracies[key]

    @cached_property
    def _accuracies(self) -> dict[tuple[int, frozenset[str] | None], Share | None]:
        return {}

    @cached_property
    def changes(self) -> Mapping[Place, tuple[Sequence[Pair], Change]]:
        """On each place, the pairs of the items that two series have in common, and their change.

        Places that rank no models are not judged.
        """
        from pytest_llmprops.statistics.judgement import measured

        first, second = self.series
        decided = tasks_by_answer(*(s.run.facts for s in self.series))
        all_pairs = pairs_of(pair_items(self.records(first), self.records(second), decided))
        judged, by_cluster = first.judgement(second), self.is_cluster_weighted
        return {
            place: (
                pairs,
                judged.get(Member.part(TaskKey(self.benchmark, *place)))
                or measured(score_pairs(pairs, lambda _: by_cluster)),
            )
            for place, pairs in grouped(all_pairs, lambda pair: task_key_of(pair.key)[1:]).items()
        }

    @property
    def headline_tasks(self) -> list[str]:
        """The tasks that count in the benchmark's headline figure; all tasks if none of these was run."""
        return self.facts.headline_tasks(task for task, _, _ in self.places)

    def headline(self, series: Series) -> Share | None:
        """Return the accuracy over the headline tasks; None without an answer, or if it ranks no models."""
        tasks = self.headline_tasks
        return self.accuracy(series, tasks) if self.facts.is_ranked(tasks) else None

    def searches(self, series: Series) -> list[SearchRecord]:
        """Return the searches for counterexamples of a series, one per item."""
        return self._own(series, series.run.searches)

    def rows(self, series: Series) -> list[SummaryRow]:
        """Return the rows of ``summary`` of a series."""
        return self._own(series, series.run.facts.summary)

    def remarks(self, series: Series) -> list[Remark]:
        """Return the remarks on a series."""
        return self._own(series, series.run.facts.remarks)

    def _own(self, series: Series, rows: Iterable[R]) -> list[R]:
        return [r for r in rows if (r.model, r.benchmark) == (series.model, self.benchmark)]

    def row(self, series: Series, place: Place) -> SummaryRow | None:
        """Return the row of a task, language and source; None if the series has none."""
        return next((r for r in self.rows(series) if place_of(r) == place), None)

    @cached_property
    def places(self) -> list[Place]:
        """Task, language and source of all rows, in order of first appearance."""
        return list(dict.fromkeys(place_of(r) for s in self.series for r in self.rows(s)))

    def metric(self, series: Series, name: str, place: Place, group: str = "") -> MetricRow | None:
        """Return the row of a metric; None if the series has none."""
        wanted = (name, group, place)
        return next((r for r in self.metrics(series) if (r.name, r.group, place_of(r)) == wanted), None)

    def metrics(self, series: Series) -> list[MetricRow]:
        """Return the rows of ``metrics`` of a series."""
        return self._own(series, series.run.facts.metrics)

    def records(self, series: Series, tasks: Iterable[str] | None = None) -> list[VerdictRecord]:
        """Return the verdict records of a series, of all tasks or of the given ones: one per sample of an item."""
        records = series.by_benchmark.get(self.benchmark, [])
        if tasks is None:
            return records
        names = set(tasks)
        return [r for r in records if r.task in names]

    def first_samples(self, series: Series, tasks: Iterable[str] | None = None) -> list[VerdictRecord]:
        """Return one record per item of a series, its first sample, for figures and lists of single items."""
        return [samples[0] for samples in samples_of(self.records(series, tasks)).values()]


def benchmarks_of(series: Sequence[Series]) -> list[Measured]:
    """Return the data of each benchmark that one of the series has, in order of appearance."""
    names = dict.fromkeys(benchmark for s in series for benchmark in s.benchmarks)
    return [Measured(name, tuple(s for s in series if name in s.benchmarks)) for name in names]


def place_of(row: Placed) -> Place:
    """Task, language and source of a row or record."""
    return row.task, row.language, row.source


@dataclass(frozen=True, slots=True)
class Share:
    """A share of ``n`` items with its 95% interval."""

    value: float
    low: float
    high: float
    n: int


Scores = Sequence[tuple[float, str]]


def scores_of(records: Iterable[VerdictRecord]) -> Scores:
    """Return the share of correct samples and the cluster of each answered item of one model and benchmark."""
    return [(item.share, item.cluster) for item in items_of(records) if item.correct]


def accuracy(records: Iterable[VerdictRecord], *, by_cluster: bool = False) -> Share | None:
    """Return the mean over items of their shares of correct samples, without errors; None if all are errors.

    :param records: of one model and benchmark.
    :param by_cluster: the mean is over clusters, each with the mean of its items.
    """
    return accuracy_of(scores_of(records), by_cluster=by_cluster)


def accuracy_of(items: Scores, *, by_cluster: bool) -> Share | None:
    """Return :func:`accuracy` of items with these scores."""
    if not items:
        return None
    scores, clusters = [score for score, _ in items], [cluster for _, cluster in items]
    if by_cluster:
        scores, clusters = cluster_means(scores, clusters)
    interval: Interval = mean_interval(scores, clusters)
    return Share(sum(scores) / len(scores), interval.low, interval.high, len(items))
