"""The OpenAI SDK's client as the ``openai`` backend uses it; importing this module imports the SDK."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from typing import Any

import openai

#: The HTTP library of the installed SDK.
httpx: Any = importlib.import_module("httpx2" if int(openai.__version__.split(".")[0]) >= 3 else "httpx")


class SdkClient:
    """One ``AsyncOpenAI`` over the SDK's aiohttp client, with the SDK's own retries off.

    ``bench/transport.py`` compares the SDK's clients: the one over aiohttp takes less than half the CPU of the
    default one. Proxies, redirects and TLS are the library's, with its environment variables.

    :param timeout: seconds for a whole call, from the request to the last byte of the answer.
    :param connections: most connections at once.
    """

    def __init__(self, url: str, key: str, timeout: float, connections: int) -> None:
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        self._timeout = timeout
        self._client = openai.AsyncOpenAI(
            api_key=key,
            base_url=url,
            timeout=timeout,
            max_retries=0,
            http_client=openai.DefaultAioHttpClient(timeout=timeout, limits=limits),
        )

    async def post(self, body: Mapping[str, Any]) -> tuple[bytes, Mapping[str, str]]:
        """Make one chat completion: (body, headers by lower-case name) of the answer.

        :raises openai.APIError: and its subclasses, as the SDK maps them. :raises TimeoutError: it took too long.
        """
        # The library's read timeout starts again with each piece of an answer.
        async with asyncio.timeout(self._timeout):
            response = await self._client.post("/chat/completions", cast_to=httpx.Response, body=dict(body))
        return response.content, response.headers

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.close()
