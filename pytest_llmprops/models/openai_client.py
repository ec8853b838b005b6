"""The OpenAI SDK's client as the ``openai`` backend uses it; importing this module imports the SDK."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import openai

from pytest_llmprops.models.addresses import basic, split_user

#: The HTTP library of the installed SDK.
httpx: Any = importlib.import_module("httpx2" if int(openai.__version__.split(".")[0]) >= 3 else "httpx")


class SdkClient:
    """An ``AsyncOpenAI`` with the SDK's aiohttp client, without the SDK's own retries.

    The aiohttp client takes less than half the CPU time of the default client (measured by ``bench/transport.py``).
    The library handles proxies, redirects and TLS, with its environment variables.

    :param url: the base URL. Its user and password are sent in place of the key.
    :param timeout: seconds to wait for a connection, or for the next part of an answer.
    :param connections: maximum number of open connections.
    """

    def __init__(self, url: str, key: str, timeout: float, connections: int) -> None:
        url, user = split_user(url)
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        #: the SDK's own client
        self.sdk = openai.AsyncOpenAI(
            api_key=key,
            base_url=url,
            # aiohttp refuses a user in the URL together with the SDK's header.
            default_headers={"Authorization": basic(user)} if user else None,
            timeout=timeout,
            max_retries=0,
            http_client=openai.DefaultAioHttpClient(timeout=timeout, limits=limits),
        )

    async def post(self, body: Mapping[str, Any]) -> tuple[bytes, Mapping[str, str]]:
        """Request one chat completion; return (body, headers by lower-case name) of the answer.

        :raises openai.APIError: or a subclass, as the SDK maps errors.
        """
        response = await self.sdk.post("/chat/completions", cast_to=httpx.Response, body=dict(body))
        return response.content, response.headers

    async def aclose(self) -> None:
        """Close all connections."""
        await self.sdk.close()
