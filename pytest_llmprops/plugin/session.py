"""A session with a model: cases, the engine that evaluates them ahead, the record, the summary."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pytest_llmprops.core.errors import BackendError, DataError, LLMPropsError, RunStopped, UsageError
from pytest_llmprops.core.verdicts import Verdict
from pytest_llmprops.engine.evaluator import Case, Outcome
from pytest_llmprops.engine.groups import Group, GroupOutcome, GroupVerdict
from pytest_llmprops.engine.planning import batch_of, turn_of
from pytest_llmprops.plugin import lean_items
from pytest_llmprops.plugin.bare import bare
from pytest_llmprops.plugin.cases import Cases, class_reference
from pytest_llmprops.plugin.evaluation import Evaluation, Unit
from pytest_llmprops.plugin.markers import asked_for, name_of, wanted
from pytest_llmprops.plugin.options import Settings
from pytest_llmprops.plugin.outcomes import by_its_verdict, by_the_model, line_of, properties

if TYPE_CHECKING:
    from pytest_llmprops.engine.session import Engine
    from pytest_llmprops.plugin.drawing import Drawing
    from pytest_llmprops.plugin.gating import Gating
    from pytest_llmprops.plugin.searching import Searching

CASE = pytest.StashKey[Unit]()
OUTCOME = pytest.StashKey[Outcome | GroupOutcome]()
WORKER_INPUT = "llmprops"
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
        told = worker_input[WORKER_INPUT] if worker_input is not None else None
        self.evaluation = Evaluation(settings, self.cases, told)
        self._ordered: list[Case] = []
        self._batches: dict[tuple[str, str, str], int] = {}
        #: node id of a function whose cases become lean items -> their names
        self._lean: dict[str, list[str]] = {}
        #: why nothing may start, found when all cases were known
        self.refused: str | None = None
        self.gating = _gating(config, settings, read=not self.is_worker)
        self._drawing: Drawing | None = None
        #: the cases that search for counterexamples, once there is one
        self._searching: Searching | None = None
        if self.gating is not None:
            self.cases.apart = self.gating.gate.sequential
        if not self.is_worker:
            self.evaluation.check_models()

    @property
    def engine(self) -> Engine:
        """Started when first used."""
        return self.evaluation.engine

    @property
    def sequential(self) -> bool:
        """Whether a gate ends the run as soon as it is decided."""
        return self.gating is not None and self.gating.gate.sequential

    @property
    def searching(self) -> Searching:
        """Made, and known to pytest, when first used: few sessions have such cases."""
        if self._searching is None:
            from pytest_llmprops.plugin import searching

            self._searching = searching.Searching(self)
            self.config.pluginmanager.register(self._searching, searching.PLUGIN_NAME)
        return self._searching

    # ---- collection

    def parametrize(self, metafunc: pytest.Metafunc, marker: pytest.Mark) -> None:
        """Give the marked function one parameter a case."""
        try:
            selection = self.cases.select(wanted(marker))
        except (DataError, UsageError) as error:
            raise pytest.Collector.CollectError(str(error)) from None
        argument = "verdict" if "verdict" in metafunc.fixturenames else "search"
        params = list(selection.cases)
        asked = asked_for(metafunc)
        if asked is not None and params:
            # pytest would collect all and drop the others: a tenth of a millisecond each.
            params = [param for param in params if param in asked]
        if not selection.cases:
            names = ", ".join(selection.not_served)
            skip = pytest.mark.skip(
                reason=f"not served: {names} serves no {'/'.join(selection.kinds_not_served)}"
            )
            metafunc.parametrize(
                argument, [pytest.param("none", marks=skip)], indirect=True, ids=["not-served"]
            )
            return
        if argument == "search":
            self.searching.parametrize(metafunc, selection)
            return
        if self._may_be_lean(metafunc, params):
            self._lean[metafunc.definition.nodeid] = params
            params = [lean_items.PLACEHOLDER]
        metafunc.parametrize("verdict", params, indirect=True, ids=params)

    def _may_be_lean(self, metafunc: pytest.Metafunc, params: list[str]) -> bool:
        return lean_items.enough(params) and not self.sequential and lean_items.fits(metafunc)

    @pytest.hookimpl(wrapper=True)
    def pytest_pycollect_makeitem(
        self, collector: pytest.Collector, name: str, obj: object
    ) -> Generator[None, Any, Any]:
        made = yield
        params = self._lean.pop(f"{collector.nodeid}::{name}", None)
        if params is None:
            return made
        [template] = made
        marker = template.get_closest_marker("llmprops")
        cases = self.cases.selections[name_of(wanted(marker))].cases
        return lean_items.lean_items(template, {param: cases[param] for param in params}, self)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if isinstance(item, lean_items.LeanItem):
            return lean_items.run_lean(item, nextitem, self)
        return None

    def unit_of(self, item: pytest.Item) -> Unit | None:
        """The case, or the group of them, behind a pytest item; None for tests that are not ours."""
        if isinstance(item, lean_items.LeanItem):
            return item.unit
        unit = item.stash.get(CASE, None)
        if unit is None:
            callspec = getattr(item, "callspec", None)
            marker = item.get_closest_marker("llmprops")
            if callspec is None or marker is None or "verdict" not in callspec.params:
                return None
            selection = self.cases.selections.get(name_of(wanted(marker)))
            unit = selection.cases.get(callspec.params["verdict"]) if selection else None
            if unit is not None:
                item.stash[CASE] = unit
        return unit

    def cases_of(self, item: pytest.Item) -> tuple[Case, ...]:
        """The cases that a pytest item reports."""
        unit = self.unit_of(item)
        if isinstance(unit, Group):
            return unit.cases
        return () if unit is None else (unit,)

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

    def searched_by(self, item: pytest.Item) -> Case | None:
        """The case whose property a pytest item searches; None for all other items."""
        return None if self._searching is None else self._searching.case_of(item)

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
        if not self.will_not_run(session) or self.settings.plan:
            self.cases.check_selected(case for item in session.items for case in self.cases_of(item))
        if self.gating is None or not session.items:
            return
        items: dict[tuple[str, str, str], list[pytest.Item]] = {}
        others: list[pytest.Item] = []
        known: dict[tuple[str, str, str], Case] = {}
        for item in session.items:
            found = self.cases_of(item)
            if not found:
                others.append(item)
            for case in found:
                items.setdefault(case.key, []).append(item)
                known[case.key] = case
        cases = list(known.values())
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
        units = [(n, unit) for n, item in enumerate(session.items) if (unit := self.unit_of(item))]
        self._ordered = [case for item in session.items for case in self.cases_of(item)]
        if not self._ordered or self.will_not_run(session):
            return
        if self._worker_input is None:
            self._within_budget()
            if self._drawing is None:
                self.evaluation.expect({0: [unit for _, unit in units]})
                self.evaluation.begin()
                self.evaluation.let_settle()
            return
        workers = int(self._worker_input["workercount"])
        total = len(session.items)
        share = batch_of if self._drawing is None else turn_of
        batches: dict[int, list[Unit]] = {}
        for position, unit in units:
            batches.setdefault(share(position, total, workers), []).append(unit)
        self._within_budget()
        if self._drawing is not None:
            own = {u.key: n for n, members in batches.items() for u in members if isinstance(u, Case)}
            self._drawing.spread(own, self.engine)
            return
        self.evaluation.expect(batches)
        # The scheduler will give this worker the batch of its number; no need to wait until it does.
        self.evaluation.begin(int(self._worker_input["workerid"].removeprefix("gw")))

    def _within_budget(self) -> None:
        """Stop the run before its first call when the plan is above a limit."""
        if self.settings.max_calls is None and self.settings.max_cost is None:
            return
        from pytest_llmprops.plugin.plan import over_budget

        asked = [case for case in self._ordered if case.model not in self.evaluation.in_process_labels]
        reason = over_budget(asked, self.settings, self.cases, self.engine.count_stored)
        if reason:
            self.engine.stop(reason)

    # ---- evaluation

    def verdict(self, item: pytest.Item) -> Verdict | GroupVerdict:
        """Wait for the verdict on the item's case or group; called in the item's set-up."""
        unit = self.unit_of(item)
        if unit is None:
            raise pytest.UsageError(
                f"{item.nodeid}: the fixture 'verdict' needs the marker llmprops(benchmark)"
            )
        outcome = self._outcome(item, unit)
        if isinstance(item, lean_items.LeanItem):
            item.outcome = outcome
        else:
            item.stash[OUTCOME] = outcome
        if self._searching is not None and isinstance(outcome, Outcome):
            self._searching.heard(outcome)
        if outcome.stopped is not None:
            self.stop(item, outcome.stopped)
        if outcome.error is not None:
            raise outcome.error
        if outcome.fault is not None:
            raise outcome.fault
        assert outcome.verdict is not None
        if not isinstance(item, lean_items.LeanItem) or item.source.properties:
            item.user_properties += properties(unit, outcome.verdict)
        return outcome.verdict

    def _outcome(self, item: pytest.Item, unit: Unit) -> Outcome | GroupOutcome:
        if isinstance(unit, Group):
            return self.evaluation.wait_for_group(unit)
        drawing = self._drawing
        if drawing is None:
            return self.evaluation.wait(unit)
        self._draw_up_to(item, unit, drawing)
        outcome = drawing.take(unit) or self.evaluation.wait(unit, begin=False)
        # Without a broker nobody can be told, and the next block finds out.
        with contextlib.suppress(BackendError):
            drawing.add(outcome)
        return outcome

    def outcome_of(self, item: pytest.Item) -> Outcome | GroupOutcome | None:
        """What became of the case of an item whose verdict was waited for."""
        return item.outcome if isinstance(item, lean_items.LeanItem) else item.stash.get(OUTCOME, None)

    def _draw_up_to(self, item: pytest.Item, case: Case, drawing: Drawing) -> None:
        try:
            needed = drawing.reach(case, self.engine)
        except (BackendError, RunStopped) as error:
            self.stop(item, str(error))
        if not needed:
            item.stash[UNNEEDED] = True
            pytest.skip(DECIDED)

    def stop(self, item: pytest.Item, reason: str) -> NoReturn:
        """Skip an item, and end the session as soon as no verdict stands ready."""
        self.evaluation.end(reason)
        # Verdicts that are ready are still reported; when none is left the session ends.
        if not self.engine.has_verdicts():
            item.session.shouldstop = f"llmprops: {reason}"
        pytest.skip(f"not run: {reason}")

    # ---- reports

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, Any]:
        outcome = self.outcome_of(item)
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
            unit = self.unit_of(item)
            assert isinstance(unit, Case)
            report.llmprops_unneeded = "|".join(unit.key)
        if outcome is not None:
            ours = call.when == "call" or (call.when == "setup" and report.outcome != "passed")
            # Of a group that a stopped run cut off, what was judged is recorded.
            if ours and (outcome.stopped is None or (isinstance(outcome, GroupOutcome) and outcome.records)):
                report.llmprops = self.record_of(outcome)
            if report.failed and by_the_model(outcome, call):
                report.llmprops_own = True
            if call.excinfo is not None and call.excinfo.errisinstance(BackendError):
                report.longrepr = line_of(outcome)
            if call.when == "teardown" and OUTCOME in item.stash:
                # Prompts and replies of a long run would otherwise pile up.
                del item.stash[OUTCOME]
        return report

    def record_of(self, outcome: Outcome | GroupOutcome) -> dict[str, Any]:
        """What a report tells the controller of a case or group."""
        if isinstance(outcome, Outcome):
            return outcome.record().to_json()
        record = outcome.record()
        if self.is_worker:
            # Lines cross to the controller as one string; it reads them again.
            del record["records"]
        return record

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
            "benchmarks": {n: f.to_json() for n, f in self.cases.benchmark_facts().items()},
            "data": self.cases.data_hashes(),
            "groups": list(dict.fromkeys(_group(case) for case in self._ordered)),
            "notes": list(self.cases.notes),
            "classes": {n: class_reference(type(s.benchmark)) for n, s in self.cases.selections.items()},
            "not_served": {n: dict(s.not_served) for n, s in self.cases.selections.items() if s.not_served},
            **self.evaluation.facts(),
        }

    def close(self) -> None:
        """Drop open work; safe to call twice."""
        self.evaluation.close()


def _gating(config: pytest.Config, settings: Settings, *, read: bool) -> Gating | None:
    if settings.gate is None:
        if settings.baseline is not None:
            raise UsageError(
                "--llm-baseline: needs --llm-gate FILE; 'llmprops compare' shows two recorded runs"
            )
        return None
    from pytest_llmprops.plugin.gating import Gating

    return Gating(settings, Path(config.rootpath), read=read)


def _group(case: Case) -> tuple[str, ...]:
    item = case.item
    return (case.model, case.benchmark.name, item.task, item.language, item.source)
