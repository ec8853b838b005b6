"""End a run on SIGTERM, and on Ctrl-C pressed more than once, as one Ctrl-C ends it."""

from __future__ import annotations

import inspect
import signal
import threading
from types import FrameType

#: what pytest handles as an interrupt, and what a terminal, ``timeout``, a CI system or a container sends
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """The signal handlers of the process that writes the record.

    A signal raises KeyboardInterrupt. Once pytest has caught it, or all cases are over, later ones are only noted while
    the record is completed, the workers end and the broker is closed, which takes seconds at most. Not before: Python
    drops an exception that is raised in a weak reference's callback, and the next signal must not be lost, too.
    """

    def __init__(self) -> None:
        #: a signal came since :meth:`hold`
        self.is_pressed = False
        self._previous: dict[signal.Signals, object] = {}

    def install(self) -> None:
        """Handle the signals, except those that the environment ignores (``nohup``) or another plugin handles."""
        if threading.current_thread() is not threading.main_thread() or self._previous:
            return
        for number in _SIGNALS:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                self._previous[number] = signal.signal(number, _interrupt)

    def hold(self) -> None:
        """Note further signals, without an exception."""
        for handled in self._previous:
            # Not SIG_IGN, which a process started later would inherit.
            signal.signal(handled, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.is_pressed = True

    def restore(self) -> None:
        """Set the previous handlers; safe to call twice.

        If the process ends with pytest, they are left, since a signal would end it without its exit status.
        """
        while self._previous and not _is_program():
            number, handler = self._previous.popitem()
            signal.signal(number, handler)  # type: ignore[arg-type]


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


def _is_program() -> bool:
    """Whether pytest is the program of this process, instead of a function that another program calls."""
    frame = inspect.currentframe()
    while frame is not None:
        # ``pytest.console_main`` until pytest 9.0, ``_pytest.config._console_main`` since
        if frame.f_code.co_name.endswith("console_main") and frame.f_globals["__name__"] == "_pytest.config":
            return True
        frame = frame.f_back
    return False
