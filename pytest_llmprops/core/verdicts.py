"""The judgement of one item, its evidence, and its form in the run record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from pytest_llmprops.core.field_types import (
    TEXT,
    FreeObject,
    Name,
    Number,
    RecordStatus,
    Sample,
    Score,
    Shared,
    Text,
)
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.strict_json import JSON
from pytest_llmprops.core.texts import shortened

#: What the benchmark knew when it judged, with keys that it documents. The functions that read it accept any JSON,
#: because a record may come from another version or another machine.
Evidence: TypeAlias = Mapping[str, JSON]

#: in ``evidence``: the name of the rule that read the reply, a few words
READ_BY = "read_by"
#: in ``evidence``: what the rule of the other protocol reads, if that differs
OTHER_READING = "other_reading"
#: in ``values``: 1.0 if the rules of both protocols read the same, else 0.0
READ_ALIKE = "read_alike"

#: characters of a list that :func:`evidence_texts` writes on one line
_LINE = 100


class Group(NamedTuple):
    """The model, benchmark, task, language and source that one summary row counts."""

    model: str
    benchmark: str
    task: str
    language: str
    source: str


class VerdictKey(NamedTuple):
    """The model, benchmark, source, item and sample that one verdict is on."""

    model: str
    benchmark: str
    source: str
    id: str
    sample: int


@dataclass(frozen=True, slots=True)
class VerdictRecord:
    """One line of ``verdicts.jsonl``: one sample of one item.

    :param sample: number of the repeat, from 0; 0 in a record without the field.
    :param score: None if ``status`` is ``error``.
    :param values: flat numbers from which every metric of the benchmark can be recomputed.
    :param evidence: the benchmark's own JSON object; empty in a record of schema 1.
    :param requests: keys of the lines of ``requests.jsonl``, in the order of the calls.
    """

    model: Shared
    benchmark: Shared
    task: Shared
    language: Shared
    source: Shared
    id: Name
    cluster: Shared
    sample: Sample = field(default=0, kw_only=True)
    status: RecordStatus
    score: Score | None
    expected: Text
    given: Text
    reason: Text
    values: Mapping[str, Number]
    evidence: FreeObject = field(default_factory=dict, kw_only=True)
    requests: tuple[Name, ...]

    @property
    def group(self) -> Group:
        """The group of the summary row that counts this record."""
        return Group(self.model, self.benchmark, self.task, self.language, self.source)

    @property
    def key(self) -> VerdictKey:
        """What the verdict is on. The last record with a key counts."""
        return VerdictKey(self.model, self.benchmark, self.source, self.id, self.sample)


def without_empty(evidence: Evidence) -> dict[str, JSON]:
    """Return ``evidence`` without the keys whose value is None, or an empty text, list or object."""
    return {key: value for key, value in evidence.items() if value is not None and value not in ("", [], {})}


def text_in(evidence: Evidence, key: str) -> str:
    """Return the text under ``key``; an empty one if there is no text."""
    value = evidence.get(key)
    return value if isinstance(value, str) else ""


def text_lists_in(evidence: Evidence, key: str) -> tuple[tuple[str, ...], ...]:
    """Return the lists of texts in the list under ``key``; other values count as empty lists."""
    return tuple(_texts(value) for value in _list(evidence.get(key)))


def objects_in(evidence: Evidence, key: str) -> tuple[Evidence, ...]:
    """Return the objects in the list under ``key``; other values are left out."""
    return tuple(value for value in _list(evidence.get(key)) if isinstance(value, Mapping))


def object_in(evidence: Evidence, key: str) -> Evidence:
    """Return the object under ``key``; an empty one if there is not a JSON object."""
    value = evidence.get(key)
    return value if isinstance(value, Mapping) else {}


def flag_in(evidence: Evidence, key: str) -> bool | None:
    """Return the boolean under ``key``; None if there is none."""
    value = evidence.get(key)
    return value if isinstance(value, bool) else None


def evidence_texts(evidence: Evidence) -> list[tuple[str, str]]:
    """Return each key of ``evidence`` as a heading, with its value as readable text.

    Texts keep their control characters: escape them before you show them.
    """
    return [(_heading(key), "\n".join(_lines(value))) for key, value in evidence.items()]


def _lines(value: JSON) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _led(f"{_heading(key)}:", part)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        line = ", ".join(map(_plain, value))
        if not any(_is_nested(part) for part in value) and len(line) <= _LINE and "\n" not in line:
            yield line
            return
        for number, part in enumerate(value, 1):
            yield from _led(f"{number}.", part)
    else:
        yield from _plain(value).split("\n")


def _led(lead: str, value: JSON) -> Iterator[str]:
    """Yield the lines of ``value`` after ``lead``: on the same line if there is one line, otherwise indented."""
    lines = list(_lines(value))
    if len(lines) == 1:
        yield f"{lead} {lines[0]}".rstrip()
        return
    if lead.endswith(":"):
        yield lead
        yield from (f"  {line}" for line in lines)
    else:
        yield from (f"{' ' * len(lead) if n else lead} {line}" for n, line in enumerate(lines))


def _plain(value: JSON) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _heading(key: str) -> str:
    return key.replace("_", " ")


def _is_nested(value: JSON) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, Sequence) and not isinstance(value, str))


def _list(value: JSON) -> Sequence[JSON]:
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def _texts(value: JSON) -> tuple[str, ...]:
    return tuple(text for text in _list(value) if isinstance(text, str))


Status = Literal["correct", "wrong", "refused", "unparsed", "untested"]
STATUSES: tuple[Status, ...] = get_args(Status)
#: the score of a verdict that names none; compared by identity
_BY_STATUS = float("nan")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A benchmark's judgement of one item.

    :param status: ``correct``, ``wrong``, ``refused`` (the model declined) or ``unparsed`` (no answer
        could be read; this includes empty and cut-off replies), or ``untested``: the item could not decide anything,
        whatever the answer is. It is counted apart, and in no denominator.
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

        :param reason: what the answers do not say by themselves. :param more: ``values``, ``evidence`` and ``task``.
        """
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
        score=None if verdict is None or verdict.status == "untested" else verdict.score,
        expected="" if verdict is None else shortened(verdict.expected, TEXT),
        given="" if verdict is None else shortened(verdict.given, TEXT),
        reason=shortened(error if verdict is None else verdict.reason, TEXT),
        values={} if verdict is None else verdict.values,
        evidence={} if verdict is None else verdict.evidence,
        requests=tuple(requests),
    )
