"""The metrics of ERAS, computed from the values of verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_llmprops.benchmarks.eras import authors_metrics, explicit, implicit_metrics
from pytest_llmprops.benchmarks.eras.implicit import is_tie
from pytest_llmprops.benchmarks.eras.items import EXPLICIT, IMPLICIT
from pytest_llmprops.benchmarks.eras.values import facts_of, pair_result, paradigm_name
from pytest_llmprops.core.metrics import Metric, Place, by_place, rate
from pytest_llmprops.core.records import VerdictRecord


def metric_rows(records: Sequence[VerdictRecord]) -> Iterator[Metric]:
    """Yield tables 1 and 2 as rows: means over paradigms, computed from the records' values alone."""
    for place, members in by_place(records).items():
        yield from (
            _explicit_rows(place, members) if place[0] == EXPLICIT else _implicit_rows(place, members)
        )


def remarks(records: Sequence[VerdictRecord]) -> Iterator[str]:
    """Yield a warning if all implicit pairs are ties, because their accuracy then means nothing."""
    pairs = [pair_result(r.values) for r in records if r.task == IMPLICIT and "test" in r.values]
    if len(pairs) > 1 and all(is_tie(pair.scores) for pair in pairs):
        yield f"all {len(pairs)} implicit pairs are ties: the sentiment scores do not depend on the sentence"


def _explicit_rows(place: Place, members: Sequence[VerdictRecord]) -> Iterator[Metric]:
    values: list[Mapping[str, Any]] = [r.values for r in members if "test" in r.values]
    if not values:
        return
    facts = {paradigm_name(v): facts_of(v) for v in values}
    scores = explicit.paradigm_scores((paradigm_name(v), bool(v["test"]), bool(v["control"])) for v in values)
    yield from explicit.accuracy_rows(place, scores, facts)
    for name in ("canary_token", "canary_swallowed"):
        groups: dict[str, list[float]] = {}
        for v in values:
            groups.setdefault(paradigm_name(v), []).append(v[name])
        mean = sum(sum(group) / len(group) for group in groups.values()) / len(groups)
        yield Metric(*place, f"{name}_rate", mean, len(values), "overall", direction="lower")


def _implicit_rows(place: Place, members: Sequence[VerdictRecord]) -> Iterator[Metric]:
    values: list[Mapping[str, Any]] = [r.values for r in members if "test" in r.values]
    pairs = [pair_result(v) for v in values]
    yield from implicit_metrics.implicit_metrics(place, pairs)
    yield from authors_metrics.authors_metrics(place, pairs)
    if pairs:
        yield rate(place, "tie_rate", [is_tie(pair.scores) for pair in pairs], "none")
    sampled = [bool(v["sampled"]) for v in values if "sampled" in v]
    if sampled:
        yield rate(place, "sampled_rate", sampled, "none")
