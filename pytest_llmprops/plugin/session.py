"""A session with a model: cases, the engine that evaluates them ahead, the record, the summary."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.errors import BackendError, DataError, LLMPropsError, UsageError
from pytest_llmprops.core.verdicts import Verdict
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.engine.evaluator import Case, Outcome
from pytest_llmprops.engine.planning import batch_of
from pytest_llmprops.models.base import BackendOptions
from pytest_llmprops.models.registry import find_backend, registration_files
from pytest_llmprops.plugin.bare import bare
from pytest_llmprops.plugin.cases import Cases, class_reference
from pytest_llmprops.plugin.options import Settings

if TYPE_CHECKING:
    from pytest_llmprops.engine.session import Engine

CASE = pytest.StashKey[Case]()
OUTCOME = pytest.StashKey[Outcome]()
WORKER_INPUT = "llmprops"
#: longest time that reporting waits for replies that are stored
SETTLE_SECONDS = 2.0


class LLMSession:
    """What runs wherever cases run: in the one process, or in each worker of a distributed run."""

    def __init__(
        self, config: pytest.Config, settings: Settings, worker_input: dict[str, Any] | None
    ) -> None:
        self.config = config
        self.settings = settings
        self.is_worker = worker_input is not None
        self.cases = Cases(settings)
        self._worker_input = worker_input
        self._engine: Engine | None = None
        self._ordered: list[Case] = []
        self._batches: dict[tuple[str, str, str], int] = {}
        self._begun: set[int] = set()
        #: set by the controller before the engine starts
        self.run_dir: Path | None = None
        #: how a waiting case reports progress; set by the controller of a run without workers
        self.on_wait: Any = None
        if not self.is_worker:
            self._check_models()

    def _check_models(self) -> None:
        """Make every model once, which loads nothing heavy but finds missing packages, keys and files."""
        options = self._backend_options()
        for spec in [*self.cases.models.values(), *self.cases.helper_specs.values()]:
            find_backend(spec.backend).factory(spec, options).close()

    def _backend_options(self) -> BackendOptions:
        return BackendOptions(self.settings.base_url, self.settings.timeout, self.settings.concurrency)

    # ---- collection

    def parametrize(self, metafunc: pytest.Metafunc, marker: pytest.Mark) -> None:
        """Give the marked function one parameter a case."""
        try:
            wanted = _wanted(marker)
            selection = self.cases.select(wanted)
        except (DataError, UsageError) as error:
            raise pytest.Collector.CollectError(str(error)) from None
        params = list(selection.cases)
        asked = _asked_for(metafunc)
        if asked is not None and params:
            # pytest would collect all and drop the others: a tenth of a millisecond each.
            params = [param for param in params if param in asked]
        if not selection.cases:
            names = ", ".join(selection.not_served)
            skip = pytest.mark.skip(
                reason=f"not served: {names} serves no {'/'.join(selection.benchmark.kinds)}"
            )
            metafunc.parametrize(
                "verdict", [pytest.param("none", marks=skip)], indirect=True, ids=["not-served"]
            )
            return
        metafunc.parametrize("verdict", params, indirect=True, ids=params)

    def case_of(self, item: pytest.Item) -> Case | None:
        """The case behind a pytest item, or None for tests that are not ours."""
        case = item.stash.get(CASE, None)
        if case is None:
            callspec = getattr(item, "callspec", None)
            marker = item.get_closest_marker("llmprops")
            if callspec is None or marker is None or "verdict" not in callspec.params:
                return None
            selection = self.cases.selections.get(_name(_wanted(marker)))
            case = selection.cases.get(callspec.params["verdict"]) if selection else None
            if case is not None:
                item.stash[CASE] = case
        return case

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        try:
            self.cases.check_all_sets_used()
        except UsageError as error:
            raise pytest.UsageError(str(error)) from None
        self._ordered = [case for item in session.items if (case := self.case_of(item)) is not None]
        if self.settings.plan or self.config.option.collectonly or not self._ordered:
            return
        if self._worker_input is None:
            self._within_budget()
            self.engine.submit(self._ordered)
            self.engine.let_settle(SETTLE_SECONDS)
            return
        workers = int(self._worker_input["workercount"])
        total = len(session.items)
        for position, item in enumerate(session.items):
            case = self.case_of(item)
            if case is not None:
                self._batches[case.key] = batch_of(position, total, workers)
        self._within_budget()
        # The scheduler will give this worker the batch of its number; no need to wait until it does.
        self._begin(int(self._worker_input["workerid"].removeprefix("gw")))

    def _within_budget(self) -> None:
        """Stop the run before its first call when the plan is above a limit."""
        if self.settings.max_calls is None and self.settings.max_cost is None:
            return
        from pytest_llmprops.plugin.plan import over_budget

        reason = over_budget(self._ordered, self.settings, self.cases, self.engine.count_stored)
        if reason:
            self.engine.stop(reason)

    # ---- evaluation

    @property
    def engine(self) -> Engine:
        """Started when first used."""
        if self._engine is None:
            from pytest_llmprops.engine.session import Engine, calm_collector

            window = max(128, 2 * self.settings.concurrency)
            if self._worker_input is not None:
                self._engine = Engine(socket=self._worker_input[WORKER_INPUT]["socket"], window=window)
            else:
                try:
                    self._engine = Engine(config=self.broker_config(), window=window)
                except LLMPropsError as error:
                    raise pytest.UsageError(str(error)) from None
            calm_collector()
        return self._engine

    def broker_config(self) -> BrokerConfig:
        """The broker's configuration from the session's settings."""
        from pytest_llmprops.engine.store import default_store

        settings = self.settings
        age = settings.cache_age
        return BrokerConfig(
            models=dict(self.cases.model_specs()),
            base_url=settings.base_url,
            concurrency=settings.concurrency,
            rpm=settings.rpm,
            timeout=settings.timeout,
            retries=settings.retries,
            cache=settings.cache,
            not_before=0.0 if age is None else time.time() - age,
            store=str(settings.store or default_store()),
            max_calls=settings.max_calls,
            max_cost=settings.max_cost,
            run_dir=str(self.run_dir) if self.run_dir else None,
            registrations=tuple(registration_files()),
        )

    @property
    def engine_started(self) -> bool:
        return self._engine is not None

    def verdict(self, item: pytest.Item) -> Verdict:
        """Wait for the case's verdict; called in the item's set-up."""
        case = self.case_of(item)
        if case is None:
            raise pytest.UsageError(
                f"{item.nodeid}: the fixture 'verdict' needs the marker llmprops(benchmark)"
            )
        self._begin_batch(case)
        outcome = self._wait(case)
        item.stash[OUTCOME] = outcome
        if outcome.stopped is not None:
            self._stopped(item, outcome.stopped)
        if outcome.error is not None:
            raise outcome.error
        if outcome.fault is not None:
            raise outcome.fault
        assert outcome.verdict is not None
        for name, value in _properties(case, outcome.verdict):
            item.user_properties.append((name, value))
        return outcome.verdict

    def _begin_batch(self, case: Case) -> None:
        batch = self._batches.get(case.key)
        if batch is not None:
            self._begin(batch)

    def _begin(self, batch: int) -> None:
        if batch not in self._begun:
            self._begun.add(batch)
            self.engine.submit(c for c in self._ordered if self._batches[c.key] == batch)

    def _wait(self, case: Case) -> Outcome:
        while True:
            try:
                return self.engine.outcome(case, timeout=0.25)
            except TimeoutError:
                if self.on_wait is not None:
                    self.on_wait()

    def _stopped(self, item: pytest.Item, reason: str) -> None:
        # Verdicts that are ready are still reported; when none is left the session ends.
        if not self.engine.has_verdicts():
            item.session.shouldstop = f"llmprops: {reason}"
        pytest.skip(f"not run: {reason}")

    # ---- reports

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, Any]:
        outcome = item.stash.get(OUTCOME, None)
        if outcome is not None and call.excinfo is not None:
            # Rendering a traceback costs milliseconds, and says nothing about the model.
            if call.excinfo.errisinstance(BackendError):
                call.excinfo = pytest.ExceptionInfo.from_exception(bare(call.excinfo.value))
            elif call.when == "call" and call.excinfo.errisinstance(AssertionError):
                line = _line(outcome)
                if line is not None:
                    setattr(item, "repr_failure", lambda *args, **options: line)  # noqa: B010
        report = yield
        if outcome is not None:
            ours = call.when == "call" or (call.when == "setup" and report.outcome != "passed")
            if ours and outcome.stopped is None:
                report.llmprops = outcome.record()
            if call.excinfo is not None and call.excinfo.errisinstance(BackendError):
                report.longrepr = _line(outcome)
            if call.when == "teardown":
                # Prompts and replies of a long run would otherwise pile up.
                del item.stash[OUTCOME]
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output[WORKER_INPUT] = self.facts()

    def facts(self) -> dict[str, Any]:
        """What the run record needs to know of the collection, as plain values."""
        return {
            "cases": len(self._ordered),
            "protocols": {n: s.protocol.to_json() for n, s in self.cases.selections.items()},
            "data": self.cases.data_hashes(),
            "groups": list(dict.fromkeys(_group(case) for case in self._ordered)),
            "notes": list(self.cases.notes),
            "classes": {n: class_reference(type(s.benchmark)) for n, s in self.cases.selections.items()},
            "not_served": {n: dict(s.not_served) for n, s in self.cases.selections.items() if s.not_served},
        }

    def close(self) -> None:
        """Drop open work; safe to call twice."""
        if self._engine is not None:
            engine, self._engine = self._engine, None
            engine.close()


def _asked_for(metafunc: pytest.Metafunc) -> set[str] | None:
    """The cases of this function that the command line names one by one; None when it asks for all."""
    asked = set()
    for arg in metafunc.config.args:
        _, _, names = arg.partition("::")
        function, bracket, param = names.rpartition("::")[2].partition("[")
        if bracket and function == metafunc.function.__name__ and param.endswith("]"):
            asked.add(param[:-1])
        elif not bracket or function == metafunc.function.__name__:
            return None
    return asked or None


def _group(case: Case) -> tuple[str, ...]:
    item = case.item
    return (case.model, case.benchmark.name, item.task, item.language, item.source)


def _wanted(marker: pytest.Mark) -> str | type[Benchmark]:
    given = [*marker.args, *(value for name, value in marker.kwargs.items() if name == "benchmark")]
    if len(given) != 1 or len(marker.args) + len(marker.kwargs) != 1:
        raise UsageError(
            'the marker takes a benchmark\'s name, llmprops("htest"), or class, llmprops(benchmark=MyClass)'
        )
    wanted = given[0]
    if not isinstance(wanted, str) and not (isinstance(wanted, type) and issubclass(wanted, Benchmark)):
        raise UsageError(f"llmprops({wanted!r}): give a benchmark's name or a Benchmark class")
    return wanted


def _name(wanted: str | type[Benchmark]) -> str:
    return wanted if isinstance(wanted, str) else wanted.name


def _line(outcome: Outcome) -> str | None:
    """The one line that a failed case shows."""
    if outcome.error is not None:
        return f"backend error: {outcome.error.message}"
    verdict = outcome.verdict
    if verdict is None or verdict:
        return None
    given = verdict.given if len(verdict.given) <= 120 else verdict.given[:117] + "..."
    return printable(f"{verdict.status}: {verdict.reason} (expected {verdict.expected!r}, given {given!r})")


def printable(text: str) -> str:
    """``text`` on one line without control characters, which could drive the reader's terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


def _properties(case: Case, verdict: Verdict) -> list[tuple[str, str]]:
    return [
        ("llmprops.model", case.model),
        ("llmprops.benchmark", case.benchmark.name),
        ("llmprops.task", case.item.task),
        ("llmprops.language", case.item.language),
        ("llmprops.status", verdict.status),
        ("llmprops.score", f"{verdict.score:g}"),
    ]
