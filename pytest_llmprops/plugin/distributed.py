"""Runs with xdist workers: the broker's process, what workers are told, and who runs which case."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from pytest_llmprops.core.errors import LLMPropsError
from pytest_llmprops.engine.planning import batch_of, turn_of
from pytest_llmprops.engine.session import BrokerProcess
from pytest_llmprops.engine.store import ReplyStore
from pytest_llmprops.plugin.session import WORKER_INPUT

if TYPE_CHECKING:
    from pytest_llmprops.plugin.controller import Controller


class BatchScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each worker one contiguous share of the cases, which it evaluates ahead as a whole.

    The share is the pure function :func:`~pytest_llmprops.engine.planning.batch_of` of a case's position, so
    that the worker knows it too.
    """

    _positions: dict[str, int] | None = None
    #: (position, number of cases, number of workers) -> worker
    share: Callable[[int, int, int], int] = staticmethod(batch_of)

    def _split_scope(self, nodeid: str) -> str:
        if self._positions is None:
            self._positions = {name: n for n, name in enumerate(self.collection)}
        return f"batch-{self.share(self._positions[nodeid], len(self._positions), self.numnodes)}"

    def _assign_work_unit(self, node: Any) -> None:
        # The replacement of a killed worker is told when it has collected; pytest-xdist 3.8 ends in a KeyError.
        if node not in self.registered_collections:
            return
        # Worker gw3 begins with batch 3 as soon as it has collected, without waiting for the others.
        own = f"batch-{node.workerinput['workerid'].removeprefix('gw')}"
        if own in self.workqueue:
            self.workqueue.move_to_end(own, last=False)
        super()._assign_work_unit(node)


class Distributed:
    """Hooks that only the controller of a distributed run needs."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._total: int | None = None

    def pytest_configure_node(self, node: Any) -> None:
        """Before a worker starts: make sure that there is a broker and tell the worker where."""
        controller = self._controller
        evaluation, gating = controller.session.evaluation, controller.session.gating
        if controller.record is None:
            controller.open_record()
        # Workers of a sequential gate tell each other through the broker, whoever is asked.
        needed = evaluation.needs_broker or (gating is not None and gating.gate.sequential)
        if needed and controller.broker_process is None:
            # pytest-xdist's option is a text.
            replaced = str(controller.config.option.maxworkerrestart) != "0"
            config = dataclasses.replace(evaluation.broker_config(), replaced=replaced)
            try:
                if config.cache != "off":
                    # Opened here once, so that trouble with the file is reported before anything starts.
                    store = ReplyStore(Path(config.store))
                    controller.notes += store.notes
                    store.close()
            except LLMPropsError as error:
                raise pytest.UsageError(str(error)) from None
            controller.broker_process = BrokerProcess(config)
        process = controller.broker_process
        node.workerinput[WORKER_INPUT] = {
            "socket": process.socket if process is not None else None,
            "in_process": sorted(evaluation.in_process_labels),
        }

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> BatchScheduling:
        scheduling = BatchScheduling(config, log)
        gating = self._controller.session.gating
        if gating is not None and gating.gate.sequential:
            scheduling.share = turn_of
        return scheduling

    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        if self._total is None:
            self._total = len(ids)
            self._controller.start_progress(len(ids))

    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        output = getattr(node, "workeroutput", None) or {}
        if WORKER_INPUT in output:
            self._controller.worker_facts(output[WORKER_INPUT])
