"""The log of gate decisions: every run that was gated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pytest_llmprops.core.gate_results import GateResult
from pytest_llmprops.reports.kit.text import joined, visible
from pytest_llmprops.reports.site.measurements import SiteRun


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on one run, as its record has it.

    :param rules: name, required, measured, verdict and reason of each check.
    """

    run: SiteRun
    candidate: str
    gate: GateResult
    why: str
    rules: tuple[tuple[str, ...], ...]


def decisions_of(runs: Iterable[SiteRun]) -> list[Decision]:
    """Return the decisions on all readable runs, newest first."""
    decided = [_decision(run, run.facts.gate) for run in runs if run.facts and run.facts.gate]
    return sorted(decided, key=lambda d: (d.run.started, d.run.run_id), reverse=True)


def _decision(run: SiteRun, gate: GateResult) -> Decision:
    assert run.facts is not None
    _, _, why = gate.line.partition(": ")
    rules = tuple(
        (rule.name, check.required, check.measured, check.verdict, check.reason)
        for rule in gate.rules
        for check in rule.checks
    )
    return Decision(run, joined(list(run.facts.models)), gate, why, rules)


def details(decisions: Iterable[Decision]) -> list[dict[str, Any]]:
    """Return what the page shows of each decision when it is opened, as plain JSON."""
    return [
        {
            "rules": [[visible(text) for text in rule] for rule in decision.rules],
            "notes": [visible(text) for text in (*decision.gate.reasons, *decision.gate.notes)],
            "file": visible(decision.gate.file),
        }
        for decision in decisions
    ]
