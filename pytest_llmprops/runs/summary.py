"""From verdict records to the rows of ``summary`` and ``metrics``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pytest_llmprops.core.metrics import Metric, Record
from pytest_llmprops.core.statistics import mean_interval

GROUP = ("model", "benchmark", "task", "language", "source")


def summary_rows(records: Iterable[Record]) -> list[dict[str, Any]]:
    """One row a model, benchmark, task, language and source, in order of first appearance.

    ``accuracy`` is correct / (items - errors), null when nothing was answered; its 95% interval is
    Wilson's, or a cluster bootstrap where clusters have more than one item.
    """
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(getattr(record, name) for name in GROUP), []).append(record)
    return [_row(key, members) for key, members in groups.items()]


def _row(key: tuple[str, ...], members: Sequence[Record]) -> dict[str, Any]:
    counts = dict.fromkeys(("error", "correct", "wrong", "refused", "unparsed"), 0)
    for record in members:
        counts[record.status] += 1
    answered = [r for r in members if r.status != "error"]
    row: dict[str, Any] = dict(zip(GROUP, key, strict=True))
    row |= {
        "items": len(members),
        "clusters": len({r.cluster for r in members}),
        "errors": counts.pop("error"),
        **counts,
        "accuracy": None,
        "ci_low": None,
        "ci_high": None,
        "ci_method": None,
    }
    if answered:
        scores = [float(r.status == "correct") for r in answered]
        interval = mean_interval(scores, [r.cluster for r in answered])
        row["accuracy"] = sum(scores) / len(scores)
        row["ci_low"], row["ci_high"], row["ci_method"] = interval
    return row


def metric_rows(
    records: Iterable[Record], metrics: Mapping[str, Callable[[Sequence[Record]], Iterable[Metric]]]
) -> list[dict[str, Any]]:
    """Every benchmark's own numbers, a model at a time; ``metrics`` maps benchmark names to functions."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.model, record.benchmark), []).append(record)
    return [
        metric.to_json(model, benchmark)
        for (model, benchmark), members in groups.items()
        if benchmark in metrics
        for metric in metrics[benchmark](members)
    ]
