"""The broker process of a distributed run, as its controller starts and ends it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.faults import NOT_CLOSED
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.engine.event_loop import CLOSE_SECONDS
from pytest_llmprops.records.files import text

#: a Unix socket path has at most 103 bytes on macOS and 107 on Linux
_LONGEST_SOCKET = 100


def _short_folder() -> Path:
    """Return a new private folder whose path is short enough for a socket, in TMPDIR if possible."""
    # mkdtemp makes a private folder with a name of its own.
    for parent in (tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR"), "/tmp", "/var/tmp"):  # noqa: S108
        if parent and len(os.fsencode(parent)) + len("/llmprops-12345678/broker") <= _LONGEST_SOCKET:
            with contextlib.suppress(OSError):
                return Path(tempfile.mkdtemp(prefix="llmprops-", dir=parent))
    raise UsageError(
        f"TMPDIR {tempfile.gettempdir()}: the path is too long for a Unix socket; set TMPDIR to a shorter one, or use"
        " -n 0"
    )


def start_server(listening: socket.socket, errors: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the broker process, with a pipe as its standard input and the socket as its standard output."""
    return subprocess.Popen(
        [sys.executable, "-m", "pytest_llmprops.engine.broker.server"],
        stdin=subprocess.PIPE,
        stdout=listening.fileno(),
        stderr=errors,
    )


class BrokerProcess:
    """The broker process, owned by the controller of a distributed run."""

    def __init__(self, config: BrokerConfig) -> None:
        self._folder = _short_folder()
        self.socket = str(self._folder / "broker")
        self._errors = open(self._folder / "stderr", "w+b")
        # Clients can connect while the process starts, and are refused when it has ended: it alone keeps the socket.
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(self.socket)
            Path(self.socket).chmod(0o600)
            listening.listen()
            self.process = start_server(listening, self._errors)
        assert self.process.stdin is not None
        # A process that has ended already is one that ends later: its clients fail, and the summary says why.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(text(config).encode())
            self.process.stdin.flush()

    def failure(self) -> str | None:
        """Return why the process ended, in one line; None while it runs."""
        status = self.process.poll()
        if status is None:
            return None
        if status == -signal.SIGKILL:
            return "the broker process was killed (out of memory?)"
        if status < 0:
            return f"the broker process was ended by signal {-status}"
        lines = self._error_lines()
        return f"the broker process ended with status {status}: {lines[-1] if lines else 'no message'}"

    def _error_lines(self) -> list[str]:
        self._errors.seek(0)
        return self._errors.read().decode("utf-8", "replace").strip().splitlines()

    def close(self) -> list[str]:
        """Ask the process to end, wait for it, and remove its folder.

        Return one line per model that it could not close.
        """
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        lines = self._error_lines()
        self._errors.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        return [line for line in lines if line.startswith(NOT_CLOSED)]
