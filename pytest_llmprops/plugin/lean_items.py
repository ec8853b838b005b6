"""Pytest items for very many cases: small, and with a run protocol of their own.

An ordinary parametrized case costs about 6 kB and half a millisecond, most of it for fixtures that it does not
have. From ``LEAN_CASES`` cases on, a test function becomes lean items, provided that

* ``verdict`` is its only argument, and no autouse fixture applies to it,
* ``llmprops`` is its only mark, and that of its module, and it is not in a class,
* no option shows or debugs the run of a case: ``--pdb``, ``--trace``, ``--setup-show``, ``--alluredir``.

Node ids, ``-k``, ``-m``, ``--lf``, ``-x``, ``--durations``, JUnit and xdist work as with others. A lean item to
which a ``conftest.py`` adds a mark is run by pytest's own protocol. Left out are the report of a set-up that
passed and the hooks ``pytest_runtest_setup``, ``_call`` and ``_teardown``; the report of a teardown is made where
another plugin may need it (JUnit, workers).
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.engine.evaluator import Outcome
from pytest_llmprops.engine.groups import GroupOutcome
from pytest_llmprops.plugin.evaluation import Unit

#: waits for the verdict of an item
WaitForVerdict = Callable[[pytest.Item], object]
#: from how many cases of one test function on its items are lean
LEAN_CASES = 20_000
#: name of the parameter of the item that lean ones take the place of
PLACEHOLDER = "lean"
_FIXTURES = {"verdict", "request"}
_WATCHING = ("usepdb", "trace", "setupshow", "setuponly", "setupplan", "allure_report_dir")
#: plugins that do nothing with the report of a teardown that passed
_IGNORE_TEARDOWN = {
    "session",
    "terminalreporter",
    "lfplugin",
    "stepwiseplugin",
    "logging-plugin",
    "llmprops-controller",
}


def can_be_lean(metafunc: pytest.Metafunc) -> bool:
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

    verdict: WaitForVerdict
    function: Callable[[Any], object]
    file: str
    line: int | None
    path: Path
    marks: tuple[pytest.Mark, ...]
    hook: Any
    #: user properties are made for a JUnit report only
    properties: bool
    #: another plugin reads reports, and may need that of the teardown
    reports_teardown: bool
    keywords: Mapping[str, Any] = field(default_factory=dict)
    #: the one empty list of all reports
    empty: list[Any] = field(default_factory=list)


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
        self._verdict = self.source.verdict(self)

    def runtest(self) -> None:
        self.source.function(self._verdict)

    def teardown(self) -> None:
        self._verdict = self.outcome = None


def lean_items(template: Any, units: Mapping[str, Unit], verdict: WaitForVerdict) -> list[pytest.Item]:
    """Lean items in place of the one item ``template``, named as parametrized ones would be."""
    file, line, _ = template.location
    source = Source(
        verdict,
        template.obj,
        file,
        line,
        template.path,
        tuple(mark for mark in template.own_markers if mark.name == "llmprops"),
        template.ihook,
        bool(template.config.getoption("xmlpath", None)),
        _others_read_reports(template.config),
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


def _others_read_reports(config: pytest.Config) -> bool:
    readers = config.hook.pytest_runtest_logreport.get_hookimpls()
    return any(impl.plugin_name not in _IGNORE_TEARDOWN for impl in readers)


def are_enough(cases: Sequence[str]) -> bool:
    """Whether there are so many cases that their items should be lean."""
    return len(cases) >= LEAN_CASES
