"""What a run with a model changes in its process, and restores at its end: garbage collection and the table of loggers.

Python's collector looks at the items of a run again and again, which takes a seventh of the time of a collection of
tests, and once more at the end of the run. The table of loggers is used by several threads during a run.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Collect no garbage while objects are made that stay."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def freeze_objects() -> None:
    """Make garbage collection rarer, and ignore the objects that exist now.

    Objects without references are freed all the same. This costs some memory and saves about a tenth of a run's CPU
    time (measured).
    """
    gc.freeze()
    gc.set_threshold(200_000, 20, 20)


class _Loggers(dict[str, Any]):
    """The loggers by name. A thread may add one while another goes through them."""

    def values(self) -> Any:
        return list(super().values())


def prepare_process() -> Callable[[], None]:
    """Prepare the process for a run, and return the function that restores it.

    Pytest goes through the loggers around each phase of a test, without the lock of :mod:`logging`. A logger that an
    SDK, imported by another thread, added at that moment made an error of the case.
    """
    thresholds = gc.get_threshold()
    manager = logging.Logger.manager
    freeze_objects()
    manager.loggerDict = _Loggers(manager.loggerDict)

    def restore() -> None:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        # A later run of the same process may have its own table.
        if isinstance(manager.loggerDict, _Loggers):
            manager.loggerDict = dict(manager.loggerDict)

    return restore
