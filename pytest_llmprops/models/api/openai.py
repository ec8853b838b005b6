"""Models of OpenAI and of servers with the same chat API, through the official SDK.

The SDK builds and signs the calls; the broker retries them. Calls use the SDK's ``client.post``, which returns the raw
answer: reading the few fields needed here takes a tenth of the time of building the SDK's response objects. The SDK is
imported in a thread while pytest collects, or at the first call. A run whose replies are all stored therefore neither
waits for the import nor needs a key.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import IO, Any, get_args
from urllib.parse import urlsplit

from pytest_llmprops.core.errors import BackendError, MissingExtra, UsageError
from pytest_llmprops.core.requests import Chat
from pytest_llmprops.models.api import errors
from pytest_llmprops.models.api.batches import (
    CLOCKS,
    FILE_SECONDS,
    PER_PAGE,
    BatchApi,
    BatchState,
    Intent,
    LineResult,
    Status,
    encoded,
)
from pytest_llmprops.models.api.client import ApiCalls, ApiSampleModel, Deviations, check_prices, most_samples
from pytest_llmprops.models.api.responses import CHAT_NAMES, chat_answer, response_params
from pytest_llmprops.models.base import CallOptions, import_sdk
from pytest_llmprops.models.registry import Backend, Maker, always
from pytest_llmprops.models.spec import ModelSpec, without_secrets

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

    async def find(self, intents: Sequence[Intent], known: Collection[str]) -> dict[str, BatchState]:
        """Return the batches with the marks of these intents, from the newest to those that are older than all."""
        marks = {intent.mark for intent in intents}
        since = min(intent.created for intent in intents) - CLOCKS

        async def search() -> dict[str, BatchState]:
            found: dict[str, BatchState] = {}
            async for batch in self._client.batches.list(limit=PER_PAGE):
                state = self._state(batch)
                if state.mark in marks:
                    found.setdefault(state.mark, state)
                if len(found) == len(marks) or _number(batch, "created_at") < since:
                    break
            return found

        return await self._result(search())

    async def state(self, batch: str) -> BatchState:
        return self._state(await self._result(self._client.batches.retrieve(batch)))

    async def cancel(self, batch: str) -> BatchState:
        return self._state(await self._result(self._client.batches.cancel(batch)))

    def lines(self, file: str) -> AsyncIterator[str]:
        return self._lines(self._client.files.with_streaming_response.content(file, timeout=FILE_SECONDS))

    def _result_of(self, custom_id: str, data: Mapping[str, Any]) -> LineResult | None:
        response, error = data.get("response"), data.get("error")
        if isinstance(response, Mapping) and isinstance(response.get("status_code"), int):
            status, body = response["status_code"], response.get("body")
            if status == 200 and isinstance(body, Mapping):
                return LineResult(custom_id, {**body, "request_id": response.get("request_id")})
            return self._refused(custom_id, status, body)
        code = str(error.get("code") or "") if isinstance(error, Mapping) else ""
        message = str(error.get("message") or "") if isinstance(error, Mapping) else ""
        text = errors.clean(f"the batch has no answer to this request: {code} {message}", self._calls.hidden)
        failure = BackendError(text, kind="batch", transient=True)
        return LineResult(custom_id, failure, code not in _NOT_RUN)

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
            errors.clean("; ".join(filter(None, texts)), self._calls.hidden),
        )


def _file(batch: Any, name: str) -> str | None:
    value = getattr(batch, name, None)
    return value if isinstance(value, str) and value else None


def _number(values: Any, name: str) -> float:
    """Return a number of a server's object; 0 if it is missing."""
    value = getattr(values, name, None)
    return float(value) if isinstance(value, int | float) else 0.0


OPENAI_URL = "https://api.openai.com/v1"


class OpenAIModel(ApiSampleModel):
    """One model of an OpenAI-compatible API."""

    path = "/chat/completions"

    def __init__(self, spec: ModelSpec, options: CallOptions) -> None:
        self._urls = _base_urls(spec, options)
        urls = [normalised_url(url) for url in self._urls]
        self._official = _is_openai(urls[0])
        #: ``chat``, or ``responses`` if the model has only the Responses API
        self._api = spec.params.get("api", "chat")
        deviations, most = Deviations(completion_tokens=self._official), most_samples(spec)
        calls = ApiCalls(spec.name, ", ".join(urls), deviations, options.timeout, most_samples=most)
        super().__init__(spec, options, calls, "openai", _identity_of(spec, urls))
        self.client: Any = None
        #: the SDK's client of the first server
        self._sdk: Any = None

    @property
    def most_samples(self) -> int:
        """The maximum replies per call; 1 with ``?n=off``, or when the API turns out to return only one."""
        return 1 if self._api == "responses" else self._calls.most_samples

    def batches(self) -> BatchApi:
        """Return the model's batches.

        :raises BackendError: if the key is missing or wrong, or there are several servers.
        """
        if len(self._urls) > 1:
            text = f"{self._spec.text}: a batch is sent to one server; give one address"
            raise BackendError(text, kind="url", fatal=True)
        self._opened()
        return OpenAIBatches(self._sdk, self._calls)

    def notes(self) -> Sequence[str]:
        """Return notes about the API that do not affect replies."""
        return [*self._calls.notes, *(() if self.client is None else self.client.notes())]

    def deviations(self) -> Sequence[str]:
        """Return the parameters that had to be left out or changed so far, one phrase each."""
        phrases = self._calls.deviations.phrases()
        is_forced = self._api == "responses" and "api" not in self._spec.params
        return (*phrases, "sent to the Responses API") if is_forced else phrases

    async def aclose(self) -> None:
        """Close the connections."""
        client, self.client = self.client, None
        if client is not None:
            await client.aclose()

    def _open(self) -> BackendError | None:
        """Import the SDK and create its client at the first call; return the error if that fails."""
        if self.client is not None:
            return None
        missing = _missing_key(self._spec, self._options)
        if missing:
            return BackendError(missing, kind="key", fatal=True)
        key = os.environ.get("OPENAI_API_KEY", "").strip()
        self._prepare()
        pool = import_sdk(_POOL)
        try:
            clients = {
                url: pool.SdkClient(url, key or "none", self._options, self.path) for url in self._urls
            }
            self.client = pool.ServerPool(clients)
            self._sdk = clients[self._urls[0]].sdk
        except Exception as error:
            return errors.from_opening(error, self._calls.hidden)
        return None

    async def _post(self, body: dict[str, Any]) -> Mapping[str, Any] | BackendError:
        if self._api == "responses":
            self._calls.chat_names = CHAT_NAMES
            params = response_params(body, self._calls.deviations)
            content, headers = await self.client.post(params, "/responses")
            return self._calls.parsed(content, headers, chat_answer)
        try:
            content, headers = await self.client.post(body)
        except Exception as error:
            if not errors.needs_responses(getattr(error, "status_code", None), errors.error_body(error)):
                raise
            self._api = "responses"
            return await self._post(body)
        return self._calls.parsed(content, headers)


def normalised_url(url: str, where: str = "--llm-base-url") -> str:
    """Return a base URL for the record: scheme, host, port and path, without user, password and query.

    :param where: how an error names the URL.
    :raises UsageError: if it is not an http or https address.
    """
    try:
        parts = urlsplit(url.strip())
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        parts, port = urlsplit(""), ""
    if parts.scheme not in ("http", "https") or not parts.hostname:
        shown = errors.clean(without_secrets(url))
        raise UsageError(f"{where} {shown}: write http://HOST:PORT/v1 or https://HOST/v1")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"


def _base_urls(spec: ModelSpec, options: CallOptions) -> list[str]:
    """Return the addresses of the servers of a model: one, or several separated by commas."""
    text = (
        spec.params.get("base_url")
        or options.base_url
        or os.environ.get("OPENAI_BASE_URL", "").strip()
        or OPENAI_URL
    )
    return list(dict.fromkeys(url.strip() for url in text.split(",")))


def _identity_of(spec: ModelSpec, urls: Sequence[str]) -> str:
    """Return where the replies of a model are from: ``?as=NAME``, or its servers, which serve the same model."""
    if "as" in spec.params:
        return f"as {spec.params['as']}"
    return "" if urls == [OPENAI_URL] else ",".join(sorted(urls))


def _is_openai(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == "openai.com" or host.endswith(".openai.com")


def _check(spec: ModelSpec, options: CallOptions) -> Maker:
    spec.only("price_in", "price_out", "n", "base_url", "as", "api")
    if spec.params.get("api", "chat") not in ("chat", "responses"):
        raise UsageError(f"--model {spec.text}: write api=responses or api=chat")
    if spec.params.get("as") == "":
        raise UsageError(f"--model {spec.text}: write as=NAME, a name for the servers of this model")
    most_samples(spec)
    check_prices(spec, options)
    # SdkClient uses aiohttp, which is an optional dependency of the SDK.
    if not all(map(importlib.util.find_spec, ("openai", "aiohttp"))):
        raise MissingExtra(f"--model {spec.text}", package="openai[aiohttp]", extra="")
    where = f"--model {spec.text}: base_url" if "base_url" in spec.params else "--llm-base-url"
    for url in _base_urls(spec, options):
        normalised_url(url, where)
    return lambda: OpenAIModel(spec, options)


def _missing_key(spec: ModelSpec, options: CallOptions) -> str:
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    has_own = any(name.lower() in ("authorization", "api-key") for name in options.headers)
    if not key and not has_own and _is_openai(normalised_url(_base_urls(spec, options)[0])):
        return (
            f"model {spec.name} needs a key: set the environment variable OPENAI_API_KEY,"
            " or give --llm-base-url URL for another server"
        )
    if not (key.isascii() and key.isprintable()):
        return "OPENAI_API_KEY has characters that are not allowed in a key; set it again"
    return ""


#: the module that imports the SDK
_POOL = "pytest_llmprops.models.api.server_pool"


def _import_sdk() -> None:
    import_sdk(_POOL)


BACKEND = Backend(
    _check,
    always("chat"),
    prepare=_import_sdk,
    batches=True,
    remote=True,
    missing=_missing_key,
    example="gpt-4o",
    keys=("OPENAI_API_KEY",),
)
