"""What the processes of a run import."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.stub_server import RunningStub
from fixtures.runs import DEFAULT_PLUGINS, ROOT, Runner

SUITES = ROOT / "pytest_llmprops" / "suites"

CONFTEST = """
import sys
import threading


def pytest_collection_modifyitems(items):
    for thread in threading.enumerate():
        if thread.name == "llmprops-imports":
            thread.join()
    with open("imported.txt", "w") as file:
        file.write(str("openai" in sys.modules))
"""


@pytest.mark.parametrize(
    ("stored", "args", "imported"),
    [
        (False, (), True),
        (True, (), False),
        (True, ("--llm-cache", "refresh"), True),
        (False, ("--collect-only",), False),
        (False, ("--llm-plan",), False),
        (False, ("--llm-cache", "only"), False),
    ],
    ids=["new", "stored", "refresh", "collect-only", "plan", "only"],
)
def test_sdk_is_imported_while_pytest_collects(
    run: Runner, start_stub: Callable[..., RunningStub], stored: bool, args: tuple[str, ...], imported: bool
) -> None:
    """The SDK is imported during collection, unless the store has replies of the model or no call is made."""
    run.fresh = True
    run.sums(3)
    stub = start_stub(delay=0.01)
    model = ("--model", "openai:stub", "--llm-base-url", stub.url)
    if stored:
        run(*model)
    run.write("conftest.py", CONFTEST)
    run(*model, *args)
    assert (run.folder / "imported.txt").read_text(encoding="utf-8") == str(imported)


MODULES = """
import atexit
import sys


def pytest_configure(config):
    name = "worker" if hasattr(config, "workerinput") else "controller"
    atexit.register(lambda: open(f"{name}.txt", "w").write(" ".join(sys.modules)))
"""


def test_workers_import_only_what_they_use(run: Runner) -> None:
    """A worker imports no SDK and no scientific package, also if hypothesis is installed and there are searches."""
    run.fresh = True
    run.plugins = (*DEFAULT_PLUGINS, "hypothesispytest")
    run.sums(3)
    run.write("conftest.py", MODULES)
    suites = [f"{SUITES / f'test_{name}.py'}" for name in ("htest", "oracle")]
    done = run("test_sums.py", *suites, "-k", "sums", "--model", run.adder, "-n", "1")
    assert "3 passed" in done.output or "1 failed" in done.output, done.output
    imported = set((run.folder / "worker.txt").read_text(encoding="utf-8").split())
    assert "pytest_llmprops.benchmarks.oracle.benchmark" in imported
    assert not imported & {"hypothesis", "numpy", "scipy", "openai", "networkx"}
