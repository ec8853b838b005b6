"""Clients of the OpenAI SDK: one server, or several servers of one model. Importing this module imports the SDK."""

from __future__ import annotations

import asyncio
import importlib
import select
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import aiohttp
import openai
from aiohttp.client_proto import ResponseHandler

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.models.api.client import ENCODINGS, limit_answer, refuse_redirect
from pytest_llmprops.models.spec import basic, split_query, split_user

#: the HTTP library of the installed SDK
httpx: Any = importlib.import_module("httpx2" if int(openai.__version__.split(".")[0]) >= 3 else "httpx")


# Connections that are used again.
#
# HTTP/1.1 has nothing that says which request an answer belongs to: it is the next answer on the connection. A server
# that sends one answer too many would therefore answer each later request with the reply to an earlier one.

#: A connection rests this long after an answer. If anything arrives meanwhile or later, it is closed.
REST_SECONDS = 0.02
#: connections that may rest in addition to one for each call: a server that answers at once is not slowed down
RESTING = 64


@dataclass(slots=True)
class StrayAnswers:
    """The connections on which a server sent something that no request asked for. After the first, none is reused."""

    url: str
    connections: int = 0

    def notes(self) -> Sequence[str]:
        """Return one line if there are any."""
        if not self.connections:
            return []
        count = f"on {self.connections} connections, which were closed; each call has its own since then"
        window = f"if the data comes later than {REST_SECONDS * 1000:.0f} ms after an answer"
        line = (
            f"{self.url} sent data that no request asked for {count}; {window}, earlier replies may be wrong"
        )
        return [line]


class _Handler(ResponseHandler):
    """Reads the answers of one connection, and closes it if data arrives that no request asked for."""

    def __init__(self, strays: StrayAnswers, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._strays = strays
        self._is_awaited = False
        self._answers = 0

    def set_response_params(self, **params: Any) -> None:
        self._is_awaited, self._answers = True, 0
        super().set_response_params(**params)

    def rest(self) -> None:
        """Expect no data until the next request."""
        self._is_awaited = False
        self._check_count()

    def _check_count(self) -> None:
        # The last piece of an answer may have the next one, too.
        if not self._is_awaited and self._answers > 1:
            self._close_stray()

    def feed_data(self, data: Any, size: int = 0) -> None:
        # The informational answers of a request precede its own.
        self._answers += data[0].code >= 200
        super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        if not self._is_awaited:
            if data:
                self._close_stray()
            return
        super().data_received(data)
        self._check_count()

    def _close_stray(self) -> None:
        if self.transport is not None:
            self._strays.connections += 1
            self.close()

    def is_connected(self) -> bool:
        """Return False for a connection whose data the event loop has not read yet, except during a call."""
        if not super().is_connected():
            return False
        sock = None if self._is_awaited or self.transport is None else self.transport.get_extra_info("socket")
        if sock is None or not hasattr(select, "poll"):  # Windows has none
            return True
        waiting = select.poll()
        waiting.register(sock.fileno(), select.POLLIN)
        return not waiting.poll(0)


class _Connector(aiohttp.TCPConnector):
    """A pool of connections that rest after each answer before they are used again."""

    def __init__(self, strays: StrayAnswers, **settings: Any) -> None:
        super().__init__(**settings)
        self._strays = strays
        self._factory = partial(_Handler, strays, self._loop)  # type: ignore[assignment]

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        protocol.rest()
        if should_close or protocol.should_close or self._strays.connections:
            super()._release(key, protocol, should_close=True)
        else:
            self._loop.call_later(REST_SECONDS, self._rested, key, protocol)

    def _rested(self, key: Any, protocol: Any) -> None:
        super()._release(key, protocol, should_close=bool(self._strays.connections))


class HttpClient(openai.DefaultAioHttpClient):
    """The SDK's aiohttp client, with connections that rest, and a limit of the size of answers.

    It follows redirects only within one server.

    :param timeout: seconds to wait for a connection, or for the next part of an answer.
    :param connections: maximum number of calls in flight.
    """

    def __init__(self, strays: StrayAnswers, timeout: float, connections: int) -> None:
        self._strays = strays
        super().__init__(
            timeout=timeout,
            headers=ENCODINGS,
            event_hooks={"response": [partial(refuse_redirect, strays.url), limit_answer]},
            # The broker limits the calls. A connection that rests is not a call.
            limits=httpx.Limits(max_connections=connections + RESTING),
        )

    def _init_transport(self, *args: Any, **settings: Any) -> Any:
        return self._with_rest(super()._init_transport(*args, **settings))

    def _init_proxy_transport(self, *args: Any, **settings: Any) -> Any:
        return self._with_rest(super()._init_proxy_transport(*args, **settings))

    def _with_rest(self, transport: Any) -> Any:
        def session() -> aiohttp.ClientSession:
            # As the transport's own, which is made at its first call.
            limits = transport.limits
            connector = _Connector(
                self._strays,
                limit=limits.max_connections,
                keepalive_timeout=limits.keepalive_expiry,
                ssl=transport.ssl_context,
            )
            return aiohttp.ClientSession(connector=connector)

        transport.client = session
        return transport


class SdkClient:
    """An ``AsyncOpenAI`` with the SDK's aiohttp client, without the SDK's own retries.

    The aiohttp client takes less than half the CPU time of the default client.
    The library handles proxies and TLS, with its environment variables.

    :param url: the base URL. Its user and password are sent in place of the key.
    :param timeout: seconds to wait for a connection, or for the next part of an answer.
    :param connections: maximum number of calls in flight.
    :param headers: headers of each call; one named ``Authorization`` replaces that of the key.
    :param path: where requests are sent, after the base URL.
    """

    def __init__(
        self,
        url: str,
        key: str,
        timeout: float,
        connections: int,
        headers: Mapping[str, str] | None = None,
        path: str = "/chat/completions",
    ) -> None:
        self._path = path
        url, user = split_user(url)
        url, query = split_query(url)
        self.strays = StrayAnswers(url)
        #: the SDK's own client
        self.sdk = openai.AsyncOpenAI(
            api_key=key,
            base_url=url,
            # aiohttp refuses a user in the URL together with the SDK's header.
            default_headers=({"Authorization": basic(user)} if user else {}) | dict(headers or {}),
            default_query=query or None,
            timeout=timeout,
            max_retries=0,
            http_client=HttpClient(self.strays, timeout, connections),
        )

    async def post(self, body: Mapping[str, Any], path: str = "") -> tuple[bytes, Mapping[str, str]]:
        """Post a body to the client's path, or another one; return (body, headers by lower-case name) of the answer.

        :raises openai.APIError: or a subclass, as the SDK maps errors.
        :raises BackendError: if the body of the answer is refused (:func:`limit_answer`).
        """
        try:
            response = await self.sdk.post(path or self._path, cast_to=httpx.Response, body=dict(body))
        except openai.APIConnectionError as error:
            if isinstance(error.__cause__, BackendError):
                # The SDK takes it for a lost connection, and the pool would take the server for one that is down.
                raise error.__cause__ from None
            raise
        return response.content, response.headers

    def notes(self) -> Sequence[str]:
        """Return notes for the summary."""
        return self.strays.notes()

    async def aclose(self) -> None:
        """Close all connections."""
        await self.sdk.close()


#: seconds for which a server that failed gets no calls; twice as long after each call that tries it in vain
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
#: the statuses of proxies without a server behind them, and of servers that start or stop
_DOWN = (502, 503, 504)


class Client(Protocol):
    """A client of one server, such as :class:`~pytest_llmprops.models.api.openai.SdkClient`."""

    async def post(self, body: Mapping[str, Any], path: str = ...) -> tuple[bytes, Mapping[str, str]]: ...

    def notes(self) -> Sequence[str]: ...

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

        :raises openai.APIError: or a subclass, as the SDK maps errors.
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
                is_down = (
                    isinstance(error, openai.APIConnectionError) or getattr(error, "status_code", 0) in _DOWN
                )
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
        """Return one line for each server that was down, and those of the clients."""
        notes = [note for server in self._servers for note in server.client.notes()]
        return notes + [
            f"{s.url}: {s.moved} calls failed there and were sent elsewhere" for s in self._servers if s.moved
        ]

    async def aclose(self) -> None:
        """Close all connections."""
        for server in self._servers:
            await server.client.aclose()
