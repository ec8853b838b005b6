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
the hooks ``pytest_runtest_setup``, ``_call`` and ``_teardown``. They report their start, teardown and end only if
another plugin may need it (JUnit, ``-v``), in the controller or in the worker.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_llmprops.core.worker_messages import PhasesRead
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
#: plugins that ignore the start, the end, and the report of a teardown that passed
_IGNORE_PHASES = {
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


#: the modules of pytest and of this plugin
OWN = ("_pytest.", "pytest_llmprops.")


def module_of(plugin: object) -> str:
    """Return the name of the module of a plugin."""
    return plugin.__name__ if isinstance(plugin, ModuleType) else type(plugin).__module__


@dataclass(frozen=True)
class Source:
    """The values that the lean items of one test function share."""

    verdict: WaitForVerdict
    #: returns the keywords of a case for ``-k``
    keywords_of: Callable[[Unit], set[str]]
    parent: Any
    name: str
    function: Callable[[Any], object]
    file: str
    line: int | None
    marks: tuple[pytest.Mark, ...]
    hook: Any
    #: items get user properties, which only a JUnit report needs
    properties: bool
    #: what other plugins may need, also those of the controller
    phases: PhasesRead
    #: the function has nothing except ``assert verdict``
    only_asserts: bool
    keywords: Mapping[str, Any] = field(default_factory=dict)
    #: the empty list that all reports share
    empty: list[Any] = field(default_factory=list)

    @cached_property
    def stem(self) -> str:
        """The node id of the function."""
        return f"{self.parent.nodeid}::{self.name}"

    @cached_property
    def above(self) -> tuple[Any, ...]:
        """The collectors of the function, from the session down."""
        return tuple(self.parent.listchain())

    @cached_property
    def id(self) -> Any:
        """The node id of the function as pytest 9.2 has it; None in older versions."""
        return self.parent.id.child(self.name) if hasattr(self.parent, "id") else None


class LeanItem(pytest.Item):
    """One case of a function whose only argument is ``verdict``.

    It stores its parameter and its case. Everything else comes from its source or is made when it is first used,
    because the attributes of an ordinary item take 1.2 kB.
    """

    __slots__ = ("_verdict", "outcome", "param", "source", "unit")

    def __init__(self, *, parent: Any, source: Source, param: str, unit: Unit) -> None:
        # Without that of pytest.Item, which sets all attributes; properties stand in for it.
        self.source, self.param, self.unit = source, param, unit
        #: set while the item runs
        self.outcome: Outcome | GroupOutcome | None = None
        self._verdict: Any = None

    # Attributes that pytest sets for each item, made when they are first used. A __getattr__ for them would also be
    # called for what an item does not have, such as the parameters of fixtures, for which pytest asks each item.

    @cached_property
    def _id(self) -> Any:  # type: ignore[override]
        return self.id

    @cached_property
    def _nodeid(self) -> str:
        return self.nodeid

    @cached_property
    def _report_sections(self) -> list[tuple[str, str, str]]:  # type: ignore[override]
        return []

    @cached_property
    def _store(self) -> pytest.Stash:  # type: ignore[override]
        return self.stash

    @cached_property
    def extra_keyword_matches(self) -> set[str]:  # type: ignore[override]
        return self.source.keywords_of(self.unit)

    @cached_property
    def keywords(self) -> Any:  # type: ignore[override]
        return type(self.source.parent.keywords)(self)

    @cached_property
    def own_markers(self) -> list[pytest.Mark]:  # type: ignore[override]
        return list(self.source.marks)

    @cached_property
    def stash(self) -> pytest.Stash:  # type: ignore[override]
        return pytest.Stash()

    @cached_property
    def user_properties(self) -> list[tuple[str, object]]:  # type: ignore[override]
        return []

    @property
    def has_own_marks(self) -> bool:
        """Whether another plugin added a mark."""
        markers = self.__dict__.get("own_markers")
        return markers is not None and len(markers) != len(self.source.marks)

    def iter_markers_with_node(self, name: str | None = None) -> Iterator[tuple[Any, pytest.Mark]]:
        # Pytest looks at the marks of each case, which would make its list.
        for mark in self.__dict__.get("own_markers", self.source.marks):
            if name is None or mark.name == name:
                yield self, mark
        for node in reversed(self.source.above):
            for mark in node.own_markers:
                if name is None or mark.name == name:
                    yield node, mark

    # For -k, pytest asks each item for its collectors and keywords, which took twice as long as the match.
    def listchain(self) -> list[Any]:
        return [*self.source.above, self]

    def listextrakeywords(self) -> set[str]:
        own = self.__dict__.get("extra_keyword_matches")
        # Those of the case are not stored, which takes as long as making them.
        keywords = self.source.keywords_of(self.unit) if own is None else set(own)
        for node in self.source.above:
            keywords.update(node.extra_keyword_matches)
        return keywords

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.source.name}[{self.param}]"

    @property
    def nodeid(self) -> str:
        return f"{self.source.stem}[{self.param}]"

    @property
    def id(self) -> Any:
        return self.source.id.with_params(self.param)

    @property
    def parent(self) -> Any:  # type: ignore[override]
        return self.source.parent

    @property
    def config(self) -> pytest.Config:  # type: ignore[override]
        config: pytest.Config = self.source.parent.config
        return config

    @property
    def session(self) -> pytest.Session:  # type: ignore[override]
        session: pytest.Session = self.source.parent.session
        return session

    @property
    def ihook(self) -> Any:
        # Pytest looks for it among the hooks of all conftest files, several times per item.
        return self.source.hook

    @property
    def path(self) -> Path:  # type: ignore[override]
        path: Path = self.source.parent.path
        return path

    @property
    def function(self) -> Callable[[Any], object]:
        """The test function."""
        return self.source.function

    obj = function

    @property
    def location(self) -> tuple[str, int | None, str]:
        return self.source.file, self.source.line, self.name

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, self.source.line, self.name

    def setup(self) -> None:
        self._verdict = self.source.verdict(self)

    @property
    def is_set_up(self) -> bool:
        """Whether :meth:`setup` has returned, and :meth:`teardown` was not called."""
        return self._verdict is not None

    def run(self) -> None:
        """Set up and run the item."""
        self.setup()
        self.runtest()

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
        self.__dict__.pop("user_properties", None)

    def _traceback_filter(self, excinfo: pytest.ExceptionInfo[BaseException]) -> Any:
        # As for a function: without the frames of pytest and this plugin above those of the test file.
        return excinfo.traceback.cut(path=self.path).filter(excinfo)


def lean_items(
    template: Any,
    units: Mapping[str, Unit],
    verdict: WaitForVerdict,
    keywords_of: Callable[[Unit], set[str]],
    phases: PhasesRead,
) -> list[pytest.Item]:
    """Return the lean items that replace ``template``, named like parametrized items.

    :param verdict: waits for an item's verdict. :param keywords_of: returns the keywords of a case for ``-k``.
    :param phases: what other plugins may need.
    """
    file, line, _ = template.location
    parent = template.parent
    source = Source(
        verdict,
        keywords_of,
        parent,
        template.originalname,
        template.obj,
        file,
        line,
        tuple(mark for mark in template.own_markers if mark.name == "llmprops"),
        template.ihook,
        bool(template.config.getoption("xmlpath", None)),
        phases,
        _only_asserts_verdict(template.obj),
    )
    return [
        LeanItem.from_parent(parent, source=source, param=param, unit=unit) for param, unit in units.items()
    ]


#: pytest-xdist, as execnet names it in workers, too
_DISTRIBUTION = ("xdist.", "__channelexec__")


def phases_read(config: pytest.Config) -> PhasesRead:
    """Return which reports of a lean item's phases the plugins of this process may need."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    # That of a worker prints nothing.
    if hasattr(config, "workerinput"):
        reporter = None
    prints = reporter is not None and (reporter.showfspath or reporter.showlongtestinfo)
    # Before version 9.2, pytest's terminal counts the cases at their end.
    ends = _is_read(config.hook.pytest_runtest_logfinish, _IGNORE_PHASES - {"terminalreporter"})
    starts = _is_read(config.hook.pytest_runtest_logstart, _IGNORE_PHASES)
    return PhasesRead(
        ends=bool(prints or ends or starts),
        teardown=_is_read(config.hook.pytest_runtest_logreport, _IGNORE_PHASES),
    )


def _is_read(hook: Any, ignored: Set[str]) -> bool:
    return any(
        impl.plugin_name not in ignored and not module_of(impl.plugin).startswith(_DISTRIBUTION)
        for impl in hook.get_hookimpls()
    )
