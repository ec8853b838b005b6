"""Several items as one pytest case: its status, its line, and its records."""

from __future__ import annotations

import json
from typing import Any

from pytest_llmprops.core.benchmark import Benchmark, NoSettings
from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.protocols import Protocol
from pytest_llmprops.core.verdicts import Status, Verdict
from pytest_llmprops.engine.evaluator import LISTED, Case, CaseGroup, GroupOutcome, Outcome, group_outcome


class Some(Benchmark):
    """A benchmark that has only a name."""

    name = "some"


def outcome_of(*results: Status | Exception | str, given: str = "") -> GroupOutcome:
    """Return a group with one item per status, error or fault; other texts are reasons to stop."""
    outcomes = []
    for number, what in enumerate(results):
        case = Case(Some(), Item(f"some/{number}", "t", "zh"), None, Protocol("quick", NoSettings()), "m")
        more: dict[str, Any]
        if isinstance(what, BackendError):
            more = {"error": what}
        elif isinstance(what, Exception):
            more = {"fault": what}
        elif what in ("correct", "wrong", "refused", "unparsed"):
            score = float(what == "correct")
            more = {"verdict": Verdict(what, "x", given, f"reason {number}", score)}  # type: ignore[arg-type]
        else:
            more = {"stopped": what}
        outcomes.append(Outcome(case, **more))
    return group_outcome(CaseGroup("g", tuple(o.case for o in outcomes)), outcomes)


def test_all_correct() -> None:
    """A group passes if every item is correct."""
    outcome = outcome_of("correct", "correct")
    assert outcome.verdict
    assert (outcome.status, outcome.verdict.score, outcome.failures) == ("correct", 1.0, [])


def test_failures_are_counted_and_the_first_named() -> None:
    """The worst status represents the group; the line counts each kind and names three failures."""
    outcome = outcome_of("refused", "wrong", "correct", "unparsed", "wrong", BackendError("lost"))
    assert outcome.verdict is not None
    assert not outcome.verdict
    assert outcome.status == "wrong"
    assert outcome.verdict.reason == (
        "2 of 6 items wrong, 1 refused, 1 unparsed, 1 errors:"
        " some/0 (reason 0); some/1 (reason 1); some/3 (reason 3); and 1 more"
    )
    assert outcome.verdict.score == 1 / 5


def test_errors_alone_are_an_error() -> None:
    """Errors next to correct items make the case an error with the first error's message."""
    outcome = outcome_of("correct", BackendError("lost"), BackendError("again"))
    assert outcome.verdict is None
    assert outcome.error is not None
    assert outcome.error.message == "2 of 3 items: lost"
    assert outcome.status == "error"


def test_fault_is_reported_first() -> None:
    """An exception in the benchmark's code is reported before any other failure."""
    fault = KeyError("x")
    outcome = outcome_of("wrong", fault)
    assert (outcome.fault, outcome.verdict) == (fault, None)


def test_stopped_group_keeps_its_judged_items() -> None:
    """In a group interrupted by a stop, judged items are recorded and there is no verdict."""
    outcome = outcome_of("correct", "out of money", "wrong")
    assert (outcome.stopped, outcome.verdict) == ("out of money", None)
    assert [json.loads(line)["id"] for line in outcome.lines.split("\n") if line] == ["some/0", "some/2"]


def test_lines_are_the_records() -> None:
    """Each item is one line for any separators in its texts, and lone surrogates are preserved."""
    outcome = outcome_of("wrong", "correct", given="a\u2028b\n\x85c")
    assert [json.loads(line) for line in outcome.lines.rstrip("\n").split("\n")] == [
        record.to_json() for record in outcome.records
    ]
    assert outcome_of("wrong", given="\ud800").lines.encode()


def test_listed_failures_are_bounded() -> None:
    """Only a limited number of failures is kept for a report, but all are counted."""
    outcome = outcome_of(*["wrong"] * (LISTED + 5))
    assert len(outcome.failures) == LISTED
    assert outcome.counts["wrong"] == LISTED + 5
