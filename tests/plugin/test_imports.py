"""What the processes of a run import."""

from __future__ import annotations

from collections.abc import Callable

from bench.stub_server import RunningStub
from tests.support.runs import DEFAULT_PLUGINS, ROOT, Runner

Stub = Callable[..., RunningStub]
SUITES = ROOT / "suites"
#: writes the modules of each process at its end
MODULES = """
import atexit
import sys

def pytest_configure(config):
    name = getattr(config, "workerinput", {}).get("workerid", "controller")
    atexit.register(lambda: open(f"{name}.txt", "w").write(" ".join(sys.modules)))
"""
#: adds loggers while it goes through them, as a thread may that imports a library
PHASES = """
import logging

def pytest_runtest_setup(item):
    for number, _ in enumerate(logging.getLogger().manager.loggerDict.values()):
        logging.getLogger(f"{item.name}.{number}")
"""
#: what no process of a run without a gate and Allure needs, except the broker
UNUSED = {
    "hypothesis", "numpy", "scipy", "statsmodels", "torch", "networkx", "aiohttp", "openai", "httpx",
    "tenacity", "tomllib", "allure", "allure_commons", "allure_pytest", "pytest_llmprops.plugin.control.allure",
    "pytest_llmprops.plugin.gating", "pytest_llmprops.runs.gate.decide",
}  # fmt: skip


def modules(run: Runner, process: str) -> set[str]:
    """Return the modules that a process of the run had imported at its end."""
    return set((run.folder / f"{process}.txt").read_text(encoding="utf-8").split())


def test_without_a_model_suites_are_skipped(run: Runner) -> None:
    """Without --model, one skip says what to pass; the suite imports a benchmark class, which needs only the core."""
    run.fresh = True
    run.sums()
    run.write("conftest.py", MODULES)
    done = run("-p", "no:xdist")
    assert done.code == 0
    assert done.output.count("no model chosen: pass --model SPEC") == 1
    heavy = {"asyncio", "sqlite3", "pytest_llmprops.engine"}
    assert not (UNUSED - {"tomllib"} | heavy | {"pydantic"}) & modules(run, "controller")


def test_processes_import_only_what_they_use(run: Runner) -> None:
    """Controller and workers import no HTTP client and no scientific package, also where hypothesis can search.

    Without workers, one process imports the engine, but no module of gates, reports and Allure.
    """
    run.fresh = True
    run.plugins = (*DEFAULT_PLUGINS, "hypothesispytest")
    run.sums(3)
    run.write("conftest.py", MODULES)
    suites = [f"{SUITES / f'test_{name}.py'}" for name in ("htest", "oracle")]
    done = run("test_sums.py", *suites, "-k", "sums", "--model", run.adder, "-n", "1")
    assert "1 failed, 2 passed" in done.output, done.output
    imported = modules(run, "gw0")
    assert "pytest_llmprops.benchmarks.oracle.benchmark" in imported
    assert UNUSED & imported == set()
    # The summary of its plugin would import hypothesis.
    assert UNUSED & modules(run, "controller") == set()
    # What judges replies is imported by the first measurement: it takes longer than reading all items.
    parts = {name.removeprefix("pytest_llmprops.benchmarks.") for name in imported}
    assert not {"oracle.equivalence", "oracle.covering", "oracle.metrics"} & parts
    run.write("conftest.py", MODULES + PHASES)
    alone = run("test_sums.py", "--model", run.adder)
    assert UNUSED & modules(run, "controller") == set()
    # Pytest goes through the loggers around each phase.
    assert (len(alone.verdicts), "RuntimeError" in alone.output) == (3, False)
