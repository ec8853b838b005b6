"""The OpenAI SDK's client as the ``openai`` backend uses it; importing this module imports the SDK."""

from __future__ import annotations

import gc
import importlib
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pytest_llmprops.models.lazy_packages import lazy_packages
from pytest_llmprops.models.transport import AsyncioTransport

# Half a second otherwise, which is most of the time of a short run. The import makes some hundred
# thousand objects that stay: looking through them again and again for garbage is a tenth of it.
_collecting = gc.isenabled()
gc.disable()
try:
    with lazy_packages("openai.types", "openai.types.responses"):
        import openai
finally:
    if _collecting:
        gc.enable()

#: The HTTP library of the installed SDK.
httpx: Any = importlib.import_module("httpx2" if int(openai.__version__.split(".")[0]) >= 3 else "httpx")


class SdkClient:
    """One ``AsyncOpenAI`` with the cheapest transport that serves its URL; the SDK's own retries are off."""

    def __init__(self, url: str, key: str, timeout: float) -> None:
        self._transport: AsyncioTransport | None = None
        http_client = None
        if not _proxied(url):
            self._transport = AsyncioTransport(httpx)
            # Given a transport, the client must not look for proxies of its own.
            http_client = httpx.AsyncClient(
                transport=self._transport, trust_env=False, timeout=timeout, follow_redirects=True
            )
        self._client = openai.AsyncOpenAI(
            api_key=key, base_url=url, timeout=timeout, max_retries=0, http_client=http_client
        )

    async def post(self, body: Mapping[str, Any]) -> tuple[bytes, Mapping[str, str]]:
        """One chat completion: (body, headers by lower-case name) of the answer.

        :raises openai.APIError: and its kin, as the SDK maps them.
        """
        response = await self._client.post("/chat/completions", cast_to=httpx.Response, body=dict(body))
        return response.content, response.headers

    def close(self) -> None:
        """Drop all connections; from the event loop's thread. The SDK's own client needs :meth:`aclose`."""
        if self._transport is not None:
            self._transport.close()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.close()


def _proxied(url: str) -> bool:
    """Whether the environment names a proxy for ``url``."""
    parts = urlsplit(url)
    proxies = urllib.request.getproxies()
    if not (proxies.get(parts.scheme) or proxies.get("all")):
        return False
    return not urllib.request.proxy_bypass(parts.hostname or "")
