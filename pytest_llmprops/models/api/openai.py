"""Models of OpenAI and of servers with the same chat API, through the official SDK.

The SDK builds and signs the calls; the broker retries them. Calls use the SDK's ``client.post``, which returns the raw
answer: reading the few fields needed here takes a tenth of the time of building the SDK's response objects. The SDK is
imported in a thread while pytest collects, or at the first call. A run whose replies are all stored therefore neither
waits for the import nor needs a key.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import IO, Any, get_args
from urllib.parse import urlsplit

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat
from pytest_llmprops.models.api import errors
from pytest_llmprops.models.api.batches import (
    CLOCKS,
    FILE_SECONDS,
    NOT_RUN,
    PER_PAGE,
    Answer,
    BatchApi,
    BatchState,
    Status,
    encoded,
)
from pytest_llmprops.models.api.client import ChatApiModel, Provider, SdkModel, most_samples
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
    """The batches of one model; the client is an ``openai.AsyncOpenAI``."""

    most_lines = 50_000
    most_bytes = 200_000_000

    def line(self, custom_id: str, request: Chat, count: int) -> bytes:
        body = self._body(request, count)
        return encoded({"custom_id": custom_id, "method": "POST", "url": ENDPOINT, "body": body})

    async def create(self, lines: IO[bytes], mark: str) -> BatchState:
        sent = self._client.files.create(
            file=("llmprops.jsonl", lines), purpose="batch", timeout=FILE_SECONDS
        )
        try:
            file = await self._result(sent)
        except BackendError as error:
            if error.kind != "url":
                raise
            text = f"{self._calls.url} takes no files for batches; leave out --llm-engine batch"
            raise BackendError(text, kind="url", fatal=True) from None
        created = self._client.batches.create(
            completion_window="24h", endpoint=ENDPOINT, input_file_id=str(file.id), metadata={MARK: mark}
        )
        return self._state(await self._result(created))

    async def find(
        self, mark: str, created: float, custom_ids: Collection[str], known: Collection[str]
    ) -> BatchState | None:
        """Return the batch with a mark, from the newest to those that are too old."""

        async def search() -> BatchState | None:
            async for batch in self._client.batches.list(limit=PER_PAGE):
                state = self._state(batch)
                if state.mark == mark:
                    return state
                if _number(batch, "created_at") < created - CLOCKS:
                    break
            return None

        return await self._result(search())

    async def state(self, batch: str) -> BatchState:
        return self._state(await self._result(self._client.batches.retrieve(batch)))

    async def cancel(self, batch: str) -> BatchState:
        return self._state(await self._result(self._client.batches.cancel(batch)))

    def lines(self, file: str) -> AsyncIterator[str]:
        return self._lines(self._client.files.with_streaming_response.content(file, timeout=FILE_SECONDS))

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

    def _state(self, batch: Any) -> BatchState:
        metadata, counts = getattr(batch, "metadata", None), getattr(batch, "request_counts", None)
        mark = metadata.get(MARK) if isinstance(metadata, Mapping) else None
        status = str(getattr(batch, "status", ""))
        if status not in get_args(Status):
            name = errors.clean(f"{self._calls.url}: the batch {batch.id} has the unknown status '{status}'")
            raise BackendError(name, kind="response")
        problems = getattr(getattr(batch, "errors", None), "data", None) or ()
        codes = [str(getattr(problem, "code", "") or "") for problem in problems]
        texts = [str(getattr(problem, "message", "") or "") for problem in problems]
        return BatchState(
            str(batch.id),
            status,  # type: ignore[arg-type]  # checked above
            mark if isinstance(mark, str) else "",
            _file(batch, "output_file_id"),
            _file(batch, "error_file_id"),
            int(_number(counts, "total")),
            int(_number(counts, "completed") + _number(counts, "failed")),
            _number(batch, "expires_at"),
            " ".join(filter(None, codes)),
            errors.clean("; ".join(filter(None, texts))),
        )


def _file(batch: Any, name: str) -> str | None:
    value = getattr(batch, name, None)
    return value if isinstance(value, str) and value else None


def _number(values: Any, name: str) -> float:
    """Return a number of a server's object; 0 if it is missing."""
    value = getattr(values, name, None)
    return float(value) if isinstance(value, int | float) else 0.0


def _is_official(spec: ModelSpec, options: CallOptions) -> bool:
    host = urlsplit(PROVIDER.urls(spec, options)[0]).hostname or ""
    return host == "openai.com" or host.endswith(".openai.com")


def _needs_key(spec: ModelSpec, options: CallOptions) -> bool:
    """Return True for OpenAI's own servers, unless the user gives a header with a key."""
    has_own = any(name.lower() in ("authorization", "api-key") for name in options.headers)
    return not has_own and _is_official(spec, options)


PROVIDER = Provider(
    sdk="openai",
    extra="",
    key="OPENAI_API_KEY",
    url="https://api.openai.com/v1",
    variable="OPENAI_BASE_URL",
    path="/chat/completions",
    needs_key=_needs_key,
    hint=", or give --llm-base-url URL for another server",
)


class OpenAIModel(SdkModel, ChatApiModel):
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
        return OpenAIBatches(self._batch_client(), self)

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
    prepare=PROVIDER.prepare,
    batches=True,
    remote=True,
    missing=PROVIDER.missing_key,
    example="gpt-4o",
    keys=(PROVIDER.key,),
)
