"""Computing the rows of ``summary`` and ``metrics`` from verdict records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from pytest_llmprops.core.metrics import Metric
from pytest_llmprops.core.records import Group, MetricRow, SummaryRow, VerdictRecord
from pytest_llmprops.core.statistics import mean_interval


def summary_rows(records: Iterable[VerdictRecord]) -> tuple[SummaryRow, ...]:
    """Return one row per model, benchmark, task, language and source, in order of first appearance.

    ``accuracy`` is correct / (items - errors), None without an answer. Its 95% interval is Wilson's, or a cluster
    bootstrap if clusters have more than one item.
    """
    groups: dict[Group, list[VerdictRecord]] = {}
    for record in records:
        groups.setdefault(record.group, []).append(record)
    return tuple(_row(key, members) for key, members in groups.items())


def _row(group: Group, members: Sequence[VerdictRecord]) -> SummaryRow:
    counts = Counter(record.status for record in members)
    answered = [r for r in members if r.status != "error"]
    scores = [float(r.status == "correct") for r in answered]
    interval = mean_interval(scores, [r.cluster for r in answered]) if answered else None
    return SummaryRow(
        *group,
        items=len(members),
        clusters=len({r.cluster for r in members}),
        errors=counts["error"],
        correct=counts["correct"],
        wrong=counts["wrong"],
        refused=counts["refused"],
        unparsed=counts["unparsed"],
        accuracy=sum(scores) / len(scores) if answered else None,
        ci_low=None if interval is None else interval.low,
        ci_high=None if interval is None else interval.high,
        ci_method=None if interval is None else interval.method,
    )


def metric_rows(
    records: Iterable[VerdictRecord],
    metrics: Mapping[str, Callable[[Sequence[VerdictRecord]], Iterable[Metric]]],
) -> tuple[MetricRow, ...]:
    """Return the metrics of every model and benchmark; ``metrics`` maps benchmark names to functions."""
    groups: dict[tuple[str, str], list[VerdictRecord]] = {}
    for record in records:
        groups.setdefault((record.model, record.benchmark), []).append(record)
    return tuple(
        metric.row(model, benchmark)
        for (model, benchmark), members in groups.items()
        if benchmark in metrics
        for metric in metrics[benchmark](members)
    )
