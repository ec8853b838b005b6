"""Runs with xdist workers: their number, what they are sent and report, and the schedule of cases."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, SupportsIndex, cast

import pytest
from xdist.scheduler import LoadScopeScheduling

from pytest_llmprops.engine.evaluation.planning import batch_of
from pytest_llmprops.plugin.cases.light_items import needs_phases
from pytest_llmprops.plugin.control.controller import Controller
from pytest_llmprops.plugin.control.estimate import ModelCalls
from pytest_llmprops.plugin.control.preflight import Preflight
from pytest_llmprops.plugin.process import drop_unused_hypothesis
from pytest_llmprops.plugin.session import MESSAGES
from pytest_llmprops.plugin.worker_files import take_collection
from pytest_llmprops.records.files import from_text, text
from pytest_llmprops.records.messages import WorkerSetup, WorkerSummary


def usable_processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def limit_workers(config: pytest.Config, *, has_batches: bool) -> str:
    """Start at most one worker per processor; return the line that says so, empty if all are started.

    :param has_batches: all cases wait for the same batches, so that one worker is enough.
    """
    most, wanted = 1 if has_batches else usable_processors(), len(config.option.tx)
    if not config.option.numprocesses or wanted <= most:
        return ""
    config.option.tx = config.option.tx[:most]
    why = "for all batches" if has_batches else "per processor"
    started = "one worker" if most == 1 else f"{most} workers, one"
    return f"-n {wanted}: starts {started} {why}; cases wait for the model, so more would not be faster"


class NodeIds(list[str]):
    """The node ids that a worker collected. :meth:`index` searches no list, which pytest-xdist calls for each case."""

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__(ids)
        #: node id -> its first position
        self._positions = {
            name: n for n, name in zip(range(len(ids) - 1, -1, -1), reversed(ids), strict=True)
        }

    def index(self, nodeid: str, *limits: SupportsIndex) -> int:
        """Return the position of a node id."""
        return self._positions[nodeid]


def _functions_that_differ(collections: Sequence[Sequence[str]]) -> list[str]:
    """Return the parametrized test functions whose cases differ between workers, or have another order."""
    others = [names for names in collections[1:] if names is not collections[0]]
    if not others:
        # Workers that collect the same share one list.
        return []
    first = _names_by_function(collections[0])
    return sorted(
        {
            name
            for own in map(_names_by_function, others)
            for name in first.keys() | own
            if first.get(name) != own.get(name)
        }
    )


def _names_by_function(nodeids: Iterable[str]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for nodeid in nodeids:
        function, bracket, name = nodeid.partition("[")
        if bracket:
            names.setdefault(function, []).append(name)
    return names


class BatchScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each worker one contiguous share of the cases, which it evaluates ahead as a whole.

    :func:`~pytest_llmprops.engine.evaluation.planning.batch_of` computes the share from a case's position. The workers
    call the same function. The time per event does not depend on the number of cases: pytest-xdist 3.8 searches a list
    for each case and counts the cases of a share after each event.
    """

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        self._ids = NodeIds(())
        #: share -> number of its cases that have not ended
        self._pending: dict[str, int] = {}
        #: a worker refuses to start, and says why when it ends
        self.is_refused = False
        #: worker -> the last case whose result it reported
        self.reported: dict[Any, str] = {}
        #: the cases during which a worker was lost
        self._crashed: set[str] = set()

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        if node not in self.registered_collections:
            return
        # All workers collect the same, so they share one list. The others are compared with it before the first case.
        if not self._ids:
            self._ids = NodeIds(collection)
        if self._ids == collection:
            self.registered_collections[node] = self._ids

    def _check_nodes_have_same_collection(self) -> bool:
        # A worker that refuses has no cases. If the disk is full after the report of another worker, that one has all.
        if self.is_refused:
            return False
        for function in _functions_that_differ(list(self.registered_collections.values())):
            # Before the report of pytest-xdist, which lists the cases and names no cause.
            line = (
                "its cases differ between the workers, so nothing is measured; load of a benchmark must return the same"
                " items in the same order in each process: use random.Random(0) in place of random, and sort sets"
            )
            report = pytest.CollectReport(nodeid=function, outcome="failed", longrepr=line, result=[])
            self.config.hook.pytest_collectreport(report=report)
        return bool(super()._check_nodes_have_same_collection())

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        self._end(node, self._ids[item_index])
        super().mark_test_complete(node, item_index, duration)

    def _end(self, node: Any, nodeid: str) -> None:
        """Count a case as ended."""
        share = self._split_scope(nodeid)
        cases = self.assigned_work[node][share]
        self._pending[share] = self._pending_in(share, cases) - (not cases[nodeid])

    def remove_node(self, node: Any) -> str | None:
        """Hand on the cases of a worker that has ended; return the case that is not run again, if it was lost twice.

        pytest-xdist 3.8 reports the case of a lost worker as failed and hands it on, too, so that it counts twice.
        """
        crashed = next(
            (name for cases in self.assigned_work[node].values() for name, done in cases.items() if not done),
            None,
        )
        if crashed is None:
            return cast("str | None", super().remove_node(node))
        has_result = self.reported.get(node) == crashed
        is_lost = crashed in self._crashed or self.config.getvalue("maxworkerrestart") == "0"
        self._crashed.add(crashed)
        if has_result or is_lost:
            self._end(node, crashed)
            self.assigned_work[node][self._split_scope(crashed)][crashed] = True
        super().remove_node(node)
        return crashed if is_lost and not has_result else None

    def _pending_of(self, workload: Mapping[str, Mapping[str, bool]]) -> int:
        return sum(self._pending_in(share, cases) for share, cases in workload.items())

    def _pending_in(self, share: str, cases: Mapping[str, bool]) -> int:
        if share not in self._pending:
            self._pending[share] = sum(not is_done for is_done in cases.values())
        return self._pending[share]

    def _split_scope(self, nodeid: str) -> str:
        return f"batch-{batch_of(self._ids.index(nodeid), len(self._ids), self.numnodes)}"

    def _assign_work_unit(self, node: Any) -> None:
        # The replacement of a killed worker is not registered before it has collected: KeyError in pytest-xdist 3.8.
        if node not in self.registered_collections:
            return
        # Worker gw3 starts batch 3 after its collection and does not wait for the other workers.
        own = f"batch-{node.workerinput['workerid'].removeprefix('gw')}"
        if own in self.workqueue:
            self.workqueue.move_to_end(own, last=False)
        # A worker that has just died cannot be written to; pytest-xdist hands on its cases when it notices the end.
        with contextlib.suppress(OSError):
            super()._assign_work_unit(node)


class Distributed:
    """The hooks of a controller with workers.

    :param preflight: decides, with the calls that the first worker counts, before any worker has a case.
    """

    def __init__(self, controller: Controller, preflight: Preflight) -> None:
        self._controller, self._session = controller, controller.session
        self._preflight = preflight
        #: the worker that counts the calls, until it has reported them
        self._counting: Any = None
        self._scheduling: BatchScheduling | None = None
        #: case -> the worker that has reported its setup
        self._begun: dict[str, Any] = {}

    def pytest_configure_node(self, node: Any) -> None:
        folder = self._controller.start_broker()
        config, evaluation = self._session.config, self._session.evaluation
        counts = self._scheduling is None and self._counting is None
        if counts and self._preflight.is_needed and evaluation.needs_broker:
            self._counting = node
        setup = WorkerSetup(
            self._controller.broker.socket,
            tuple(sorted(evaluation.in_process_labels)),
            str(folder.absolute()),
            self._session.kept,
            needs_phases(config) or config.get_verbosity() > 0,
            counts=node is self._counting,
            resumed_from=evaluation.resumed_from,
        )
        node.workerinput[MESSAGES] = text(setup)

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> BatchScheduling:
        self._scheduling = BatchScheduling(config, log)
        return self._scheduling

    def pytest_xdist_node_collection_finished(self, node: Any) -> None:
        report = take_collection(self._controller.recording.prepare(), node.workerinput["workerid"])
        if node is self._counting:
            self._counting = None
        if report is None:
            assert self._scheduling is not None
            self._scheduling.is_refused = True
            return
        if report.calls:
            calls = {label: ModelCalls.from_json(own) for label, own in report.calls.items()}
            self._preflight.decide(calls)
        if self._counting is None:
            self._controller.begin(report.facts)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note which worker has begun and ended which case."""
        if self._scheduling is None:
            return
        is_crash = report.when not in ("setup", "call", "teardown")
        if report.when == "call" or not (report.passed or is_crash):
            self._scheduling.reported[report.node] = report.nodeid
        elif report.when == "setup":
            self._begun.setdefault(report.nodeid, report.node)
        # pytest's JUnit report has one case per worker: a setup that a lost worker has reported belongs to the rest.
        begun = self._begun.get(report.nodeid)
        if begun is not None:
            report.node = begun
            if report.when == "teardown" or is_crash:
                del self._begun[report.nodeid]

    def pytest_testnodedown(self, node: Any) -> None:
        if node is self._counting:
            raise pytest.UsageError(
                "the calls of the run could not be counted: the worker was lost that collected them; use -n 0"
            )
        output = getattr(node, "workeroutput", None) or {}
        if MESSAGES in output:
            self._controller.summaries.append(from_text(WorkerSummary, output[MESSAGES]))
        else:
            self._controller.lost_worker = True

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        summaries = self._controller.summaries
        if summaries and not (self._controller.lost_worker or any(s.uses_hypothesis for s in summaries)):
            drop_unused_hypothesis(session.config)
