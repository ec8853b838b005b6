"""The built-in benchmarks, and how one is found by name."""

from __future__ import annotations

import importlib

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.errors import UsageError

ENTRY_POINTS = "pytest_llmprops.benchmarks"
#: name -> module and class; imported when a suite names it
BUILT_IN = {
    "dtails": ("pytest_llmprops.benchmarks.dtails.benchmark", "Dtails"),
    "eras": ("pytest_llmprops.benchmarks.eras.benchmark", "Eras"),
    "htest": ("pytest_llmprops.benchmarks.htest.benchmark", "HTest"),
    "oracle": ("pytest_llmprops.benchmarks.oracle.benchmark", "OracleChecker"),
    "homophones": ("pytest_llmprops.benchmarks.homophones.benchmark", "Homophones"),
}

#: role -> model that plays it where the user names none and its files are on this machine. The broker of a
#: distributed run must know it before anything is collected, so it stands here and not with a benchmark, which
#: must do without it, and say so
DEFAULT_HELPERS = {"parse": "stanza"}


def find_benchmark(name: str) -> Benchmark:
    """The benchmark called ``name``, built in or from an entry point ``pytest_llmprops.benchmarks``.

    :raises UsageError: when there is none.
    """
    if name in BUILT_IN:
        module, cls = BUILT_IN[name]
        benchmark: Benchmark = getattr(importlib.import_module(module), cls)()
        return benchmark
    from importlib.metadata import entry_points

    found = {e.name: e for e in entry_points(group=ENTRY_POINTS)}
    if name in found:
        loaded: type[Benchmark] = found[name].load()
        return loaded()
    raise UsageError(f"unknown benchmark '{name}': there are {', '.join(sorted({*BUILT_IN, *found}))}")
