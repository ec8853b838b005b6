"""What the candidate of a report lost and gained, over all benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_llmprops.reports.kit.blocks import Upgrade
from pytest_llmprops.reports.kit.series import Series
from pytest_llmprops.runs.benchmark_metadata import tasks_by_answer
from pytest_llmprops.runs.pairs import pair_records


def default_pair(series: Sequence[Series]) -> tuple[int, int]:
    """Return the series that are baseline and candidate when the page opens: the first of the first run, and the same
    model of another run, if there is one.
    """
    others = [s for s in series if s.run is not series[0].run]
    same = [s for s in others if s.model == series[0].model]
    return (0, [*same, *others, *series[1:], *series][0].index) if series else (0, 0)


def upgrade_of(series: Sequence[Series]) -> Upgrade | None:
    """Return the counts of the default pair; None for a single series, and for two without a common item."""
    if len(series) < 2:
        return None
    baseline, candidate = (series[n] for n in default_pair(series))
    decided = tasks_by_answer(baseline.run.facts, candidate.run.facts)
    before, after = ([r for rows in s.by_benchmark.values() for r in rows] for s in (baseline, candidate))
    paired = pair_records(before, after, decided)
    if not paired.pairs:
        return None
    same = [pair for pair in paired.pairs if pair.candidate == pair.baseline]
    right = sum(pair.candidate == 1 for pair in same)
    return Upgrade(
        (baseline.index, candidate.index),
        (baseline.starred, candidate.starred),
        lost=sum(pair.candidate < pair.baseline for pair in paired.pairs),
        gained=sum(pair.candidate > pair.baseline for pair in paired.pairs),
        wrong=len(same) - right,
        right=right,
        apart=len(paired.missing) + len(paired.added) + len(paired.errors),
    )
