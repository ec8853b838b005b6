"""What the processes of a run import."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.stub_server import RunningStub
from tests.support.runs import DEFAULT_PLUGINS, ROOT, Runner

SUITES = ROOT / "suites"

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


COLLECTED = """
import gc
import sys


def pytest_runtest_setup():
    last = sys.modules["pytest_llmprops.models.api.server_pool"].SdkClient
    with open("collected.txt", "w") as file:
        file.write(str(any(one is last for one in gc.get_objects())))
"""


def test_garbage_collection_ignores_the_sdk(run: Runner, start_stub: Callable[..., RunningStub]) -> None:
    """Pytest collects garbage several times at its end; the modules of an SDK that was imported are not looked at."""
    run.fresh = True
    run.sums(3)
    run.write("conftest.py", COLLECTED)
    run("--model", "openai:stub", "--llm-base-url", start_stub(delay=0.01).url)
    assert (run.folder / "collected.txt").read_text(encoding="utf-8") == "False"


MODULES = """
import atexit
import sys


def pytest_configure(config):
    name = "worker" if hasattr(config, "workerinput") else "controller"
    atexit.register(lambda: open(f"{name}.txt", "w").write(" ".join(sys.modules)))
"""


PLAIN = """
from hypothesis import given, settings, strategies


@settings(max_examples=3, database=None)
@given(strategies.integers())
def test_integers(n):
    assert n == n
"""
#: does what pytest and a thread do at the same time, one after the other
LOGGING = """
import logging

def pytest_runtest_setup(item):
    for number, _ in enumerate(logging.getLogger().manager.loggerDict.values()):
        logging.getLogger(f"{item.name}.{number}")
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
    # The summary of its plugin would import it.
    assert "hypothesis" not in (run.folder / "controller.txt").read_text(encoding="utf-8").split()
    # What judges replies is imported by the first measurement: it takes longer than reading all items.
    parts = [name.removeprefix("pytest_llmprops.benchmarks.") for name in imported]
    assert not {"htest.evaluation", "oracle.evaluation", "oracle.paraphrase", "oracle.metrics"} & set(parts)


def test_the_plugin_of_hypothesis_ends_if_a_worker_used_it(run: Runner) -> None:
    """The controller keeps the plugin of hypothesis for its summary, which reads the reports of the workers."""
    run.fresh = True
    run.plugins = (*DEFAULT_PLUGINS, "hypothesispytest")
    run.sums(3)
    run.write("conftest.py", MODULES)
    run.write("test_plain.py", PLAIN)
    done = run("test_sums.py", "test_plain.py", "--model", run.adder, "-n", "1")
    assert "1 failed, 3 passed" in done.output
    assert "hypothesis" in (run.folder / "controller.txt").read_text(encoding="utf-8").split()


def test_loggers_of_a_thread_make_no_error(run: Runner) -> None:
    """An import in a thread may add a logger while pytest goes through the loggers, which it does around each phase."""
    run.sums(3)
    run.write("conftest.py", LOGGING)
    done = run("--model", run.adder)
    assert {row["status"] for row in done.verdicts.values()} == {"correct", "wrong"}
    assert "RuntimeError" not in done.output
