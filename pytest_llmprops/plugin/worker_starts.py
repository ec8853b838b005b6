"""The start of workers, one after another where there are more workers than processors.

A worker needs about 0.8 s of CPU time before it sends its first request. Workers that start at once share the
processors, so all of them begin late, and then the processors are idle until the model has answered. If as many
workers start as there are processors, the model answers the first workers while the others start.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from pytest_llmprops.plugin.collected import has_reported

_POLL_SECONDS = 0.02


class WorkerStarts:
    """Counts the workers that have started and not yet collected.

    :param at_once: maximum number of such workers.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        #: pytest-xdist's nodes, of which the first may have collected
        self._starting: list[Any] = []

    def begin(self, node: Any, run_dir: Path) -> None:
        """Wait until another worker may start, and count ``node`` as starting."""
        while len(self._starting) >= self._at_once:
            self._starting = [one for one in self._starting if not _has_started(one, run_dir)]
            if len(self._starting) >= self._at_once:
                time.sleep(_POLL_SECONDS)
        self._starting.append(node)

    def end(self, node: Any) -> None:
        """Count ``node`` as started."""
        if node in self._starting:
            self._starting.remove(node)


def _has_started(node: Any, run_dir: Path) -> bool:
    """Whether a worker has collected, or has ended without it."""
    channel = getattr(node, "channel", None)
    # pytest-xdist could not start a worker without a channel.
    is_ended = channel is None or channel.isclosed()
    return is_ended or has_reported(run_dir, node.workerinput["workerid"])


def usable_processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
