"""Calls to models: in turn, at their time, within the budget, and again where that may help."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from pytest_llmprops.core.errors import BackendError, RunStopped
from pytest_llmprops.core.requests import Chat, Reply, Request
from pytest_llmprops.engine.computed import Computed
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.engine.lanes import Send, send_set
from pytest_llmprops.engine.limits import Breaker, RateLimit, retrying, worth_retrying
from pytest_llmprops.engine.samples import Together
from pytest_llmprops.models.base import Model, SampleModel


@dataclass(slots=True)
class Counters:
    """What the broker did so far; ``calls`` of the run record.

    A call that asks for several samples is one ``sent``, one of the ``retries``, one ``failed``; ``requests`` and
    ``answered`` count each sample.
    """

    requests: int = 0
    cache_hits: int = 0
    #: requests that waited for an equal one's reply
    joined: int = 0
    sent: int = 0
    answered: int = 0
    retries: int = 0
    failed: int = 0
    in_flight: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    seconds: float = 0.0
    oldest_seconds: float = 0.0


@dataclass(slots=True)
class Served:
    """A model in use."""

    model: Model
    send: Send
    breaker: Breaker
    served_as: set[str]
    deviations: set[str]
    #: gathers the samples of a prompt, where one call can ask for several
    together: Together | None = None
    #: computes the replies, where they are not stored
    computed: Computed | None = None


class Calls:
    """The way of all calls of a session: total concurrency, rate limit, retries, budgets, and the stop.

    :param on_first: called before the first call. :param on_stop: called once, with the reason, when the run is over.
    """

    def __init__(
        self,
        config: BrokerConfig,
        counters: Counters,
        on_first: Callable[[], None],
        on_stop: Callable[[str], None],
    ) -> None:
        self.stopped: str | None = None
        self._config, self._counters = config, counters
        self._on_first, self._on_stop = on_first, on_stop
        self._slots = asyncio.Semaphore(config.concurrency)
        self._over = asyncio.Event()
        self._rate = RateLimit(config.rpm, self._pause)

    def stop(self, reason: str) -> RunStopped:
        """End the run: every open and later call fails with the returned exception's reason."""
        if self.stopped is None:
            self.stopped = " ".join(reason.split())
            self._over.set()
            # After this, tries that are under way still finish and are stored; nothing new is sent.
            self._on_stop(self.stopped)
        return RunStopped(self.stopped)

    async def replies(self, label: str, served: Served, requests: Sequence[Request]) -> Sequence[Reply]:
        """The replies to one call, tried again where that may help: to one request its reply.

        To samples of a prompt as many as the server gives.

        :raises BackendError: the last try failed. :raises RunStopped: the run is over.
        """
        try:
            return await self._with_retries(label, served, requests)
        except BackendError as error:
            self._counters.failed += 1
            reason = served.breaker.failure(error, final=True)
            if reason:
                raise self.stop(f"{label}: {reason}") from None
            raise

    async def _with_retries(self, label: str, served: Served, requests: Sequence[Request]) -> Sequence[Reply]:
        first = await self._try(served, requests)
        if not isinstance(first, BackendError):
            return first
        self._failed_try(label, served, first)
        if not worth_retrying(first):
            raise first
        result: Sequence[Reply] | BackendError | None = None
        async for attempt in retrying(self._config.retries, self._pause):
            with attempt:
                if result is None:
                    result = first
                else:
                    self._counters.retries += 1
                    result = await self._try(served, requests)
                    if not isinstance(result, BackendError):
                        return result
                    self._failed_try(label, served, result)
                raise result
        raise AssertionError("tenacity reraises")  # pragma: no cover

    def _failed_try(self, label: str, served: Served, error: BackendError) -> None:
        reason = served.breaker.failure(error, final=False)
        if reason:
            raise self.stop(f"{label}: {reason}")

    async def _pause(self, seconds: float) -> None:
        """Sleep, unless the run is stopped meanwhile."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), seconds)
        if self.stopped is not None:
            raise RunStopped(self.stopped)

    async def _try(self, served: Served, requests: Sequence[Request]) -> Sequence[Reply] | BackendError:
        if served.model.blocking:
            # A local model works on one batch at a time; the slots are for calls over the network.
            return await self._sent(served, requests)
        async with self._slots:
            if _too_many(served, requests):
                return []
            await self._rate.wait()
            return await self._sent(served, requests)

    async def _sent(self, served: Served, requests: Sequence[Request]) -> Sequence[Reply] | BackendError:
        if self.stopped is not None:
            raise RunStopped(self.stopped)
        if _too_many(served, requests):
            return []
        counters = self._counters
        self._within_budget()
        if not counters.sent:
            self._on_first()
        counters.sent += 1
        counters.in_flight += 1
        begun = time.monotonic()
        try:
            if len(requests) > 1:
                return await send_set(cast("SampleModel", served.model), cast("Sequence[Chat]", requests))
            result = await served.send(requests[0])
            return [result] if isinstance(result, Reply) else result
        finally:
            counters.in_flight -= 1
            counters.seconds += time.monotonic() - begun

    def _within_budget(self) -> None:
        most = self._config.max_calls
        if most is not None and self._counters.sent >= most:
            raise self.stop(f"--llm-max-calls {most} is spent")
        cost = self._config.max_cost
        if cost is not None and self._counters.cost_usd >= cost:
            raise self.stop(f"--llm-max-cost {cost:g} is spent: {self._counters.cost_usd:.4f} USD so far")


def _too_many(served: Served, requests: Sequence[Request]) -> bool:
    """Whether the server was found, while these waited for their turn, to take no more than one sample a call."""
    return len(requests) > 1 and served.together is not None and served.together.most < len(requests)
