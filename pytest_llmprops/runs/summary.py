"""Computing the rows of ``summary`` and ``metrics`` from verdict records."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.contracts import checked_metrics, checked_remarks
from pytest_llmprops.core.errors import ContractError
from pytest_llmprops.core.items import grouped
from pytest_llmprops.core.metrics import (
    Metric,
    MetricRow,
    items_of,
    mean_metrics,
    repeat_metrics,
    variance_of,
)
from pytest_llmprops.core.verdicts import Group, VerdictRecord
from pytest_llmprops.records.rows import Remark, SummaryRow
from pytest_llmprops.runs.benchmark_metadata import IsWeighted, cluster_weighted
from pytest_llmprops.runs.readings import reading_remarks
from pytest_llmprops.statistics.bounded_mean import cluster_means
from pytest_llmprops.statistics.intervals import mean_interval


def summary_rows(
    records: Iterable[VerdictRecord], is_weighted: IsWeighted | None = None, *, intervals: bool = True
) -> tuple[SummaryRow, ...]:
    """Return one row per model, benchmark, task, language and source, in order of first appearance.

    ``accuracy`` is the mean over the answered items of their shares of correct samples, None without an answer. Its
    95% interval is that of :func:`~pytest_llmprops.statistics.intervals.mean_interval`, with items as observations.

    :param is_weighted: whether each cluster of a benchmark counts once, which adds ``cluster_accuracy``; by default
        as the installed benchmarks say.
    :param intervals: False leaves out the intervals, which take most of the time.
    """
    is_weighted = is_weighted or cluster_weighted()
    groups = grouped(records, lambda record: record.group)
    return tuple(_row(key, members, is_weighted(key.benchmark), intervals) for key, members in groups.items())


def _row(group: Group, members: Sequence[VerdictRecord], by_cluster: bool, intervals: bool) -> SummaryRow:
    counts = Counter(record.status for record in members)
    items = items_of(members)
    answered = [item for item in items if item.correct]
    scores = [item.share for item in answered]
    clusters = [item.cluster for item in answered]
    interval = mean_interval(scores, clusters) if answered and intervals else None
    means = cluster_means(scores, clusters) if answered and by_cluster else None
    limits = mean_interval(*means) if means is not None and intervals else None
    variance = variance_of(answered)
    return SummaryRow(
        *group,
        items=len(items),
        clusters=len({item.cluster for item in items}),
        samples=len(members),
        answered=len(answered),
        errors=counts["error"],
        correct=counts["correct"],
        wrong=counts["wrong"],
        refused=counts["refused"],
        unparsed=counts["unparsed"],
        untested=counts["untested"],
        accuracy=math.fsum(scores) / len(scores) if answered else None,
        ci_low=None if interval is None else interval.low,
        ci_high=None if interval is None else interval.high,
        ci_method=None if interval is None else interval.method,
        between_items=None if variance is None else variance.between,
        within_items=None if variance is None else variance.within,
        cluster_accuracy=None if means is None else math.fsum(means[0]) / len(means[0]),
        cluster_ci_low=None if limits is None else limits.low,
        cluster_ci_high=None if limits is None else limits.high,
    )


def pooled_accuracy(rows: Iterable[SummaryRow]) -> float | None:
    """Return the accuracy of one model over rows of ``summary``; None without an answer.

    Each answered item counts once, or each cluster if the rows have an accuracy over clusters.
    """
    known = [
        (row.estimate[0], row.answered if row.cluster_accuracy is None else row.clusters)
        for row in rows
        if row.estimate is not None
    ]
    total = sum(n for _, n in known)
    return sum(share * n for share, n in known) / total if total else None


def metric_rows(
    records: Iterable[VerdictRecord], benchmarks: Mapping[str, Benchmark]
) -> tuple[tuple[MetricRow, ...], list[str]]:
    """Return the metrics of every model and benchmark, and one line for each that a benchmark could not compute.

    The metrics of a run with repeats are computed for each repeat, as if it were a run of its own, and averaged
    (:func:`~pytest_llmprops.core.metrics.mean_metrics`). ``pass@k`` and ``majority`` are added where they have a
    meaning (:attr:`Benchmark.one_decision`).

    :param benchmarks: by name; the records of others are left out.
    """
    # By item, so that bootstrap intervals do not depend on which ended first.
    ordered = [
        record
        for members in grouped(records, lambda record: record.group).values()
        for record in sorted(members, key=lambda record: (record.id, record.sample))
    ]
    groups = grouped(ordered, lambda record: (record.model, record.benchmark))
    rows: list[MetricRow] = []
    problems: dict[str, None] = {}
    for (model, name), members in groups.items():
        if name in benchmarks:
            metrics, own_problems = _metrics(benchmarks[name], members)
            rows += (metric.row(model, name) for metric in metrics)
            problems |= dict.fromkeys(map(str, own_problems))
    return tuple(rows), list(problems)


def _metrics(
    benchmark: Benchmark, records: Sequence[VerdictRecord]
) -> tuple[list[Metric], list[ContractError]]:
    repeats = grouped(records, lambda record: record.sample)
    if len(repeats) == 1:
        return checked_metrics(benchmark, records)
    of_repeats = [checked_metrics(benchmark, repeats[sample]) for sample in sorted(repeats)]
    own = mean_metrics([metrics for metrics, _ in of_repeats])
    added = repeat_metrics(records, without=benchmark.accuracy_targets) if benchmark.one_decision else ()
    return [*own, *added], [problem for _, problems in of_repeats for problem in problems]


#: a benchmark's remark that begins with this is a warning: the numbers may not mean what they seem to
WARNING = "warning: "


def remarks_on(
    verdicts: Iterable[VerdictRecord], benchmarks: Mapping[str, Benchmark]
) -> tuple[tuple[Remark, ...], list[str]]:
    """Return remarks on each model and benchmark, and one line for each remark that a benchmark could not make.

    Warnings on how the replies were read come first.

    :param benchmarks: by name; there are no remarks of others.
    """
    # A remark may test something over items; further samples of the same items are not more items.
    first = (verdict for verdict in verdicts if not verdict.sample)
    groups = grouped(first, lambda verdict: (verdict.model, verdict.benchmark))
    remarks: list[Remark] = []
    problems: dict[str, None] = {}
    for (model, name), members in groups.items():
        if name in benchmarks:
            texts, own_problems = checked_remarks(benchmarks[name], "remarks", members)
            warnings = reading_remarks(benchmarks[name], members)
            remarks += (Remark(model, name, text, warning=True) for text in warnings)
            for text in texts:
                warning = text.startswith(WARNING)
                remarks.append(Remark(model, name, text.removeprefix(WARNING), warning))
            problems |= dict.fromkeys(map(str, own_problems))
    return tuple(remarks), list(problems)
