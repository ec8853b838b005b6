"""Models of OpenAI and of servers with the same chat API, through the official SDK.

The SDK builds and signs the calls; the broker retries them. Calls use the SDK's ``client.post``, which returns the raw
answer: reading the few fields needed here takes a tenth of the time of building the SDK's response objects. The SDK is
imported in a thread while pytest collects, or at the first call. A run whose replies are all stored therefore neither
waits for the import nor needs a key.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from pytest_llmprops.core.errors import BackendError, MissingExtra, UsageError
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.core.strict_json import problem_of
from pytest_llmprops.models import errors
from pytest_llmprops.models.addresses import secrets_of, split_user, without_user
from pytest_llmprops.models.api import ApiCalls, most_samples
from pytest_llmprops.models.base import BackendOptions, Result
from pytest_llmprops.models.batches import BatchApi
from pytest_llmprops.models.deviations import Deviations
from pytest_llmprops.models.model_list import model_list
from pytest_llmprops.models.prices import price
from pytest_llmprops.models.registry import Backend, Maker, always
from pytest_llmprops.models.replies import pinned_by_name
from pytest_llmprops.models.spec import ModelSpec

#: in bytes; a long reply with log probabilities has a few
LARGEST_ANSWER = 64 * 2**20
OPENAI_URL = "https://api.openai.com/v1"


class OpenAIModel:
    """One model of an OpenAI-compatible API; calls may run concurrently."""

    max_batch = 1
    blocking = False

    def __init__(self, spec: ModelSpec, options: BackendOptions) -> None:
        self._urls = _base_urls(spec, options)
        urls = [normalised_url(url) for url in self._urls]
        url = ", ".join(urls)
        self._official = _is_openai(urls[0])
        self._spec, self._options = spec, options
        deviations = Deviations(completion_tokens=self._official)
        self._calls = ApiCalls(spec.name, url, deviations, options.timeout, most_samples=most_samples(spec))
        self.client: Any = None
        #: the SDK's client of the first server
        self._sdk: Any = None
        self.identity: Mapping[str, Any] = {
            "backend": "openai",
            "name": spec.name,
            "base_url": _identity_of(spec, urls),
        }
        self.pinned = pinned_by_name(spec.name)

    async def chat(self, requests: Sequence[Chat]) -> list[Result]:
        """Return one result per request, in order."""
        if self.client is None:
            error = self._open()
            if error is not None:
                return [error] * len(requests)
        if len(requests) == 1:
            return [await self._calls.reply(requests[0], self._post)]
        return list(await asyncio.gather(*(self._calls.reply(r, self._post) for r in requests)))

    async def model_list(self) -> str:
        """Return a hash of the server's list of models; empty for OpenAI's own, which says nothing about one model."""
        if self._official:
            return ""
        key = os.environ.get("OPENAI_API_KEY", "").strip() or "none"
        lists = await asyncio.gather(
            *(asyncio.to_thread(model_list, url.rstrip("/"), key) for url in self._urls)
        )
        # A server that does not answer now has not changed its list.
        return " ".join(lists) if all(lists) else ""

    @property
    def most_samples(self) -> int:
        """The maximum replies per call; 1 with ``?n=off``, or when the API turns out to return only one."""
        return self._calls.most_samples

    async def samples(self, request: Chat, count: int) -> list[Reply] | BackendError:
        """Return up to ``count`` replies to ``request`` from one call; an empty list if the API refuses several."""
        if self.client is None:
            error = self._open()
            if error is not None:
                return error
        return await self._calls.samples(request, count, self._post)

    def batches(self) -> BatchApi:
        """Return the model's batches.

        :raises BackendError: if the key is missing or wrong, or there are several servers.
        """
        if len(self._urls) > 1:
            text = f"{self._spec.text}: a batch is sent to one server; give one address"
            raise BackendError(text, kind="url", fatal=True)
        if self.client is None:
            error = self._open()
            if error is not None:
                raise error
        from pytest_llmprops.models.openai_batches import OpenAIBatches

        return OpenAIBatches(self._sdk, self._calls)

    def notes(self) -> Sequence[str]:
        """Return notes about the API that do not affect replies."""
        return [*self._calls.notes, *(() if self.client is None else self.client.notes())]

    def deviations(self) -> Sequence[str]:
        """Return the parameters that had to be left out or changed so far, one phrase each."""
        return self._calls.deviations.phrases()

    def close(self) -> None:
        """Do nothing: connections can only be closed in a coroutine, :meth:`aclose`."""

    async def aclose(self) -> None:
        """Close the connections."""
        client, self.client = self.client, None
        if client is not None:
            await client.aclose()

    def _open(self) -> BackendError | None:
        """Import the SDK and create its client; return the error if that fails."""
        missing = _missing_key(self._spec, self._options)
        if missing:
            return BackendError(missing, kind="key", fatal=True)
        key = os.environ.get("OPENAI_API_KEY", "").strip()
        sent = (key, *(text for url in self._urls for text in secrets_of(split_user(url)[1])))
        self._calls.hidden, self._calls.echoes = errors.secrets(*sent), errors.unmistakable(sent)
        self._calls.price = price(self._spec.name, self._spec.params, self._options.prices)
        from pytest_llmprops.models.openai_client import SdkClient
        from pytest_llmprops.models.server_pool import ServerPool

        try:
            options = self._options
            clients = {
                url: SdkClient(url, key or "none", options.timeout, options.concurrency) for url in self._urls
            }
            self.client = ServerPool(clients)
            self._sdk = clients[self._urls[0]].sdk
        except Exception as error:
            # The SDK checks its environment variables; its message is one line.
            return BackendError(errors.clean(str(error), self._calls.hidden), kind="request", fatal=True)
        return None

    async def _post(self, body: dict[str, Any]) -> Mapping[str, Any] | BackendError:
        content, headers = await self.client.post(body)
        url = self._calls.url
        if len(content) > LARGEST_ANSWER:
            size = f"{len(content):,} bytes; the limit is {LARGEST_ANSWER:,}"
            return BackendError(f"the answer of {url} has {size}", kind="response")
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError) as error:
            if not isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
                problem = f"the answer cannot be read as JSON: {problem_of(error)}"
                return BackendError(problem, kind="response", transient=True)
            text = content.decode("utf-8", "replace")
            if "json" in headers.get("content-type", "") and text.lstrip().startswith("{"):
                return BackendError("the answer was cut off", kind="connection", transient=True)
            return errors.not_json(url, text, headers)
        if not isinstance(answer, dict):
            return errors.not_json(url, "", {})
        if answer.get("error"):
            # Some proxies answer with status 200 and an error in the body. A numeric code is the actual status.
            inner = answer["error"]
            code = inner.get("code") if isinstance(inner, dict) else None
            status = code if isinstance(code, int) and 400 <= code < 600 else 500
            name, hidden = self._calls.name, self._calls.hidden
            return errors.from_status(status, headers, inner, url=url, model=name, hidden=hidden)
        return answer


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
        shown = errors.clean(without_user(url))
        raise UsageError(f"{where} {shown}: write http://HOST:PORT/v1 or https://HOST/v1")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"


def _base_urls(spec: ModelSpec, options: BackendOptions) -> list[str]:
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


def _check(spec: ModelSpec, options: BackendOptions) -> Maker:
    spec.only("price_in", "price_out", "n", "base_url", "as")
    if spec.params.get("as") == "":
        raise UsageError(f"--model {spec.text}: write as=NAME, a name for the servers of this model")
    most_samples(spec)
    if spec.params or options.prices:
        price(spec.name, spec.params, options.prices)
    # SdkClient uses aiohttp, which is an optional dependency of the SDK.
    if not all(map(importlib.util.find_spec, ("openai", "aiohttp"))):
        raise MissingExtra(f"--model {spec.text}", package="openai[aiohttp]", extra="")
    where = f"--model {spec.text}: base_url" if "base_url" in spec.params else "--llm-base-url"
    for url in _base_urls(spec, options):
        normalised_url(url, where)
    return lambda: OpenAIModel(spec, options)


def _missing_key(spec: ModelSpec, options: BackendOptions) -> str:
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    if not key and _is_openai(normalised_url(_base_urls(spec, options)[0])):
        return (
            f"model {spec.name} needs a key: set the environment variable OPENAI_API_KEY,"
            " or give --llm-base-url URL for another server"
        )
    if not (key.isascii() and key.isprintable()):
        return "OPENAI_API_KEY has characters that are not allowed in a key; set it again"
    return ""


def _import_sdk() -> None:
    importlib.import_module("pytest_llmprops.models.server_pool")
    importlib.import_module("pytest_llmprops.models.openai_client")


BACKEND = Backend(
    _check, always("chat"), prepare=_import_sdk, batches=True, remote=True, missing=_missing_key
)
