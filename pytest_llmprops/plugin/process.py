"""What a process of pytest is prepared with for a run, and how it is restored."""

from __future__ import annotations

import atexit
import gc
import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest


class _Loggers(dict[str, Any]):
    """The loggers by name. A thread may add one while another goes through them."""

    def values(self) -> Any:
        return list(super().values())


def skip_garbage() -> None:
    """Let the end of the process look at new objects only: going through all of them took 0.3 s."""
    gc.collect(1)
    gc.freeze()


def prepare_process() -> Callable[[], None]:
    """Prepare the process for a run, and return the function that restores it.

    Python's collector would look at the items of a run again and again, a seventh of the time of a collection of tests.

    Pytest goes through the loggers around each phase of a test, without the lock of :mod:`logging`. A logger that a
    package, imported by another thread, added at that moment made an error of the case.
    """
    thresholds = gc.get_threshold()
    manager = logging.Logger.manager
    gc.set_threshold(200_000, 20, 20)
    atexit.register(skip_garbage)
    manager.loggerDict = _Loggers(manager.loggerDict)

    def restore() -> None:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        # A later run of the same process may have its own table.
        if isinstance(manager.loggerDict, _Loggers):
            manager.loggerDict = dict(manager.loggerDict)

    return restore


def drop_unused_hypothesis(config: pytest.Config) -> None:
    """Unregister the plugin of hypothesis if nothing has imported it: its summary would do so at the end."""
    if "hypothesis" not in sys.modules:
        config.pluginmanager.unregister(name="hypothesispytest")
