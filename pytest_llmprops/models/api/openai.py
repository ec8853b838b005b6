"""Models of OpenAI and of servers with the same chat API (https://platform.openai.com/docs/api-reference/chat).

The broker retries the calls. A run whose replies are all stored needs no key.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from typing import IO, Any, get_args
from urllib.parse import quote, urlsplit

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat
from pytest_llmprops.models.api import errors
from pytest_llmprops.models.api.batches import (
    CLOCKS,
    NOT_RUN,
    Answer,
    BatchApi,
    BatchState,
    Status,
    encoded,
    number,
    objects,
)
from pytest_llmprops.models.api.client import ChatApiModel, Provider, ProviderModel, most_samples
from pytest_llmprops.models.api.deviations import Deviations
from pytest_llmprops.models.api.responses import CHAT_NAMES, chat_answer, response_params
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.registry import Backend, Maker, always
from pytest_llmprops.models.spec import ModelSpec

ENDPOINT = "/v1/chat/completions"
#: the key of the mark in a batch's metadata
MARK = "llmprops"
#: codes of lines that were not run
_NOT_RUN = ("batch_expired", "batch_cancelled")


class OpenAIBatches(BatchApi):
    """The batches of one model (https://platform.openai.com/docs/api-reference/batch)."""

    most_lines = 50_000
    most_bytes = 200_000_000

    def line(self, custom_id: str, request: Chat, count: int) -> bytes:
        body = self._body(request, count)
        return encoded({"custom_id": custom_id, "method": "POST", "url": ENDPOINT, "body": body})

    async def create(self, lines: IO[bytes], mark: str) -> BatchState:
        try:
            sent = self._client.upload("/files", lines, "llmprops.jsonl", purpose="batch")
            file = str((await self._object(sent)).get("id"))
        except BackendError as error:
            if error.kind != "url":
                raise
            text = f"{self._calls.url} takes no files for batches; leave out --llm-engine batch"
            raise BackendError(text, kind="url", fatal=True) from None
        body = {
            "completion_window": "24h",
            "endpoint": ENDPOINT,
            "input_file_id": file,
            "metadata": {MARK: mark},
        }
        return self._state(await self._object(self._client.request("POST", "/batches", body)))

    async def find(
        self, mark: str, created: float, custom_ids: Collection[str], known: Collection[str]
    ) -> BatchState | None:
        """Return the batch with a mark, from the newest to those that are too old."""
        async for batch in self._listed("/batches", "after"):
            state = self._state(batch)
            if state.mark == mark:
                return state
            if number(batch, "created_at") < created - CLOCKS:
                break
        return None

    async def state(self, batch: str) -> BatchState:
        call = self._client.request("GET", f"/batches/{quote(batch, safe='')}")
        return self._state(await self._object(call))

    async def cancel(self, batch: str) -> BatchState:
        call = self._client.request("POST", f"/batches/{quote(batch, safe='')}/cancel")
        return self._state(await self._object(call))

    def lines(self, file: str) -> AsyncGenerator[str]:
        return self._lines(f"/files/{quote(file, safe='')}/content")

    def _answer_of(self, data: Mapping[str, Any]) -> Answer:
        response, error = data.get("response"), data.get("error")
        if isinstance(response, Mapping) and isinstance(response.get("status_code"), int):
            status, body = response["status_code"], response.get("body")
            if status == 200 and isinstance(body, Mapping):
                return {**body, "request_id": response.get("request_id")}
            return self._refused(status, body)
        code = str(error.get("code") or "") if isinstance(error, Mapping) else ""
        if code in _NOT_RUN:
            return NOT_RUN
        message = str(error.get("message") or "") if isinstance(error, Mapping) else ""
        text = errors.clean(f"the batch has no answer to this request: {code} {message}")
        return BackendError(text, kind="batch", transient=True)

    def _state(self, batch: Mapping[str, Any]) -> BatchState:
        metadata, counts, problems = (batch.get(name) for name in ("metadata", "request_counts", "errors"))
        mark = metadata.get(MARK) if isinstance(metadata, Mapping) else None
        status, name = str(batch.get("status")), batch.get("id")
        if status not in get_args(Status) or not isinstance(name, str):
            raise self._unknown(name, status)
        listed = objects(problems, "data")
        codes, texts = ([str(one.get(field) or "") for one in listed] for field in ("code", "message"))
        return BatchState(
            name,
            status,  # type: ignore[arg-type]  # checked above
            mark if isinstance(mark, str) else "",
            _file(batch, "output_file_id"),
            _file(batch, "error_file_id"),
            int(number(counts, "total")),
            int(number(counts, "completed") + number(counts, "failed")),
            number(batch, "expires_at"),
            " ".join(filter(None, codes)),
            errors.clean("; ".join(filter(None, texts))),
        )


def _file(batch: Mapping[str, Any], name: str) -> str | None:
    value = batch.get(name)
    return value if isinstance(value, str) and value else None


def _is_official(spec: ModelSpec, options: CallOptions) -> bool:
    host = urlsplit(PROVIDER.urls(spec, options)[0]).hostname or ""
    return host == "openai.com" or host.endswith(".openai.com")


def _needs_key(spec: ModelSpec, options: CallOptions) -> bool:
    """Return True for OpenAI's own servers, unless the user gives a header with a key."""
    has_own = any(name.lower() in ("authorization", "api-key") for name in options.headers)
    return not has_own and _is_official(spec, options)


def _headers(key: str) -> dict[str, str]:
    """Return the headers of the key, and of the organisation and the project that the account's user chose."""
    variables = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
    chosen = {name: os.environ.get(variable, "").strip() for name, variable in variables.items()}
    return {"Authorization": f"Bearer {key}", **{name: value for name, value in chosen.items() if value}}


PROVIDER = Provider(
    name="openai",
    key="OPENAI_API_KEY",
    headers=_headers,
    url="https://api.openai.com/v1",
    variable="OPENAI_BASE_URL",
    path="/chat/completions",
    needs_key=_needs_key,
    hint=", or give --llm-base-url URL for another server",
)


class OpenAIModel(ProviderModel, ChatApiModel):
    """One model of an OpenAI-compatible API."""

    def __init__(self, spec: ModelSpec, options: CallOptions) -> None:
        #: ``chat``, or ``responses`` if the model has only the Responses API
        self._api = spec.params.get("api", "chat")
        forced = Deviations(completion_tokens=_is_official(spec, options))
        super().__init__(spec, options, PROVIDER, forced)

    @property
    def most_samples(self) -> int:
        """The maximum replies per call; 1 with ``?n=off``, or when the API turns out to return only one."""
        return 1 if self._api == "responses" else self._most

    def batches(self) -> BatchApi:
        """Return the model's batches.

        :raises BackendError: if the key is missing or wrong, or there are several servers.
        """
        return OpenAIBatches(self.batch_client(), self)

    def deviations(self) -> Sequence[str]:
        """Return the parameters that had to be left out or changed so far, one phrase each."""
        phrases = self.forced.phrases()
        is_forced = self._api == "responses" and "api" not in self._spec.params
        return (*phrases, "sent to the Responses API") if is_forced else phrases

    async def _post(self, body: dict[str, Any]) -> Mapping[str, Any] | BackendError:
        if self._api == "responses":
            self.chat_names = CHAT_NAMES
            params = response_params(body, self.forced)
            content, headers = await self.client.post(params, "/responses")
            return self.parsed(content, headers, chat_answer)
        try:
            content, headers = await self.client.post(body)
        except Exception as error:
            if not errors.needs_responses(errors.status_of(error), errors.error_body(error)):
                raise
            self._api = "responses"
            return await self._post(body)
        return self.parsed(content, headers)


def _check(spec: ModelSpec, options: CallOptions) -> Maker:
    spec.only("price_in", "price_out", "n", "base_url", "as", "api")
    if spec.params.get("api", "chat") not in ("chat", "responses"):
        raise spec.error("write api=responses or api=chat")
    if spec.params.get("as") == "":
        raise spec.error("write as=NAME, a name for the servers of this model")
    most_samples(spec)
    PROVIDER.check(spec, options)
    return lambda: OpenAIModel(spec, options)


BACKEND = Backend(
    _check,
    always("chat"),
    batches=True,
    remote=True,
    missing=PROVIDER.missing_key,
    example="gpt-4o",
    keys=(PROVIDER.key,),
)
