"""Pytest items for very many cases: small, and with a run protocol of their own.

An ordinary parametrized case costs about 6 kB and half a millisecond, most of it for fixtures that it does not
have. From ``LEAN_CASES`` cases on, a test function becomes lean items, provided that

* ``verdict`` is its only argument, and no autouse fixture applies to it,
* ``llmprops`` is its only mark, and that of its module, and it is not in a class,
* no option wants to look into the run of a case: ``--pdb``, ``--trace``, ``--setup-show``, ``--alluredir``.

Node ids, ``-k``, ``-m``, ``--lf``, ``-x``, ``--durations``, JUnit and xdist work as with others. A lean item to
which a ``conftest.py`` adds a mark is run by pytest's own protocol. Left out are the report of a set-up that
passed and the hooks ``pytest_runtest_setup``, ``_call`` and ``_teardown``; the report of a teardown is made where
somebody may wait for it (JUnit, workers, other plugins).
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_llmprops.engine.evaluator import Outcome
from pytest_llmprops.engine.groups import GroupOutcome
from pytest_llmprops.plugin.evaluation import Unit
from pytest_llmprops.plugin.outcomes import by_its_verdict, line_of

if TYPE_CHECKING:
    from pytest_llmprops.plugin.session import LLMSession

#: from how many cases of one test function on its items are lean
LEAN_CASES = 20_000
#: name of the parameter of the item that lean ones take the place of
PLACEHOLDER = "lean"
_FIXTURES = {"verdict", "request"}
_WATCHING = ("usepdb", "trace", "setupshow", "setuponly", "setupplan", "allure_report_dir")
#: plugins that do nothing with the report of a teardown that passed
_NEED_NO_END = {
    "session",
    "terminalreporter",
    "lfplugin",
    "stepwiseplugin",
    "logging-plugin",
    "llmprops-controller",
}
_RERAISE = (KeyboardInterrupt, pytest.exit.Exception)


def fits(metafunc: pytest.Metafunc) -> bool:
    """Whether the function's cases may be lean."""
    option = metafunc.config.option
    if metafunc.cls is not None or not set(metafunc.fixturenames) <= _FIXTURES:
        return False
    if any(getattr(option, name, None) for name in _WATCHING):
        return False
    return all(mark.name == "llmprops" for mark in metafunc.definition.iter_markers())


@dataclass(frozen=True)
class Source:
    """What the lean items of one test function share."""

    session: LLMSession
    function: Callable[[Any], object]
    file: str
    line: int | None
    path: Path
    marks: tuple[pytest.Mark, ...]
    hook: Any
    #: user properties are made for a JUnit report only
    properties: bool
    #: somebody beside pytest's terminal, cache and session hears reports, and may wait for that of the teardown
    to_the_end: bool
    keywords: Mapping[str, Any] = field(default_factory=dict)
    nothing: list[Any] = field(default_factory=list)


class LeanItem(pytest.Item):
    """One case of a function whose only argument is ``verdict``."""

    def __init__(self, *, source: Source, unit: Unit, **kw: Any) -> None:
        super().__init__(**kw)
        self.source, self.unit = source, unit
        self.own_markers.extend(source.marks)
        #: while the item runs
        self.outcome: Outcome | GroupOutcome | None = None
        self._verdict: Any = None

    @property
    def function(self) -> Callable[[Any], object]:
        """The test function."""
        return self.source.function

    obj = function

    @property
    def location(self) -> tuple[str, int | None, str]:
        return self.source.file, self.source.line, self.name

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.source.path, self.source.line, self.name

    def setup(self) -> None:
        self._verdict = self.source.session.verdict(self)

    def runtest(self) -> None:
        self.source.function(self._verdict)

    def teardown(self) -> None:
        self._verdict = self.outcome = None


def lean_items(template: Any, units: Mapping[str, Unit], session: LLMSession) -> list[pytest.Item]:
    """Lean items in place of the one item ``template``, named as parametrized ones would be."""
    file, line, _ = template.location
    source = Source(
        session,
        template.obj,
        file,
        line,
        template.path,
        tuple(mark for mark in template.own_markers if mark.name == "llmprops"),
        template.ihook,
        bool(template.config.getoption("xmlpath", None)),
        _others_listen(template.config),
    )
    name, make, parent = template.originalname, LeanItem.from_parent, template.parent
    # Given whole: newer pytests take an id apart, and would not find the parameter in one that they make.
    stem = f"{parent.nodeid}::{name}"
    # A quarter of a million objects that all stay: there is nothing to collect among them.
    enabled = gc.isenabled()
    gc.disable()
    try:
        return [
            make(parent, name=f"{name}[{p}]", nodeid=f"{stem}[{p}]", source=source, unit=unit)
            for p, unit in units.items()
        ]
    finally:
        if enabled:
            gc.enable()


def run_lean(item: LeanItem, nextitem: pytest.Item | None, session: LLMSession) -> bool | None:
    """Run one lean item and log its reports; None where pytest's own protocol must."""
    source = item.source
    if len(item.own_markers) != len(source.marks):
        return None
    hook, location = source.hook, item.location
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=location)
    call = pytest.CallInfo.from_call(item.setup, when="setup", reraise=_RERAISE)
    if call.excinfo is None:
        call = pytest.CallInfo.from_call(item.runtest, when="call", reraise=_RERAISE)
    outcome = item.outcome
    report = _report(item, location, call, outcome, session.settings.failures == "xfail")
    if report is None:
        # Anything but a verdict goes the ordinary way and has a traceback.
        report = hook.pytest_runtest_makereport(item=item, call=call)
    hook.pytest_runtest_logreport(report=report)
    if source.to_the_end:
        last = _plain(item, location, "teardown", "passed", call.stop, 0.0)
        hook.pytest_runtest_logreport(report=last)
    item.teardown()
    if item.user_properties:
        item.user_properties.clear()
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=location)
    return True


def _report(
    item: LeanItem,
    location: tuple[str, int | None, str],
    call: pytest.CallInfo[Any],
    outcome: Outcome | GroupOutcome | None,
    expected: bool,
) -> pytest.TestReport | None:
    """The report of a verdict; None for anything else."""
    wrong = call.excinfo is not None and outcome is not None and by_its_verdict(outcome, call)
    if outcome is None or not (wrong or (call.excinfo is None and call.when == "call")):
        return None
    line = line_of(outcome) if wrong else None
    result: Any = "passed" if not wrong else "skipped" if expected else "failed"
    report = _plain(item, location, "call", result, call.start, call.duration, line)
    told: dict[str, Any] = {"llmprops": item.source.session.record_of(outcome)}
    if wrong:
        told |= {"wasxfail": line} if expected else {"llmprops_own": True}
    vars(report).update(told)
    return report


def _plain(
    item: LeanItem,
    location: tuple[str, int | None, str],
    when: Any,
    outcome: Any,
    start: float,
    duration: float,
    line: str | None = None,
) -> pytest.TestReport:
    report = pytest.TestReport(
        nodeid=item.nodeid,
        location=location,
        keywords=item.source.keywords,
        outcome=outcome,
        longrepr=line,
        when=when,
        duration=duration,
        start=start,
        stop=start + duration,
        user_properties=item.user_properties,
    )
    # Pytest keeps all reports; two empty lists in each of a quarter of a million are 20 MB.
    report.sections = item.source.nothing
    if not item.user_properties:
        report.user_properties = item.source.nothing
    return report


def _others_listen(config: pytest.Config) -> bool:
    listening = config.hook.pytest_runtest_logreport.get_hookimpls()
    return any(impl.plugin_name not in _NEED_NO_END for impl in listening)


def enough(cases: Sequence[str]) -> bool:
    """Whether there are so many cases that their items should be lean."""
    return len(cases) >= LEAN_CASES
