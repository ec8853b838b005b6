"""Light pytest items for many cases, with a run protocol of their own.

An ordinary parametrized case costs about 6 kB and half a millisecond, mostly for fixtures that it does not have. A test
function with at least ``LIGHT_CASES`` cases gets light items if

* it only has ``assert verdict``, ``verdict`` is its only argument, and no autouse fixture applies to it,
* it is neither a coroutine function nor in a class, and ``llmprops`` is the only mark of the function and its module,
* no option shows or debugs the run of a case: ``--pdb``, ``--trace``, ``--setup-show``, ``--alluredir``,
* only pytest and plugins that ignore such cases have hooks that change functions or the phases of a test.

A light item is a :class:`pytest.Function` without ``callspec`` and fixtures. Node ids, ``-k``, ``-m``, ``--lf``,
``-x``, ``--durations``, JUnit and xdist work as usual. If a ``conftest.py`` adds a mark to a light item, pytest's own
protocol runs it. Light items have no report of a setup that passed. They report their start, teardown and end only if
another plugin may need it (JUnit, ``-v``), in the controller or in the worker.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.items import Item
from pytest_llmprops.engine.evaluation.evaluator import Case, CaseGroup, GroupOutcome, Outcome, Unit
from pytest_llmprops.records.rows import SearchRecord

#: of the config: returns the verdict of an item once it is known
WAIT = pytest.StashKey[Callable[[pytest.Item], object]]()
#: what an item measures, and its outcome until its teardown
UNIT = pytest.StashKey[Unit]()
OUTCOME = pytest.StashKey[Outcome | GroupOutcome]()
#: the case that an item searches, and what it found
SEARCHED = pytest.StashKey[Case]()
FOUND = pytest.StashKey[SearchRecord]()
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


class LightItem(pytest.Function):
    """One case of a function whose only argument is ``verdict``.

    :param template: pytest's function, which the items replace. :param hook: its ``ihook``, which pytest would look for
        among those of all conftest files, several times per item.
    """

    ihook: Any = None

    def __init__(self, *, parent: Any, template: pytest.Function, hook: Any, param: str, unit: Unit) -> None:
        name = template.originalname
        # As pytest 9.2 has it; older versions make it of the name.
        own_id = {"nodeid": parent.id.child(name).with_params(param)} if hasattr(parent, "id") else {}
        # Without the constructor of pytest.Function, which prepares fixtures.
        super(pytest.Function, self).__init__(name=f"{name}[{param}]", parent=parent, **own_id)
        self.stash[UNIT], self.ihook = unit, hook
        self.obj = template.obj
        self.originalname, self.fixturenames = template.originalname, template.fixturenames
        self.funcargs: dict[str, object] = {}
        self.own_markers += template.own_markers
        self.keywords.update({mark.name: mark for mark in self.own_markers})
        self.keywords.update(template.obj.__dict__)
        self.keywords[param] = True
        self._marks = len(self.own_markers)
        # pytest would look for the file again for each item.
        self.location = (*template.location[:2], self.name)

    @property
    def has_own_marks(self) -> bool:
        """True if another plugin added a mark."""
        return len(self.own_markers) != self._marks

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, *self.location[1:]

    def setup(self) -> None:
        self.funcargs["verdict"] = self.config.stash[WAIT](self)

    def run(self) -> None:
        """Set up and run the item."""
        self.setup()
        self.runtest()

    def runtest(self) -> None:
        self.obj(**self.funcargs)

    def teardown(self) -> None:
        self.funcargs.clear()
        self.user_properties = []
        drop_outcome(self)


def light_items(template: Any, units: Mapping[str, Unit]) -> list[pytest.Item]:
    """Return the light items of a test function, named like parametrized items."""
    hook = template.ihook
    return [
        LightItem.from_parent(template.parent, template=template, hook=hook, param=param, unit=unit)
        for param, unit in units.items()
    ]


#: pytest-xdist, as execnet names it in workers, too
_DISTRIBUTION = ("xdist.", "__channelexec__")


def needs_phases(config: pytest.Config) -> bool:
    """Return True if a plugin of this process may need the start, the teardown and the end of a light item."""
    return any(
        impl.plugin_name not in _IGNORE_PHASES and not module_of(impl.plugin).startswith(_DISTRIBUTION)
        for name in ("logstart", "logreport", "logfinish")
        for impl in getattr(config.hook, f"pytest_runtest_{name}").get_hookimpls()
    )


def cases_in(unit: Unit | None) -> tuple[Case, ...]:
    """Return the cases of a unit; an empty tuple for None."""
    if isinstance(unit, CaseGroup):
        return unit.cases
    return () if unit is None else (unit,)


def possible_tasks(benchmark: Benchmark, item: Item) -> tuple[str, ...]:
    """Return the tasks that an item may have once its answer is known."""
    tasks = benchmark.tasks_by_answer
    return tuple(sorted(tasks)) if item.task in tasks else (item.task,)


def drop_outcome(item: pytest.Item) -> None:
    """Remove the outcome, to free the memory of its prompts and replies."""
    if OUTCOME in item.stash:
        del item.stash[OUTCOME]
