"""What a broker process has counted and learned, for the process that replaces it if it is killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import mmap
import struct
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_llmprops.engine.calls.calls import Counters

if TYPE_CHECKING:
    from pytest_llmprops.engine.broker.local import LocalBroker

#: the counters, all of which are numbers; the first value of the file is the number of open requests
_COUNTERS = [
    (column.name, float if isinstance(column.default, float) else int) for column in fields(Counters)
]
_VALUES = struct.Struct(f"{1 + len(_COUNTERS)}d")
_COUNTED, _LEARNED = "counters", "learned.json"
#: how often the rest is written, which takes a millisecond; a kill loses as much of what was learned
REPORT_SECONDS = 0.5


class Checkpoint:
    """Writes a broker's counters and facts into the folder of its socket.

    The counters limit what a run spends. They are written with each call and each answer, into shared memory, which
    takes microseconds and outlives the process. All methods run in the broker's event loop.

    :param open_requests: returns the number of requests without an answer, which will be sent again.
    """

    def __init__(self, folder: Path, broker: LocalBroker, open_requests: Callable[[], int]) -> None:
        self._broker, self._open_requests = broker, open_requests
        self._learned = folder / _LEARNED
        with open(folder / _COUNTED, "w+b") as file:
            file.truncate(_VALUES.size)
            self._memory = mmap.mmap(file.fileno(), _VALUES.size)
        self._is_due = False
        self._reported = 0.0
        broker.on_call = self._note_call

    def _note_call(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self.write)

    def write(self) -> None:
        """Write the counters, and the rest if it is due."""
        self._is_due = False
        counters = self._broker.counters
        values = [getattr(counters, name) for name, _ in _COUNTERS]
        _VALUES.pack_into(self._memory, 0, self._open_requests(), *values)
        now = asyncio.get_running_loop().time()
        if now - self._reported >= REPORT_SECONDS:
            self._reported = now
            self._write_learned()

    def _write_learned(self) -> None:
        report = self._broker.snapshot()
        learned = {name: report[name] for name in ("models", "notes", "stopped")}
        draft = self._learned.with_suffix(".draft")
        # Without it, only names of served models and notes are lost.
        with contextlib.suppress(OSError, TypeError, ValueError):
            draft.write_text(json.dumps(learned), encoding="utf-8")
            draft.replace(self._learned)


def read_checkpoint(folder: Path) -> dict[str, Any]:
    """Return what the last process of a folder has counted and learned; empty if it made no call."""
    earlier: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        earlier |= json.loads((folder / _LEARNED).read_text(encoding="utf-8"))
    with contextlib.suppress(OSError, struct.error):
        open_requests, *values = _VALUES.unpack((folder / _COUNTED).read_bytes())
        counters = {name: number(value) for (name, number), value in zip(_COUNTERS, values, strict=True)}
        counters["requests"] -= int(open_requests)
        counters["in_flight"] = 0
        earlier["counters"] = counters
    return earlier
