"""The outcome of a case in pytest's reports."""

from __future__ import annotations

import pytest

from pytest_llmprops.core.texts import shortened, terminal_line
from pytest_llmprops.core.verdicts import Verdict
from pytest_llmprops.engine.evaluator import Case, Outcome
from pytest_llmprops.engine.groups import CaseGroup, GroupOutcome, GroupVerdict
from pytest_llmprops.plugin.assertions import asserts


def failure_line(outcome: Outcome | GroupOutcome) -> str | None:
    """Return the line that pytest shows for a failed case; None if the case did not fail."""
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


def is_model_failure(outcome: Outcome | GroupOutcome, call: pytest.CallInfo[None]) -> bool:
    """Whether a case failed only because its verdict is wrong or missing."""
    if call.excinfo is not None and call.excinfo.value in (outcome.error, outcome.fault):
        return True
    return is_wrong_verdict(outcome, call)


def is_wrong_verdict(outcome: Outcome | GroupOutcome, call: pytest.CallInfo[None]) -> bool:
    """Whether a case failed only because its verdict is wrong: in ``assert verdict``, not in another assertion."""
    if call.excinfo is None or call.when != "call" or outcome.verdict is None or outcome.verdict:
        return False
    error = call.excinfo.value
    return isinstance(error, AssertionError) and asserts(error, outcome.verdict)


def properties(unit: Case | CaseGroup, verdict: Verdict | GroupVerdict) -> list[tuple[str, str]]:
    """Return the properties of a case for JUnit reports."""
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
        rows.append((f"llmprops.{verdict.noun}", str(verdict.total)))
        rows += [(f"llmprops.{status}", str(n)) for status, n in verdict.counts.items() if n]
    return rows
