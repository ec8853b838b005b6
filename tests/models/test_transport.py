"""The HTTP transport against a server that answers byte by byte what a test says."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pytest_llmprops.models.openai_client import httpx
from pytest_llmprops.models.transport import AsyncioTransport

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def _served(
    answers: list[bytes | None], use: Callable[[Any, str], Awaitable[Any]], *, close: bool = False
) -> tuple[Any, int]:
    """What ``use(client, url)`` gives while a server gives ``answers`` in turn; and its connections.

    An answer of None closes the connection without a word; ``close`` closes it after every answer.
    """
    connections = 0
    left = iter(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                answer = next(left)
                # In small pieces, so that nothing depends on how the bytes arrive.
                for start in range(0, len(answer or b""), 7):
                    writer.write((answer or b"")[start : start + 7])
                    await writer.drain()
                if answer is None or close:
                    return
        except (asyncio.IncompleteReadError, ConnectionError, StopIteration):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    transport = AsyncioTransport(httpx)
    try:
        async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
            return await use(client, url), connections
    finally:
        transport.close()
        server.close()


def served(
    answers: list[bytes | None], use: Callable[[Any, str], Awaitable[Any]], **options: Any
) -> tuple[Any, int]:
    """The same, from a test that is no coroutine."""
    return asyncio.run(_served(answers, use, **options))


async def post(client: Any, url: str) -> Any:
    """One call."""
    return await client.post(url, content=b"question")


async def twice(client: Any, url: str) -> list[str]:
    """The texts of two calls after one another."""
    return [(await post(client, url)).text, (await post(client, url)).text]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Trailer: 1\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    ],
)
def test_bodies_are_read_whole_and_connections_kept(answer: bytes) -> None:
    """Bodies by length or in chunks arrive whole, and the connection serves the next call."""
    assert served([answer, answer], twice) == (["hello", "hello"], 1)


def test_body_until_the_connection_closes() -> None:
    """Without a length the body ends with the connection."""
    answer = b"HTTP/1.0 200 OK\r\n\r\nhello"
    assert served([answer, answer], twice, close=True) == (["hello", "hello"], 2)


def test_compressed_body_is_decoded() -> None:
    """A gzip body is decoded by the response class."""
    body = gzip.compress(b"hello")
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
    response, _ = served([head + body], post)
    assert response.text == "hello"


def test_status_and_headers_arrive() -> None:
    """Status and headers of an error answer are the server's."""
    head = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n"
    response, _ = served([head], post)
    assert (response.status_code, response.headers["retry-after"], response.content) == (429, "3", b"")


def test_connection_that_the_server_closes_is_not_used_again() -> None:
    """After ``Connection: close`` the next call opens a new connection."""
    answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
    assert served([answer, answer], twice, close=True) == (["ok", "ok"], 2)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_broken_answers_are_read_errors(answer: bytes | None) -> None:
    """A connection cut short and an answer that is not HTTP are read errors, and the next call works."""

    async def use(client: Any, url: str) -> str:
        with pytest.raises(httpx.ReadError):
            await post(client, url)
        text: str = (await post(client, url)).text
        return text

    assert served([answer, OK], use, close=True)[0] == "ok"


def test_slow_answer_is_a_timeout() -> None:
    """The timeout bounds the whole answer, also one that keeps dripping."""

    async def use(client: Any, url: str) -> None:
        with pytest.raises(httpx.ReadTimeout):
            await client.post(url, content=b"q", timeout=0.05)

    served([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel"], use)


def test_cancelled_call_does_not_spoil_the_next() -> None:
    """A cancelled call drops its connection, so that its answer is not taken for another's."""

    async def use(client: Any, url: str) -> str:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await post(client, url)
        text: str = (await post(client, url)).text
        return text

    assert served([b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", OK], use) == ("ok", 2)


def test_nobody_listening_is_a_connect_error() -> None:
    """A port without a server is a connect error."""

    async def call() -> None:
        async with httpx.AsyncClient(transport=AsyncioTransport(httpx), trust_env=False) as client:
            with pytest.raises(httpx.ConnectError, match="Connect call failed"):
                await client.post("http://127.0.0.1:9/v1", content=b"q")

    asyncio.run(call())
