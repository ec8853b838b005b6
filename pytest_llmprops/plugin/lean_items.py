"""Small pytest items for very many cases, with a separate run protocol.

An ordinary parametrized case costs about 6 kB and half a millisecond, mostly for fixtures that it does not have. A test
function with at least ``LEAN_CASES`` cases gets lean items if

* ``verdict`` is its only argument, and no autouse fixture applies to it,
* it is not in a class, and ``llmprops`` is the only mark of the function and its module,
* no option shows or debugs the run of a case: ``--pdb``, ``--trace``, ``--setup-show``, ``--alluredir``.

Node ids, ``-k``, ``-m``, ``--lf``, ``-x``, ``--durations``, JUnit and xdist work as usual. If a ``conftest.py`` adds a
mark to a lean item, pytest's own protocol runs it. Lean items have no report of a setup that passed, and do not call
the hooks ``pytest_runtest_setup``, ``_call`` and ``_teardown``. They report the teardown only if another plugin may
need it (JUnit, workers).
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.engine.evaluator import Outcome
from pytest_llmprops.engine.groups import GroupOutcome
from pytest_llmprops.plugin.evaluation import Unit

#: waits for the verdict of an item
WaitForVerdict = Callable[[pytest.Item], object]
#: minimum number of cases of a test function with lean items
LEAN_CASES = 20_000
#: parameter of the item that lean items replace
PLACEHOLDER = "lean"
_FIXTURES = {"verdict", "request"}
_WATCHING = ("usepdb", "trace", "setupshow", "setuponly", "setupplan", "allure_report_dir")
#: plugins that ignore the report of a teardown that passed
_IGNORE_TEARDOWN = {
    "session",
    "terminalreporter",
    "lfplugin",
    "stepwiseplugin",
    "logging-plugin",
    "llmprops-controller",
}


def can_be_lean(metafunc: pytest.Metafunc) -> bool:
    """Whether the function's cases may be lean items."""
    option = metafunc.config.option
    if metafunc.cls is not None or not set(metafunc.fixturenames) <= _FIXTURES:
        return False
    if any(getattr(option, name, None) for name in _WATCHING):
        return False
    return all(mark.name == "llmprops" for mark in metafunc.definition.iter_markers())


@dataclass(frozen=True)
class Source:
    """The values that the lean items of one test function share."""

    verdict: WaitForVerdict
    function: Callable[[Any], object]
    file: str
    line: int | None
    path: Path
    marks: tuple[pytest.Mark, ...]
    hook: Any
    #: items get user properties, which only a JUnit report needs
    properties: bool
    #: another plugin may need the report of the teardown
    reports_teardown: bool
    keywords: Mapping[str, Any] = field(default_factory=dict)
    #: the empty list that all reports share
    empty: list[Any] = field(default_factory=list)


class LeanItem(pytest.Item):
    """One case of a function whose only argument is ``verdict``."""

    def __init__(self, *, source: Source, unit: Unit, **kw: Any) -> None:
        super().__init__(**kw)
        self.source, self.unit = source, unit
        self.own_markers.extend(source.marks)
        #: set while the item runs
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
    """Return the lean items that replace ``template``, named like parametrized items."""
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
    name, parent = template.originalname, template.parent
    # Pass the whole node id: newer pytest versions split an id, and do not recognise the parameter in the name.
    stem = f"{parent.nodeid}::{name}"
    # All of up to a quarter of a million objects stay, so garbage collection would only cost time.
    enabled = gc.isenabled()
    gc.disable()
    try:
        return [
            LeanItem.from_parent(parent, name=f"{name}[{p}]", nodeid=f"{stem}[{p}]", source=source, unit=unit)
            for p, unit in units.items()
        ]
    finally:
        if enabled:
            gc.enable()


def _others_read_reports(config: pytest.Config) -> bool:
    readers = config.hook.pytest_runtest_logreport.get_hookimpls()
    return any(impl.plugin_name not in _IGNORE_TEARDOWN for impl in readers)
