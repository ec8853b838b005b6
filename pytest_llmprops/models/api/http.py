"""Calls to one server over HTTP, or to several servers of one model."""

from __future__ import annotations

import json
import os
import ssl
import sys
import time
import zlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, Protocol

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.models.api import errors
from pytest_llmprops.models.api.connections import usable_proxy
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.spec import basic, split_query, split_user

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

#: in bytes; a long reply with log probabilities has a few million
LARGEST_ANSWER = 64 * 2**20
#: bytes that are decompressed at a time: deflate makes a body at most 1,032 times as small
_PIECE = 2**20
#: seconds for which a connection without a call is kept; uvicorn, which many servers of models use, closes it after 5,
#: and a call that meets a closed one fails
KEPT_SECONDS = 4.0
#: a wait in seconds for a part of a file of up to 200 MB
FILE_SECONDS = 600.0


class StatusError(Exception):
    """The answer to a call has no status of success.

    :param headers: their names are compared without case. :param body: the parsed JSON, or the text if it is not JSON.
    """

    def __init__(self, status_code: int, headers: Mapping[str, str], body: Any) -> None:
        super().__init__(f"status {status_code}")
        self.status_code, self.headers, self.body = status_code, headers, body


class HttpClient:
    """A client of one server, with aiohttp, which is imported at the first call.

    Proxies and certificates are those of the environment. No redirect is followed: the prompt and the user's headers
    would go to any host. No call asks for a compressed answer, of which a small one could fill the memory. Nothing is
    repeated.

    :param url: the base URL. Its user and password are sent in place of the key.
    :param headers: with the key. :param options: of each call; its headers replace others of their names.
    :param path: where calls are sent, after the base URL.
    :raises BackendError: if the proxy of the environment cannot be used.
    :raises OSError: if its certificates cannot be read.
    """

    def __init__(self, url: str, headers: Mapping[str, str], options: CallOptions, path: str) -> None:
        address, user = split_user(url.strip())
        address, self._query = split_query(address)
        self._base, self._path, self._options = address.rstrip("/"), path, options
        own = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": f"pytest-llmprops/{version('pytest-llmprops')}",
        }
        everything = (own, headers, {"Authorization": basic(user)} if user else {}, options.headers)
        self._headers = {name.lower(): value for some in everything for name, value in some.items()}
        self._proxy = usable_proxy(self._base)
        self._tls = _tls_context() if self._base.startswith("https:") else None
        self._session: ClientSession | None = None

    async def post(self, body: Mapping[str, Any], path: str = "") -> tuple[bytes, Mapping[str, str]]:
        """Post a body to the client's path, or another one; return (body, headers) of the answer.

        :raises StatusError: if the status is none of success.
        :raises BackendError: if the body of the answer is refused (:func:`_pieces`).
        """
        return await self.request("POST", path or self._path, body)

    async def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str | int] = MappingProxyType({}),
        seconds: float = 0.0,
    ) -> tuple[bytes, Mapping[str, str]]:
        """Return (body, headers) of the answer to a call, as :meth:`post` does.

        :param body: sent as JSON. :param seconds: see :meth:`_answer`.
        """
        data, kind = None, {}
        if body is not None:
            data = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
            kind = {"Content-Type": "application/json"}
        async with self._answer(method, path, query, seconds, data=data, headers=kind) as answer:
            return await _content(answer), answer.headers

    async def upload(
        self, path: str, file: IO[bytes], name: str, **fields: str
    ) -> tuple[bytes, Mapping[str, str]]:
        """Post a form with a file and other fields; return (body, headers) of the answer, as :meth:`post` does."""
        from aiohttp import FormData

        form = FormData(fields)
        form.add_field("file", file, filename=name)
        async with self._answer("POST", path, {}, FILE_SECONDS, data=form) as answer:
            return await _content(answer), answer.headers

    async def lines(self, path: str) -> AsyncIterator[str]:
        """Yield the lines of a file, without holding it in memory.

        :raises BackendError: also if a line has more than ``LARGEST_ANSWER`` bytes.
        """
        async with self._answer("GET", path, {}, FILE_SECONDS) as answer:
            rest = bytearray()
            async for piece in _pieces(answer):
                # Not splitlines: a string in JSON may have characters such as U+2028.
                first, *others = piece.split(b"\n")
                rest += first
                for other in others:
                    yield rest.decode("utf-8", "replace")
                    rest = bytearray(other)
                if len(rest) > LARGEST_ANSWER:
                    raise _too_large("a line", answer)
            if rest:
                yield rest.decode("utf-8", "replace")

    @asynccontextmanager
    async def _answer(
        self, method: str, path: str, query: Mapping[str, str | int], seconds: float = 0.0, **sent: Any
    ) -> AsyncIterator[ClientResponse]:
        """Yield the answer to a call, whose body is not read yet.

        :param seconds: the longest wait for a connection and for a part of the answer, if it is longer than that of the
            options.
        """
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

        if self._session is None:
            self._session = ClientSession(
                connector=TCPConnector(
                    limit=self._options.concurrency, ssl=self._tls or True, keepalive_timeout=KEPT_SECONDS
                ),
                headers=self._headers,
                cookie_jar=DummyCookieJar(),
                auto_decompress=False,
            )
        seconds = max(seconds, self._options.timeout)
        call = self._session.request(
            method,
            self._base + path,
            params={**self._query, **query},
            proxy=self._proxy,
            allow_redirects=False,
            timeout=ClientTimeout(total=None, sock_connect=seconds, sock_read=seconds),
            **sent,
        )
        async with call as answer:
            if not 200 <= answer.status < 300:
                # The status counts, also without a body that can be read.
                content = await _content(answer) if _encoding(answer) in _ENCODINGS else b""
                raise StatusError(answer.status, answer.headers, _parsed(content))
            yield answer

    async def aclose(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _tls_context() -> ssl.SSLContext:
    """Return the settings of TLS, with the authorities of the environment or of the system.

    :raises OSError: if those of the environment cannot be read.
    """
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if sys.platform == "darwin" and not (file or folder):
        # OpenSSL does not read the keychain.
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return ssl.create_default_context(cafile=file or None, capath=folder or None)


async def _content(answer: ClientResponse) -> bytes:
    """Return the body of an answer.

    :raises BackendError: if it has more than ``LARGEST_ANSWER`` bytes, or is refused by :func:`_pieces`.
    """
    content = bytearray()
    async for piece in _pieces(answer):
        content += piece
        if len(content) > LARGEST_ANSWER:
            raise _too_large("the answer", answer)
    return bytes(content)


def _too_large(what: str, answer: ClientResponse) -> BackendError:
    text = f"{what} of {answer.host} has more than the limit of {LARGEST_ANSWER:,} bytes"
    return BackendError(errors.clean(text), kind="response")


#: those that Python's own library reads
_ENCODINGS = ("", "identity", "gzip", "x-gzip", "deflate")


def _encoding(answer: ClientResponse) -> str:
    return answer.headers.get("Content-Encoding", "").strip().lower()


async def _pieces(answer: ClientResponse) -> AsyncIterator[bytes]:
    """Yield the body of an answer in pieces, decompressed if a server compresses what no call asked for.

    :raises BackendError: if it is compressed in a way that is not read here, or is damaged.
    """
    encoding = _encoding(answer)
    if encoding in ("", "identity"):
        async for piece in answer.content.iter_any():
            yield piece
        return
    if encoding not in _ENCODINGS:
        text = f"the answer of {answer.host} is compressed with '{encoding}', which no call asks for"
        raise BackendError(errors.clean(text), kind="response")
    unpacker, is_damaged = None, False
    try:
        async for piece in answer.content.iter_any():
            while piece:
                if unpacker is None or unpacker.eof:
                    # Some servers send "deflate" without the header of zlib; "gzip" may have several members.
                    is_raw = encoding == "deflate" and piece[0] & 0x0F != 8
                    unpacker = zlib.decompressobj(-zlib.MAX_WBITS if is_raw else zlib.MAX_WBITS | 32)
                yield unpacker.decompress(piece, _PIECE)
                piece = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
    except zlib.error:
        is_damaged = True
    if is_damaged or (unpacker is not None and not unpacker.eof):
        text = f"the compressed answer of {answer.host} is damaged or cut off"
        raise BackendError(errors.clean(text), kind="connection", transient=True)


def _parsed(content: bytes) -> Any:
    """Return the JSON of an error's body, or its text."""
    text = content.decode("utf-8", "replace").strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


#: seconds for which a server that failed gets no calls; twice as long after each call that tries it in vain
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
#: the statuses of proxies without a server behind them, and of servers that start or stop
_DOWN = (502, 503, 504)


class Client(Protocol):
    """A client of one server, such as :class:`HttpClient`."""

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
        """Post a body to a path of one server; return (body, headers) of the answer, as :meth:`HttpClient.post`."""
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
                is_down = errors.is_lost(error) or errors.status_of(error) in _DOWN
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
