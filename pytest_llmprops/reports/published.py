"""The papers' published results for a row of a run's summary."""

from __future__ import annotations

from functools import cache

from pytest_llmprops.core.records import SummaryRow
from pytest_llmprops.core.run_metadata import ProtocolMetadata
from pytest_llmprops.data.published_results import PublishedResult, load_published

#: maximum number of published models per row
MOST = 3


@cache
def _accuracies(paper: str) -> tuple[PublishedResult, ...]:
    return tuple(r for r in load_published(paper) if r.metric == "accuracy" and not r.setting)


def ranked(benchmark: str, task: str, language: str, protocol: ProtocolMetadata) -> list[PublishedResult]:
    """Return the paper's accuracies for a task and language, one per model, best first.

    For H-TEST, only results with the run's number of examples count.
    """
    k = protocol.settings.get("k")
    results = [
        r
        for r in _accuracies(benchmark)
        if r.task == task
        and r.language in ("", language)
        and (r.k is None or r.k == k)
        and "doubtful" not in r.note
    ]
    best: dict[str, PublishedResult] = {}
    for result in results:
        best.setdefault(result.model, result)
    return sorted(best.values(), key=lambda result: -result.value)


def beside(row: SummaryRow, protocol: ProtocolMetadata) -> str:
    """Return the best results of :func:`ranked` as one text; empty without any."""
    printed = ranked(row.benchmark, row.task, row.language, protocol)[:MOST]
    return ", ".join(f"{r.model} {100 * r.value:.1f}" for r in printed)
