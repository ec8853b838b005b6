"""The judgement of one item, and its form in the run record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pytest_llmprops.core.items import Item
from pytest_llmprops.core.records import NOTHING, VerdictRecord
from pytest_llmprops.core.strict_json import JSON

Status = Literal["correct", "wrong", "refused", "unparsed"]
STATUSES: tuple[Status, ...] = get_args(Status)
#: the score of a verdict that names none; compared by identity
_BY_STATUS = float("nan")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A benchmark's judgement of one item.

    :param status: ``correct``, ``wrong``, ``refused`` (the model declined) or ``unparsed`` (no answer
        could be read; this includes empty and cut-off replies).
    :param expected: the expected answer, as shown to people.
    :param given: the model's answer, as shown to people.
    :param reason: one phrase that explains the status.
    :param score: 1.0 for correct, otherwise 0.0, unless the benchmark defines partial scores.
    :param values: flat numbers from which every metric of the benchmark can be computed.
    :param evidence: a JSON object with the benchmark's own keys: what people and reports need to know about the
        judgement. Plain dicts and lists. No metric depends on it.
    :param task: the task of the record if it depends on the answer (``Benchmark.tasks_by_answer``), otherwise empty.
    """

    status: Status
    expected: str = ""
    given: str = ""
    reason: str = ""
    score: float = _BY_STATUS
    values: Mapping[str, float] = field(default_factory=dict)
    evidence: Mapping[str, JSON] = field(default_factory=dict)
    task: str = ""

    def __post_init__(self) -> None:
        if self.score is _BY_STATUS:
            object.__setattr__(self, "score", 1.0 if self.status == "correct" else 0.0)

    @classmethod
    def check(cls, correct: bool, *, expected: str, given: str, reason: str = "", **more: Any) -> Verdict:
        """Return a verdict that is either ``correct`` or ``wrong``.

        :param reason: default: "as expected", or the expected answer.
        :param more: ``values``, ``evidence`` and ``task`` of the verdict.
        """
        if not reason:
            reason = "as expected" if correct else f"expected {expected!r}"
        return cls("correct" if correct else "wrong", expected, given, reason, float(correct), **more)

    def __bool__(self) -> bool:
        return self.status == "correct"


def record_of(
    item: Item,
    benchmark: str,
    model: str,
    verdict: Verdict | None,
    *,
    requests: Sequence[str],
    error: str = "",
    sample: int = 0,
) -> VerdictRecord:
    """Return the record of one item's verdict; without a verdict its status is ``error``."""
    return VerdictRecord(
        model=model,
        benchmark=benchmark,
        task=(verdict.task if verdict is not None else "") or item.task,
        language=item.language,
        source=item.source,
        id=item.id,
        cluster=item.cluster,
        sample=sample,
        status="error" if verdict is None else verdict.status,
        score=None if verdict is None else verdict.score,
        expected="" if verdict is None else verdict.expected,
        given="" if verdict is None else verdict.given,
        reason=error if verdict is None else verdict.reason,
        values=NOTHING if verdict is None else verdict.values or NOTHING,
        evidence=NOTHING if verdict is None else verdict.evidence or NOTHING,
        requests=tuple(requests),
    )
