"""How the outcome of a case shows in pytest's reports."""

from __future__ import annotations

import pytest

from pytest_llmprops.core.texts import shortened, terminal_line
from pytest_llmprops.core.verdicts import Verdict
from pytest_llmprops.engine.evaluator import Case, Outcome
from pytest_llmprops.engine.groups import CaseGroup, GroupOutcome, GroupVerdict


def line_of(outcome: Outcome | GroupOutcome) -> str | None:
    """The one line that a failed case shows."""
    if outcome.error is not None:
        return f"backend error: {outcome.error.message}"
    verdict = outcome.verdict
    if verdict is None or verdict:
        return None
    if isinstance(verdict, GroupVerdict):
        return terminal_line(f"{verdict.status}: {verdict.reason}")
    given = shortened(verdict.given, 120)
    return terminal_line(
        f"{verdict.status}: {verdict.reason} (expected {verdict.expected!r}, given {given!r})"
    )


def by_the_model(outcome: Outcome | GroupOutcome, call: pytest.CallInfo[None]) -> bool:
    """Whether a case failed by its verdict, or by having none, and by nothing else."""
    if call.excinfo is not None and call.excinfo.value in (outcome.error, outcome.fault):
        return True
    return by_its_verdict(outcome, call)


def by_its_verdict(outcome: Outcome | GroupOutcome, call: pytest.CallInfo[None]) -> bool:
    """Whether a case failed by its verdict, and by nothing else."""
    failed = call.excinfo is not None and call.excinfo.errisinstance(AssertionError)
    return failed and call.when == "call" and outcome.verdict is not None and not outcome.verdict


def properties(unit: Case | CaseGroup, verdict: Verdict | GroupVerdict) -> list[tuple[str, str]]:
    """What a JUnit report says of a case."""
    case = unit.cases[0] if isinstance(unit, CaseGroup) else unit
    rows = [
        ("llmprops.model", case.model),
        ("llmprops.benchmark", case.benchmark.name),
        ("llmprops.task", getattr(verdict, "task", "") or case.item.task),
        ("llmprops.language", case.item.language),
        ("llmprops.status", verdict.status),
        ("llmprops.score", f"{verdict.score:g}"),
    ]
    if isinstance(verdict, GroupVerdict):
        rows.append(("llmprops.items", str(verdict.items)))
        rows += [(f"llmprops.{status}", str(n)) for status, n in verdict.counts.items() if n]
    return rows
