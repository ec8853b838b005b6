"""Python's table of loggers, which several threads use during a run."""

from __future__ import annotations

import logging
from typing import Any


class _Loggers(dict[str, Any]):
    """The loggers by name. A thread may add one while another goes through them."""

    def values(self) -> Any:
        return list(super().values())


def share_loggers() -> None:
    """Let threads import packages, which add loggers, while pytest goes through the loggers.

    pytest does so around each phase of a test, without the lock of :mod:`logging`; a logger that an SDK added at that
    moment made an error of the case.
    """
    manager = logging.Logger.manager
    if not isinstance(manager.loggerDict, _Loggers):
        manager.loggerDict = _Loggers(manager.loggerDict)
