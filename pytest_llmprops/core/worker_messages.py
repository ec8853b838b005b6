"""The messages between pytest-xdist workers and their controller, as typed values.

pytest-xdist sends plain values only: ``to_json`` returns them, and ``from_json`` reads them on the other side. What the
code of a benchmark may have filled is sent as JSON text, because pytest-xdist refuses numbers of numpy and members of
enumerations. Without workers, the typed values are passed on directly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from pytest_llmprops.core.records import Group, RecordStatus, SearchRecord, VerdictRecord
from pytest_llmprops.core.registration import BenchmarkMetadata
from pytest_llmprops.core.run_metadata import CallFacts, OldReplies, ProtocolMetadata
from pytest_llmprops.core.strict_json import JSON


@dataclass(frozen=True, slots=True)
class ModelUse:
    """How one model was served.

    :param identity: what pins the model's output, for example a revision; None if it is unknown.
    :param pinned: the identity names an exact version; None if it is unknown.
    :param served_as: the model names in the replies. :param served_counts: number of replies by name.
    :param deviations: one line for each request parameter that the API did not accept.
    :param old_replies: its stored replies that may be outdated.
    :param newest_reply: Unix time at which the newest of its replies was received; None without one.
    :param service_tiers: the provider's tiers with a price of their own that answered.
    """

    identity: JSON = None
    pinned: bool | None = None
    served_as: tuple[str, ...] = ()
    served_counts: Mapping[str, int] = field(default_factory=dict)
    deviations: tuple[str, ...] = ()
    old_replies: OldReplies = field(default_factory=OldReplies)
    newest_reply: float | None = None
    service_tiers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenBatches:
    """The batches that a run waits for.

    :param lines: their requests. :param done: those with a result.
    :param expires: Unix time at which the first of them gives up its open lines; 0 if it is unknown.
    :param is_unfinished: the run ended while they were open, so that the same command goes on.
    """

    batches: int = 0
    lines: int = 0
    done: int = 0
    expires: float = 0.0
    is_unfinished: bool = False


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """What a broker reports while a run goes on, and at its end.

    :param stopped: why the broker stopped the run; None if it did not.
    :param waits_for: what calls wait for, as a phrase; empty if they do not wait.
    :param notes: lines for the summary.
    :param models: use of each model that served a request, by label.
    :param batches: None without ``--llm-engine batch``.
    """

    counters: CallFacts = field(default_factory=CallFacts)
    stopped: str | None = None
    notes: tuple[str, ...] = ()
    models: Mapping[str, ModelUse] = field(default_factory=dict)
    batches: OpenBatches | None = None
    waits_for: str = ""

    @classmethod
    def from_json(cls, report: Mapping[str, Any]) -> BrokerReport:
        """Read the plain values that a broker sends."""
        return cls(
            CallFacts.from_json(report["counters"]),
            report["stopped"],
            tuple(report["notes"]),
            {
                label: ModelUse(
                    model["identity"],
                    model["pinned"],
                    tuple(model["served_as"]),
                    model["served_counts"],
                    tuple(model["deviations"]),
                    OldReplies.from_json(model["old_replies"]),
                    model["newest_reply"],
                    tuple(model["service_tiers"]),
                )
                for label, model in report["models"].items()
            },
            OpenBatches(**report["batches"]) if report.get("batches") else None,
            report.get("waits_for", ""),
        )


_encode = json.JSONEncoder().encode


@dataclass(frozen=True, slots=True)
class AlreadyMeasured:
    """What a resumed run does not measure again.

    :param cases: benchmark, model, item and sample of each verdict.
    :param searches: model, benchmark, item and property of each search.
    """

    cases: frozenset[tuple[str, str, str, int]] = frozenset()
    searches: frozenset[tuple[str, str, str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class PhasesRead:
    """Which reports of a case's phases other plugins may need, in addition to its result.

    :param ends: its start and its end. :param teardown: the report of a teardown that passed.
    """

    ends: bool = True
    teardown: bool = True


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """What the controller sends a worker before it starts.

    :param socket: path of the broker's socket; None if every model is served inside the workers.
    :param in_process: labels of the models that each worker serves itself.
    :param run_dir: folder of the run record, where a worker reports what it collected.
    :param phases: what the controller's plugins may need.
    :param counts: this worker counts the calls of the run for the controller.
    :param resumed_from: Unix time at which a resumed run began; None for a new run.
    """

    socket: str | None
    in_process: Sequence[str]
    run_dir: str
    kept: AlreadyMeasured = AlreadyMeasured()
    phases: PhasesRead = PhasesRead()
    counts: bool = False
    resumed_from: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "socket": self.socket,
            "in_process": list(self.in_process),
            "run_dir": self.run_dir,
            "kept": [list(self.kept.cases), list(self.kept.searches)],
            "phases": [self.phases.ends, self.phases.teardown],
            "counts": self.counts,
            "resumed_from": self.resumed_from,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> WorkerSetup:
        """Read the values that :meth:`to_json` returns."""
        cases, searches = (frozenset(map(tuple, keys)) for keys in data["kept"])
        return cls(
            data["socket"],
            tuple(data["in_process"]),
            data["run_dir"],
            AlreadyMeasured(cases, searches),
            PhasesRead(*data["phases"]),
            data["counts"],
            data["resumed_from"],
        )


@dataclass(frozen=True, slots=True)
class GroupLines:
    """The verdicts of a pytest case that has several items, or several samples of an item.

    :param status: the status of the case.
    :param counts: number of verdicts by status.
    :param lines: their lines of ``verdicts.jsonl``.
    :param records: the same as values; None if sent by a worker.
    """

    status: RecordStatus
    counts: Mapping[str, int]
    lines: str
    records: Sequence[VerdictRecord] | None = None


@dataclass(frozen=True, slots=True)
class CaseReport:
    """What one report of pytest says about a case, in addition to passed, failed or skipped.

    :param verdict: the verdict of a case with one item.
    :param group: the verdicts of a case with several items or samples.
    :param search: the search for a counterexample.
    :param by_model: the case failed only because of its verdict or a failed call, so that a gate may replace the
        failure.
    :param not_searched: the item cannot be searched.
    """

    verdict: VerdictRecord | None = None
    group: GroupLines | None = None
    search: SearchRecord | None = None
    by_model: bool = False
    not_searched: bool = False

    @property
    def status(self) -> RecordStatus | None:
        if self.group is not None:
            return self.group.status
        return None if self.verdict is None else self.verdict.status

    def to_json(self) -> dict[str, Any]:
        """Return plain values. For a group, only the lines are sent; the controller reads the verdicts from them."""
        data: dict[str, Any] = {}
        if self.verdict is not None:
            data["verdict"] = _encode(self.verdict.to_json())
        if self.group is not None:
            data["group"] = [self.group.status, dict(self.group.counts), self.group.lines]
        if self.search is not None:
            data["search"] = _encode(self.search.to_json())
        for name in ("by_model", "not_searched"):
            if value := getattr(self, name):
                data[name] = value
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CaseReport:
        """Read the values that :meth:`to_json` returns."""
        return cls(
            verdict=VerdictRecord.from_json(json.loads(data["verdict"])) if "verdict" in data else None,
            group=GroupLines(*data["group"]) if "group" in data else None,
            search=SearchRecord.from_json(json.loads(data["search"])) if "search" in data else None,
            by_model=data.get("by_model", False),
            not_searched=data.get("not_searched", False),
        )


@dataclass(frozen=True, slots=True)
class CollectionMetadata:
    """What the run record needs to know about the collected cases. Every worker collects the same.

    :param cases: number of samples of all items.
    :param items: number of pytest items that this run measures or searches.
    :param kept: number of the samples that have a verdict in the record of a resumed run.
    :param data: file -> sha256.
    :param groups: the groups of the summary rows, in the order of the suites.
    :param ordinary: why functions with many cases have ordinary items; empty if they have light ones.
    :param classes: benchmark -> where its class can be loaded from.
    :param not_served: benchmark -> model -> number of items.
    :param selection: see :class:`~pytest_llmprops.core.run_metadata.RunMetadata`.
    :param is_whole: False if a selected benchmark could not be loaded, so that the run cannot be complete.
    """

    cases: int = 0
    items: int = 0
    kept: int = 0
    benchmarks: Mapping[str, BenchmarkMetadata] = field(default_factory=dict)
    protocols: Mapping[str, ProtocolMetadata] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    groups: Sequence[Group] = ()
    notes: Sequence[str] = ()
    ordinary: str = ""
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    not_served: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    selection: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    is_whole: bool = True

    def to_json(self) -> dict[str, Any]:
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        plain["benchmarks"] = {name: facts.to_json() for name, facts in self.benchmarks.items()}
        plain["protocols"] = {name: protocol.to_json() for name, protocol in self.protocols.items()}
        plain["groups"] = [tuple(group) for group in self.groups]
        return plain

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CollectionMetadata:
        """Read the values that :meth:`to_json` returns."""
        benchmarks = {
            name: BenchmarkMetadata.from_json(name, facts) for name, facts in data["benchmarks"].items()
        }
        groups = [Group(*group) for group in data["groups"]]
        protocols = {name: ProtocolMetadata.from_json(p) for name, p in data["protocols"].items()}
        return cls(
            **{
                **data,
                "benchmarks": benchmarks,
                "groups": groups,
                "protocols": protocols,
            }
        )


@dataclass(frozen=True, slots=True)
class InProcessUse:
    """The use of a model that one process serves itself.

    :param served_as: the model names in its replies.
    :param deviations: changes to requests that the model forced.
    :param identity: everything that determines its output.
    :param pinned: the identity names an exact revision.
    """

    requests: int = 0
    seconds: float = 0.0
    served_as: Sequence[str] = ()
    deviations: Sequence[str] = ()
    identity: Mapping[str, Any] = field(default_factory=dict)
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class WorkerSummary:
    """What a process that ran cases reports at its end.

    :param notes: for the run record, those of the collection included.
    :param in_process: label -> use of each model that the process served itself.
    :param refused: why the run may not start; None if it may.
    :param stopped: why the run ended early.
    :param uses_hypothesis: the process has imported hypothesis, whose plugin may have something to report.
    """

    notes: Sequence[str] = ()
    in_process: Mapping[str, InProcessUse] = field(default_factory=dict)
    refused: str | None = None
    stopped: str | None = None
    uses_hypothesis: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "notes": list(self.notes),
            "in_process": {label: asdict(use) for label, use in self.in_process.items()},
            "refused": self.refused,
            "stopped": self.stopped,
            "uses_hypothesis": self.uses_hypothesis,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> WorkerSummary:
        """Read the values that :meth:`to_json` returns."""
        return cls(
            data["notes"],
            {label: InProcessUse(**use) for label, use in data["in_process"].items()},
            data["refused"],
            data["stopped"],
            data["uses_hypothesis"],
        )
