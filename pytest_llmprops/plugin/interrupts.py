"""End a run on SIGTERM, and on Ctrl-C pressed more than once, as one Ctrl-C ends it."""

from __future__ import annotations

import signal
import threading
from types import FrameType

#: what pytest handles as an interrupt, and what a terminal, ``timeout``, a CI system or a container sends
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """The signal handlers of the process that writes the record.

    A signal raises KeyboardInterrupt. Once pytest has caught it, later ones are ignored while the record is completed,
    the workers end and the broker is closed, which takes seconds at most. Not before: Python drops an exception that is
    raised in a weak reference's callback, and the next signal must not be lost, too.
    """

    def __init__(self) -> None:
        self._previous: dict[signal.Signals, object] = {}

    def install(self) -> None:
        """Handle the signals, except those that the environment ignores (``nohup``) or another plugin handles."""
        if threading.current_thread() is not threading.main_thread() or self._previous:
            return
        for number in _SIGNALS:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                self._previous[number] = signal.signal(number, _interrupt)

    def ignore(self) -> None:
        """Ignore further signals."""
        for handled in self._previous:
            # Not SIG_IGN, which a process started later would inherit.
            signal.signal(handled, _ignore)

    def restore(self) -> None:
        """Set the previous handlers; safe to call twice."""
        while self._previous:
            number, handler = self._previous.popitem()
            signal.signal(number, handler)  # type: ignore[arg-type]


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing: the run is ending."""
