"""Anthropic's models through the official SDK: ``anthropic:NAME`` or ``claude-...``, with the key ANTHROPIC_API_KEY.

The SDK builds and signs the calls, and the broker retries them. The SDK is imported in a thread while pytest collects,
or at the first call.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_llmprops.core.errors import BackendError, MissingExtra
from pytest_llmprops.core.requests import Chat
from pytest_llmprops.models import errors
from pytest_llmprops.models.addresses import basic, secrets_of, split_user
from pytest_llmprops.models.anthropic_format import MOST_TOKENS, chat_answer, message_params
from pytest_llmprops.models.api import ApiCalls
from pytest_llmprops.models.base import BackendOptions, Result
from pytest_llmprops.models.batches import BatchApi
from pytest_llmprops.models.deviations import Deviations
from pytest_llmprops.models.openai_sdk import normalised_url
from pytest_llmprops.models.prices import price
from pytest_llmprops.models.registry import Backend, Maker, always
from pytest_llmprops.models.replies import pinned_by_name
from pytest_llmprops.models.spec import ModelSpec

ANTHROPIC_URL = "https://api.anthropic.com"
KEY = "ANTHROPIC_API_KEY"


class AnthropicModel:
    """One model of the Messages API; calls may run concurrently."""

    max_batch = 1
    blocking = False

    def __init__(self, spec: ModelSpec, options: BackendOptions) -> None:
        self._url = _base_url(spec, options)
        url = normalised_url(self._url)
        self._spec, self._options = spec, options
        deviations = Deviations(required_limit=MOST_TOKENS)
        self._calls = ApiCalls(spec.name, url, deviations, options.timeout, most_samples=1)
        self._client: Any = None
        #: the class of raw answers
        self._response: Any = None
        self.identity: Mapping[str, Any] = {
            "backend": "anthropic",
            "name": spec.name,
            "base_url": "" if url == ANTHROPIC_URL else url,
        }
        self.pinned = pinned_by_name(spec.name)

    async def chat(self, requests: Sequence[Chat]) -> list[Result]:
        """Return one result per request, in order."""
        error = self._open()
        if error is not None:
            return [error] * len(requests)
        return list(await asyncio.gather(*(self._calls.reply(r, self._post) for r in requests)))

    def batches(self) -> BatchApi:
        """Return the model's batches.

        :raises BackendError: if the key is missing or wrong.
        """
        error = self._open()
        if error is not None:
            raise error
        from pytest_llmprops.models.anthropic_batches import AnthropicBatches

        return AnthropicBatches(self._client, self._calls)

    def deviations(self) -> Sequence[str]:
        """Return the parameters that had to be left out or changed so far, one phrase each."""
        return self._calls.deviations.phrases()

    def close(self) -> None:
        """Do nothing: connections can only be closed in a coroutine, :meth:`aclose`."""

    async def aclose(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _open(self) -> BackendError | None:
        """Create the SDK's client at the first call; return the error if that fails."""
        if self._client is not None:
            return None
        missing = _missing_key(self._spec, self._options)
        if missing:
            return BackendError(missing, kind="key", fatal=True)
        key, (url, user) = os.environ[KEY].strip(), split_user(self._url)
        sent = (key, *secrets_of(user))
        self._calls.hidden, self._calls.echoes = errors.secrets(*sent), errors.unmistakable(sent)
        self._calls.price = price(self._spec.name, self._spec.params, self._options.prices)
        sdk: Any = importlib.import_module("anthropic")
        # The HTTP library of the installed SDK: httpx, or its successor.
        library = sdk.DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0]
        self._response = importlib.import_module(library).Response
        try:
            self._client = sdk.AsyncAnthropic(
                api_key=key,
                base_url=url,
                default_headers={"Authorization": basic(user)} if user else None,
                timeout=self._options.timeout,
                max_retries=0,
            )
        except Exception as error:
            # The SDK checks its environment variables; its message is one line.
            return BackendError(errors.clean(str(error), self._calls.hidden), kind="request", fatal=True)
        return None

    async def _post(self, body: dict[str, Any]) -> Mapping[str, Any] | BackendError:
        params = message_params(body, self._calls.deviations)
        # Not messages.create: its signature changes with the newest models, and its objects take time to build.
        response = await self._client.post("/v1/messages", cast_to=self._response, body=params)
        try:
            answer = json.loads(response.content)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            return errors.not_json(self._calls.url, response.text, response.headers)
        return chat_answer(answer)


def _base_url(spec: ModelSpec, options: BackendOptions) -> str:
    return (
        spec.params.get("base_url")
        or options.base_url
        or os.environ.get("ANTHROPIC_BASE_URL", "").strip()
        or ANTHROPIC_URL
    )


def _check(spec: ModelSpec, options: BackendOptions) -> Maker:
    spec.only("price_in", "price_out", "base_url")
    if spec.params or options.prices:
        price(spec.name, spec.params, options.prices)
    if importlib.util.find_spec("anthropic") is None:
        raise MissingExtra(f"--model {spec.text}", package="anthropic", extra="anthropic")
    where = f"--model {spec.text}: base_url" if "base_url" in spec.params else "--llm-base-url"
    normalised_url(_base_url(spec, options), where)
    return lambda: AnthropicModel(spec, options)


def _missing_key(spec: ModelSpec, options: BackendOptions) -> str:
    key = os.environ.get(KEY, "").strip()
    if not key:
        return f"model {spec.name} needs a key: set the environment variable {KEY}"
    if not (key.isascii() and key.isprintable()):
        return f"{KEY} has characters that are not allowed in a key; set it again"
    return ""


BACKEND = Backend(
    _check,
    always("chat"),
    prepare=lambda: importlib.import_module("anthropic"),
    batches=True,
    remote=True,
    missing=_missing_key,
)
