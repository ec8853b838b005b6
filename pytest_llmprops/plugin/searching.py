"""Cases in which hypothesis searches a counterexample to the property of an item.

A search has no verdict and proves no bound; it is counted separately (``runs/record.py``). This module is imported
only if a test function uses the fixture ``search``, and hypothesis only when such a case runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeVar

import pytest

from pytest_llmprops.core.benchmark import Counterexample, Searched
from pytest_llmprops.core.contracts import awaited, checked, raised
from pytest_llmprops.core.errors import BackendError, ContractError, MissingExtra, RunStopped, UsageError
from pytest_llmprops.core.texts import terminal_line
from pytest_llmprops.core.verdicts import Verdict
from pytest_llmprops.engine.evaluation.evaluator import Asking, Case, CaseGroup, CaseKey, Outcome, evaluate
from pytest_llmprops.plugin.cases.cases import Selection
from pytest_llmprops.plugin.cases.light_items import FOUND, SEARCHED, cases_in
from pytest_llmprops.plugin.cases.markers import (
    case_name_of,
    cases_on_command_line,
    parametrize_skipped,
    property_of,
    searched_by,
)
from pytest_llmprops.plugin.cases.reporting import attach, set_failure_line
from pytest_llmprops.plugin.evaluation import Evaluation
from pytest_llmprops.plugin.options import RunOptions
from pytest_llmprops.plugin.tracebacks import with_one_frame
from pytest_llmprops.records.messages import CaseReport
from pytest_llmprops.records.rows import SearchRecord
from pytest_llmprops.runs.record import counterexample_text

T = TypeVar("T")
#: maximum number of points that hypothesis tries, without those of shrinking
EXAMPLES = 100


class _SearchEnded(BaseException):
    """Ends hypothesis, which would shrink an ``Exception`` like a counterexample."""


class Search:
    """The value of the fixture ``search``: a property of an item, and the search for a counterexample to it.

    :param name: of the property; empty if the benchmark has only one.
    :param asking: sends the case's requests and counts them. :param wait: runs a coroutine on the engine's loop.
    """

    def __init__(
        self,
        case: Case,
        name: str,
        searched: Searched,
        asking: Asking,
        wait: Callable[[Coroutine[Any, Any, Any]], Any],
    ) -> None:
        self.case, self.property = case, name
        self.size: Any = searched.size
        self.examples = 0
        #: the search used all its calls before hypothesis finished
        self.spent = False
        #: it counts only if it is repeated
        self.counterexample: Counterexample | None = None
        #: what ended the search: a failed call, the end of the run, a mistake of the benchmark, or the counterexample
        self.failure: BaseException | None = None
        self._searched, self._asking, self._wait = searched, asking, wait
        self._before = len(asking.calls)
        #: what :meth:`holds` returned last
        self._held = True

    def holds(self, *point: int) -> bool:
        """Return True if the property holds at ``point``. Assert it in the function that :meth:`run` gets.

        A failed call, the end of the run, or the call limit ends the search.
        """
        self.examples += 1
        holds: bool | None = self._checked("holds", *point)
        if holds is None:
            self.examples -= 1
            self.spent = True
            raise _SearchEnded
        self._held = holds
        return holds

    def run(self, test: Callable[[], object]) -> None:
        """Run ``test``, a function under ``@given`` that asserts :meth:`holds`, with hypothesis.

        Every run draws the same points. Hypothesis draws and shrinks; it neither explains nor stores anything. What
        is not repeated is kept, but fails nothing.

        :raises AssertionError: if there is a counterexample, with one line on it. If all calls were used, it may not
            be the smallest. :raises BackendError: if a call failed.
        """
        from hypothesis import HealthCheck, Phase, Verbosity, settings

        # With derandomize, hypothesis uses no example database. Without a database, nested settings ended in a
        # RecursionError after about 950 cases; the settings of an inner function such as ``test`` do not nest.
        quietly = settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            phases=(Phase.generate, Phase.shrink),
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.quiet,
            print_blob=False,
        )
        failed: AssertionError | None = None
        try:
            try:
                quietly(test)()
            except _SearchEnded:
                if self.failure is not None:
                    raise
            except AssertionError as error:
                failed = error
            self.counterexample = self._checked("counterexample")
        except _SearchEnded:
            assert self.failure is not None
            raise self.failure from None
        if self.counterexample is not None and self.counterexample.is_repeated:
            self.failure = AssertionError(self.line)
            raise self.failure from None
        if failed is not None and (self._held or self.counterexample is None):
            raise failed

    def _checked(self, method: str, *point: int) -> Any:
        """Return the checked result of a method of the property; end hypothesis if there is none."""
        benchmark = self.case.benchmark
        try:
            work = awaited(benchmark, method, partial(getattr(self._searched, method), *point))
            return checked(benchmark, method, self._wait(work))
        except (BackendError, ContractError, RunStopped) as error:
            self.failure = error
        raise _SearchEnded

    def failed_by(self, error: BaseException | None) -> bool:
        """Return True if ``error``, which is not a mistake of the benchmark, ended the search."""
        return error is not None and error is self.failure and not isinstance(error, ContractError)

    @property
    def line(self) -> str:
        """One line on the counterexample."""
        return terminal_line(f"counterexample: {counterexample_text(self.record())}")

    def record(self) -> SearchRecord:
        """Return the line of ``searches.jsonl``."""
        item, found = self.case.item, self.counterexample
        shown, is_repeated = None, found is not None and found.is_repeated
        if found is not None:
            shown = {"why": found.why, **found.values, "evidence": dict(found.evidence)}
            if found.replications:
                shown |= {"replications": found.replications, "replicated": found.replicated}
        calls = self._asking.calls[self._before :]
        return SearchRecord(
            model=self.case.model,
            benchmark=self.case.benchmark.name,
            task=item.task,
            language=item.language,
            source=item.source,
            id=item.id,
            property=self.property,
            examples=self.examples,
            requests=len(calls),
            calls=sum(call.reply is None or not call.reply.cached for call in calls),
            spent=self.spent,
            counterexample=shown if is_repeated else None,
            not_repeated=None if is_repeated else shown,
            error=str(self.failure) if isinstance(self.failure, BackendError) else "",
        )


def properties(record: SearchRecord) -> list[tuple[str, str]]:
    """Return the properties of a search for JUnit reports."""
    rows = [(f"llmprops.{name}", str(getattr(record, name))) for name in ("model", "benchmark", "task")]
    rows += [(f"llmprops.search.{name}", str(getattr(record, name))) for name in ("examples", "calls")]
    kinds = ("counterexample", "not_repeated")
    text = terminal_line(counterexample_text(record))
    rows += [(f"llmprops.search.{kind}", text) for kind in kinds if getattr(record, kind) is not None]
    return rows


#: name under which the part is registered with pytest
PLUGIN_NAME = "llmprops-searching"
_WAIT_SECONDS = 0.25
_SEARCH = pytest.StashKey[Search]()


class Searching:
    """The searches of a session, in each process that runs cases."""

    def __init__(self, settings: RunOptions, evaluation: Evaluation) -> None:
        self._settings, self._evaluation = settings, evaluation
        #: benchmark and property -> the case of each parameter
        self._cases: dict[tuple[str, str], dict[str, Case]] = {}
        #: keys of the cases whose verdict a search may need -> the verdict; None for an error
        self._measured: dict[CaseKey, Verdict | None] = {}
        self._needed: set[CaseKey] = set()

    def parametrize(self, metafunc: pytest.Metafunc, marker: pytest.Mark, selection: Selection) -> None:
        """Give the marked function one parameter per item that can be searched, or skip it with the reason.

        :raises UsageError: if the marker names no property of the benchmark.
        """
        name = selection.benchmark.name
        searched = property_of(marker, selection.benchmark.properties)
        cases = self._of(selection, searched)
        reason: object = ""
        if not cases:
            reason = f"{name} has no item to search under these settings"
        elif self._settings.engine == "batch":
            reason = "a search needs one reply after another, which batches cannot give; leave out --llm-engine batch"
        elif find_spec("hypothesis") is None:
            reason = MissingExtra("a search", package="hypothesis", extra="oracle")
        if reason:
            parametrize_skipped(metafunc, "search", "not-searched", f"not searched: {reason}")
            return
        self._cases[name, searched] = cases
        self._needed |= {case.key for case in cases.values()}
        selected = cases_on_command_line(metafunc)
        params = [param for param in cases if selected is None or param in selected]
        metafunc.parametrize("search", params, indirect=True, ids=params)

    def _of(self, selection: Selection, searched: str) -> dict[str, Case]:
        benchmark, settings = selection.benchmark, selection.protocol.settings
        firsts = {
            param: cases_in(unit)[0]
            for param, unit in selection.cases.items()
            if not isinstance(unit, CaseGroup) or unit.is_one_item
        }
        try:
            return {
                p: case for p, case in firsts.items() if benchmark.searches(case.item, settings, searched)
            }
        except Exception as fault:
            raise UsageError(str(raised(benchmark, "searches", fault))) from None

    def case_of(self, item: pytest.Item) -> Case | None:
        """Return the case of a pytest item that searches; None for other items."""
        benchmark, name = case_name_of(item, "search") or ("", "")
        return self._cases.get((benchmark, searched_by(item)), {}).get(name)

    def keep_measurement(self, outcome: Outcome) -> None:
        """Keep the verdict of a case that will be searched."""
        if outcome.case.key in self._needed and outcome.stopped is None:
            # Without the evidence, whose texts would fill the memory in a long run.
            kept = None if outcome.verdict is None else dataclasses.replace(outcome.verdict, evidence={})
            self._measured[outcome.case.key] = kept

    def begin(self, item: pytest.Item) -> Search:
        """Return the search of the item's case; called in its setup."""
        case, name = item.stash[SEARCHED], searched_by(item)
        if self._measured.get(case.key, case) is None:
            pytest.skip("not searched: the item's case is an error")
        engine, benchmark = self._evaluation.engine, case.benchmark
        asking = Asking(case, engine.ask)

        async def measured() -> Verdict:
            verdict = self._measured.get(case.key)
            if verdict is not None:
                return verdict
            # The case is not selected or runs in another worker. Stored replies are used here, too.
            outcome = await evaluate(case, engine.ask)
            if outcome.stopped is not None:
                raise RunStopped(outcome.stopped)
            if outcome.error is not None:
                raise outcome.error
            if outcome.fault is not None:
                raise raised(benchmark, "evaluate", outcome.fault)
            assert outcome.verdict is not None
            return outcome.verdict

        prepare = partial(benchmark.search, case.item, case.context, asking, case.protocol, measured, name)
        try:
            searched = checked(benchmark, "search", self._wait(awaited(benchmark, "search", prepare)))
        except RunStopped as stop:
            self._evaluation.skip_rest(item, str(stop))
        if isinstance(searched, str):
            pytest.skip(f"not searched: {searched}")
        search = item.stash[_SEARCH] = Search(case, name, searched, asking, self._wait)
        return search

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        future = self._evaluation.engine.start(work)
        try:
            while True:
                try:
                    return future.result(_WAIT_SECONDS)
                except TimeoutError:
                    if future.done():
                        raise
                    self._evaluation.show_waiting()
        except BaseException:
            future.cancel()
            raise

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        try:
            return (yield)
        except RunStopped as stop:
            if _SEARCH in item.stash:
                self._evaluation.skip_rest(item, str(stop))
            raise

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        if SEARCHED not in item.stash:
            return (yield)
        search, error = item.stash.get(_SEARCH, None), call.excinfo and call.excinfo.value
        is_over = search is not None and call.when == "call"
        by_model = isinstance(error, BackendError) or (search is not None and search.failed_by(error))
        is_counterexample = search is not None and by_model and search.counterexample is not None
        record = search.record() if search is not None and is_over else None
        if record is not None:
            item.user_properties += properties(record)
            item.stash[FOUND] = record
        if isinstance(error, BackendError | ContractError):
            call.excinfo = pytest.ExceptionInfo.from_exception(with_one_frame(error))
        elif search is not None and is_counterexample:
            set_failure_line(item, search.line)
        report = yield
        if isinstance(error, BackendError):
            report.longrepr = f"backend error: {terminal_line(error.message)}"
        elif isinstance(error, ContractError):
            report.longrepr = terminal_line(f"error: {error}")
        not_searched = report.when == "setup" and report.skipped
        ended = record if report.passed or by_model else None
        by_model = by_model and report.failed
        if not_searched or by_model or ended is not None:
            attach(item, report, CaseReport(search=ended, by_model=by_model, not_searched=not_searched))
        if search is not None and ended is not None and is_counterexample and self._settings.gate is not None:
            report.outcome, report.wasxfail = "skipped", search.line
        return report
