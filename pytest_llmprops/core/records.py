"""The records of a run: one type for each line or row that one part of the program writes and another reads.

``from_json`` reads a record strictly: it raises :class:`ValueError` with a phrase that completes "line 7 …" and names
the problem. ``to_json`` returns plain JSON with the keys in the documented order.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple, Self, cast

from pytest_llmprops.core.record_schema import COUNTS as COUNTS
from pytest_llmprops.core.record_schema import RECORD_STATUSES as RECORD_STATUSES
from pytest_llmprops.core.record_schema import SEARCH, VERDICT, check
from pytest_llmprops.core.record_schema import UNANSWERED as UNANSWERED
from pytest_llmprops.core.record_schema import RecordStatus as RecordStatus
from pytest_llmprops.core.strict_json import JSON, encoded, number, string

#: the empty ``values`` and ``evidence`` that all records share
NOTHING: dict[str, Any] = {}


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

    model: str
    benchmark: str
    task: str
    language: str
    source: str
    id: str
    cluster: str
    sample: int
    status: RecordStatus
    score: float | None
    expected: str
    given: str
    reason: str
    values: Mapping[str, float] = field(default_factory=dict)
    evidence: Mapping[str, JSON] = field(default_factory=dict)
    requests: tuple[str, ...] = ()

    @property
    def group(self) -> Group:
        """The group of the summary row that counts this record."""
        return Group(self.model, self.benchmark, self.task, self.language, self.source)

    @property
    def key(self) -> VerdictKey:
        """What the verdict is on. The last record with a key counts."""
        return VerdictKey(self.model, self.benchmark, self.source, self.id, self.sample)

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> VerdictRecord:
        """Read a line of schema 1 or 2.

        :raises ValueError: with the first field that is missing or has the wrong type.
        """
        check(line, VERDICT)
        # 250,000 records may be in memory, and most of these strings are repeated.
        shared: dict[str, Any] = {name: sys.intern(line[name]) for name in _REPEATED}
        return cls(
            id=line["id"], sample=line.get("sample", 0), score=line["score"], expected=line["expected"],
            given=line["given"], reason=line["reason"], values=line["values"] or NOTHING,
            evidence=line.get("evidence") or NOTHING,
            requests=tuple(line["requests"]), **shared,
        )  # fmt: skip

    def to_line(self) -> str:
        """Return :meth:`to_json` as the line of the file, with its end."""
        # A third of the time of the encoder.
        values = encoded(dict(self.values)) if self.values else "{}"
        evidence = encoded(dict(self.evidence)) if self.evidence else "{}"
        return (
            f'{{"model": {string(self.model)}, "benchmark": {string(self.benchmark)}, "task": {string(self.task)},'
            f' "language": {string(self.language)}, "source": {string(self.source)}, "id": {string(self.id)},'
            f' "cluster": {string(self.cluster)}, "sample": {number(self.sample)}, "status": {string(self.status)},'
            f' "score": {number(self.score)}, "expected": {string(self.expected)}, "given": {string(self.given)},'
            f' "reason": {string(self.reason)}, "values": {values}, "evidence": {evidence},'
            f' "requests": [{", ".join(map(string, self.requests))}]}}\n'
        )

    def to_json(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__slots__}
        return plain | {
            "values": dict(self.values),
            "evidence": dict(self.evidence),
            "requests": list(self.requests),
        }


_REPEATED = ("model", "benchmark", "task", "language", "source", "cluster", "status")


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a table in ``run.json``."""

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        row = cls._completed(dict(row))
        return cls(**{f.name: row[f.name] for f in fields(cls)})

    @classmethod
    def _completed(cls, row: dict[str, Any]) -> dict[str, Any]:
        """Return a row with the columns that older records lack."""
        return row

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SummaryRow(_Row):
    """One row of ``summary`` in ``run.json``: the counts and the accuracy of one group.

    :param samples: number of verdicts: ``items`` times the number of repeats. ``correct``, ``wrong``, ``refused``,
        ``unparsed`` and ``errors`` count samples and add up to it.
    :param answered: number of items with at least one sample that is not an error.
    :param accuracy: mean over the answered items of the share of their answered samples that are correct; without
        repeats ``correct / (items - errors)``. It and its 95% interval are None if nothing was answered.
    :param cluster_accuracy: mean over clusters of their accuracy, if each cluster of the benchmark counts once
        (``Benchmark.weighting``); otherwise it and its interval are None. Tables then show it as the accuracy.
    :param ci_method: ``clopper-pearson``, ``gaffke`` (fractional scores) or ``gaffke over clusters``; None without an
        interval. Older records also have ``wilson``, ``wilson over clusters`` and ``cluster bootstrap``.
    :param between_items: variance of the items' expected scores; None without repeats.
    :param within_items: mean variance of the samples of one item; None without repeats.
    """

    model: str
    benchmark: str
    task: str
    language: str
    source: str
    items: int
    clusters: int
    samples: int
    answered: int
    errors: int
    correct: int
    wrong: int
    refused: int
    unparsed: int
    untested: int
    accuracy: float | None
    ci_low: float | None
    ci_high: float | None
    ci_method: str | None
    between_items: float | None
    within_items: float | None
    cluster_accuracy: float | None
    cluster_ci_low: float | None
    cluster_ci_high: float | None

    @classmethod
    def _completed(cls, row: dict[str, Any]) -> dict[str, Any]:
        without = ("between_items", "within_items", "cluster_accuracy", "cluster_ci_low", "cluster_ci_high")
        items, errors = row["items"], row["errors"]
        numbers = {"untested": 0, "samples": items, "answered": items - errors - row.get("untested", 0)}
        return {**dict.fromkeys(without), **numbers, **row}

    @property
    def has_repeats(self) -> bool:
        """True if an item has several samples."""
        return self.samples > self.items

    @property
    def group(self) -> Group:
        return Group(self.model, self.benchmark, self.task, self.language, self.source)

    @property
    def estimate(self) -> tuple[float, float, float] | None:
        """The accuracy to show, by cluster or by item, with the limits of its interval; None without an answer."""
        value, low, high = self.accuracy, self.ci_low, self.ci_high
        if self.cluster_accuracy is not None:
            value, low, high = self.cluster_accuracy, self.cluster_ci_low, self.cluster_ci_high
        return None if value is None or low is None or high is None else (value, low, high)


@dataclass(frozen=True, slots=True)
class MetricRow(_Row):
    """One row of ``metrics`` in ``run.json``: one number of a benchmark in addition to accuracy.

    :param value: None if the metric is undefined.
    :param n: number of observations.
    :param direction: ``higher``, ``lower``, ``target:X`` or ``none``.
    """

    model: str
    benchmark: str
    task: str
    language: str
    source: str
    name: str
    value: float | None
    n: int
    group: str
    ci_low: float | None
    ci_high: float | None
    direction: str

    @property
    def estimate(self) -> tuple[float, float, float] | None:
        """The value and the limits of its interval; None without them."""
        if self.value is None or self.ci_low is None or self.ci_high is None:
            return None
        return self.value, self.ci_low, self.ci_high


@dataclass(frozen=True, slots=True)
class Remark(_Row):
    """One row of ``remarks`` in ``run.json``: a line about a model on a benchmark, in addition to its numbers.

    :param warning: whether the numbers may not mean what they seem to.
    """

    model: str
    benchmark: str
    text: str
    warning: bool = False

    @classmethod
    def _completed(cls, row: dict[str, Any]) -> dict[str, Any]:
        return {"warning": False, **row}


@dataclass(frozen=True, slots=True)
class SearchRecord:
    """One line of ``searches.jsonl``: the search for a counterexample on one item.

    :param property: the name of the property; empty if the benchmark has only one.
    :param examples: number of points tried.
    :param requests: requests of the search itself.
    :param calls: requests that the store did not answer.
    :param spent: the search stopped at its limit of calls.
    :param error: the failed call that ended the search; otherwise empty.
    :param counterexample: None, or an object with ``why``, ``evidence`` (an object), the benchmark's own keys, and,
        if it was asked about again, ``replications`` and ``replicated``.
    :param not_repeated: the same for a point at which the property did not hold, if it was asked about again and too
        few replications repeat that; None if there is a counterexample. It is no counterexample.
    """

    model: str
    benchmark: str
    task: str
    language: str
    source: str
    id: str
    property: str
    examples: int
    requests: int
    calls: int
    spent: bool
    counterexample: Mapping[str, JSON] | None
    not_repeated: Mapping[str, JSON] | None
    error: str

    @builtins.property
    def key(self) -> tuple[str, str, str, str]:
        """Model, benchmark, id and property. The last search with a key counts."""
        return (self.model, self.benchmark, self.id, self.property)

    @builtins.property
    def why(self) -> str:
        """What the counterexample shows, or what was not repeated; empty without either."""
        return "" if self._shown is None else str(self._shown["why"])

    @builtins.property
    def replications(self) -> int:
        """How often it was asked about again."""
        return self._count("replications")

    @builtins.property
    def replicated(self) -> int:
        """In how many of its replications it repeated."""
        return self._count("replicated")

    @builtins.property
    def _shown(self) -> Mapping[str, JSON] | None:
        return self.not_repeated if self.counterexample is None else self.counterexample

    def _count(self, name: str) -> int:
        return 0 if self._shown is None else cast("int", self._shown.get(name, 0))

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> SearchRecord:
        """Read a line.

        :raises ValueError: with the first field that is missing or has the wrong type.
        """
        check(line, SEARCH)
        line = {"property": "", "not_repeated": None, **line}  # older lines have neither
        return cls(**{name: line[name] for name in cls.__slots__})

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class SearchCounts(_Row):
    """One row of ``searches`` in ``run.json``: the searches of one benchmark, model and property.

    :param searched: items whose search was completed.
    :param counterexamples: number of these items that have a counterexample.
    :param not_repeated: number of other items where a point at which the property did not hold was not repeated.
    :param examples: number of points tried.
    :param calls: requests that the store did not answer.
    :param spent: searches that stopped at their limit of calls.
    :param errors: searches that a failed call ended; they are not in ``searched``.
    """

    benchmark: str
    model: str
    property: str = ""
    searched: int = 0
    counterexamples: int = 0
    not_repeated: int = 0
    examples: int = 0
    calls: int = 0
    spent: int = 0
    errors: int = 0

    @classmethod
    def _completed(cls, row: dict[str, Any]) -> dict[str, Any]:
        return {"property": "", "not_repeated": 0, **row}  # older rows have neither
