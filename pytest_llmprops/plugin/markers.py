"""What the marker of a test function asks for, and which of its cases the command line names."""

from __future__ import annotations

import pytest

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.errors import UsageError


def benchmark_of(marker: pytest.Mark) -> str | type[Benchmark]:
    """The benchmark's name or class.

    :raises UsageError: for a marker that gives neither.
    """
    given = [*marker.args, *(value for name, value in marker.kwargs.items() if name == "benchmark")]
    if len(given) != 1 or len(marker.args) + len(marker.kwargs) != 1:
        raise UsageError(
            'the marker takes a benchmark\'s name, llmprops("htest"), or class, llmprops(benchmark=MyClass)'
        )
    found = given[0]
    if not isinstance(found, str) and not (isinstance(found, type) and issubclass(found, Benchmark)):
        raise UsageError(f"llmprops({found!r}): give a benchmark's name or a Benchmark class")
    return found


def name_of(benchmark: str | type[Benchmark]) -> str:
    """The name of what :func:`benchmark_of` returns."""
    return benchmark if isinstance(benchmark, str) else benchmark.name


def cases_on_command_line(metafunc: pytest.Metafunc) -> set[str] | None:
    """The cases of this function that the command line names one by one; None when it asks for all."""
    asked = set()
    for arg in metafunc.config.args:
        _, _, names = arg.partition("::")
        function, bracket, param = names.rpartition("::")[2].partition("[")
        if bracket and function == metafunc.function.__name__ and param.endswith("]"):
            asked.add(param[:-1])
        elif not bracket or function == metafunc.function.__name__:
            return None
    return asked or None
