"""Fixtures and settings of the whole test suite."""

from __future__ import annotations

import gc
import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# On a busy machine, an example is slow, not wrong. A decorator keeps the profile of its time, so this comes first.
settings.register_profile("llmprops", deadline=None)
settings.load_profile("llmprops")

# The models of these tests are small. With several threads, libraries spend four times the CPU time, in waiting.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell makes background jobs ignore SIGINT, and nohup SIGHUP; the processes that tests start would inherit that.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

pytest_plugins = [
    "pytester",
    "tests.support.servers",
    "tests.support.browser",
    "tests.support.commands",
    "tests.support.runs",
    "tests.support.installed",
    "tests.support.postgres",
    "tests.support.ray_cluster",
    "tests.support.batch_server",
    "tests.support.batch_runs",
    "tests.support.stanza_models",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Make warnings errors in these tests, but not in a user's run of the suites; begin with the longest tests.

    These are in the files of this folder. At the end, they would keep one process busy while the others have none.
    """
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("error"), append=False)
    items.sort(key=lambda item: item.path.parent != Path(__file__).parent)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect thousands of tests without garbage collection, which would visit all of them dozens of times."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


_NUMBERS = itertools.count()


@pytest.fixture(autouse=True)
def _without_user_settings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Hide the user's keys, store and CI state from every test."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "LLMPROPS_PRICES", "CI"):
        monkeypatch.delenv(name, raising=False)
    # Made at its first use: most tests need no folder, and tmp_path would take half of their time.
    cache = tmp_path_factory.getbasetemp() / f"cache-{next(_NUMBERS)}"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
