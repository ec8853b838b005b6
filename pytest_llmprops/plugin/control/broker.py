"""The controller's side of the broker: its process in a run with workers, and its reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_llmprops.core.errors import LLMPropsError
from pytest_llmprops.plugin.evaluation import Evaluation
from pytest_llmprops.records.files import from_plain
from pytest_llmprops.records.messages import BrokerReport
from pytest_llmprops.records.run import CallFacts

if TYPE_CHECKING:
    from pytest_llmprops.engine.broker.process import BrokerProcess
    from pytest_llmprops.engine.session import Engine

#: report of a run that needs no broker and costs nothing
NO_CALLS = BrokerReport(CallFacts(cost_usd=0.0))


class SessionBroker:
    """Starts the broker's process for workers, and gets reports from the broker of the session."""

    def __init__(self, evaluation: Evaluation, *, is_distributed: bool) -> None:
        self._evaluation, self._is_distributed = evaluation, is_distributed
        self._process: BrokerProcess | None = None
        self._monitor: Engine | None = None

    @property
    def socket(self) -> str | None:
        """The path of the process's socket; None without a process."""
        return None if self._process is None else self._process.socket

    def start_process(self) -> list[str]:
        """Start the process unless it is running, and return notes on the store.

        :raises pytest.UsageError: if the store cannot be used.
        """
        if self._process is not None:
            return []
        from pytest_llmprops.engine.broker.process import BrokerProcess

        config = self._evaluation.broker_config()
        notes: list[str] = []
        if config.cache != "off":
            from pytest_llmprops.engine.store.location import open_store

            try:
                # Open it once here to report a bad file before the run starts.
                store = open_store(config.store, read_only=config.cache == "only")
            except LLMPropsError as error:
                raise pytest.UsageError(str(error)) from None
            notes += store.notes
            store.close()
        try:
            self._process = BrokerProcess(config)
        except LLMPropsError as error:
            raise pytest.UsageError(str(error)) from None
        return notes

    @property
    def engine(self) -> Engine:
        """The engine of a run without workers; with workers, one that is connected to the process."""
        if self._process is None:
            return self._evaluation.engine
        if self._monitor is None:
            from pytest_llmprops.engine.session import Engine

            self._monitor = Engine(socket=self._process.socket, window=1)
        return self._monitor

    def report(self) -> BrokerReport | None:
        """Return the broker's report; None if the broker does not answer."""
        try:
            if self._process is not None or self._evaluation.engine_started:
                return from_plain(BrokerReport, self.engine.report())
            has_none = self._is_distributed and not self._evaluation.needs_broker
            return NO_CALLS if has_none else None
        except (LLMPropsError, TimeoutError):
            return None

    def failure(self) -> str | None:
        """Return one line on why the process ended; None while it is running, or without a process."""
        return None if self._process is None else self._process.failure()

    def close(self) -> list[str]:
        """End the process; safe to call twice. Return one line per model that it could not close."""
        problems: list[str] = []
        if self._monitor is not None:
            self._monitor.close()
            self._monitor = None
        if self._process is not None:
            problems = self._process.close()
            self._process = None
        return problems
