"""Several items that one pytest case reports together (``Benchmark.case_names``)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.records import RecordStatus, VerdictRecord
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.core.verdicts import Status
from pytest_llmprops.engine.evaluator import Case, Outcome

#: number of failures that a case's one line names
NAMED = 3
#: number of failures that a case's report lists
LISTED = 200
_BAD: tuple[Status, ...] = ("wrong", "refused", "unparsed")
_encode = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, slots=True, eq=False)
class CaseGroup:
    """Items of one benchmark and model that form the pytest case ``name``."""

    name: str
    cases: tuple[Case, ...]

    @property
    def model(self) -> str:
        """The label of the model under test."""
        return self.cases[0].model


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """The verdict on several items; true if the model was right on all of them.

    :param status: the first of wrong, refused, unparsed that occurs; otherwise ``correct``.
    :param counts: number of items by status, including ``error``.
    :param reason: one line.
    """

    status: Status
    counts: dict[str, int]
    reason: str

    @property
    def items(self) -> int:
        """Number of items."""
        return sum(self.counts.values())

    @property
    def score(self) -> float:
        """The share of correct items among those with a verdict."""
        judged = self.items - self.counts["error"]
        return self.counts["correct"] / judged if judged else 0.0

    def __bool__(self) -> bool:
        return self.status == "correct"


@dataclass(slots=True)
class GroupOutcome:
    """The outcome of a group.

    The case fails if an item is wrong, refused or unparsed; its line also counts the errors. It is an error if items
    are errors and all others are correct. ``lines`` has the record of every item.
    """

    group: CaseGroup
    verdict: GroupVerdict | None = None
    error: BackendError | None = None
    stopped: str | None = None
    fault: Exception | None = None
    counts: dict[str, int] = field(default_factory=dict)
    #: the items' records; ``lines`` has them as lines of ``verdicts.jsonl``
    records: list[VerdictRecord] = field(default_factory=list)
    lines: str = ""
    #: the first records that are not correct
    failures: list[VerdictRecord] = field(default_factory=list)

    @property
    def status(self) -> RecordStatus:
        """The case's status, which may be ``error``."""
        return "error" if self.verdict is None else self.verdict.status


def group_outcome(group: CaseGroup, outcomes: Iterable[Outcome]) -> GroupOutcome:
    """Return the outcome of a group from those of its cases, without items that a stopped run did not finish."""
    result = GroupOutcome(group)
    counts = dict.fromkeys(("correct", *_BAD, "error"), 0)
    first_error: BackendError | None = None
    for outcome in outcomes:
        if outcome.stopped is not None:
            result.stopped = outcome.stopped
            continue
        record = outcome.record()
        counts[record.status] += 1
        result.records.append(record)
        if record.status != "correct" and len(result.failures) < LISTED:
            result.failures.append(record)
        if outcome.fault is not None and result.fault is None:
            result.fault = outcome.fault
        if first_error is None:
            first_error = outcome.error
    result.counts = counts
    lines = "".join([_encode(record.to_json()) + "\n" for record in result.records])
    # Lone surrogates of an untrusted reply cannot be sent to another process.
    result.lines = lines.encode("utf-8", "replace").decode()
    if result.stopped is not None or result.fault is not None:
        return result
    bad = [status for status in _BAD if counts[status]]
    if bad:
        result.verdict = GroupVerdict(bad[0], counts, _reason(result))
    elif first_error is not None:
        result.error = BackendError(
            f"{counts['error']} of {len(result.records)} items: {first_error.message}", kind=first_error.kind
        )
    else:
        result.verdict = GroupVerdict("correct", counts, f"all {len(result.records)} items correct")
    return result


def _reason(result: GroupOutcome) -> str:
    counts, total = result.counts, len(result.records)
    first, *more = [f"{counts[s]} {'errors' if s == 'error' else s}" for s in (*_BAD, "error") if counts[s]]
    number, _, status = first.partition(" ")
    counted = ", ".join([f"{number} of {total} items {status}", *more])
    named = [r for r in result.failures if r.status != "error"][:NAMED]
    listed = "; ".join(f"{r.id} ({one_line(r.reason, 80)})" for r in named)
    rest = sum(counts[s] for s in _BAD) - len(named)
    return f"{counted}: {listed}" + (f"; and {rest} more" if rest > 0 else "")
