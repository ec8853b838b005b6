"""The search of one case: hypothesis looks for a point at which the property does not hold, and shrinks it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NoReturn, TypeVar

from pytest_llmprops.core.benchmark import Benchmark, Counterexample, Searched
from pytest_llmprops.core.benchmark_checks import checked_counterexample, checked_holds
from pytest_llmprops.core.contracts import awaited
from pytest_llmprops.core.errors import BackendError, ContractError, RunStopped
from pytest_llmprops.core.records import SearchRecord
from pytest_llmprops.core.texts import terminal_line
from pytest_llmprops.engine.evaluator import Asking, Case
from pytest_llmprops.runs.searches import counterexample_text

T = TypeVar("T")
#: maximum number of points that hypothesis tries, without those of shrinking
EXAMPLES = 100
#: maximum number of times that hypothesis starts; it starts again after a counterexample that may be noise
ROUNDS = 10


class _SearchEnded(BaseException):
    """Ends hypothesis, which would shrink an ``Exception`` like a counterexample."""


class Search:
    """The value of the fixture ``search``: a property of an item, and the search for a counterexample to it.

    :param name: of the property; empty if the benchmark has only one.
    :param asking: sends the case's requests and counts them. :param wait: runs a coroutine on the engine's loop.
    :param on_end: called with the search when it is over, in the test's call. :param stop: skips the case of a run
        that is over.
    """

    def __init__(
        self,
        case: Case,
        name: str,
        searched: Searched,
        asking: Asking,
        wait: Callable[[Coroutine[Any, Any, Any]], Any],
        on_end: Callable[[Search], None],
        stop: Callable[[str], NoReturn],
    ) -> None:
        self.case, self.property = case, name
        self.size: Any = searched.size
        self.examples = 0
        #: the search used all its calls before hypothesis finished
        self.spent = False
        self.counterexample: Counterexample | None = None
        self.failure: BaseException | None = None
        #: a mistake of the benchmark that ended the search
        self._mistake: ContractError | None = None
        self._searched, self._asking, self._wait = searched, asking, wait
        self._on_end, self._stop = on_end, stop
        self._before = len(asking.calls)
        #: what :meth:`holds` returned last
        self._held = True

    def holds(self, *point: int) -> bool:
        """Whether the property holds at ``point``. Assert it in the function under ``@given`` that :meth:`run` gets.

        A failed call, the end of the run, or the call limit ends the search.
        """
        self.examples += 1
        holds = self._checked("holds", checked_holds, *point)
        if holds is None:
            self.examples -= 1
            self.spent = True
            raise _SearchEnded
        self._held = holds
        return holds

    def run(self, test: Callable[[], object]) -> None:
        """Run ``test``, a function under ``@given`` that asserts :meth:`holds`, with hypothesis.

        Every run draws the same points. Hypothesis draws and shrinks; it neither explains nor stores anything. A
        counterexample that may be noise is kept, but fails nothing, and hypothesis looks for another one.

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
        search_once = quietly(test)
        failed: AssertionError | None = None
        for _ in range(ROUNDS):
            failed = self._round(search_once)
            if failed is None or not self._is_noise:
                break
        if self.counterexample is not None and not self._is_noise:
            self.failure = AssertionError(self.line)
        elif failed is not None and (self._held or self.counterexample is None):
            raise failed
        self._on_end(self)
        if self.failure is not None:
            raise self.failure from None

    @property
    def _is_noise(self) -> bool:
        return self.counterexample is not None and self.counterexample.is_noise

    def _round(self, search_once: Callable[[], object]) -> AssertionError | None:
        """Let hypothesis search once, and ask for the counterexample. Return the failed assertion, if any."""
        failed: AssertionError | None = None
        try:
            try:
                search_once()
            except _SearchEnded:
                if self.failure is not None or self._mistake is not None:
                    raise
            except AssertionError as error:
                failed = error
            self.counterexample = self._checked("counterexample", checked_counterexample)
        except _SearchEnded:
            if self._mistake is not None:
                raise self._mistake from None
            if isinstance(self.failure, RunStopped):
                self._stop(str(self.failure))
            assert self.failure is not None
            raise self.failure from None
        return failed

    def _checked(self, method: str, check: Callable[[Benchmark, object], T], *point: int) -> T:
        """Return the checked result of a method of the property; end hypothesis if there is none."""
        benchmark = self.case.benchmark
        try:
            work = awaited(benchmark, method, partial(getattr(self._searched, method), *point))
            return check(benchmark, self._wait(work))
        except ContractError as error:
            self._mistake = error
        except (BackendError, RunStopped) as error:
            self.failure = error
        raise _SearchEnded

    @property
    def requests(self) -> int:
        """Number of requests since the search began."""
        return len(self._asking.calls) - self._before

    @property
    def calls(self) -> int:
        """Number of these requests whose reply was not in the store."""
        calls = self._asking.calls[self._before :]
        return sum(call.reply is None or not call.reply.cached for call in calls)

    def failed_by(self, error: BaseException | None) -> bool:
        """Whether ``error`` ended the search."""
        return error is not None and error is self.failure

    @property
    def line(self) -> str:
        """One line on the counterexample."""
        return terminal_line(f"counterexample: {counterexample_text(self.record())}")

    def record(self) -> SearchRecord:
        """Return the line of ``searches.jsonl``."""
        item = self.case.item
        backend = isinstance(self.failure, BackendError)
        shown = None
        if self.counterexample is not None:
            shown = {
                "why": self.counterexample.why,
                **self.counterexample.values,
                "evidence": dict(self.counterexample.evidence),
            }
            if self.counterexample.replications:
                names = ("replications", "replicated")
                shown |= {name: getattr(self.counterexample, name) for name in names}
        return SearchRecord(
            model=self.case.model,
            benchmark=self.case.benchmark.name,
            task=item.task,
            language=item.language,
            source=item.source,
            id=item.id,
            property=self.property,
            examples=self.examples,
            requests=self.requests,
            calls=self.calls,
            spent=self.spent,
            counterexample=shown,
            error=str(self.failure) if backend else "",
        )


def properties(search: Search) -> list[tuple[str, str]]:
    """Return the properties of a search for JUnit reports."""
    case = search.case
    rows = [
        ("llmprops.model", case.model),
        ("llmprops.benchmark", case.benchmark.name),
        ("llmprops.task", case.item.task),
        ("llmprops.search.examples", str(search.examples)),
        ("llmprops.search.calls", str(search.calls)),
    ]
    if search.property:
        rows.append(("llmprops.search.property", search.property))
    if search.counterexample is not None:
        text = terminal_line(counterexample_text(search.record()))
        rows.append(("llmprops.search.counterexample", text))
    return rows
