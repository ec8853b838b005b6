"""Anthropic's models: ``anthropic:NAME`` or ``claude-...``, with the key ANTHROPIC_API_KEY.

Calls and lines of batches are written by the same function, so that both ask the same.

A batch is created in one request and keeps no mark of its creator. After a crash between the creation and the note of
its id, it is recognised by its size, its time and, as soon as it has results, by their custom ids.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import IO, Any
from urllib.parse import quote

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat
from pytest_llmprops.models.api.batches import (
    CLOCKS,
    NOT_RUN,
    Answer,
    BatchApi,
    BatchState,
    Status,
    encoded,
    number,
)
from pytest_llmprops.models.api.client import ChatApiModel, Provider, ProviderModel
from pytest_llmprops.models.api.deviations import Deviations
from pytest_llmprops.models.api.http import FILE_SECONDS
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.registry import Backend, Maker, always
from pytest_llmprops.models.spec import ModelSpec

#: the Messages API requires a limit; sent where a benchmark sets none
MOST_TOKENS = 4096
#: parameters of OpenAI's format that the Messages API does not have
_ABSENT = ("logprobs", "top_logprobs", "seed", "presence_penalty", "frequency_penalty", "response_format")


def message_params(body: Mapping[str, Any], deviations: Deviations) -> dict[str, Any]:
    """Return the parameters of the Messages API for the body of a chat call, see :func:`chat_body`.

    System messages become the parameter ``system``. What the API does not have is left out, as a deviation. So are stop
    sequences of white space only, which it refuses.
    """
    params = dict(body)
    for name in _ABSENT:
        if name in params:
            deviations.adapt(name, params)
            del params[name]
    stops = params.pop("stop", None)
    if stops:
        listed = [stops] if isinstance(stops, str) else list(stops)
        if all(stop.strip() for stop in listed):
            params["stop_sequences"] = listed
        else:
            deviations.adapt("stop", body)
    if "max_completion_tokens" in params:
        params["max_tokens"] = params.pop("max_completion_tokens")
    messages = params.pop("messages")
    system = [message["content"] for message in messages if message["role"] == "system"]
    params["messages"] = [message for message in messages if message["role"] != "system"]
    if system:
        params["system"] = "\n\n".join(system)
    return params


def chat_answer(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer of the Messages API in OpenAI's chat format; without choices if it is not a message."""
    content = message.get("content")
    usage = _usage(message.get("usage"))
    if not isinstance(content, list):
        return {"model": message.get("model"), "usage": usage}
    # The reader of the chat format tells the blocks with thoughts from the others.
    choice = {"finish_reason": message.get("stop_reason"), "message": {"content": content}}
    return {"model": message.get("model"), "choices": [choice], "usage": usage}


def _usage(usage: Any) -> dict[str, Any]:
    """Return the tokens of a call with the names of the chat format, whose prompt tokens include those of caches."""
    if not isinstance(usage, Mapping):
        return {}
    prompt = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    numbers = [usage.get(name) or 0 for name in prompt]
    total = sum(numbers) if all(isinstance(number, int) for number in numbers) else 0
    return {**usage, "prompt_tokens": total, "completion_tokens": usage.get("output_tokens")}


_NOT_RUN = ("expired", "canceled")
#: the status of a call with the same error
_STATUS = {
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


#: where batches are
_BATCHES = "/v1/messages/batches"


class AnthropicBatches(BatchApi):
    """The batches of one model (https://docs.anthropic.com/en/api/creating-message-batches)."""

    most_lines = 100_000
    # The API takes 256 MB. A batch is built in memory, with several times the size of its lines.
    most_bytes = 64_000_000

    def line(self, custom_id: str, request: Chat, count: int) -> bytes:
        params = message_params(self._body(request, count), self._calls.forced)
        return encoded({"custom_id": custom_id, "params": params})

    async def create(self, lines: IO[bytes], mark: str) -> BatchState:
        """Create a batch. The API keeps no ``mark``."""
        requests = [json.loads(line) for line in lines]
        created = self._client.request("POST", _BATCHES, {"requests": requests}, seconds=FILE_SECONDS)
        return self._state(await self._object(created))

    async def find(
        self, mark: str, created: float, custom_ids: Collection[str], known: Collection[str]
    ) -> BatchState | None:
        """Return the batch with these custom ids if it is over.

        Of those without results, the first one of this size is taken: if it is another program's, its results have
        no known custom id, and the requests go into another batch.
        """
        async for batch in self._listed(_BATCHES, "after_id"):
            if _seconds(batch.get("created_at")) < created - CLOCKS:
                return None
            state = self._state(batch)
            if state.id not in known:
                first = await self._first_id(state) if state.is_over else None
                if first in custom_ids if first is not None else state.lines == len(custom_ids):
                    return state
        return None

    async def _first_id(self, state: BatchState) -> str | None:
        if state.output_file is None:
            return None
        async with aclosing(self.lines(state.output_file)) as lines:
            async for line in lines:
                result = self.read(line)
                if result is not None:
                    return result[0]
        return None

    async def state(self, batch: str) -> BatchState:
        call = self._client.request("GET", f"{_BATCHES}/{quote(batch, safe='')}")
        return self._state(await self._object(call))

    async def cancel(self, batch: str) -> BatchState:
        call = self._client.request("POST", f"{_BATCHES}/{quote(batch, safe='')}/cancel")
        return self._state(await self._object(call))

    def lines(self, file: str) -> AsyncGenerator[str]:
        # A batch has no files; its id is their name.
        return self._lines(f"{_BATCHES}/{quote(file, safe='')}/results")

    def _answer_of(self, data: Mapping[str, Any]) -> Answer:
        result = data.get("result")
        if not isinstance(result, Mapping):
            result = {}
        kind, message, error = result.get("type"), result.get("message"), result.get("error")
        if kind in _NOT_RUN:
            return NOT_RUN
        if kind == "succeeded" and isinstance(message, Mapping):
            return chat_answer(message)
        inner = error.get("error") if isinstance(error, Mapping) else None
        name = inner.get("type") if isinstance(inner, Mapping) else None
        if isinstance(name, str):
            return self._refused(_STATUS.get(name, 400), error)
        return BackendError("the batch has no answer to this request", kind="batch", transient=True)

    def _state(self, batch: Mapping[str, Any]) -> BatchState:
        names = ("succeeded", "errored", "processing", "canceled", "expired")
        counts = {name: int(number(batch.get("request_counts"), name)) for name in names}
        name, processing = batch.get("id"), batch.get("processing_status")
        if not isinstance(name, str) or not isinstance(processing, str):
            raise self._unknown(name, processing)
        status: Status
        if processing == "ended":
            # A batch that was cancelled too late is complete.
            status = "cancelled" if counts["canceled"] else "expired" if counts["expired"] else "completed"
        else:
            status = "cancelling" if processing == "canceling" else "in_progress"
        return BatchState(
            name,
            status,
            output_file=name if batch.get("results_url") else None,
            lines=sum(counts.values()),
            done=counts["succeeded"] + counts["errored"],
            expires=_seconds(batch.get("expires_at")),
        )


def _seconds(time: Any) -> float:
    """Return the Unix time of a server's time (RFC 3339); 0 if it has none."""
    try:
        return datetime.fromisoformat(time).timestamp()
    except (TypeError, ValueError):
        return 0.0


PROVIDER = Provider(
    name="anthropic",
    key="ANTHROPIC_API_KEY",
    headers=lambda key: {"x-api-key": key, "anthropic-version": "2023-06-01"},
    url="https://api.anthropic.com",
    variable="ANTHROPIC_BASE_URL",
    path="/v1/messages",
)


class AnthropicModel(ProviderModel, ChatApiModel):
    """One model of the Messages API."""

    def __init__(self, spec: ModelSpec, options: CallOptions) -> None:
        super().__init__(spec, options, PROVIDER, Deviations(required_limit=MOST_TOKENS))
        # The API returns one reply per call.
        self._most = 1

    def batches(self) -> BatchApi:
        """Return the model's batches.

        :raises BackendError: if the key is missing or wrong, or there are several servers.
        """
        return AnthropicBatches(self.batch_client(), self)

    async def _post(self, body: dict[str, Any]) -> Mapping[str, Any] | BackendError:
        content, headers = await self.client.post(message_params(body, self.forced))
        return self.parsed(content, headers, chat_answer)


def _check(spec: ModelSpec, options: CallOptions) -> Maker:
    spec.only("price_in", "price_out", "base_url")
    PROVIDER.check(spec, options)
    return lambda: AnthropicModel(spec, options)


BACKEND = Backend(
    _check,
    always("chat"),
    batches=True,
    remote=True,
    missing=PROVIDER.missing_key,
    example="claude-sonnet-4-5",
    keys=(PROVIDER.key,),
)
