"""Fixtures and settings of the whole test suite."""

from __future__ import annotations

import functools
import gc
import itertools
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import MEASURED

# A process that a test starts is measured for coverage only where the test asks for it: tracing doubles its time.
if "PYTEST_XDIST_WORKER" in os.environ and "COVERAGE_PROCESS_CONFIG" in os.environ:
    os.environ[MEASURED] = os.environ.pop("COVERAGE_PROCESS_CONFIG")

# The models of these tests are small. With several threads, libraries spend four times the CPU time, in waiting.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell makes background jobs ignore SIGINT, and the processes that tests start and interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

TESTS = Path(__file__).parent
#: the folders whose tests are measured for coverage: the parts in ``source`` of ``[tool.coverage.run]``
WITH_RATE = ("core", "benchmarks", "engine", "runs")
#: how many examples of a hypothesis test are measured
MEASURED_EXAMPLES = 10

pytest_plugins = [
    "pytester",
    "tests.support.browser",
    "tests.support.runs",
    "tests.support.installed",
    "tests.support.servers",
    "tests.support.postgres",
    "tests.support.ray_cluster",
    "tests.support.batch_server",
    "tests.support.batch_runs",
    "tests.support.stanza_models",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Make warnings errors in these tests, but not in a user's run of the suites."""
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("error"), append=False)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect thousands of tests without garbage collection, which would visit all of them dozens of times."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Measure coverage where CI requires a rate; tracing nearly doubles the time of a test.

    Simulations repeat what other tests cover.
    """
    trace, threads = sys.gettrace(), threading.gettrace()
    is_required = item.path.relative_to(TESTS).parts[0] in WITH_RATE
    if not is_required or item.get_closest_marker("simulation"):
        _stop_measuring()
    try:
        return (yield)
    finally:
        sys.settrace(trace)
        threading.settrace(threads)


def _stop_measuring() -> None:
    sys.settrace(None)
    threading.settrace(None)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Measure coverage of the first examples of a property; the others rarely reach another line."""
    handle = getattr(pyfuncitem.obj, "hypothesis", None)
    if handle is None:
        return (yield)
    test, examples = handle.inner_test, itertools.count()

    @functools.wraps(test)
    def example(*args: object, **kwargs: object) -> object:
        if next(examples) == MEASURED_EXAMPLES:
            _stop_measuring()
        return test(*args, **kwargs)

    handle.inner_test = example
    try:
        return (yield)
    finally:
        handle.inner_test = test


_NUMBERS = itertools.count()


@pytest.fixture(autouse=True)
def _without_user_settings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Hide the user's keys, store and CI state from every test."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "LLMPROPS_PRICES", "CI"):
        monkeypatch.delenv(name, raising=False)
    # Made at its first use: most tests need no folder, and tmp_path would take half of their time.
    cache = tmp_path_factory.getbasetemp() / f"cache-{next(_NUMBERS)}"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
