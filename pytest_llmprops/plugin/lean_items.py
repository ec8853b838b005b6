"""Small pytest items for many cases, with a separate run protocol.

An ordinary parametrized case costs about 6 kB and half a millisecond, mostly for fixtures that it does not have. A test
function with at least ``SIMPLE_CASES`` cases gets lean items if

* ``verdict`` is its only argument, and no autouse fixture applies to it,
* it is neither a coroutine function nor in a class, and ``llmprops`` is the only mark of the function and its module,
* no option shows or debugs the run of a case: ``--pdb``, ``--trace``, ``--setup-show``, ``--alluredir``,
* it only has ``assert verdict``, and only pytest and plugins that ignore cases have hooks for the phases of a test.

From ``LEAN_CASES`` cases on, the last condition does not apply: ordinary items would need too much memory.

Node ids, ``-k``, ``-m``, ``--lf``, ``-x``, ``--durations``, JUnit and xdist work as usual. If a ``conftest.py`` adds a
mark to a lean item, pytest's own protocol runs it. Lean items have no report of a setup that passed, and do not call
the hooks ``pytest_runtest_setup``, ``_call`` and ``_teardown``. They report the teardown only if another plugin may
need it (JUnit, workers).
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_llmprops.engine.evaluator import Outcome
from pytest_llmprops.engine.groups import GroupOutcome
from pytest_llmprops.plugin.evaluation import Unit

#: waits for the verdict of an item
WaitForVerdict = Callable[[pytest.Item], object]
#: minimum number of cases of a test function with lean items, if it only has ``assert verdict``
SIMPLE_CASES = 300
#: minimum number of cases of a test function with lean items, whatever it does
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


#: the hooks for the phases of a test, which lean items do not call
_PHASES = (
    "pytest_runtest_setup",
    "pytest_runtest_call",
    "pytest_runtest_teardown",
    "pytest_runtest_makereport",
    "pytest_pyfunc_call",
    "pytest_fixture_setup",
)
#: modules of plugins whose hooks do nothing for a function that only has ``assert verdict``
_WITHOUT_EFFECT = ("_pytest.", "pytest_llmprops.", "_hypothesis_pytestplugin", "pytest_timeout", "anyio.")


def can_be_lean(metafunc: pytest.Metafunc, count: int) -> bool:
    """Whether the function's cases may be lean items.

    :param count: number of cases.
    """
    if count < SIMPLE_CASES and count < LEAN_CASES:
        return False
    option = metafunc.config.option
    if inspect.iscoroutinefunction(metafunc.function) or inspect.isasyncgenfunction(metafunc.function):
        # Pytest reports that nothing awaits it, or a plugin does.
        return False
    if metafunc.cls is not None or not set(metafunc.fixturenames) <= _FIXTURES:
        return False
    if any(getattr(option, name, None) for name in _WATCHING):
        return False
    if any(mark.name != "llmprops" for mark in metafunc.definition.iter_markers()):
        return False
    return count >= LEAN_CASES or (
        _only_asserts_verdict(metafunc.function) and not _are_phases_watched(metafunc.definition)
    )


def _only_asserts_verdict(function: Callable[..., object]) -> bool:
    """Whether a function has nothing except ``assert verdict``: it prints, logs and warns nothing."""
    try:
        [definition] = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, TypeError, ValueError, SyntaxError):
        return False
    if not isinstance(definition, ast.FunctionDef):
        return False
    body = definition.body[1:] if ast.get_docstring(definition) is not None else definition.body
    return [ast.unparse(statement) for statement in body] == ["assert verdict"]


def _are_phases_watched(definition: pytest.Item) -> bool:
    """Whether a plugin or a ``conftest.py`` that may use the phases of a test has hooks for them."""
    return any(
        not module_of(impl.plugin).startswith(_WITHOUT_EFFECT)
        for name in _PHASES
        for impl in getattr(definition.ihook, name).get_hookimpls()
    )


def module_of(plugin: object) -> str:
    """Return the name of the module of a plugin."""
    return plugin.__name__ if isinstance(plugin, ModuleType) else type(plugin).__module__


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
        result: Any = self.source.function(self._verdict)
        if hasattr(result, "__await__") or hasattr(result, "__aiter__"):
            if hasattr(result, "close"):
                result.close()
            pytest.fail(
                "async def functions are not natively supported: nothing awaits this one", pytrace=False
            )

    def teardown(self) -> None:
        self._verdict = self.outcome = None

    def _traceback_filter(self, excinfo: pytest.ExceptionInfo[BaseException]) -> Any:
        # As for a function: without the frames of pytest and this plugin above those of the test file.
        return excinfo.traceback.cut(path=self.source.path).filter(excinfo)


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
    return [
        LeanItem.from_parent(parent, name=f"{name}[{p}]", nodeid=f"{stem}[{p}]", source=source, unit=unit)
        for p, unit in units.items()
    ]


def _others_read_reports(config: pytest.Config) -> bool:
    readers = config.hook.pytest_runtest_logreport.get_hookimpls()
    return any(impl.plugin_name not in _IGNORE_TEARDOWN for impl in readers)
