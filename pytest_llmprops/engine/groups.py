"""Verdicts that one pytest case reports together: samples of an item, or items (``Benchmark.case_names``)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.records import RecordStatus, VerdictRecord
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.core.verdicts import Status
from pytest_llmprops.engine.evaluator import Case, CaseKey, Outcome

#: number of failures that a case's one line names
NAMED = 3
#: number of failures that a case's report lists
LISTED = 200
_BAD: tuple[Status, ...] = ("wrong", "refused", "unparsed")
_encode = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, slots=True, eq=False)
class CaseGroup:
    """Items of one benchmark and model, with all their samples, that form the pytest case ``name``."""

    name: str
    cases: tuple[Case, ...]

    @property
    def key(self) -> CaseKey:
        """The identity of the group within a session: that of its first case."""
        return self.cases[0].key

    @property
    def is_one_item(self) -> bool:
        """Whether the cases are the samples of one item."""
        return len({case.item.id for case in self.cases}) == 1

    @property
    def noun(self) -> str:
        """What the group counts: ``samples`` or ``items``."""
        return "samples" if any(case.sample for case in self.cases) else "items"

    @property
    def model(self) -> str:
        """The label of the model under test."""
        return self.cases[0].model


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """The verdict on several items or samples; true if the model was right on all of them.

    :param status: the first of wrong, refused, unparsed that occurs; otherwise ``correct``.
    :param counts: number of samples by status, including ``error``.
    :param reason: one line.
    :param noun: what ``counts`` counts: ``items``, or ``samples`` in a run with repeats.
    """

    status: Status
    counts: dict[str, int]
    reason: str
    noun: str = "items"

    @property
    def total(self) -> int:
        """Number of items or samples."""
        return sum(self.counts.values())

    @property
    def score(self) -> float:
        """The share of correct items or samples among those with a verdict."""
        judged = self.total - self.counts["error"]
        return self.counts["correct"] / judged if judged else 0.0

    def __bool__(self) -> bool:
        return self.status == "correct"


@dataclass(slots=True)
class GroupOutcome:
    """The outcome of a group.

    The case fails if a sample of an item is wrong, refused or unparsed; its line also counts the errors. It is an error
    if samples are errors and all others are correct. ``lines`` has the record of every sample.
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
    #: the samples of a group of one item; empty for several items, whose calls would fill the memory
    samples: list[Outcome] = field(default_factory=list)

    @property
    def key(self) -> CaseKey:
        """The key of the group."""
        return self.group.key

    @property
    def status(self) -> RecordStatus:
        """The case's status, which may be ``error``."""
        return "error" if self.verdict is None else self.verdict.status


def group_outcome(group: CaseGroup, outcomes: Iterable[Outcome]) -> GroupOutcome:
    """Return the outcome of a group from those of its cases, without items that a stopped run did not finish."""
    result, keeps_samples = GroupOutcome(group), group.is_one_item
    counts = dict.fromkeys(("correct", *_BAD, "error"), 0)
    first_error: BackendError | None = None
    for outcome in outcomes:
        if outcome.stopped is not None:
            result.stopped = outcome.stopped
            continue
        record = outcome.record()
        if keeps_samples:
            result.samples.append(outcome)
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
        result.verdict = GroupVerdict(bad[0], counts, _reason(result), group.noun)
    elif first_error is not None:
        result.error = BackendError(
            f"{counts['error']} of {len(result.records)} {group.noun}: {first_error.message}",
            kind=first_error.kind,
        )
    else:
        reason = f"all {len(result.records)} {group.noun} correct"
        result.verdict = GroupVerdict("correct", counts, reason, group.noun)
    return result


def _reason(result: GroupOutcome) -> str:
    counts, total, noun = result.counts, len(result.records), result.group.noun
    first, *more = [f"{counts[s]} {'errors' if s == 'error' else s}" for s in (*_BAD, "error") if counts[s]]
    number, _, status = first.partition(" ")
    counted = ", ".join([f"{number} of {total} {noun} {status}", *more])
    failures = [r for r in result.failures if r.status != "error"]
    if noun == "samples" and result.group.is_one_item:
        return f"{counted}: {_answers(failures)}"
    named = failures[:NAMED]
    listed = "; ".join(f"{r.id} ({one_line(r.reason, 80)})" for r in named)
    rest = sum(counts[s] for s in _BAD) - len(named)
    return f"{counted}: {listed}" + (f"; and {rest} more" if rest > 0 else "")


def _answers(failures: Sequence[VerdictRecord]) -> str:
    """Return the different answers of an item's samples that are not correct, the most frequent first."""
    expected = f"expected {failures[0].expected!r}, given " if failures[0].expected else "given "
    answers = Counter(one_line(r.given, 60) for r in failures).most_common()
    listed = [f"{given!r}" + (f" ({n} times)" if n > 1 else "") for given, n in answers[:NAMED]]
    more = f" and {len(answers) - NAMED} other answers" if len(answers) > NAMED else ""
    return f"{one_line(failures[0].reason, 80)} ({expected}{', '.join(listed)}{more})"
