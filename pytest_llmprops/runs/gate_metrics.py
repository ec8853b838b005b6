"""The metrics that a gate's rules judge, computed again from the verdicts of a recorded run."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from pytest_llmprops.core.records import MetricRow
from pytest_llmprops.runs.gate_file import Gate
from pytest_llmprops.runs.integrity import AGAIN
from pytest_llmprops.runs.reader import Run, computed_metrics

Key = tuple[str, ...]


def with_computed_metrics(gate: Gate, run: Run) -> Run:
    """Return the run with the metrics that the gate's rules judge computed from its verdicts.

    A value in ``run.json`` that differs is one of the run's problems. A benchmark that is not installed keeps the
    metrics of ``run.json``, and a note says so.
    """
    rules = [rule for rule in gate.rules if rule.metric]
    names = {
        name for name in {r.benchmark for r in run.records} if any(rule.concerns(name) for rule in rules)
    }
    computed, notes = computed_metrics([r for r in run.records if r.benchmark in names])
    known = {row.benchmark for row in computed}
    recorded = [row for row in run.facts.metrics if row.benchmark in known]
    others = [row for row in run.facts.metrics if row.benchmark not in known]
    return replace(
        run,
        facts=replace(run.facts, metrics=(*others, *computed)),
        problems=(*run.problems, *_differences(recorded, computed)),
        notes=tuple(dict.fromkeys([*run.notes, *notes])),
    )


def _differences(recorded: Iterable[MetricRow], computed: Iterable[MetricRow]) -> list[str]:
    """Compare values, not intervals: the computed ones are judged."""
    before, after = ({_key(row): row.value for row in rows} for rows in (recorded, computed))
    return [
        f"run.json has {_shown(before.get(key))} for {'/'.join(filter(None, key[1:]))}, computed from the verdicts it"
        f" is {_shown(after.get(key))}: run.json was changed or written by another version; {AGAIN}"
        for key in dict.fromkeys([*before, *after])
        if not _equal(before.get(key), after.get(key))
    ]


def _key(row: MetricRow) -> Key:
    return (row.model, row.benchmark, row.task, row.language, row.source, row.group, row.name)


def _equal(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(one) and math.isnan(other))


def _shown(value: float | None) -> str:
    return "no value" if value is None else f"{value:.6g}"
