"""Models of OpenAI and of every server that speaks its chat API, through the official SDK.

The SDK builds, signs and checks the calls; retries are the broker's. Calls go out by the SDK's
``client.post``, which gives the raw answer: reading the few fields wanted here costs a tenth of building
the SDK's response objects. The SDK is imported in a thread while pytest collects, or at the first call, so that
a run whose replies are all stored neither waits for it nor needs a key.
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
from pytest_llmprops.models import errors
from pytest_llmprops.models.api import ApiCalls, most_samples
from pytest_llmprops.models.base import BackendOptions, Result
from pytest_llmprops.models.departures import Departures
from pytest_llmprops.models.prices import price
from pytest_llmprops.models.registry import Backend, Maker, always
from pytest_llmprops.models.replies import pinned_by_name
from pytest_llmprops.models.spec import ModelSpec

OPENAI_URL = "https://api.openai.com/v1"


class OpenAIModel:
    """One model behind an OpenAI-compatible API; as many calls at once as the caller likes."""

    max_batch = 1
    blocking = False

    def __init__(self, spec: ModelSpec, options: BackendOptions) -> None:
        self._url = _base_url(options)
        url = normalised_url(self._url)
        self._official = _is_openai(url)
        self._spec, self._options = spec, options
        departures = Departures(completion_tokens=self._official)
        self._calls = ApiCalls(spec.name, url, departures, most_samples=most_samples(spec))
        self._client: Any = None
        self.identity: Mapping[str, Any] = {
            "backend": "openai",
            "name": spec.name,
            "base_url": "" if url == OPENAI_URL else url,
        }
        self.pinned = pinned_by_name(spec.name)

    async def chat(self, requests: Sequence[Chat]) -> list[Result]:
        """One result per request, in order."""
        if self._client is None:
            failed = self._open()
            if failed is not None:
                return [failed] * len(requests)
        if len(requests) == 1:
            return [await self._calls.reply(requests[0], self._post)]
        return list(await asyncio.gather(*(self._calls.reply(r, self._post) for r in requests)))

    @property
    def most_samples(self) -> int:
        """Replies that one call may ask for; 1 with ``?n=off`` and once the API is found to give no more."""
        return self._calls.most_samples

    async def samples(self, request: Chat, count: int) -> list[Reply] | BackendError:
        """Up to ``count`` replies to ``request``, by one call; none where the API refuses several at once."""
        if self._client is None:
            failed = self._open()
            if failed is not None:
                return failed
        return await self._calls.samples(request, count, self._post)

    def notes(self) -> Sequence[str]:
        """What was found about the API that changes no reply."""
        return self._calls.notes

    def deviations(self) -> Sequence[str]:
        """What the API made us leave out or change, so far."""
        return self._calls.departures.phrases()

    def close(self) -> None:
        """Do nothing: connections can only be closed in a coroutine, :meth:`aclose`."""

    async def aclose(self) -> None:
        """Close the connections and wait for it."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _open(self) -> BackendError | None:
        """Import the SDK and make its client; why that cannot be, if it cannot."""
        key = os.environ.get("OPENAI_API_KEY", "").strip()
        if not key and self._official:
            return BackendError(
                f"model {self._spec.name} needs a key: set the environment variable OPENAI_API_KEY,"
                " or give --llm-base-url URL for a server of your own",
                kind="key",
                fatal=True,
            )
        if not (key.isascii() and key.isprintable()):
            text = "OPENAI_API_KEY holds characters that no key has; set it again"
            return BackendError(text, kind="key", fatal=True)
        self._calls.hidden = errors.secrets(key)
        self._calls.price = price(self._spec.name, self._spec.params)
        from pytest_llmprops.models.openai_client import SdkClient

        try:
            options = self._options
            self._client = SdkClient(self._url, key or "none", options.timeout, options.concurrency)
        except Exception as error:
            # What the SDK finds wrong with the settings in its environment, it says in one line.
            return BackendError(errors.clean(str(error), self._calls.hidden), kind="request", fatal=True)
        return None

    async def _post(self, body: dict[str, Any]) -> Mapping[str, Any] | BackendError:
        content, headers = await self._client.post(body)
        url = self._calls.url
        try:
            answer = json.loads(content)
        except ValueError:
            text = content.decode("utf-8", "replace")
            if "json" in headers.get("content-type", "") and text.lstrip().startswith("{"):
                return BackendError("the answer was cut off", kind="connection", transient=True)
            return errors.not_json(url, text, headers)
        if not isinstance(answer, dict):
            return errors.not_json(url, "", {})
        if answer.get("error"):
            # Some proxies answer 200 with an error inside; its code is the status, where it is a number.
            inner = answer["error"]
            code = inner.get("code") if isinstance(inner, dict) else None
            status = code if isinstance(code, int) and 400 <= code < 600 else 500
            name, hidden = self._calls.name, self._calls.hidden
            return errors.from_status(status, headers, inner, url=url, model=name, hidden=hidden)
        return answer


def normalised_url(url: str) -> str:
    """A base URL as it is recorded: scheme, host, port and path; never a user, password or query.

    :raises UsageError: when it is not an http or https address.
    """
    try:
        parts = urlsplit(url.strip())
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        parts, port = urlsplit(""), ""
    if parts.scheme not in ("http", "https") or not parts.hostname:
        shown = errors.clean(url)
        raise UsageError(f"--llm-base-url {shown}: write http://HOST:PORT/v1 or https://HOST/v1")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"


def _base_url(options: BackendOptions) -> str:
    return options.base_url or os.environ.get("OPENAI_BASE_URL", "").strip() or OPENAI_URL


def _is_openai(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == "openai.com" or host.endswith(".openai.com")


def _check(spec: ModelSpec, options: BackendOptions) -> Maker:
    spec.only("price_in", "price_out", "n")
    most_samples(spec)
    if spec.params:
        price(spec.name, spec.params)
    # Its HTTP client is the one over aiohttp.
    if not all(map(importlib.util.find_spec, ("openai", "aiohttp"))):
        raise MissingExtra(f"--model {spec.text}", package="openai[aiohttp]", extra="")
    normalised_url(_base_url(options))
    return lambda: OpenAIModel(spec, options)


def _import_sdk() -> None:
    importlib.import_module("pytest_llmprops.models.openai_client")


BACKEND = Backend(_check, always("chat"), prepare=_import_sdk)
