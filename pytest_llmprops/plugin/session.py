"""The parts of a session with a model, wherever cases run: in the one process, or in each worker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.worker_messages import WorkerSetup, WorkerSummary
from pytest_llmprops.plugin.ahead import begin_alone, begin_in_worker, stop_over_budget
from pytest_llmprops.plugin.cases import Cases
from pytest_llmprops.plugin.collection import Collection
from pytest_llmprops.plugin.evaluation import Evaluation
from pytest_llmprops.plugin.options import RunOptions
from pytest_llmprops.plugin.verdicts import Verdicts

if TYPE_CHECKING:
    from pytest_llmprops.plugin.gating import Gating
    from pytest_llmprops.plugin.searching import Searching

#: the entry of ``workerinput`` and ``workeroutput`` that holds this plugin's messages
MESSAGES = "llmprops"


class LLMSession:
    """Makes the parts and knows the order in which they work.

    :param worker_input: pytest-xdist's ``workerinput``; None in the process that talks to the person.
    :raises LLMPropsError: for models, data or options that cannot be used.
    """

    def __init__(
        self, config: pytest.Config, settings: RunOptions, worker_input: dict[str, Any] | None
    ) -> None:
        self.config, self.settings = config, settings
        self._worker_input = worker_input
        self.is_worker = worker_input is not None
        setup = None if worker_input is None else WorkerSetup.from_json(worker_input[MESSAGES])
        self.cases = Cases(settings)
        self.evaluation = Evaluation(settings, self.cases, setup)
        self.gating = _gating(config, settings, read=not self.is_worker)
        self.collection = Collection(config, settings, self.cases, self.gating, lambda: self.searching)
        self.verdicts = Verdicts(self.evaluation, self.collection.unit_of)
        self._searching: Searching | None = None
        #: why nothing may start, known once all cases are; None where it may
        self.refused: str | None = None
        self.cases.apart = self.collection.is_sequential
        if not self.is_worker:
            self.evaluation.check_models()

    @property
    def searching(self) -> Searching:
        """The searches for counterexamples; imported and registered when first used: few sessions have any."""
        if self._searching is None:
            from pytest_llmprops.plugin import searching

            self._searching = searching.Searching(
                self.config,
                self.settings,
                self.cases,
                self.evaluation,
                is_sequential=self.collection.is_sequential,
            )
            self.verdicts.on_outcome = self._searching.keep_measurement
            self.config.pluginmanager.register(self._searching, searching.PLUGIN_NAME)
        return self._searching

    def settle(self, session: pytest.Session) -> None:
        """Check and order the selected items, once all plugins have selected and reordered.

        :raises pytest.UsageError: naming what does not fit; in a worker, the controller reports it.
        """
        try:
            self.collection.settle(session)
        except UsageError as error:
            if not self.is_worker:
                raise pytest.UsageError(str(error)) from None
            # An exception here would look like a crash of the worker.
            self.refused = str(error)
            session.items.clear()
        self.verdicts.schedule = self.collection.schedule

    def begin(self, session: pytest.Session) -> None:
        """Begin to evaluate what this process will report."""
        selected = self.collection.selected
        if not selected or self.collection.only_collects(session):
            return
        stop_over_budget(selected, self.settings, self.cases, self.evaluation)
        if self._worker_input is None:
            begin_alone(session.items, self.collection, self.evaluation)
            return
        begin_in_worker(
            session.items,
            self.collection,
            self.evaluation,
            worker=int(self._worker_input["workerid"].removeprefix("gw")),
            workers=int(self._worker_input["workercount"]),
        )

    def summary(self) -> WorkerSummary:
        """Return what this process reports at its end."""
        return WorkerSummary(
            self.collection.facts(),
            self.evaluation.in_process_use(),
            self.refused,
            self.evaluation.ended,
        )

    def close(self) -> None:
        """Drop open work; safe to call twice."""
        self.evaluation.close()


def _gating(config: pytest.Config, settings: RunOptions, *, read: bool) -> Gating | None:
    if settings.gate is None:
        if settings.baseline is not None:
            raise UsageError(
                "--llm-baseline: needs --llm-gate FILE; 'llmprops compare' shows two recorded runs"
            )
        return None
    from pytest_llmprops.plugin.gating import Gating

    return Gating(settings, Path(config.rootpath), read=read)
