"""Helpers of the engine's tests: a broker over given models, and what came of asking it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_llmprops.core.errors import BackendError, RunStopped
from pytest_llmprops.core.requests import Chat, Reply, Request
from pytest_llmprops.engine import wire
from pytest_llmprops.engine.broker import Broker
from pytest_llmprops.engine.calls import Counters
from pytest_llmprops.engine.client import BrokerClient
from pytest_llmprops.engine.gathering import GRACE_SECONDS
from pytest_llmprops.engine.server import Server
from pytest_llmprops.models.fake import Given


@dataclass(frozen=True, slots=True)
class Asked:
    """Results in the order of the requests (a reply or an exception each), and the broker, now closed."""

    results: list[Any]
    broker: Broker

    @property
    def counters(self) -> Counters:
        return self.broker.counters

    @property
    def texts(self) -> list[str]:
        """The replies' texts; fails when there is anything but replies."""
        assert all(isinstance(r, Reply) for r in self.results), self.results
        return [r.text for r in self.results]


class MakeBroker(Protocol):
    """Makes a broker over ``model``, which it calls ``m``."""

    def __call__(self, model: Any, **settings: Any) -> Broker: ...


def ask_all(broker: Broker, requests: Iterable[str | Request]) -> Asked:
    """Ask for everything at once, in a fresh event loop, and close the broker."""
    wanted = [Chat.user(r) if isinstance(r, str) else r for r in requests]

    async def work() -> list[Any]:
        try:
            return await asyncio.gather(
                *(broker.ask("m", "subject", r) for r in wanted), return_exceptions=True
            )
        finally:
            await broker.close()

    return Asked(asyncio.run(work()), broker)


def served(
    path: str,
    broker: Broker,
    work: Callable[[BrokerClient, BrokerClient], Awaitable[Any]],
    *,
    grace: float = GRACE_SECONDS,
    seconds: float = 5,
) -> Any:
    """The result of ``work`` with two clients of a server in the same loop; a hang is a failure."""

    async def session() -> Any:
        server = Server(broker, grace=grace)
        listening = await asyncio.start_unix_server(server.client, path, limit=wire.LINE_LIMIT)
        clients = BrokerClient(path), BrokerClient(path)
        try:
            return await asyncio.wait_for(work(*clients), seconds)
        finally:
            for client in clients:
                await client.close()
            listening.close()
            await broker.close()
            await asyncio.sleep(0.01)

    return asyncio.run(session())


class Local:
    """A blocking model that records its batches; ``serve`` turns a batch of prompts into results."""

    blocking = True
    in_worker = False
    pinned = True
    identity: Mapping[str, Any] = {"backend": "local"}

    def __init__(self, max_batch: int = 4, serve: Callable[[list[str]], Sequence[Any]] | None = None) -> None:
        self.max_batch = max_batch
        self.batches: list[list[str]] = []
        self._serve = serve or (lambda prompts: [Reply(p.upper()) for p in prompts])

    def chat(self, requests: Sequence[Chat]) -> list[Any]:
        """Serve one batch."""
        prompts = [r.prompt for r in requests]
        self.batches.append(prompts)
        return list(self._serve(prompts))

    def segment(self, requests: Sequence[Any]) -> list[Any]:
        """Serve one batch of sentences."""
        self.batches.append([f"segment {r.text}" for r in requests])
        return [Reply(value=list(r.text)) for r in requests]

    def deviations(self) -> Sequence[str]:
        """None."""
        return ()

    def close(self) -> None:
        """Nothing to free."""


def transient(kind: str = "status 500", **more: Any) -> BackendError:
    """An error that is worth another try."""
    return BackendError(f"transient {kind}", kind=kind, transient=True, **more)


def final(kind: str = "status 400") -> BackendError:
    """An error that another try would only repeat."""
    return BackendError(f"final {kind}", kind=kind)


def failing(errors: int, make: Callable[[], BackendError]) -> Callable[[Chat], Given]:
    """Each prompt fails ``errors`` times, then is answered by itself in capitals."""
    asked: Counter[str] = Counter()

    def respond(chat: Chat) -> Given:
        asked[chat.prompt] += 1
        return make() if asked[chat.prompt] <= errors else chat.prompt.upper()

    return respond


def kinds(results: list[object]) -> list[str]:
    """What each result is: ``reply``, ``error`` or ``stopped``."""
    names = {Reply: "reply", BackendError: "error", RunStopped: "stopped"}
    return [names[type(result)] for result in results]
