"""A session with a model, in each process that runs cases: without workers, or in every worker."""

from __future__ import annotations

import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_llmprops.core.errors import LLMPropsError, UsageError
from pytest_llmprops.engine.evaluation.evaluator import Unit
from pytest_llmprops.engine.evaluation.planning import batch_of
from pytest_llmprops.plugin.cases.cases import Cases
from pytest_llmprops.plugin.cases.light_items import UNIT, WAIT, needs_phases
from pytest_llmprops.plugin.collection import Collection
from pytest_llmprops.plugin.evaluation import Evaluation
from pytest_llmprops.plugin.options import RunOptions
from pytest_llmprops.plugin.worker_files import report_collection
from pytest_llmprops.records.files import from_text
from pytest_llmprops.records.messages import (
    AlreadyMeasured,
    CollectionReport,
    WorkerSetup,
    WorkerSummary,
)
from pytest_llmprops.runs.reader import read_facts

if TYPE_CHECKING:
    from pytest_llmprops.plugin.gating import Gating
    from pytest_llmprops.plugin.resuming import PreviousRun
    from pytest_llmprops.plugin.searching import Searching


#: the entry of ``workerinput`` and ``workeroutput`` that holds this plugin's messages
MESSAGES = "llmprops"


class LLMSession:
    """Creates the parts of the session and calls them in order.

    :param worker_input: pytest-xdist's ``workerinput``; None outside of workers.
    :raises LLMPropsError: if models, data or options cannot be used.
    """

    def __init__(
        self, config: pytest.Config, settings: RunOptions, worker_input: dict[str, Any] | None
    ) -> None:
        self.config, self.settings = config, settings
        self._worker_input = worker_input
        self.is_worker = worker_input is not None
        setup = None if worker_input is None else from_text(WorkerSetup, worker_input[MESSAGES])
        #: the variables from a ``.env`` file, for the header
        self.dotenv = ""
        #: why fewer workers than asked for are started, for the header
        self.workers = ""
        is_distributed = self.is_worker or config.getoption("dist", "no") != "no"
        # A resumed run has the helpers of its record.
        self.cases = Cases(settings, helpers_ahead=is_distributed or settings.resume)
        self.evaluation = Evaluation(settings, self.cases, setup)
        self.evaluation.keeps_calls = bool(config.getoption("allure_report_dir", None))
        self.gating = _gating(config, settings, read=not self.is_worker)
        #: the record of a resumed run; None in workers and for a new run
        self.earlier: PreviousRun | None = None
        if settings.resume and setup is None:
            from pytest_llmprops.plugin.resuming import read_earlier

            self.earlier = read_earlier(settings, self.cases.models, self.cases.helpers.specs)
            self.evaluation.resumed_from = self.earlier.started
            self.evaluation.proven = tuple(sorted({model for _, model, _, _ in self.earlier.kept.cases}))
        self.setup = setup
        self.collection = Collection(
            config, settings, self.cases, self.gating, lambda: self.searching, self.kept
        )
        config.stash[WAIT] = self.evaluation.verdict
        if worker_input is not None:
            self.evaluation.processes = int(worker_input["workercount"])
        self._searching: Searching | None = None
        #: why the run may not start, set after collection; None if it may
        self.refused: str | None = None
        if not self.is_worker:
            self.evaluation.check_models()

    @property
    def kept(self) -> AlreadyMeasured:
        """What a resumed run does not measure again."""
        if self.setup is not None:
            return self.setup.kept
        return AlreadyMeasured() if self.earlier is None else self.earlier.kept

    @property
    def searching(self) -> Searching:
        """The searches for counterexamples; imported and registered when first used, since few sessions have any."""
        if self._searching is None:
            from pytest_llmprops.plugin import searching

            self._searching = searching.Searching(self.settings, self.evaluation)
            self.evaluation.on_outcome = self._searching.keep_measurement
            self.config.pluginmanager.register(self._searching, searching.PLUGIN_NAME)
        return self._searching

    @cached_property
    def has_phases(self) -> bool:
        """True if a plugin here or in the controller may need the start, the teardown and the end of a light item."""
        return needs_phases(self.config) or (self.setup is not None and self.setup.has_phases)

    def settle(self, session: pytest.Session, problem: BaseException | None = None) -> None:
        """Check and order the selected items, after all plugins have selected and ordered them.

        :param problem: why pytest could not collect or select them.
        :raises pytest.UsageError: if an option does not fit the items; in a worker, the controller reports it.
        """
        try:
            if problem is not None:
                raise UsageError(" ".join(" ".join(map(str, problem.args)).split()))
            self.collection.settle(session)
            if self.settings.resume and not self.collection.only_collects(session):
                self._check_resumed()
        except UsageError as error:
            if not self.is_worker:
                raise pytest.UsageError(str(error)) from None
            # pytest-xdist would report an exception as a crash of the worker, or not at all.
            self.refused = str(error)
            session.items.clear()
        if self.setup is not None:
            self._report_collection(session, Path(self.setup.run_dir))

    def _report_collection(self, session: pytest.Session, folder: Path) -> None:
        """Report what was collected, or that this worker refuses to start, as it does on a full disk."""
        try:
            calls = self._counted()
            report = CollectionReport(self.collection.facts(), calls) if self.refused is None else None
            report_collection(folder, self.worker_id, report)
        except OSError as error:
            from pytest_llmprops.runs.record import unusable

            self.refused = str(unusable(folder, error))
            session.items.clear()
            # An empty file takes no disk space.
            report_collection(folder, self.worker_id, None)

    def _counted(self) -> dict[str, dict[str, Any]]:
        """Return the calls of the run as plain values, if this worker counts them; note why it cannot."""
        assert self.setup is not None
        if self.refused is not None or not (self.setup.counts and self.collection.remaining):
            return {}
        from pytest_llmprops.plugin.control.estimate import forecast_in_worker

        try:
            calls = forecast_in_worker(self.collection, self.evaluation)
        except LLMPropsError as error:
            self.refused = str(error)
            return {}
        return {label: own.to_json() for label, own in calls.items()}

    def _check_resumed(self) -> None:
        from pytest_llmprops.plugin.resuming import check_cases

        if self.setup is not None:
            folder = Path(self.setup.run_dir)
            facts = read_facts(folder)
        else:
            assert self.earlier is not None
            folder, facts = self.earlier.run.folder, self.earlier.facts
        check_cases(folder, facts, self.kept, self.collection.facts())

    def begin(self, session: pytest.Session) -> None:
        """Begin to evaluate the cases that this process will report."""
        if not self.collection.remaining or self.collection.only_collects(session):
            return
        workers, own = 1, 0
        if self._worker_input is not None:
            # The scheduler will give this worker the share of its number.
            workers, own = int(self._worker_input["workercount"]), int(self.worker_id.removeprefix("gw"))
        shares: dict[int, list[Unit]] = {}
        for position, item in enumerate(session.items):
            unit = item.stash.get(UNIT, None)
            if unit is not None:
                shares.setdefault(batch_of(position, len(session.items), workers), []).append(unit)
        self.evaluation.expect(shares)
        self.evaluation.begin(own)

    def summary(self) -> WorkerSummary:
        """Return what this process reports to the controller at its end."""
        return WorkerSummary(
            tuple(self.cases.notes),
            self.evaluation.in_process_use(),
            self.refused,
            self.evaluation.ended,
            "hypothesis" in sys.modules,
        )

    @property
    def worker_id(self) -> str:
        """pytest-xdist's name of this worker, such as ``gw0``."""
        assert self._worker_input is not None
        return str(self._worker_input["workerid"])

    def close(self) -> list[str]:
        """Cancel open work; safe to call twice. Return one line per model that could not be closed."""
        return self.evaluation.close()


def _gating(config: pytest.Config, settings: RunOptions, *, read: bool) -> Gating | None:
    if settings.gate is None:
        if settings.baseline is not None:
            raise UsageError(
                "--llm-baseline: needs --llm-gate FILE; to compare two recorded runs, use 'llmprops compare'"
            )
        return None
    from pytest_llmprops.plugin.gating import Gating

    return Gating(settings, config, read=read)
