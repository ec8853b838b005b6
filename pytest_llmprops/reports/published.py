"""Which of the papers' printed results stand beside a row of a run's summary."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pytest_llmprops.data.published_results import PAPERS, PublishedResult, load_published

#: most published models named in one row
MOST = 3


@cache
def _accuracies(paper: str) -> tuple[PublishedResult, ...]:
    return tuple(r for r in load_published(paper) if r.metric == "accuracy" and not r.setting)


def beside(row: Mapping[str, Any], protocol: Mapping[str, Any]) -> str:
    """Published accuracies for the row's task and language, best first; empty where none were printed.

    H-TEST rows compare results at the run's own number of examples.
    """
    paper = row["benchmark"]
    if paper not in PAPERS:
        return ""
    k = protocol.get("settings", {}).get("k")
    found = [
        r
        for r in _accuracies(paper)
        if r.task == row["task"]
        and r.language in ("", row["language"])
        and (r.k is None or r.k == k)
        and "doubtful" not in r.note
    ]
    best: dict[str, float] = {}
    for result in found:
        best.setdefault(result.model, result.value)
    ranked = sorted(best.items(), key=lambda pair: -pair[1])[:MOST]
    return ", ".join(f"{model} {100 * value:.1f}" for model, value in ranked)
