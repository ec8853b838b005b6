"""Decisions of a gate on the recorded runs of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.runs.gate.decide import decide, with_computed_metrics
from pytest_llmprops.runs.gate.file import read_gate
from pytest_llmprops.runs.reader import Run


def gated(runs: Sequence[Run], path: Path) -> list[Run]:
    """Return the runs with the gate's decision on each; earlier decisions are replaced.

    :param runs: the baseline first, if the gate has rules that compare. It keeps the decision in its record.
    :param path: the gate file.
    :raises UsageError: if a rule compares and there is only one run.
    """
    gate = read_gate(path)
    if gate.needs_baseline and len(runs) < 2:
        raise UsageError(
            f"{path}: a rule with no_regression or max_drop needs a baseline; give one with --baseline RUN"
        )
    baseline = runs[0] if gate.needs_baseline else None
    decided: list[Run] = []
    for run in runs:
        if run is not baseline:
            run = with_computed_metrics(gate, run)
            result = decide(gate, run.facts, run.records, baseline, problems=run.problems)
            run = replace(run, facts=replace(run.facts, gate=result))
        decided.append(run)
    return decided
