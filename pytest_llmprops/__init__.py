"""pytest-llmprops: benchmarks of a language model's knowledge of language, as pytest tests.

The names below are the public interface. Each is imported when first used, so pytest runs without a model do not get
slower.
"""

from __future__ import annotations

import importlib
from os import path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_llmprops.benchmark_registry import register_benchmark
    from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Bound, Checker, CheckerBenchmark, Oracle
    from pytest_llmprops.core.benchmark import Ask, Benchmark, Counterexample, DataFiles, Loaded, Searched
    from pytest_llmprops.core.errors import BackendError, DataError, RunStopped, UsageError
    from pytest_llmprops.core.items import Item
    from pytest_llmprops.core.metrics import Metric, by_place, rate
    from pytest_llmprops.core.protocols import NamedSettings, Protocol
    from pytest_llmprops.core.reading import fenced, listed, segmented, stated
    from pytest_llmprops.core.registration import BenchmarkMetadata, Command, Registration
    from pytest_llmprops.core.requests import Chat, Message, Reply, Usage
    from pytest_llmprops.core.verdicts import Verdict, VerdictRecord
    from pytest_llmprops.models.base import CallOptions
    from pytest_llmprops.models.fake import FakeModel
    from pytest_llmprops.models.registry import Backend, register_model
    from pytest_llmprops.models.spec import ModelSpec
    from pytest_llmprops.notebook import Comparison, Decision, Run, compare, decide, measure, read_run

__version__ = "0.1.0"
#: the variable that ``llmprops run`` sets to 1, so that pytest refuses to start without a model
NEEDS_MODEL = "LLMPROPS_NEEDS_MODEL"

# A wheel has the folders suites and fixtures inside the package; in a checkout, they are next to it.
if not path.isdir(path.join(__path__[0], "suites")):  # noqa: PTH112, PTH118 -- pathlib takes longer to import
    __path__.append(path.dirname(path.realpath(__path__[0])))  # noqa: PTH120

#: the public names of each module
_NAMES = {
    "benchmark_registry": "register_benchmark",
    "benchmarks.oracle.scheme": "Acceptance Bound Checker CheckerBenchmark Oracle",
    "core.benchmark": "Ask Benchmark Counterexample DataFiles Loaded Searched",
    "core.errors": "BackendError DataError RunStopped UsageError",
    "core.items": "Item",
    "core.metrics": "Metric by_place rate",
    "core.protocols": "NamedSettings Protocol",
    "core.reading": "fenced listed segmented stated",
    "core.registration": "BenchmarkMetadata Command Registration",
    "core.requests": "Chat Message Reply Usage",
    "core.verdicts": "Verdict VerdictRecord",
    "models.base": "CallOptions",
    "models.fake": "FakeModel",
    "models.registry": "Backend register_model",
    "models.spec": "ModelSpec",
    "notebook": "Comparison Decision Run compare decide measure read_run",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Acceptance",
    "Ask",
    "Backend",
    "BackendError",
    "Benchmark",
    "BenchmarkMetadata",
    "Bound",
    "CallOptions",
    "Chat",
    "Checker",
    "CheckerBenchmark",
    "Command",
    "Comparison",
    "Counterexample",
    "DataError",
    "DataFiles",
    "Decision",
    "FakeModel",
    "Item",
    "Loaded",
    "Message",
    "Metric",
    "ModelSpec",
    "NamedSettings",
    "Oracle",
    "Protocol",
    "Registration",
    "Reply",
    "Run",
    "RunStopped",
    "Searched",
    "Usage",
    "UsageError",
    "Verdict",
    "VerdictRecord",
    "__version__",
    "by_place",
    "compare",
    "decide",
    "fenced",
    "listed",
    "measure",
    "rate",
    "read_run",
    "register_benchmark",
    "register_model",
    "segmented",
    "stated",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'pytest_llmprops' has no attribute '{name}'")
    return getattr(importlib.import_module(f"pytest_llmprops.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
