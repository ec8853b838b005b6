"""One search: hypothesis looks for a point at which an item's property does not hold, and shrinks it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from pytest_llmprops.core.benchmark import Counterexample, Searched
from pytest_llmprops.core.errors import BackendError, RunStopped
from pytest_llmprops.core.records import SearchRecord
from pytest_llmprops.core.texts import terminal_line
from pytest_llmprops.engine.evaluator import Asking, Case
from pytest_llmprops.runs.searches import CUT_SHORT

#: points that hypothesis tries before it gives up, those of shrinking not counted
EXAMPLES = 100


class _Over(BaseException):
    """Leaves hypothesis, which takes an Exception for a counterexample and shrinks it."""


class Search:
    """What the fixture ``search`` gives a test function: an item's property, and hypothesis to look into it.

    :param asking: the case's way to its models, which has counted every call. :param wait: runs a coroutine on the
        engine's loop. :param on_end: called with the search when it is over, in the test's call. :param stop: skips the
        case, as the run is over.
    """

    def __init__(
        self,
        case: Case,
        searched: Searched,
        asking: Asking,
        wait: Callable[[Coroutine[Any, Any, Any]], Any],
        on_end: Callable[[Search], None],
        stop: Callable[[str], NoReturn],
    ) -> None:
        self.case = case
        self.size = searched.size
        self.examples = 0
        #: the calls that a search may make were spent before hypothesis was done
        self.spent = False
        self.counterexample: Counterexample | None = None
        self.failure: BaseException | None = None
        self._searched, self._asking, self._wait = searched, asking, wait
        self._on_end, self._stop = on_end, stop
        self._before = len(asking.calls)

    def holds(self, *point: int) -> bool:
        """Whether the property holds at ``point``. To be asserted in a function under ``@given``, given to :meth:`run`.

        What keeps it from being known ends the whole search at once.
        """
        self.examples += 1
        try:
            held: bool | None = self._wait(self._searched.holds(*point))
        except (BackendError, RunStopped) as error:
            self.failure = error
            raise _Over from None
        if held is None:
            self.examples -= 1
            self.spent = True
            raise _Over
        return held

    def run(self, test: Callable[[], object]) -> None:
        """Have hypothesis run ``test``, a function under ``@given`` that asserts :meth:`holds`.

        The same on every run. Draws, then shrinks what fails; explains and stores nothing.

        :raises AssertionError: there is a counterexample; one line on it. One that is not shrunk, as
            the calls were spent, counts too. :raises BackendError: a call could not be made.
        """
        from hypothesis import HealthCheck, Phase, Verbosity, settings

        # With derandomize hypothesis takes no example database. Settings of inner functions, as ``test`` is one, do
        # not nest from case to case, which without a database ended in a RecursionError near 950 cases.
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
            quietly(test)()
        except _Over:
            if isinstance(self.failure, RunStopped):
                self._stop(str(self.failure))
            if self.failure is not None:
                raise self.failure from None
        except AssertionError as error:
            failed = error
        self.counterexample = self._wait(self._searched.counterexample())
        if self.counterexample is not None:
            self.failure = AssertionError(self.line)
        elif failed is not None:
            raise failed
        self._on_end(self)
        if self.failure is not None:
            raise self.failure from None

    @property
    def requests(self) -> int:
        """Questions since the search began."""
        return len(self._asking.calls) - self._before

    @property
    def calls(self) -> int:
        """Those of them whose reply was not in the store."""
        calls = self._asking.calls[self._before :]
        return sum(call.reply is None or not call.reply.cached for call in calls)

    def failed_by(self, error: BaseException | None) -> bool:
        """Whether ``error`` is what the search ended with."""
        return error is not None and error is self.failure

    @property
    def line(self) -> str:
        """One line on the counterexample."""
        assert self.counterexample is not None
        return terminal_line(f"counterexample: {self.counterexample.why}{CUT_SHORT if self.spent else ''}")

    def record(self) -> SearchRecord:
        """The line of ``searches.jsonl``."""
        item = self.case.item
        backend = isinstance(self.failure, BackendError)
        shown = None
        if self.counterexample is not None:
            shown = {
                "why": self.counterexample.why,
                **self.counterexample.values,
                "evidence": dict(self.counterexample.evidence),
            }
        return SearchRecord(
            model=self.case.model,
            benchmark=self.case.benchmark.name,
            task=item.task,
            language=item.language,
            source=item.source,
            id=item.id,
            examples=self.examples,
            requests=self.requests,
            calls=self.calls,
            spent=self.spent,
            counterexample=shown,
            error=str(self.failure) if backend else "",
        )


def properties(search: Search) -> list[tuple[str, str]]:
    """What a JUnit report says of a search."""
    case = search.case
    rows = [
        ("llmprops.model", case.model),
        ("llmprops.benchmark", case.benchmark.name),
        ("llmprops.task", case.item.task),
        ("llmprops.search.examples", str(search.examples)),
        ("llmprops.search.calls", str(search.calls)),
    ]
    if search.counterexample is not None:
        rows.append(("llmprops.search.counterexample", terminal_line(search.counterexample.why)))
    return rows
