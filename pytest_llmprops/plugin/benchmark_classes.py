"""The classes of benchmarks in another process: workers collect them, and the controller computes their metrics."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from types import ModuleType

import pytest

from pytest_llmprops.benchmark_registry import find_benchmark, is_registered
from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.contracts import fault_line
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.plugin.markers import benchmark_of

#: module, file and name of a class, and the test file that uses it; module and file are empty if it is registered
ClassReference = tuple[str, str, str, str]


def class_reference(cls: type[Benchmark], test_file: str) -> ClassReference:
    """Return where another process finds the class of a benchmark."""
    if is_registered(cls):
        return "", "", cls.name, test_file
    return cls.__module__, inspect.getfile(cls), cls.__qualname__, test_file


def load_benchmarks(
    references: Mapping[str, Sequence[str]], session: pytest.Session
) -> tuple[dict[str, Benchmark], list[str]]:
    """Return the benchmarks by name, and one line for each that cannot be loaded in this process."""
    benchmarks, problems = {}, []
    for name, (module, file, class_name, test_file) in references.items():
        reference = (module, file, class_name, test_file)
        try:
            cls = type(find_benchmark(class_name)) if not file else _class(reference, session)
            benchmarks[name] = cls()
        except KeyboardInterrupt:
            raise
        except BaseException as fault:
            problems.append(
                f"{name}: its metrics are missing, because {Path(test_file).name} cannot be imported a second time:"
                f" {fault_line(fault)}"
            )
    return benchmarks, problems


def _class(reference: ClassReference, session: pytest.Session) -> type[Benchmark]:
    module, file, _, test_file = reference
    loaded = sys.modules.get(module)
    cls = find_class(reference, loaded) if loaded is not None and _is_file(loaded, file) else None
    if cls is None:
        # As in the workers, so that the same imports work.
        cls = find_class(reference, pytest.Module.from_parent(session, path=Path(test_file)).obj)
    if cls is None:
        raise UsageError(f"the class {reference[2]} is not found")
    return cls


def find_class(reference: ClassReference, test_module: ModuleType) -> type[Benchmark] | None:
    """Return a class that its module defines or that a marker in ``test_module`` names; None if there is none."""
    module, file, name, _ = reference
    defining = sys.modules.get(module)
    if defining is not None and _is_file(defining, file):
        try:
            cls = attrgetter(name)(defining)
        except AttributeError:
            # Made in a function.
            cls = None
        if isinstance(cls, type) and issubclass(cls, Benchmark):
            return cls
    same = [cls for cls in _marked(test_module) if (cls.__module__, cls.__qualname__) == (module, name)]
    return same[0] if len(set(same)) == 1 else None


def _marked(module: ModuleType) -> Iterator[type[Benchmark]]:
    functions = [
        member
        for value in vars(module).values()
        for member in (vars(value).values() if isinstance(value, type) else (value,))
    ]
    for holder in (module, *vars(module).values(), *functions):
        marks = getattr(holder, "pytestmark", ())
        for mark in marks if isinstance(marks, list | tuple) else (marks,):
            mark = getattr(mark, "mark", mark)
            if isinstance(mark, pytest.Mark) and mark.name == "llmprops":
                cls = benchmark_of(mark)
                if isinstance(cls, type):
                    yield cls


def _is_file(module: ModuleType, file: str) -> bool:
    return Path(getattr(module, "__file__", None) or "") == Path(file)
