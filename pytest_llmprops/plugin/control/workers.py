"""Runs with xdist workers: their number, what they are sent and report, and the schedule of cases."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from xdist.workermanage import parse_tx_spec_config

from pytest_llmprops.engine.evaluation.planning import batch_of
from pytest_llmprops.plugin.cases.light_items import needs_phases
from pytest_llmprops.plugin.control.controller import Controller
from pytest_llmprops.plugin.control.estimate import ModelCalls
from pytest_llmprops.plugin.control.preflight import Preflight
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


def _functions_that_differ(collections: Sequence[Sequence[str]]) -> set[str]:
    """Return the test functions whose cases differ between workers, or have another order."""
    first, *others = map(_names_by_function, collections)
    return {name for own in others for name in first.keys() | own if first.get(name) != own.get(name)}


def _names_by_function(nodeids: Iterable[str]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for nodeid in nodeids:
        function, _, name = nodeid.partition("[")
        names.setdefault(function, []).append(name)
    return names


class ShareScheduling:
    """Gives each worker one contiguous share of the cases, which it evaluates ahead as a whole.

    A pytest-xdist scheduler (``xdist.scheduler.Scheduling``).
    :func:`~pytest_llmprops.engine.evaluation.planning.batch_of` computes the share from a case's position. The workers
    call the same function. A worker that has its share ends after it. The replacement of a lost one gets the rest.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._workers = len(parse_tx_spec_config(config))
        self._collected: dict[Any, Sequence[str]] = {}
        #: the node ids that all workers collected; empty before the first case
        self._ids: Sequence[str] = ()
        #: worker -> positions of its cases that have not ended, in order
        self._left: dict[Any, dict[int, None]] = {}
        #: worker for which the cases are meant -> their positions
        self._waiting: dict[str, list[int]] = {}
        #: a worker refuses to start, and says why when it ends
        self.is_refused = False
        #: worker -> the last case whose result it reported
        self.reported: dict[Any, str] = {}
        #: positions of the cases during which a worker was lost
        self._crashed: set[int] = set()

    @property
    def nodes(self) -> list[Any]:
        """The workers."""
        return list(self._left)

    @property
    def collection_is_completed(self) -> bool:
        """True if all workers have collected."""
        return len(self._collected) >= self._workers

    @property
    def tests_finished(self) -> bool:
        """True if each worker has at most its last case, which it runs when it is told to end."""
        is_waiting = self._waiting or any(len(left) > 1 for left in self._left.values())
        return self.collection_is_completed and not is_waiting

    @property
    def has_pending(self) -> bool:
        """True if a case has not ended."""
        return bool(self._waiting) or any(self._left.values())

    def add_node(self, node: Any) -> None:
        """Add a worker."""
        self._left[node] = {}

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """Note what a worker collected. If a replacement collects other cases, the rest is not run."""
        if self._ids and collection != self._ids:
            self._waiting.clear()
        self._collected[node] = self._ids or collection

    def schedule(self) -> None:
        """Send each worker without cases its share, or those of a lost worker."""
        if not self._ids and not self._begin():
            return
        free = [node for node in self._left if node in self._collected and not node.shutting_down]
        # Worker gw3 starts share 3 after its collection and does not wait for the other workers.
        for node in sorted(free, key=lambda node: node.workerinput["workerid"] not in self._waiting):
            if self._waiting:
                own = node.workerinput["workerid"]
                share = self._waiting.pop(own if own in self._waiting else next(iter(self._waiting)))
                self._left[node] = dict.fromkeys(share)
                # A worker that has just died cannot be written to; pytest-xdist will notice its end.
                with contextlib.suppress(OSError):
                    node.send_runtest_some(share)
            node.shutdown()

    def _begin(self) -> bool:
        """Divide the cases; return False if the workers collected none, or different ones."""
        # A worker that refuses has no cases. If the disk is full after the report of another worker, that one has all.
        if self.is_refused:
            return False
        collections = list(self._collected.values())
        if any(other != collections[0] for other in collections):
            line = (
                "its cases differ between the workers, so nothing is measured; load of a benchmark must return the same"
                " items in the same order in each process: use random.Random(0) in place of random, and sort sets"
            )
            for function in sorted(_functions_that_differ(collections)):
                report = pytest.CollectReport(nodeid=function, outcome="failed", longrepr=line, result=[])
                self._config.hook.pytest_collectreport(report=report)
            return False
        self._ids = collections[0]
        self._collected = dict.fromkeys(self._collected, self._ids)
        for position in range(len(self._ids)):
            share = batch_of(position, len(self._ids), self._workers)
            self._waiting.setdefault(f"gw{share}", []).append(position)
        return bool(self._ids)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Note the end of a case."""
        self._left[node].pop(item_index, None)

    def remove_node(self, node: Any) -> str | None:
        """Remove a worker that has ended; return its case if a second worker was lost during it, which is a failure."""
        left = self._left.pop(node)
        if not left:
            return None
        crashed = next(iter(left))
        has_result = self.reported.get(node) == self._ids[crashed]
        is_lost = crashed in self._crashed or self._config.getvalue("maxworkerrestart") == "0"
        self._crashed.add(crashed)
        if has_result or is_lost:
            del left[crashed]
        if left:
            self._waiting[node.workerinput["workerid"]] = list(left)
        return self._ids[crashed] if is_lost and not has_result else None


class Distributed:
    """The hooks of a controller with workers.

    :param preflight: decides, with the calls that the first worker counts, before any worker has a case.
    """

    def __init__(self, controller: Controller, preflight: Preflight) -> None:
        self._controller, self._session = controller, controller.session
        self._preflight = preflight
        #: the worker that counts the calls, until it has reported them
        self._counting: Any = None
        self._scheduling: ShareScheduling | None = None
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

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> ShareScheduling:
        self._scheduling = ShareScheduling(config)
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
