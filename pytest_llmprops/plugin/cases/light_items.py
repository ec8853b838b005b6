"""Light pytest items for many cases, with a run protocol of their own.

An ordinary parametrized case costs about 6 kB and half a millisecond, mostly for fixtures that it does not have. A test
function with at least ``LIGHT_CASES`` cases gets light items if

* it only has ``assert verdict``, ``verdict`` is its only argument, and no autouse fixture applies to it,
* it is neither a coroutine function nor in a class, and ``llmprops`` is the only mark of the function and its module,
* no option shows or debugs the run of a case: ``--pdb``, ``--trace``, ``--setup-show``, ``--alluredir``,
* only pytest and plugins that ignore such cases have hooks that change functions or the phases of a test.

A light item has the attributes of pytest's functions, and node ids, ``-k``, ``-m``, ``--lf``, ``-x``, ``--durations``,
JUnit and xdist work as usual. If a ``conftest.py`` adds a mark to a light item, pytest's own protocol runs it. Light
items have no report of a setup that passed. They report their start, teardown and end only if another plugin may need
it (JUnit, ``-v``), in the controller or in the worker.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.items import Item
from pytest_llmprops.engine.evaluation.evaluator import Case, CaseGroup, GroupOutcome, Outcome, Unit
from pytest_llmprops.records.messages import PhasesRead

#: waits for the verdict of an item
WaitForVerdict = Callable[[pytest.Item], object]
#: minimum number of cases of a test function with light items
LIGHT_CASES = 300
#: parameter of the item that light items replace
PLACEHOLDER = "light"
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
    "llmprops-distributed",
}

#: hooks that change test functions, or that only pytest's own protocol calls
_FUNCTION_HOOKS = (
    "pytest_generate_tests",
    "pytest_itemcollected",
    "pytest_runtest_protocol",
    "pytest_runtest_setup",
    "pytest_runtest_call",
    "pytest_runtest_teardown",
    "pytest_runtest_makereport",
    "pytest_pyfunc_call",
    "pytest_fixture_setup",
)
#: modules of plugins whose hooks do nothing for a function that only has ``assert verdict``
_WITHOUT_EFFECT = (
    "_pytest.",
    "pytest_llmprops.",
    "_hypothesis_pytestplugin",
    "pytest_timeout",
    "pytest_randomly",
    "pytest_asyncio.",
    "anyio.",
)


def can_be_light(metafunc: pytest.Metafunc, count: int) -> bool:
    """Return True if a test function with ``count`` cases may have light items, whatever other plugins do."""
    option = metafunc.config.option
    return (
        count >= LIGHT_CASES
        and metafunc.cls is None
        and set(metafunc.fixturenames) <= _FIXTURES
        and not any(getattr(option, name, None) for name in _WATCHING)
        and all(mark.name == "llmprops" for mark in metafunc.definition.iter_markers())
        and _only_asserts_verdict(metafunc.function)
    )


def needs_functions(definition: pytest.Item) -> str | None:
    """Return the hook of a plugin or of a ``conftest.py`` that needs pytest's own functions; None if none does."""
    for name in _FUNCTION_HOOKS:
        for impl in getattr(definition.ihook, name).get_hookimpls():
            # A wrapper of the protocol is called around the protocol of light items, too.
            if name == "pytest_runtest_protocol" and (impl.wrapper or impl.hookwrapper):
                continue
            module = module_of(impl.plugin)
            if not module.startswith(_WITHOUT_EFFECT):
                return f"{name} of {module}"
    return None


def _only_asserts_verdict(function: Callable[..., object]) -> bool:
    """Return True if a function has nothing except ``assert verdict``: it prints, logs and warns nothing."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        # Pytest reports that nothing awaits it, or a plugin does.
        return False
    try:
        [definition] = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, TypeError, ValueError, SyntaxError):
        return False
    if not isinstance(definition, ast.FunctionDef):
        return False
    body = definition.body[1:] if ast.get_docstring(definition) is not None else definition.body
    return [ast.unparse(statement) for statement in body] == ["assert verdict"]


def module_of(plugin: object) -> str:
    """Return the name of the module of a plugin."""
    return plugin.__name__ if isinstance(plugin, ModuleType) else type(plugin).__module__


class Source:
    """What the light items of one test function share.

    :param template: pytest's function, which the items replace.
    :param verdict: waits for an item's verdict. :param keywords_of: returns the keywords of a case for ``-k``.
    :param phases: what other plugins may need, also those of the controller.
    """

    def __init__(
        self,
        template: Any,
        verdict: WaitForVerdict,
        keywords_of: Callable[[Unit], set[str]],
        phases: PhasesRead,
    ) -> None:
        self.template, self.verdict, self.keywords_of, self.phases = template, verdict, keywords_of, phases
        self.parent, self.hook = template.parent, template.ihook
        self.path: Path = self.parent.path
        self.name: str = template.originalname
        self.function: Callable[[Any], object] = template.obj
        self.file, self.line, _ = template.location
        self.marks = tuple(mark for mark in template.own_markers if mark.name == "llmprops")
        #: the collectors of the function, from the session down
        self.above = tuple(self.parent.listchain())
        #: the node id of the function: a text, and as pytest 9.2 has it (None in older versions)
        self.stem = f"{self.parent.nodeid}::{self.name}"
        self.id = self.parent.id.child(self.name) if hasattr(self.parent, "id") else None
        #: the scope of each parameter, as pytest has it
        self.scopes = template.callspec._arg2scope  # noqa: SLF001 -- pytest reads it from every item
        #: reports of light items have no keywords, by which the terminal recognises them, and no captured output
        self.keywords: Mapping[str, Any] = {}
        self.empty: list[Any] = []


class CallSpec:
    """The parameter of a light item, with the names of pytest's own, which takes half a microsecond more to make."""

    __slots__ = ("_arg2scope", "_index", "id", "params")

    #: no parameter has marks
    marks: Sequence[pytest.Mark] = ()

    def __init__(self, param: str, index: int, scopes: Mapping[str, Any]) -> None:
        self.id, self._index, self._arg2scope = param, index, scopes
        self.params = {"verdict": param}

    @property
    def indices(self) -> dict[str, int]:
        """The position of the parameter among those of the function."""
        return {"verdict": self._index}

    def getparam(self, name: str) -> object:
        """Return the value of a parameter.

        :raises ValueError: if the item does not have it.
        """
        try:
            return self.params[name]
        except KeyError:
            raise ValueError(name) from None


class LightItem(pytest.Function):
    """One case of a function whose only argument is ``verdict``.

    It stores its parameter and its case. Everything else comes from its source or is made when it is first used,
    because the attributes of an ordinary item take 1.2 kB.
    """

    __slots__ = (
        "_own_markers",
        "_user_properties",
        "_verdict",
        "index",
        "outcome",
        "param",
        "source",
        "unit",
    )

    def __init__(self, *, parent: Any, source: Source, param: str, index: int, unit: Unit) -> None:
        # Without that of pytest.Function, which sets all attributes; properties stand in for it.
        self.source, self.param, self.index, self.unit = source, param, index, unit
        #: set while the item runs
        self.outcome: Outcome | GroupOutcome | None = None
        self._verdict: Any = None
        self._own_markers: list[pytest.Mark] | None = None
        self._user_properties: list[tuple[str, object]] | None = None

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
        keywords = type(self.source.parent.keywords)(self)
        keywords.update({mark.name: mark for mark in self.own_markers})
        keywords.update(self.source.function.__dict__)
        keywords[self.param] = True
        return keywords

    # Not cached properties: looking into __dict__ for them would make a dictionary for each item, which stays.

    @property
    def own_markers(self) -> list[pytest.Mark]:
        if self._own_markers is None:
            self._own_markers = list(self.source.marks)
        return self._own_markers

    @own_markers.setter
    def own_markers(self, markers: list[pytest.Mark]) -> None:
        self._own_markers = markers

    @property
    def user_properties(self) -> list[tuple[str, object]]:
        if self._user_properties is None:
            self._user_properties = []
        return self._user_properties

    @user_properties.setter
    def user_properties(self, properties: list[tuple[str, object]]) -> None:
        self._user_properties = properties

    @property
    def reported_properties(self) -> list[tuple[str, object]]:
        """The properties for a report; an empty list that all items share if there are none."""
        return self._user_properties or self.source.empty

    @cached_property
    def stash(self) -> pytest.Stash:  # type: ignore[override]
        return pytest.Stash()

    @property
    def has_own_marks(self) -> bool:
        """True if another plugin added a mark."""
        markers = self._own_markers
        return markers is not None and len(markers) != len(self.source.marks)

    def iter_markers_with_node(self, name: str | None = None) -> Iterator[tuple[Any, pytest.Mark]]:
        # Pytest looks at the marks of each case, which would make its list.
        for mark in self.source.marks if self._own_markers is None else self._own_markers:
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
        function: Any = self.source.id
        return function.with_params(self.param)

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
        return self.source.path

    #: functions in classes have no light items; pytest would look through the collectors
    cls = None
    instance = None

    @property
    def function(self) -> Callable[[Any], object]:
        """The test function."""
        return self.source.function

    obj = function

    @property
    def originalname(self) -> str:  # type: ignore[override]
        return self.source.name

    @property
    def callspec(self) -> Any:  # type: ignore[override]
        """The parameter."""
        return CallSpec(self.param, self.index, self.source.scopes)

    @cached_property
    def fixturenames(self) -> list[str]:  # type: ignore[override]
        return list(self.source.template.fixturenames)

    @cached_property
    def funcargs(self) -> dict[str, object]:  # type: ignore[override]
        return {}

    @property
    def _fixtureinfo(self) -> Any:  # type: ignore[override]
        return self.source.template._fixtureinfo  # noqa: SLF001 -- plugins for asynchronous tests read it

    @property
    def location(self) -> tuple[str, int | None, str]:
        return self.source.file, self.source.line, self.name

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, self.source.line, self.name

    def setup(self) -> None:
        self._verdict = self.source.verdict(self)

    @property
    def is_set_up(self) -> bool:
        """True if :meth:`setup` has returned, and :meth:`teardown` was not called."""
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
        self._verdict = self.outcome = self._user_properties = None

    def _traceback_filter(self, excinfo: pytest.ExceptionInfo[BaseException]) -> Any:
        # As for a function: without the frames of pytest and this plugin above those of the test file.
        return excinfo.traceback.cut(path=self.path).filter(excinfo)


def light_items(source: Source, units: Mapping[str, Unit]) -> list[pytest.Item]:
    """Return the light items of a test function, named like parametrized items."""
    return [
        LightItem.from_parent(source.parent, source=source, param=param, index=index, unit=unit)
        for index, (param, unit) in enumerate(units.items())
    ]


#: pytest-xdist, as execnet names it in workers, too
_DISTRIBUTION = ("xdist.", "__channelexec__")


def phases_read(config: pytest.Config) -> PhasesRead:
    """Return which reports of a light item's phases the plugins of this process may need."""
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


UNIT = pytest.StashKey[Unit]()
OUTCOME = pytest.StashKey[Outcome | GroupOutcome]()


def set_unit(item: pytest.Item, unit: Unit) -> None:
    """Make the item report ``unit``."""
    if isinstance(item, LightItem):
        item.unit = unit
    else:
        item.stash[UNIT] = unit


def cases_in(unit: Unit | None) -> tuple[Case, ...]:
    """Return the cases of a unit; an empty tuple for None."""
    if isinstance(unit, CaseGroup):
        return unit.cases
    return () if unit is None else (unit,)


def possible_tasks(benchmark: Benchmark, item: Item) -> tuple[str, ...]:
    """Return the tasks that an item may have once its answer is known."""
    tasks = benchmark.tasks_by_answer
    return tuple(sorted(tasks)) if item.task in tasks else (item.task,)


def outcome_of(item: pytest.Item) -> Outcome | GroupOutcome | None:
    """Return the outcome of an item whose verdict was waited for."""
    return item.outcome if isinstance(item, LightItem) else item.stash.get(OUTCOME, None)


def set_outcome(item: pytest.Item, outcome: Outcome | GroupOutcome) -> None:
    """Store the outcome in the item until its teardown."""
    if isinstance(item, LightItem):
        item.outcome = outcome
    else:
        item.stash[OUTCOME] = outcome


def drop_outcome(item: pytest.Item) -> None:
    """Remove the outcome, to free the memory of its prompts and replies."""
    if OUTCOME in item.stash:
        del item.stash[OUTCOME]
