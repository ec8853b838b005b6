"""Cases in which hypothesis looks for a counterexample of what an item's measurement tests.

A search writes no verdict and claims no bound; it is counted apart (``runs/searches.py``). Imported only where
a test function asks for the fixture ``search``; hypothesis itself only when such a case runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Coroutine, Generator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pytest_llmprops.core.errors import BackendError, MissingExtra, RunStopped
from pytest_llmprops.core.evidence import evidence_texts
from pytest_llmprops.core.verdicts import Verdict
from pytest_llmprops.engine.evaluator import Asking, Case, Outcome, evaluate
from pytest_llmprops.plugin.bare import bare
from pytest_llmprops.plugin.cases import Selection
from pytest_llmprops.plugin.hypothesis_search import Search, properties
from pytest_llmprops.plugin.markers import asked_for, name_of, wanted
from pytest_llmprops.plugin.outcomes import printable

if TYPE_CHECKING:
    from pytest_llmprops.plugin.session import LLMSession

T = TypeVar("T")
#: name under which the part is registered with pytest
PLUGIN_NAME = "llmprops-searching"
_WAIT_SECONDS = 0.25


_SEARCH = pytest.StashKey[Search]()


class Searching:
    """The searches of a session, in the process that runs their cases."""

    def __init__(self, session: LLMSession) -> None:
        self._session = session
        self._cases: dict[str, dict[str, Case]] = {}
        #: keys of the cases that a search may ask the verdict of
        self._wanted: set[tuple[str, str, str]] = set()
        self._measured: dict[tuple[str, str, str], Verdict] = {}
        self._failed: set[tuple[str, str, str]] = set()

    # ---- collection

    def parametrize(self, metafunc: pytest.Metafunc, selection: Selection) -> None:
        """Give the marked function one parameter an item that can be searched, or one that says why there is none."""
        name = selection.benchmark.name
        cases = self._of(selection)
        why, param = "", "not-searched"
        if not cases:
            why = f"not searched: {name} has no item to search under these settings"
        elif self._session.sequential:
            why = "not searched: a sequential gate ends the run as early as it can"
        elif find_spec("hypothesis") is None:
            why = f"not searched: {MissingExtra('a search', package='hypothesis', extra='search')}"
        if why:
            skip = pytest.mark.skip(reason=why)
            metafunc.parametrize("search", [pytest.param(param, marks=skip)], indirect=True, ids=[param])
            return
        self._cases[name] = cases
        self._wanted |= {case.key for case in cases.values()}
        asked = asked_for(metafunc)
        params = [param for param in cases if asked is None or param in asked]
        metafunc.parametrize("search", params, indirect=True, ids=params)

    def _of(self, selection: Selection) -> dict[str, Case]:
        settings = selection.protocol.settings
        return {
            param: case
            for param, case in selection.cases.items()
            if isinstance(case, Case) and selection.benchmark.searches(case.item, settings)
        }

    def case_of(self, item: pytest.Item) -> Case | None:
        """The case that a pytest item searches; None for other items."""
        callspec = getattr(item, "callspec", None)
        marker = item.get_closest_marker("llmprops")
        if callspec is None or marker is None or "search" not in callspec.params:
            return None
        return self._cases.get(name_of(wanted(marker)), {}).get(callspec.params["search"])

    # ---- the search

    def heard(self, outcome: Outcome) -> None:
        """Remember what a case's measurement said, for its search."""
        key = outcome.case.key
        if key not in self._wanted:
            return
        if outcome.verdict is not None:
            # The texts of a long run would pile up.
            self._measured[key] = dataclasses.replace(outcome.verdict, evidence={})
        elif outcome.stopped is None:
            self._failed.add(key)

    def begin(self, item: pytest.Item) -> Search:
        """Make ready what the item's case searches; called in its set-up."""
        case = self.case_of(item)
        if case is None:
            raise pytest.UsageError(
                f"{item.nodeid}: the fixture 'search' needs the marker llmprops(benchmark)"
            )
        self._label(case)
        if case.key in self._failed:
            pytest.skip("not searched: its measurement is an error")
        engine = self._session.engine
        asking = Asking(case, engine.ask)

        async def measured() -> Verdict:
            known = self._measured.get(case.key)
            if known is not None:
                return known
            # By another worker, or not selected: measured here, from the store where it has the replies.
            outcome = await evaluate(case, engine.ask)
            if outcome.stopped is not None:
                raise RunStopped(outcome.stopped)
            for failure in (outcome.error, outcome.fault):
                if failure is not None:
                    raise failure
            assert outcome.verdict is not None
            return outcome.verdict

        make = case.benchmark.search(case.item, case.context, asking, case.protocol, measured)
        try:
            searched = self._wait(make)
        except RunStopped as stop:
            self._session.stop(item, str(stop))
        if isinstance(searched, str):
            pytest.skip(f"not searched: {searched}")
        search = item.stash[_SEARCH] = Search(
            case, searched, asking, self._wait, self._attach, lambda reason: self._session.stop(item, reason)
        )
        return search

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        future = self._session.engine.start(work)
        try:
            while True:
                try:
                    return future.result(_WAIT_SECONDS)
                except TimeoutError:
                    if future.done():
                        raise
                    self._session.evaluation.tell_waiting()
        except BaseException:
            future.cancel()
            raise

    # ---- Allure, where its results are written

    @property
    def _allure(self) -> bool:
        return bool(self._session.config.getoption("allure_report_dir", None))

    def _label(self, case: Case) -> None:
        """Label the result as that of the item's own case."""
        if not self._allure:
            return
        import allure

        from pytest_llmprops.reports.allure_case import labels

        for name, value in labels(case.benchmark, case.item, case.model):
            allure.dynamic.label(name, value)  # type: ignore[no-untyped-call]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        # Allure names results after their set-up.
        search = item.stash.get(_SEARCH, None)
        if search is not None and self._allure:
            import allure

            title = f"{search.case.item.id} · search"
            whole = title if len(self._session.cases.models) == 1 else f"{title} · {search.case.model}"
            allure.dynamic.title(whole)  # type: ignore[no-untyped-call]

    def _attach(self, search: Search) -> None:
        if not self._allure or search.found is None or self._session.settings.attach == "none":
            return
        import allure

        from pytest_llmprops.reports.allure_case import bounded

        shown = evidence_texts(search.found.evidence)
        texts = [search.found.why, *(f"{name}:\n{text}" for name, text in shown)]
        allure.attach(bounded("\n\n".join(texts)), "counterexample", allure.attachment_type.TEXT)

    # ---- reports

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, Any]:
        search = item.stash.get(_SEARCH, None)
        error = None if call.excinfo is None else call.excinfo.value
        ours = error is not None and search is not None and error is search.failure
        backend = isinstance(error, BackendError) and self.case_of(item) is not None
        if call.when == "call" and search is not None:
            item.user_properties += properties(search)
        if call.excinfo is not None and backend:
            call.excinfo = pytest.ExceptionInfo.from_exception(bare(call.excinfo.value))
        elif ours and search is not None and search.found is not None:
            line = search.line
            setattr(item, "repr_failure", lambda *args, **options: line)  # noqa: B010
        report = yield
        if isinstance(error, BackendError) and backend:
            report.longrepr = f"backend error: {printable(error.message)}"
        if call.when == "setup" and report.skipped and self.case_of(item) is not None:
            report.llmprops_unsearched = True
        if (backend or ours) and report.failed:
            report.llmprops_own = True
        if call.when == "call" and search is not None and (report.passed or backend or ours):
            report.llmprops_search = search.record().to_json()
            if search.found is not None and ours and self._session.settings.failures == "xfail":
                report.outcome, report.wasxfail = "skipped", search.line
        return report
