"""Clients of the official SDKs: one server, or several servers of one model."""

from __future__ import annotations

import importlib
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.models.api import errors
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.spec import basic, split_query, split_user

#: in bytes; a long reply with log probabilities has a few million
LARGEST_ANSWER = 64 * 2**20
#: no compressed answer of this size becomes larger than that: deflate makes a body at most 1,032 times as small
LARGEST_COMPRESSED = LARGEST_ANSWER // 1032


def http_library(sdk: Any) -> Any:
    """Return the HTTP library that an SDK uses: httpx, or its successor."""
    return importlib.import_module(sdk.DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0])


class SdkClient:
    """A client of an SDK, without the SDK's own retries.

    It uses the SDK's aiohttp client, which takes less than half the CPU time of the default client and handles proxies
    and TLS with their environment variables. No redirect is followed: the prompt and the user's headers would go to any
    host. No call asks for a compressed answer, of which a small one could fill the memory.

    :param sdk: the module ``openai`` or ``anthropic``.
    :param url: the base URL. Its user and password are sent in place of the key.
    :param options: of each call; a header named ``Authorization`` replaces that of the key.
    :param path: where requests are sent, after the base URL.
    """

    def __init__(self, sdk: Any, url: str, key: str, options: CallOptions, path: str) -> None:
        library = http_library(sdk)
        self._path, self._response = path, library.Response
        url, user = split_user(url)
        url, query = split_query(url)
        create = sdk.AsyncOpenAI if sdk.__name__ == "openai" else sdk.AsyncAnthropic
        #: the SDK's own client
        self.sdk = create(
            api_key=key,
            base_url=url,
            # aiohttp refuses a user in the URL together with the SDK's header.
            default_headers=({"Authorization": basic(user)} if user else {}) | dict(options.headers),
            default_query=query or None,
            timeout=options.timeout,
            max_retries=0,
            http_client=sdk.DefaultAioHttpClient(
                timeout=options.timeout,
                headers={"Accept-Encoding": "identity"},
                event_hooks={"response": [limit_answer]},
                follow_redirects=False,
                limits=library.Limits(max_connections=options.concurrency),
            ),
        )

    async def post(self, body: Mapping[str, Any], path: str = "") -> tuple[bytes, Mapping[str, str]]:
        """Post a body to the client's path, or another one; return (body, headers by lower-case name) of the answer.

        :raises APIError: of the SDK, or a subclass.
        :raises BackendError: if the body of the answer is refused (:func:`limit_answer`).
        """
        try:
            response = await self.sdk.post(path or self._path, cast_to=self._response, body=dict(body))
        except Exception as error:
            if isinstance(error.__cause__, BackendError):
                # The SDK takes it for a lost connection, and the pool would take the server for one that is down.
                raise error.__cause__ from None
            raise
        return response.content, response.headers

    async def aclose(self) -> None:
        """Close all connections."""
        await self.sdk.close()


async def limit_answer(response: Any) -> None:
    """Limit the body of an answer to ``LARGEST_ANSWER`` bytes, also decompressed; an event hook of ``httpx``.

    The files of a batch have no limit, because they are read in pieces.

    :raises BackendError: if the body is compressed in a way that not every installation reads.
    """
    if response.request.url.path.endswith(("/content", "/results")):
        return
    encoding = response.headers.get("content-encoding", "").strip().lower()
    is_plain = encoding in ("", "identity")
    if not is_plain and encoding not in ("gzip", "x-gzip", "deflate"):
        text = f"the answer of {response.url.host} is compressed with '{encoding}', which no call asks for"
        raise BackendError(errors.clean(text), kind="response")
    library = importlib.import_module(type(response).__module__.partition(".")[0])
    most = LARGEST_ANSWER if is_plain else LARGEST_COMPRESSED
    response.stream = _limited_stream(library.AsyncByteStream)(response, most)


@cache
def _limited_stream(base: type) -> type:
    """Return the class of a limited body, which must be a subclass of the library's class of streams."""

    class Limited(base):  # type: ignore[misc]
        def __init__(self, response: Any, most: int) -> None:
            self._host, self._stream, self._most = response.url.host, response.stream, most

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in self._stream:
                size += len(chunk)
                if size > self._most:
                    text = f"the answer of {self._host} has more than the limit of {self._most:,} bytes"
                    raise BackendError(errors.clean(text), kind="response")
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    return Limited


#: seconds for which a server that failed gets no calls; twice as long after each call that tries it in vain
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
#: the statuses of proxies without a server behind them, and of servers that start or stop
_DOWN = (502, 503, 504)


class Client(Protocol):
    """A client of one server, such as :class:`SdkClient`."""

    async def post(self, body: Mapping[str, Any], path: str = ...) -> tuple[bytes, Mapping[str, str]]: ...

    async def aclose(self) -> None: ...


@dataclass(slots=True, eq=False)
class _Server:
    url: str
    client: Client
    in_flight: int = 0
    #: calls that failed here and were sent elsewhere
    moved: int = 0
    pause: float = 0.0
    closed_until: float = 0.0

    def failed(self, now: float) -> None:
        """Give this server no calls for a while. The other calls that were in flight do not prolong the pause."""
        if now >= self.closed_until:
            self.pause = min(2 * self.pause or FIRST_PAUSE, LONGEST_PAUSE)
            self.closed_until = now + self.pause

    def is_open(self, now: float) -> bool:
        """Return True if the server may get a call; after a failure, one call at a time tries it."""
        return not self.pause or (now >= self.closed_until and not self.in_flight)


class ServerPool:
    """Sends each call to the server with the fewest calls in flight, and a call that finds its server down to another.

    A server is down if it cannot be reached, does not answer in time, or answers 502, 503 or 504. It gets no calls for
    a second, then one, and is used again when it answers. If all are down, the last error is that of the call.

    :param clients: one client by URL; all serve the same model.
    """

    def __init__(self, clients: Mapping[str, Client], clock: Callable[[], float] = time.monotonic) -> None:
        self._servers = [_Server(url, client) for url, client in clients.items()]
        self._clock = clock

    async def post(self, body: Mapping[str, Any], path: str = "") -> tuple[bytes, Mapping[str, str]]:
        """Post a body to a path of one server; return (body, headers by lower-case name) of the answer.

        :raises APIError: of the SDK, or a subclass.
        """
        tried: list[_Server] = []
        while True:
            server = self._next(tried)
            server.in_flight += 1
            is_down = True
            try:
                answer = await server.client.post(body, path)
                is_down = False
                return answer
            except Exception as error:
                is_lost = any(cls.__name__ == "APIConnectionError" for cls in type(error).__mro__)
                is_down = is_lost or getattr(error, "status_code", 0) in _DOWN
                tried.append(server)
                if not is_down or len(tried) == len(self._servers):
                    raise
                server.moved += 1
            finally:
                server.in_flight -= 1
                # Also after a cancellation, which is how the deadline of a call arrives.
                if is_down:
                    server.failed(self._clock())
                else:
                    server.pause = 0.0

    def _next(self, tried: Collection[_Server]) -> _Server:
        now = self._clock()
        others = [server for server in self._servers if server not in tried]
        available = [server for server in others if server.is_open(now)]
        if available:
            return min(available, key=lambda server: server.in_flight)
        return min(others, key=lambda server: server.closed_until)

    def notes(self) -> Sequence[str]:
        """Return one line for each server that was down."""
        return [
            f"{s.url}: {s.moved} calls failed there and were sent elsewhere" for s in self._servers if s.moved
        ]

    async def aclose(self) -> None:
        """Close all connections."""
        for server in self._servers:
            await server.client.aclose()
