"""The benchmark that a test function's marker names, and the cases that the command line names."""

from __future__ import annotations

import pytest

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.errors import UsageError


def benchmark_of(marker: pytest.Mark) -> str | type[Benchmark]:
    """The benchmark's name or class.

    :raises UsageError: for a marker that gives neither.
    """
    values = [*marker.args, *(value for name, value in marker.kwargs.items() if name == "benchmark")]
    if len(values) != 1 or len(marker.args) + len(marker.kwargs) != 1:
        raise UsageError(
            'the marker takes a benchmark\'s name, llmprops("htest"), or class, llmprops(benchmark=MyClass)'
        )
    benchmark = values[0]
    if not isinstance(benchmark, str) and not (
        isinstance(benchmark, type) and issubclass(benchmark, Benchmark)
    ):
        raise UsageError(f"llmprops({benchmark!r}): give a benchmark's name or a Benchmark class")
    return benchmark


def name_of(benchmark: str | type[Benchmark]) -> str:
    """The name of what :func:`benchmark_of` returns."""
    return benchmark if isinstance(benchmark, str) else benchmark.name


def cases_on_command_line(metafunc: pytest.Metafunc) -> set[str] | None:
    """The cases of this function that the command line names one by one; None when it asks for all."""
    names_here = set()
    for arg in metafunc.config.args:
        _, _, names = arg.partition("::")
        function, bracket, param = names.rpartition("::")[2].partition("[")
        if bracket and function == metafunc.function.__name__ and param.endswith("]"):
            names_here.add(param[:-1])
        elif not bracket or function == metafunc.function.__name__:
            return None
    return names_here or None
