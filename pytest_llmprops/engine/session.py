"""The engine: a thread with an event loop that evaluates cases, as pytest uses it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeVar

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.faults import NOT_CLOSED
from pytest_llmprops.core.requests import Kind, Reply, Request
from pytest_llmprops.engine.broker.in_process import InProcess
from pytest_llmprops.engine.broker.local import LocalBroker
from pytest_llmprops.engine.broker.remote import RemoteBroker
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.engine.evaluation.evaluator import BrokerAsk, Case, Evaluator, Outcome
from pytest_llmprops.engine.event_loop import CLOSE_SECONDS, LoopThread
from pytest_llmprops.engine.store.base import CacheMode
from pytest_llmprops.engine.store.location import default_store
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.registry import find_backend
from pytest_llmprops.models.spec import ModelSpec
from pytest_llmprops.records.files import text

# Requests to one model outside pytest, for commands: with the reply store, limits and retries.

_SUBJECT = "subject"


class OneModel:
    """An :class:`~pytest_llmprops.core.benchmark.Ask` for one model, inside ``async with``.

    :param store: file or URL of the reply store; default: the user's file.
    """

    roles: frozenset[str] = frozenset()

    def __init__(
        self,
        spec: ModelSpec,
        *,
        base_url: str | None = None,
        store: str | Path | None = None,
        concurrency: int = 64,
        cache: CacheMode = "reuse",
    ) -> None:
        self.label = spec.label
        self.kinds: frozenset[Kind] = find_backend(spec.backend).kinds(spec)
        self._config = BrokerConfig(
            {self.label: spec},
            CallOptions(base_url, concurrency=concurrency),
            store=str(store or default_store()),
            cache=cache,
        )
        self._broker: LocalBroker | None = None

    async def __aenter__(self) -> OneModel:
        self._broker = LocalBroker(self._config)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._broker is not None:
            await self._broker.close()

    async def __call__(self, request: Request, role: str = _SUBJECT) -> Reply:
        """Return the model's reply.

        :raises BackendError: if the call fails.
        :raises RunStopped: if no call can succeed.
        """
        assert self._broker is not None
        return await self._broker.ask(self.label, role, request)


T = TypeVar("T")


class Engine:
    """Evaluates cases with its own broker, a connection to one, or no broker.

    :param in_process: models that are called directly, without the broker.
    :param keeps_calls: outcomes have the calls with their prompts and replies, not only their keys.
    """

    def __init__(
        self,
        *,
        config: BrokerConfig | None = None,
        socket: str | None = None,
        window: int,
        in_process: InProcess | None = None,
        keeps_calls: bool = False,
    ) -> None:
        self._thread = LoopThread()
        self.broker: LocalBroker | RemoteBroker
        if socket is not None:
            self.broker = RemoteBroker(socket)
        else:
            # Without a model that is behind a broker, it only keeps why the run is stopped.
            self.broker = LocalBroker(config or BrokerConfig({}, cache="off"))
        #: sends a request to a model; await it only in work passed to :meth:`start`
        self.ask: BrokerAsk = self.broker.ask
        if in_process is not None:
            in_process.broker, self.ask = self.broker, in_process.ask
        self._evaluator = Evaluator(
            self._thread.loop, self.broker, self.ask, window=window, keeps_calls=keeps_calls
        )

    def submit(self, cases: Iterable[Case]) -> None:
        """Start to evaluate ``cases``."""
        self._evaluator.submit(cases)

    def outcome(self, case: Case, timeout: float | None = None) -> Outcome:
        """Wait for the outcome of a case and return it; a case that was not submitted is started."""
        if not self._evaluator.is_submitted(case):
            self._evaluator.submit([case])
        return self._evaluator.outcome(case, timeout=timeout)

    def start(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start ``work`` on the engine's event loop."""
        return asyncio.run_coroutine_threadsafe(work, self._thread.loop)

    def has_verdicts(self) -> bool:
        """Return True if a finished verdict has not been fetched."""
        return self._evaluator.has_verdicts()

    def report(self) -> dict[str, Any]:
        """The broker's counters and facts."""
        return self._thread.call(self.broker.report(), CLOSE_SECONDS)

    def are_known(self, asked: Sequence[tuple[str, Request]]) -> list[bool]:
        """Return which (model label, request) pairs need no call.

        :raises StoreError: if the store cannot be used.
        """
        return self._thread.call(self.broker.are_known(asked))

    def trials(self, requests: Mapping[str, Sequence[Request]]) -> dict[str, int]:
        """Make one call to each of the models before the run; return label -> tokens of its thoughts in this call.

        :param requests: label -> prompts of which one must have a reply.
        :raises RunStopped: if a model refuses every call, or cannot be reached.
        :raises BackendError: if the broker process ended.
        """

        async def trials() -> list[int]:
            return await asyncio.gather(*(self.broker.trial(*one) for one in requests.items()))

        return dict(zip(requests, self._thread.call(trials()), strict=True))

    def stop(self, reason: str) -> None:
        """Stop the run."""
        self._thread.call(self.broker.stop(reason), CLOSE_SECONDS)

    def close(self) -> list[str]:
        """Cancel open work and free everything. Return one line per model of this process that could not be closed."""
        problems: list[str] = []
        # A model whose close hangs is left behind; what comes before it is closed.
        with contextlib.suppress(TimeoutError):
            problems = self._thread.call(self._close(), CLOSE_SECONDS)
        self._thread.close()
        return problems

    async def _close(self) -> list[str]:
        await self._evaluator.close()
        return await self.broker.close()


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


def start_server(socket: str, errors: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the broker process, with a pipe as its standard input."""
    return subprocess.Popen(
        [sys.executable, "-m", "pytest_llmprops.engine.broker.server", socket],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=errors,
    )


class BrokerProcess:
    """The broker process, owned by the controller of a distributed run."""

    def __init__(self, config: BrokerConfig) -> None:
        self._folder = _short_folder()
        self.socket = str(self._folder / "broker")
        self._errors = open(self._folder / "stderr", "w+b")
        self._is_closing = False
        #: the exit status of the process; None while it runs
        self._status: int | None = None
        self.process = start_server(self.socket, self._errors)
        assert self.process.stdin is not None
        # A process that has ended already is one that ends later: its clients fail, and the summary says why.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(text(config).encode())
            self.process.stdin.flush()
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self._watching.start()

    def _watch(self) -> None:
        """Leave a socket that refuses when the process has ended: clients wait for one that does not exist."""
        self._status = self.process.wait()
        if not self._is_closing and not Path(self.socket).exists():
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as refusing:
                refusing.bind(self.socket)

    def failure(self) -> str | None:
        """Return why the process ended, in one line; None while it runs."""
        status = self._status
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
        self._is_closing = True
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self._watching.join(CLOSE_SECONDS)
        if self._watching.is_alive():
            self.process.kill()
            self._watching.join()
        lines = self._error_lines()
        self._errors.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        return [line for line in lines if line.startswith(NOT_CLOSED)]
