"""Requests to one model outside pytest, for commands: with the reply store, limits and retries."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from pytest_llmprops.core.requests import Kind, Reply, Request
from pytest_llmprops.engine.broker import Broker
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.engine.store.base import CacheMode
from pytest_llmprops.engine.store.location import default_store
from pytest_llmprops.models.registry import find_backend
from pytest_llmprops.models.spec import ModelSpec

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
            base_url=base_url,
            store=str(store or default_store()),
            concurrency=concurrency,
            cache=cache,
        )
        self._broker: Broker | None = None

    async def __aenter__(self) -> OneModel:
        self._broker = Broker(self._config)
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
