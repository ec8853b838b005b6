"""Runs with xdist workers: the broker's process, the setup of workers, and the schedule of cases."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from pytest_llmprops.core.worker_messages import WorkerSetup, WorkerSummary
from pytest_llmprops.engine.planning import batch_of, turn_of
from pytest_llmprops.plugin.collected import take_collection
from pytest_llmprops.plugin.controller import Controller
from pytest_llmprops.plugin.session import MESSAGES


class BatchScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each worker one contiguous share of the cases, which it evaluates ahead as a whole.

    :func:`~pytest_llmprops.engine.planning.batch_of` computes the share from a case's position. The workers call the
    same function.
    """

    _positions: dict[str, int] | None = None
    #: (position, number of cases, number of workers) -> worker
    share: Callable[[int, int, int], int] = staticmethod(batch_of)

    def _split_scope(self, nodeid: str) -> str:
        if self._positions is None:
            self._positions = {name: n for n, name in enumerate(self.collection)}
        return f"batch-{self.share(self._positions[nodeid], len(self._positions), self.numnodes)}"

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
    """The hooks of a controller with workers."""

    def __init__(self, controller: Controller) -> None:
        self._controller, self._session = controller, controller.session

    def pytest_configure_node(self, node: Any) -> None:
        recording, broker = self._controller.recording, self._controller.broker
        evaluation = self._session.evaluation
        folder = recording.prepare()
        # Workers of a sequential gate exchange verdicts through the broker, whatever the model.
        if evaluation.needs_broker or self._session.collection.is_sequential:
            # pytest-xdist's option is a string.
            replaces_workers = str(node.config.option.maxworkerrestart) != "0"
            recording.notes += broker.start_process(replaces_workers=replaces_workers)
        setup = WorkerSetup(
            broker.socket, sorted(evaluation.in_process_labels), str(folder.absolute()), self._session.kept
        )
        node.workerinput[MESSAGES] = setup.to_json()

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> BatchScheduling:
        scheduling = BatchScheduling(config, log)
        if self._session.collection.is_sequential:
            scheduling.share = turn_of
        return scheduling

    def pytest_xdist_node_collection_finished(self, node: Any) -> None:
        recording = self._controller.recording
        collection = take_collection(recording.prepare(), node.workerinput["workerid"])
        if collection is not None:
            self._controller.begin(collection)

    def pytest_testnodedown(self, node: Any) -> None:
        output = getattr(node, "workeroutput", None) or {}
        if MESSAGES in output:
            self._controller.summaries.append(WorkerSummary.from_json(output[MESSAGES]))
        else:
            self._controller.lost_worker = True
