"""The engine: a thread with an event loop that evaluates cases, as pytest uses it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

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


class OneModel:
    """An :class:`~pytest_llmprops.core.benchmark.Ask` for one model of a command, inside ``async with``.

    Its requests have the reply store, limits and retries of a run.

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

    async def __call__(self, request: Request, role: str = "subject") -> Reply:
        """Return the model's reply.

        :raises BackendError: if the call fails.
        :raises RunStopped: if no call can succeed.
        """
        assert self._broker is not None
        return await self._broker.ask(self.label, role, request)


T = TypeVar("T")


class Engine:
    """Evaluates cases with its own broker, a connection to one, or no broker.

    :param in_process: models that are called directly, without the broker. :param calls: what each of their calls has.
    :param keeps_calls: outcomes have the calls with their prompts and replies, not only their keys.
    """

    def __init__(
        self,
        *,
        config: BrokerConfig | None = None,
        socket: str | None = None,
        window: int,
        in_process: Mapping[str, ModelSpec] | None = None,
        calls: CallOptions | None = None,
        keeps_calls: bool = False,
    ) -> None:
        self._thread = LoopThread()
        self.broker: LocalBroker | RemoteBroker
        if socket is not None:
            self.broker = RemoteBroker(socket)
        else:
            # Without a model that is behind a broker, it only keeps why the run is stopped.
            self.broker = LocalBroker(config or BrokerConfig({}, cache="off"))
        self.in_process = InProcess(in_process or {}, calls or CallOptions(), self.broker)
        #: sends a request to a model; await it only in work passed to :meth:`start`
        self.ask: BrokerAsk = self.in_process.ask
        self._evaluator = Evaluator(
            self._thread.loop, self.broker, self.ask, window=window, keeps_calls=keeps_calls
        )

    def submit(self, cases: Iterable[Case]) -> None:
        """Start to evaluate ``cases``."""
        self._evaluator.submit(cases)

    def outcome(self, case: Case, timeout: float | None = None) -> Outcome:
        """Wait for the outcome of a case and return it; a case that was not submitted is started."""
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
        return [*problems, *self.in_process.close()]

    async def _close(self) -> list[str]:
        await self._evaluator.close()
        return await self.broker.close()
