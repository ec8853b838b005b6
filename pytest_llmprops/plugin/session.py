"""A session with a model: cases, the engine that evaluates them ahead, the record, the summary."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_llmprops.core.errors import BackendError, DataError, LLMPropsError, RunStopped, UsageError
from pytest_llmprops.core.verdicts import Verdict
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.engine.evaluator import Case, Outcome
from pytest_llmprops.engine.planning import batch_of, turn_of
from pytest_llmprops.models.base import BackendOptions
from pytest_llmprops.models.registry import find_backend, registration_files
from pytest_llmprops.plugin.bare import bare
from pytest_llmprops.plugin.cases import Cases, class_reference
from pytest_llmprops.plugin.markers import asked_for, name_of, wanted
from pytest_llmprops.plugin.options import Settings
from pytest_llmprops.plugin.outcomes import by_its_verdict, by_the_model, line_of, properties

if TYPE_CHECKING:
    from pytest_llmprops.engine.session import Engine
    from pytest_llmprops.plugin.drawing import Drawing
    from pytest_llmprops.plugin.gating import Gating

CASE = pytest.StashKey[Case]()
OUTCOME = pytest.StashKey[Outcome]()
WORKER_INPUT = "llmprops"
#: longest time that reporting waits for replies that are stored
SETTLE_SECONDS = 2.0
#: under a gate, stored replies of a model whose version is not pinned are not trusted for longer (seconds)
CACHE_AGE = 24 * 3600.0
#: why a case was skipped that a sequential gate did not need
DECIDED = "gate decided"
UNNEEDED = pytest.StashKey[bool]()


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
        #: why nothing may start, found when all cases were known
        self.refused: str | None = None
        self.gating = _gating(config, settings, read=not self.is_worker)
        self._drawing: Drawing | None = None
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
            selection = self.cases.select(wanted(marker))
        except (DataError, UsageError) as error:
            raise pytest.Collector.CollectError(str(error)) from None
        params = list(selection.cases)
        asked = asked_for(metafunc)
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
            selection = self.cases.selections.get(name_of(wanted(marker)))
            case = selection.cases.get(callspec.params["verdict"]) if selection else None
            if case is not None:
                item.stash[CASE] = case
        return case

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> Generator[None, Any, Any]:
        # Plugins may select and reorder until now; whatever is wrong is said before anything begins.
        try:
            self._settle_selection(session)
        except UsageError as error:
            if not self.is_worker:
                raise pytest.UsageError(str(error)) from None
            # An exception here would look like a crash; with nothing to run, the controller reports it.
            self.refused = str(error)
            session.items.clear()
        result = yield
        self._start(session)
        return result

    def will_not_run(self, session: pytest.Session) -> bool:
        """Whether pytest only collects: as asked, for a plan, or because of errors."""
        option = self.config.option
        # Workers run what could be collected; the session fails all the same.
        broken = session.testsfailed and not (option.continue_on_collection_errors or self.is_worker)
        return bool(broken or option.collectonly or self.settings.plan)

    def _settle_selection(self, session: pytest.Session) -> None:
        """Check what can be checked now that all cases are known; put them in the order of drawing.

        :raises UsageError: naming what does not fit.
        """
        # After an error of collection, what is missing may be what could not be collected.
        whole = not session.testsfailed
        if whole:
            self.cases.check_all_sets_used()
        if self.gating is None or not session.items:
            return
        items: dict[tuple[str, str, str], list[pytest.Item]] = {}
        others: list[pytest.Item] = []
        for item in session.items:
            case = self.case_of(item)
            (others if case is None else items.setdefault(case.key, [])).append(item)
        cases = [same[0].stash[CASE] for same in items.values()]
        if whole:
            self.gating.check(cases, self.cases)
        if self.gating.gate.sequential and cases and not self.will_not_run(session):
            self._drawing = self._draw(cases)
            drawn = [item for case in self._drawing.ordered for item in items[case.key]]
            session.items[:] = [*drawn, *others]

    def _draw(self, cases: list[Case]) -> Drawing:
        from pytest_llmprops.plugin.drawing import Drawing

        assert self.gating is not None
        facts = self.facts() | {
            "models": {label: {} for label in self.cases.models},
            "options": {"params": dict(self.settings.params)},
        }
        return Drawing(
            self.gating, cases, facts, concurrency=self.settings.concurrency, seed=self.settings.seed
        )

    def _start(self, session: pytest.Session) -> None:
        self._ordered = [case for item in session.items if (case := self.case_of(item)) is not None]
        if not self._ordered or self.will_not_run(session):
            return
        if self._worker_input is None:
            self._within_budget()
            if self._drawing is None:
                self.engine.submit(self._ordered)
                self.engine.let_settle(SETTLE_SECONDS)
            return
        workers = int(self._worker_input["workercount"])
        total = len(session.items)
        share = batch_of if self._drawing is None else turn_of
        for position, item in enumerate(session.items):
            case = self.case_of(item)
            if case is not None:
                self._batches[case.key] = share(position, total, workers)
        self._within_budget()
        if self._drawing is not None:
            self._drawing.spread(self._batches, self.engine)
            return
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
        if age is None and settings.gate is not None:
            age = CACHE_AGE
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
        if self._drawing is not None:
            self._draw_up_to(item, case, self._drawing)
        else:
            self._begin_batch(case)
        outcome = (self._drawing and self._drawing.take(case)) or self._wait(case)
        item.stash[OUTCOME] = outcome
        if self._drawing is not None:
            # Without a broker nobody can be told, and the next block finds out.
            with contextlib.suppress(BackendError):
                self._drawing.add(outcome)
        if outcome.stopped is not None:
            self._stopped(item, outcome.stopped)
        if outcome.error is not None:
            raise outcome.error
        if outcome.fault is not None:
            raise outcome.fault
        assert outcome.verdict is not None
        for name, value in properties(case, outcome.verdict):
            item.user_properties.append((name, value))
        return outcome.verdict

    def _draw_up_to(self, item: pytest.Item, case: Case, drawing: Drawing) -> None:
        try:
            needed = drawing.reach(case, self.engine)
        except (BackendError, RunStopped) as error:
            self._stopped(item, str(error))
        if not needed:
            item.stash[UNNEEDED] = True
            pytest.skip(DECIDED)

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
                line = line_of(outcome)
                if line is not None:
                    setattr(item, "repr_failure", lambda *args, **options: line)  # noqa: B010
        report = yield
        if outcome is not None and self.settings.failures == "xfail" and by_its_verdict(outcome, call):
            report.outcome = "skipped"
            report.wasxfail = line_of(outcome)
        if call.when == "setup" and item.stash.get(UNNEEDED, False):
            report.llmprops_unneeded = "|".join(item.stash[CASE].key)
        if outcome is not None:
            ours = call.when == "call" or (call.when == "setup" and report.outcome != "passed")
            if ours and outcome.stopped is None:
                report.llmprops = outcome.record()
            if report.failed and by_the_model(outcome, call):
                report.llmprops_own = True
            if call.excinfo is not None and call.excinfo.errisinstance(BackendError):
                report.longrepr = line_of(outcome)
            if call.when == "teardown":
                # Prompts and replies of a long run would otherwise pile up.
                del item.stash[OUTCOME]
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        reason = session.shouldfail or session.shouldstop
        if self._drawing is not None and self.is_worker and reason:
            # Others would wait for what this worker does not do any more.
            with contextlib.suppress(LLMPropsError, TimeoutError):
                self.engine.stop(str(reason))
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output[WORKER_INPUT] = self.facts()

    def facts(self) -> dict[str, Any]:
        """What the run record needs to know of the collection, as plain values."""
        return {
            "cases": len({case.key for case in self._ordered}),
            "refused": self.refused,
            "sequential": self._drawing.plan if self._drawing is not None else None,
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


def _gating(config: pytest.Config, settings: Settings, *, read: bool) -> Gating | None:
    if settings.gate is None:
        if settings.baseline is not None:
            raise UsageError("--llm-baseline: needs --llm-gate FILE; 'llmprops compare' shows two recorded runs")
        return None
    from pytest_llmprops.plugin.gating import Gating

    return Gating(settings, Path(config.rootpath), read=read)


def _group(case: Case) -> tuple[str, ...]:
    item = case.item
    return (case.model, case.benchmark.name, item.task, item.language, item.source)
