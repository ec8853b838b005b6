"""The broker: the one place from which models are called."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import BackendError, RunStopped
from pytest_llmprops.core.requests import Reply, Request, request_key
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.engine.lanes import Send, lane
from pytest_llmprops.engine.limits import Breaker, RateLimit, retrying, worth_retrying
from pytest_llmprops.engine.request_log import RequestLog
from pytest_llmprops.engine.store import ReplyStore
from pytest_llmprops.models.base import BackendOptions, Model
from pytest_llmprops.models.registry import find_backend, import_registrations, parse_spec

#: replies that are remembered where there is no store
RECENT = 10_000


@dataclass(slots=True)
class Counters:
    """What the broker did so far; ``calls`` of the run record."""

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


class Broker:
    """Owns the reply store, the total concurrency, rate limits, retries, budgets and models.

    All methods but the constructor run in one event loop.
    """

    def __init__(self, config: BrokerConfig, on_stop: Callable[[str], None] = lambda reason: None) -> None:
        import_registrations(config.registrations)
        self.config = config
        self.counters = Counters()
        self.stopped: str | None = None
        self._on_stop = on_stop
        #: called when the first reply has to be waited for, because the store does not have it
        self.on_first_call: Callable[[], None] = lambda: None
        self._started = time.monotonic()
        self._store = ReplyStore(Path(config.store)) if config.cache != "off" else None
        self._log = RequestLog(Path(config.run_dir)) if config.run_dir else None
        self._slots = asyncio.Semaphore(config.concurrency)
        self._over = asyncio.Event()
        self._rate = RateLimit(config.rpm, self._pause)
        self._served: dict[str, Served] = {}
        self._in_work: dict[str, asyncio.Future[Reply]] = {}
        self._not_again: set[str] = set()
        #: with --llm-cache off the latest replies, so that what many items ask (rules of a concept) is asked once
        self._recent: OrderedDict[str, Reply] = OrderedDict()

    def _serve(self, label: str) -> Served:
        served = self._served.get(label)
        if served is None:
            spec = parse_spec(self.config.models[label], base_url=self.config.base_url)
            options = BackendOptions(self.config.base_url, self.config.timeout, self.config.concurrency)
            model = find_backend(spec.backend).factory(spec, options)
            served = self._served[label] = Served(model, lane(model), Breaker(), set(), set())
        return served

    async def ask(self, label: str, role: str, request: Request) -> Reply:
        """The reply to ``request`` by the model called ``label``, from the store or by a call.

        :raises BackendError: when the call could not be made. :raises RunStopped: when the run is over.
        """
        if self.stopped is not None:
            raise RunStopped(self.stopped)
        try:
            served = self._serve(label)
        except Exception as error:
            raise self.stop(str(error)) from None
        key = request_key(served.model.identity, request)
        self.counters.requests += 1
        reply = self._stored(served.model, key)
        if reply is None:
            reply = await self._joined(label, served, key, request)
        elif self._store is None:
            self.counters.joined += 1
        else:
            self.counters.cache_hits += 1
            self.counters.oldest_seconds = max(self.counters.oldest_seconds, time.time() - reply.stored)
        if reply.served_model:
            served.served_as.add(reply.served_model)
        # A replayed run departs from its requests as the recorded one did.
        served.deviations.update(reply.deviations)
        if self._log:
            try:
                self._log.add(role, request, reply)
            except OSError as error:
                raise self.stop(f"requests.jsonl cannot be written: {error.strerror}") from None
        return reply

    def _stored(self, model: Model, key: str) -> Reply | None:
        if self._store is None:
            return self._recent.get(key)
        if self.config.cache == "refresh" and key not in self._not_again:
            return None
        return self._store.get(key, not_before=0.0 if model.pinned else self.config.not_before)

    async def _joined(self, label: str, served: Served, key: str, request: Request) -> Reply:
        """One call for all who ask the same at the same time."""
        if self.config.cache == "only":
            raise self.stop(f"--llm-cache only: no stored reply of {label} to {_excerpt(request)}")
        future = self._in_work.get(key)
        if future is None:
            future = self._in_work[key] = asyncio.ensure_future(self._call(label, served, key, request))
            future.add_done_callback(lambda done: self._in_work.pop(key, None))
            # Retrieved here too, so that asyncio does not complain when every asker was cancelled.
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
        else:
            self.counters.joined += 1
        return await asyncio.shield(future)

    async def _call(self, label: str, served: Served, key: str, request: Request) -> Reply:
        try:
            reply = await self._with_retries(label, served, request)
        except BackendError as error:
            self.counters.failed += 1
            reason = served.breaker.failure(error, final=True)
            if reason:
                raise self.stop(f"{label}: {reason}") from None
            raise
        reply = dataclasses.replace(
            reply,
            key=key,
            stored=reply.stored or time.time(),
            deviations=tuple(served.model.deviations()),
        )
        self._count(reply, local=served.model.blocking)
        if self._store is not None:
            self._store.put(key, label, reply)
            self._not_again.add(key)
        else:
            self._recent[key] = reply
            if len(self._recent) > RECENT:
                self._recent.popitem(last=False)
        reason = served.breaker.success(empty=_is_empty(reply))
        if reason:
            self.stop(f"{label}: {reason}")
        return reply

    async def _with_retries(self, label: str, served: Served, request: Request) -> Reply:
        first = await self._try(served, request)
        if isinstance(first, Reply):
            return first
        self._failed_try(label, served, first)
        if not worth_retrying(first):
            raise first
        result: Reply | BackendError | None = None
        async for attempt in retrying(self.config.retries, self._pause):
            with attempt:
                if result is None:
                    result = first
                else:
                    self.counters.retries += 1
                    result = await self._try(served, request)
                    if isinstance(result, Reply):
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

    async def _try(self, served: Served, request: Request) -> Reply | BackendError:
        if served.model.blocking:
            # A local model works on one batch at a time; the slots are for calls over the network.
            return await self._sent(served, request)
        async with self._slots:
            await self._rate.wait()
            return await self._sent(served, request)

    async def _sent(self, served: Served, request: Request) -> Reply | BackendError:
        if self.stopped is not None:
            raise RunStopped(self.stopped)
        counters = self.counters
        self._within_budget()
        if not counters.sent:
            self.on_first_call()
        counters.sent += 1
        counters.in_flight += 1
        begun = time.monotonic()
        try:
            result = await served.send(request)
        finally:
            counters.in_flight -= 1
            counters.seconds += time.monotonic() - begun
        return result

    def _within_budget(self) -> None:
        most = self.config.max_calls
        if most is not None and self.counters.sent >= most:
            raise self.stop(f"--llm-max-calls {most} is spent")
        cost = self.config.max_cost
        if cost is not None and self.counters.cost_usd >= cost:
            raise self.stop(f"--llm-max-cost {cost:g} is spent: {self.counters.cost_usd:.4f} USD so far")

    def _count(self, reply: Reply, *, local: bool) -> None:
        counters = self.counters
        counters.answered += 1
        counters.prompt_tokens += reply.usage.prompt_tokens
        counters.completion_tokens += reply.usage.completion_tokens
        if reply.cost_usd is not None:
            counters.cost_usd += reply.cost_usd
        elif not local:
            # A model in this process costs nothing; of an API we do not know.
            counters.unpriced += 1

    def stop(self, reason: str) -> RunStopped:
        """End the run: every open and later request fails with the returned exception's reason."""
        if self.stopped is None:
            self.stopped = " ".join(reason.split())
            self._over.set()
            # After this, tries that are under way still finish and are stored; nothing new is sent.
            self._on_stop(self.stopped)
        return RunStopped(self.stopped)

    def count_stored(self, asked: Iterable[tuple[str, Request]]) -> int:
        """How many of the (model label, request) pairs the store could answer; none is counted as asked."""
        count = 0
        for label, request in asked:
            model = self._serve(label).model
            count += self._stored(model, request_key(model.identity, request)) is not None
        return count

    def notes(self) -> list[str]:
        """What the user should read in the summary: trouble with the store."""
        return list(self._store.notes) if self._store else []

    def report(self) -> dict[str, Any]:
        """Counters and facts about the models, as plain values."""
        return {
            "counters": dataclasses.asdict(self.counters),
            "stopped": self.stopped,
            "notes": self.notes(),
            "models": {label: _facts(served) for label, served in self._served.items()},
        }

    async def close(self) -> None:
        """Wait for nothing; drop open calls, free the models, close store and log."""
        for future in list(self._in_work.values()):
            future.cancel()
        await asyncio.gather(*self._in_work.values(), return_exceptions=True)
        for served in self._served.values():
            # Some SDKs can close their connections only in a coroutine.
            closing = getattr(served.model, "aclose", None)
            if closing is None:
                served.model.close()
            else:
                await closing()
        if self._store:
            self._store.close()
        if self._log:
            self._log.close()


def _facts(served: Served) -> Mapping[str, Any]:
    return {
        "identity": dict(served.model.identity),
        "pinned": served.model.pinned,
        "served_as": sorted(served.served_as),
        "deviations": sorted({*served.deviations, *served.model.deviations()}),
    }


def _is_empty(reply: Reply) -> bool:
    # What a content filter keeps back is a refusal; the model may well answer the next prompt.
    return not reply.text and reply.value is None and reply.finish_reason != "content_filter"


def _excerpt(request: Request) -> str:
    text = request.messages[-1].content if hasattr(request, "messages") else request.text
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= 120 else f"{flat[:50]} … {flat[-60:]}")
