"""A small HTTP/1.1 transport on asyncio for the OpenAI SDK's client.

The SDK keeps its own request building, authentication and error mapping; only the bytes travel another
way. Measured by ``bench/transport.py``: this costs a fraction of the SDK's own transports in CPU and,
unlike aiohttp, nothing to import. It speaks what a JSON API needs: keep-alive, TLS, Content-Length,
chunked and close-delimited bodies (compressed ones are decoded by the response class). It knows no
proxies and no HTTP/2: where the environment names a proxy, the SDK's own transport is used.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any, Self

_LARGEST_HEAD = 1 << 16
_LARGEST_BODY = 1 << 26
#: Seconds after which an idle connection is not trusted any more.
_IDLE = 15.0
_BODILESS = (204, 304)


class _BrokenError(Exception):
    """The server closed the connection early, or does not speak HTTP."""


class _Connection(asyncio.Protocol):
    """One connection, one exchange at a time."""

    __slots__ = ("_body", "_buffer", "_head", "_left", "_loop", "_waiter", "idle_since", "open", "transport")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiter: asyncio.Future[bytes] | None = None
        self.open = False
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.open = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        if self._waiter is None or self._waiter.done():
            return
        if self._head is not None and self._left is None:
            # Neither Content-Length nor chunks: the end of the connection is the end of the body.
            self._waiter.set_result(bytes(self._buffer))
        else:
            self._waiter.set_exception(_BrokenError(str(exc) if exc else "the server closed the connection"))

    def eof_received(self) -> bool:
        return False

    def _start(self) -> None:
        self._buffer = bytearray()
        self._head: tuple[int, list[tuple[bytes, bytes]]] | None = None
        #: bytes of the body still awaited; -1 for chunks, None for "until the connection closes"
        self._left: int | None = 0

    async def exchange(
        self, message: bytes, timeout: float | None
    ) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Send one request; (status, headers, body) of its response.

        :raises TimeoutError: when the whole response is not there after ``timeout`` seconds.
        :raises _BrokenError: for a connection cut short or an answer that is not HTTP.
        """
        self._start()
        waiter = self._waiter = self._loop.create_future()
        timer = self._loop.call_later(timeout, self._time_out) if timeout is not None else None
        try:
            self.transport.write(message)
            body = await waiter
        except BaseException:
            # Cancelled or broken: what still comes must not be taken for the next answer.
            self.close()
            raise
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
        assert self._head is not None
        return *self._head, body

    def _time_out(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(TimeoutError())

    def close(self) -> None:
        """Drop the connection."""
        if self.open:
            self.open = False
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            # Nothing was asked: the server is out of step, its words belong to no request.
            self.close()
            return
        self._buffer += data
        try:
            body = self._parse()
        except (ValueError, IndexError):
            waiter.set_exception(_BrokenError("the server does not answer in HTTP"))
            return
        if body is not None:
            waiter.set_result(body)

    def _parse(self) -> bytes | None:
        """The body once it is complete."""
        buffer = self._buffer
        while self._head is None:
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(buffer) > _LARGEST_HEAD or not b"HTTP/1.".startswith(bytes(buffer[:7])):
                    raise ValueError
                return None
            status, headers = _parse_head(bytes(buffer[:end]))
            del buffer[: end + 4]
            if status >= 200:
                self._head = (status, headers)
                self._left = _body_length(status, headers)
        if self._left is None:
            if len(buffer) > _LARGEST_BODY:
                raise ValueError
            return None
        if self._left >= 0:
            return bytes(buffer[: self._left]) if len(buffer) >= self._left else None
        return _dechunk(buffer)


def _parse_head(head: bytes) -> tuple[int, list[tuple[bytes, bytes]]]:
    first, *lines = head.split(b"\r\n")
    version, status = first.split(b" ", 2)[:2]
    if not version.startswith(b"HTTP/1."):
        raise ValueError
    headers = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon:
            raise ValueError
        headers.append((name, value.strip()))
    if version == b"HTTP/1.0" and _header(headers, b"connection") is None:
        headers.append((b"connection", b"close"))
    return int(status), headers


def _header(headers: list[tuple[bytes, bytes]], wanted: bytes) -> bytes | None:
    for name, value in headers:
        if name.lower() == wanted:
            return value.lower()
    return None


def _body_length(status: int, headers: list[tuple[bytes, bytes]]) -> int | None:
    if status in _BODILESS:
        return 0
    if b"chunked" in (_header(headers, b"transfer-encoding") or b""):
        return -1
    length = _header(headers, b"content-length")
    if length is None:
        return None
    if not length.isdigit() or int(length) > _LARGEST_BODY:
        raise ValueError
    return int(length)


def _dechunk(buffer: bytearray) -> bytes | None:
    """The body of chunks once the last is there. Starts anew at each call: bodies here are small."""
    body, at = bytearray(), 0
    while True:
        end = buffer.find(b"\r\n", at)
        if end < 0:
            return None
        size = int(bytes(buffer[at:end]).split(b";")[0], 16)
        at = end + 2
        if size < 0 or len(body) + size > _LARGEST_BODY:
            raise ValueError
        if size == 0:
            # Trailers, if any, end with an empty line.
            done = buffer.startswith(b"\r\n", at) or buffer.find(b"\r\n\r\n", at) >= 0
            return bytes(body) if done else None
        if len(buffer) < at + size + 2:
            return None
        body += buffer[at : at + size]
        at += size + 2


class AsyncioTransport:
    """Carries the requests of an ``httpx``/``httpx2`` ``AsyncClient`` over asyncio.

    :param httpx: the module whose client it serves; responses and exceptions are that module's.

    It keeps as many connections as there are calls at once; how many that are, the caller decides.
    """

    def __init__(self, httpx: Any) -> None:
        self._httpx = httpx
        self._idle: dict[tuple[str, str, int], list[_Connection]] = {}
        self._busy: set[_Connection] = set()
        self._tls: ssl.SSLContext | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *details: object) -> None:
        self.close()

    async def aclose(self) -> None:
        """Close every connection."""
        self.close()

    def close(self) -> None:
        """Close every connection; from the event loop's thread."""
        for connection in [*self._busy, *(c for idle in self._idle.values() for c in idle)]:
            connection.close()
        self._idle.clear()
        self._busy.clear()

    async def handle_async_request(self, request: Any) -> Any:
        """Send ``request``; its response with the body read.

        :raises Exception: the ``httpx`` module's ConnectError, ConnectTimeout, ReadTimeout or ReadError.
        """
        httpx, url = self._httpx, request.url
        timeouts: Mapping[str, float | None] = request.extensions.get("timeout", {})
        place = (url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80))
        body = await request.aread()
        lines = [b"%s %s HTTP/1.1" % (request.method.encode("ascii"), url.raw_path)]
        lines += [b"%s: %s" % header for header in request.headers.raw]
        message = b"\r\n".join([*lines, b"", body])
        if any(b"\n" in line or b"\r" in line for line in lines):
            raise httpx.LocalProtocolError("a header holds a line break")
        connection = self._reusable(place) or await self._connect(place, timeouts.get("connect"))
        self._busy.add(connection)
        try:
            status, headers, content = await connection.exchange(message, timeouts.get("read"))
        except TimeoutError:
            raise httpx.ReadTimeout("no answer in time", request=request) from None
        except _BrokenError as error:
            raise httpx.ReadError(str(error), request=request) from None
        finally:
            self._busy.discard(connection)
        if connection.open and b"close" not in (_header(headers, b"connection") or b""):
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.setdefault(place, []).append(connection)
        else:
            connection.close()
        return httpx.Response(status, headers=headers, content=content, request=request)

    def _reusable(self, place: tuple[str, str, int]) -> _Connection | None:
        idle = self._idle.get(place, [])
        oldest = asyncio.get_running_loop().time() - _IDLE
        while idle:
            connection = idle.pop()
            if connection.open and connection.idle_since >= oldest:
                return connection
            connection.close()
        return None

    async def _connect(self, place: tuple[str, str, int], timeout: float | None) -> _Connection:
        scheme, host, port = place
        loop = asyncio.get_running_loop()
        if scheme == "https" and self._tls is None:
            self._tls = self._httpx.create_ssl_context()
        try:
            async with asyncio.timeout(timeout):
                _, connection = await loop.create_connection(
                    lambda: _Connection(loop),
                    host,
                    port,
                    ssl=self._tls if scheme == "https" else None,
                    happy_eyeballs_delay=0.25,
                )
        except TimeoutError:
            raise self._httpx.ConnectTimeout("no connection in time") from None
        except OSError as error:
            raise self._httpx.ConnectError(error.strerror or str(error)) from error
        return connection
