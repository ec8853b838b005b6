"""Which of the papers' printed results stand beside a row of a run's summary."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pytest_llmprops.data.published_results import PublishedResult, load_published

#: most published models named in one row
MOST = 3


@cache
def _accuracies(paper: str) -> tuple[PublishedResult, ...]:
    return tuple(r for r in load_published(paper) if r.metric == "accuracy" and not r.setting)


def ranked(row: Mapping[str, Any], protocol: Mapping[str, Any]) -> list[PublishedResult]:
    """The papers' accuracies for the row's task and language, one a model, best first.

    H-TEST rows compare results at the run's own number of examples.
    """
    paper = row["benchmark"]
    k = protocol.get("settings", {}).get("k")
    found = [
        r
        for r in _accuracies(paper)
        if r.task == row["task"]
        and r.language in ("", row["language"])
        and (r.k is None or r.k == k)
        and "doubtful" not in r.note
    ]
    best: dict[str, PublishedResult] = {}
    for result in found:
        best.setdefault(result.model, result)
    return sorted(best.values(), key=lambda result: -result.value)


def beside(row: Mapping[str, Any], protocol: Mapping[str, Any]) -> str:
    """The best of :func:`ranked` as one text; empty where none were printed."""
    return ", ".join(f"{r.model} {100 * r.value:.1f}" for r in ranked(row, protocol)[:MOST])
