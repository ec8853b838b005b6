"""The marker ``llmprops``: the benchmark that a test function names, its class, and cases that cannot run."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmark_registry import find_benchmark, is_registered
from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.errors import UsageError


def argument_of(metafunc: pytest.Metafunc) -> str | None:
    """Return the fixture that a function is about, ``verdict`` or ``search``; None if it has neither.

    An autouse fixture that takes ``verdict`` does not make a search a measurement.
    """
    own = inspect.signature(metafunc.function).parameters
    names = ("verdict", "search")
    return next((name for places in (own, metafunc.fixturenames) for name in names if name in places), None)


def benchmark_of(marker: pytest.Mark) -> str | type[Benchmark]:
    """Return the name or class of the marker's benchmark.

    :raises UsageError: if the marker has neither.
    """
    values = [*marker.args, *(value for name, value in marker.kwargs.items() if name == "benchmark")]
    if len(values) != 1 or marker.kwargs.keys() - {"benchmark", "search"}:
        raise UsageError(
            'the marker llmprops needs a benchmark\'s name, llmprops("htest"), or class, llmprops(benchmark=MyClass)'
        )
    benchmark = values[0]
    if not isinstance(benchmark, str) and not (
        isinstance(benchmark, type) and issubclass(benchmark, Benchmark)
    ):
        raise UsageError(f"llmprops({benchmark!r}): must be a benchmark's name or a Benchmark class")
    return benchmark


def property_of(marker: pytest.Mark, properties: Sequence[str]) -> str:
    """Return the name of the property that the marker's test function searches; empty if there is only one.

    :param properties: of the marker's benchmark.
    :raises UsageError: if the marker names none of them.
    """
    name = str(marker.kwargs.get("search", ""))
    if name not in (properties or ("",)):
        known = ", ".join(properties) or "only one, so leave out search="
        raise UsageError(f"llmprops(search={name!r}): no such property; the benchmark has {known}")
    return name


def searched_by(item: pytest.Item) -> str:
    """Return the name of the property that a pytest item searches; empty if its marker names none."""
    marker = item.get_closest_marker("llmprops")
    return "" if marker is None else str(marker.kwargs.get("search", ""))


def name_of(benchmark: str | type[Benchmark]) -> str:
    """Return the name of what :func:`benchmark_of` returns."""
    return benchmark if isinstance(benchmark, str) else benchmark.name


def case_name_of(item: pytest.Item, fixture: str) -> tuple[str, str] | None:
    """Return benchmark and name of the case that ``fixture`` gets in this item; None for other items."""
    callspec, marker = getattr(item, "callspec", None), item.get_closest_marker("llmprops")
    if callspec is None or marker is None or fixture not in callspec.params:
        return None
    return name_of(benchmark_of(marker)), callspec.params[fixture]


def parametrize_skipped(metafunc: pytest.Metafunc, fixture: str, name: str, reason: str) -> None:
    """Give the marked function one case, which is skipped for ``reason``."""
    param = pytest.param(name, marks=pytest.mark.skip(reason=reason))
    metafunc.parametrize(fixture, [param], indirect=True, ids=[name])


#: the name of the one case of a benchmark that cannot be measured
_UNREADABLE = "unreadable-data"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A benchmark without cases, because its data cannot be read or an option does not fit.

    :param tasks: its tasks, as far as its class names them.
    :param error: one line.
    :param is_usage: an option does not fit. Then the session does not start if the benchmark is selected.
    """

    benchmark: str
    tasks: tuple[str, ...]
    error: str
    is_usage: bool = False


class UnreadableItem(pytest.Item):
    """The one case, which fails in its setup, of a test function whose benchmark cannot be measured."""

    def __init__(self, *, unreadable: Unreadable, line: int | None, **more: Any) -> None:
        super().__init__(**more)
        self.unreadable, self._line = unreadable, line

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, self._line, self.name

    def runtest(self) -> None:
        """Do nothing: its setup fails, see :func:`unreadable_of`."""


def unreadable_item(item: pytest.Item, unreadable: Unreadable) -> UnreadableItem:
    """Return the case that replaces all cases of the test function of ``item``."""
    parent: Any = item.parent
    made: UnreadableItem = UnreadableItem.from_parent(
        parent,
        name=f"{item.name.partition('[')[0]}[{_UNREADABLE}]",
        unreadable=unreadable,
        line=item.location[1],
    )
    made.own_markers += [mark for mark in item.own_markers if mark.name != "skip"]
    return made


def unreadable_of(item: pytest.Item) -> Unreadable | None:
    """Return the benchmark that an item cannot measure; None for other items."""
    return item.unreadable if isinstance(item, UnreadableItem) else None


def cases_on_command_line(metafunc: pytest.Metafunc) -> set[str] | None:
    """Return the cases of this function that the command line names; None if it selects all."""
    selected = set()
    for arg in metafunc.config.args:
        _, _, names = arg.partition("::")
        function, bracket, param = names.rpartition("::")[2].partition("[")
        if bracket and function == metafunc.function.__name__ and param.endswith("]"):
            selected.add(param[:-1])
        elif not bracket or function == metafunc.function.__name__:
            return None
    return selected or None


#: module and name of a class, and the test file that uses it; the module is empty if it is registered
ClassReference = tuple[str, str, str]


def class_reference(cls: type[Benchmark], test_file: str) -> ClassReference:
    """Return where another process finds the class of a benchmark."""
    return ("", cls.name, test_file) if is_registered(cls) else (cls.__module__, cls.__qualname__, test_file)


def load_benchmarks(
    references: Mapping[str, Sequence[str]], session: pytest.Session
) -> tuple[dict[str, Benchmark], list[str]]:
    """Return the benchmarks by name, and one line for each that cannot be loaded in this process."""
    benchmarks, problems = {}, []
    for name, (module, class_name, test_file) in references.items():
        try:
            if module:
                # As in the workers, so that the same imports work.
                test_module = pytest.Module.from_parent(session, path=Path(test_file)).obj
                cls = attrgetter(class_name)(sys.modules.get(module, test_module))
            else:
                cls = type(find_benchmark(class_name))
            benchmarks[name] = cls()
        except KeyboardInterrupt:
            raise
        except BaseException as fault:
            # Imports asyncio, which a session without a model does not need.
            from pytest_llmprops.core.faults import fault_line

            problems.append(
                f"{name}: its metrics are missing, because {Path(test_file).name} cannot be imported a second time:"
                f" {fault_line(fault)}"
            )
    return benchmarks, problems
