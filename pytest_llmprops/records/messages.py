"""The messages between pytest-xdist workers and their controller, as typed values.

pytest-xdist sends plain values only, and refuses numbers of numpy and members of enumerations, which a benchmark may
have returned: ``records/files.py`` makes a text of a message and reads it. Without workers, the values are passed on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_llmprops.core.field_types import FreeObject, RecordStatus
from pytest_llmprops.core.registration import BenchmarkMetadata
from pytest_llmprops.core.verdicts import Group, VerdictRecord
from pytest_llmprops.records.rows import SearchRecord
from pytest_llmprops.records.run import CallFacts, ProtocolMetadata, Served


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse(Served):
    """How one model was served, and one line for each request parameter that its API did not accept."""

    #: as the server writes them; in a file, halves of surrogate pairs are replaced
    served_as: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()


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


@dataclass(frozen=True, slots=True)
class AlreadyMeasured:
    """What a resumed run does not measure again.

    :param cases: benchmark, model, item and sample of each verdict.
    :param searches: model, benchmark, item and property of each search.
    """

    cases: frozenset[tuple[str, str, str, int]] = frozenset()
    searches: frozenset[tuple[str, str, str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """What the controller sends a worker before it starts.

    :param socket: path of the broker's socket; None if every model is served inside the workers.
    :param in_process: labels of the models that each worker serves itself.
    :param run_dir: folder of the run record, where a worker reports what it collected.
    :param has_phases: the controller's plugins may need the start, the teardown and the end of each case.
    :param counts: this worker counts the calls of the run for the controller.
    :param resumed_from: Unix time at which a resumed run began; None for a new run.
    """

    socket: str | None
    in_process: tuple[str, ...]
    run_dir: str
    kept: AlreadyMeasured = AlreadyMeasured()
    has_phases: bool = True
    counts: bool = False
    resumed_from: float | None = None


@dataclass(frozen=True, slots=True)
class GroupLines:
    """The verdicts of a pytest case that has several items, or several samples of an item.

    :param status: the status of the case.
    :param counts: number of verdicts by status.
    :param lines: their lines of ``verdicts.jsonl``.
    """

    status: RecordStatus
    counts: Mapping[str, int]
    lines: str


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
    :param selection: see :class:`~pytest_llmprops.records.run.RunMetadata`.
    :param is_whole: False if a selected benchmark could not be loaded, so that the run cannot be complete.
    """

    cases: int = 0
    items: int = 0
    kept: int = 0
    benchmarks: Mapping[str, BenchmarkMetadata] = field(default_factory=dict)
    protocols: Mapping[str, ProtocolMetadata] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()
    notes: tuple[str, ...] = ()
    ordinary: str = ""
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    not_served: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    selection: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class CollectionReport:
    """What a worker tells the controller about its cases.

    :param calls: label -> calls of the run, as plain values; empty from workers that do not count them.
    """

    facts: CollectionMetadata
    calls: Mapping[str, FreeObject] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InProcessUse(ModelUse):
    """The use of a model that one process serves itself."""

    requests: int
    seconds: float


@dataclass(frozen=True, slots=True)
class WorkerSummary:
    """What a process that ran cases reports at its end.

    :param notes: for the run record, those of the collection included.
    :param in_process: label -> use of each model that the process served itself.
    :param refused: why the run may not start; None if it may.
    :param stopped: why the run ended early.
    :param uses_hypothesis: the process has imported hypothesis, whose plugin may have something to report.
    """

    notes: tuple[str, ...] = ()
    in_process: Mapping[str, InProcessUse] = field(default_factory=dict)
    refused: str | None = None
    stopped: str | None = None
    uses_hypothesis: bool = False
