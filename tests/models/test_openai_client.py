"""The OpenAI backend's HTTP client against a server whose raw answers a test sets."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest
import trustme

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.models.api import openai
from pytest_llmprops.models.api.openai import BACKEND, OpenAIModel
from pytest_llmprops.models.base import BackendOptions, Result
from pytest_llmprops.models.registry import parse_spec

T = TypeVar("T")
PROXIES = (
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
)


def completion(text: str) -> bytes:
    """Return the JSON body of a reply."""
    message = {"role": "assistant", "content": text}
    return json.dumps({"model": "m", "choices": [{"message": message, "finish_reason": "stop"}]}).encode()


def chunked(body: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    """Return a body in two chunks, the second with an extension."""
    first, second = body[:2], body[2:]
    return b"%x\r\n%s\r\n%x;x=y\r\n%s\r\n%s" % (len(first), first, len(second), second, end)


HELLO = completion("hello")
SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n" % len(HELLO)
OK = SIZED + b"\r\n" + HELLO


@dataclass
class Server:
    """Sends ``answers`` in turn; None closes the connection without an answer.

    :param closing: close the connection after every answer. :param pause: seconds between the pieces of an answer.
    """

    answers: list[bytes | None]
    closing: bool = False
    pause: float = 0.0
    port: int = 0
    connections: int = 0
    first_lines: list[str] = field(default_factory=list)
    #: headers of the last request
    head: str = ""
    #: set once a request was read
    has_read: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.connections += 1
        try:
            while self.answers:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
                self.first_lines.append(head.split(b"\r\n")[0].decode())
                self.head = head.decode()
                self.has_read.set()
                answer = self.answers.pop(0)
                # Send small pieces, so that the test does not depend on how the bytes arrive.
                for start in range(0, len(answer or b""), 7):
                    writer.write((answer or b"")[start : start + 7])
                    await writer.drain()
                    await asyncio.sleep(self.pause)
                if answer is None or self.closing:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    def run(
        self,
        use: Callable[[OpenAIModel], Awaitable[T]],
        *,
        url: str = "http://127.0.0.1:{port}/v1",
        timeout: float = 10.0,
        tls: ssl.SSLContext | None = None,
    ) -> T:
        """Return the result of ``use`` for a model at this server, or at another ``url``."""

        async def used() -> T:
            server = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=tls)
            self.port = server.sockets[0].getsockname()[1]
            options = BackendOptions(url.format(port=self.port), timeout)
            model = BACKEND.factory(parse_spec("openai:m"), options)
            assert isinstance(model, OpenAIModel)
            try:
                return await use(model)
            finally:
                await model.aclose()
                server.close()

        return asyncio.run(used())


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove keys, proxies and certificates of the machine from the environment."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "SSL_CERT_FILE", "SSL_CERT_DIR", *PROXIES):
        monkeypatch.delenv(name, raising=False)


async def call(model: OpenAIModel) -> Result:
    """Make one call."""
    [result] = await model.chat([Chat.user("question")])
    return result


async def twice(model: OpenAIModel) -> list[str]:
    """Return the texts of two calls, one after the other."""
    return [text(await call(model)), text(await call(model))]


def text(result: Result) -> str:
    """Return the text of a result, which must be a reply."""
    assert isinstance(result, Reply), result
    return result.text


def error(result: Result) -> BackendError:
    """Return the result, which must be an error."""
    assert isinstance(result, BackendError), result
    return result


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(HELLO),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        + chunked(HELLO, b"0\r\nX-Trailer: 1\r\n\r\n"),
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
    ],
    ids=["length", "chunks", "trailer", "continue"],
)
def test_bodies_are_read_whole_and_connections_kept(answer: bytes) -> None:
    """Bodies with a length or in chunks arrive whole, and the connection serves the next call."""
    server = Server([answer, answer])
    assert server.run(twice) == ["hello", "hello"]
    assert server.connections == 1


def test_body_until_the_connection_closes() -> None:
    """Without a length the body ends with the connection."""
    server = Server([b"HTTP/1.0 200 OK\r\n\r\n" + HELLO] * 2, closing=True)
    assert server.run(twice) == ["hello", "hello"]
    assert server.connections == 2


def test_compressed_body_is_decoded() -> None:
    """A gzip body is decoded."""
    body = gzip.compress(HELLO)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert text(Server([head + body]).run(call)) == "hello"


def test_connection_that_the_server_closes_is_not_used_again() -> None:
    """After ``Connection: close`` the next call opens a new connection."""
    server = Server([SIZED + b"Connection: close\r\n\r\n" + HELLO] * 2, closing=True)
    assert server.run(twice) == ["hello", "hello"]
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + HELLO,
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["nothing", "cut-off", "ssh", "negative-length", "no-colon", "no-chunk"],
)
def test_broken_answers_are_transient_connection_errors(answer: bytes | None) -> None:
    """A connection cut short and an answer that is not HTTP are transient errors, and the next call works."""
    server = Server([answer, OK], closing=True)

    async def use(model: OpenAIModel) -> tuple[Result, Result]:
        return await call(model), await call(model)

    broken, after = server.run(use)
    assert (error(broken).kind, error(broken).transient, error(broken).fatal) == ("connection", True, False)
    assert str(broken).startswith(f"cannot reach http://127.0.0.1:{server.port}/v1")
    assert text(after) == "hello"


def whole(body: bytes) -> bytes:
    """Return an answer with this body."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        len(body),
        body,
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b'{"usage": ' + b"9" * 5_000 + b"}", "an integer has too many digits"),
        (
            b'{"choices": [{"message": {"content": "x"}, "finish_reason": ["stop"]}]}',
            "has a finish_reason of JSON type array",
        ),
    ],
    ids=["deep", "digits", "finish_reason"],
)
def test_odd_json_is_named_as_what_it_is(body: bytes, said: str) -> None:
    """The error for JSON that no reply has says what is odd, and not what Python calls it."""
    odd = error(Server([whole(body)]).run(call))
    assert (odd.kind, odd.transient) == ("response", True)
    assert said in str(odd)


def test_a_too_large_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for an answer above the limit has the size and the limit."""
    monkeypatch.setattr(openai, "LARGEST_ANSWER", 1_000)
    large = error(Server([whole(completion("x" * 1_000))]).run(call))
    assert re.search(r"/v1 has 1,\d{3} bytes; the limit is 1,000$", str(large))


@pytest.mark.parametrize("pause", [0.04, 60.0], ids=["dripping", "stalled"])
def test_slow_answer_is_a_timeout(pause: float) -> None:
    """The timeout bounds the whole answer, even if it arrives slowly."""
    slow = error(Server([OK], pause=pause).run(call, timeout=0.3))
    assert (slow.kind, slow.transient) == ("timeout", True)


def test_cancelled_call_does_not_spoil_the_next() -> None:
    """A cancelled call drops its connection, so another call cannot get its answer."""
    server = Server([b"HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n", OK])

    async def use(model: OpenAIModel) -> str:
        cancelled = asyncio.ensure_future(call(model))
        await server.has_read.wait()
        # The beginning of the answer may arrive.
        await asyncio.sleep(0.1)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        return text(await call(model))

    assert server.run(use) == "hello"
    assert server.connections == 2


def test_as_many_connections_as_calls_at_once() -> None:
    """More calls than common default connection limits are in flight at the same time."""
    everyone = 150
    all_there = asyncio.Event()

    class Patient(Server):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            self.connections += 1
            if self.connections == everyone:
                all_there.set()
            await all_there.wait()
            writer.write(OK)
            await writer.drain()
            writer.close()

    async def use() -> list[Result]:
        patient = Patient([])
        server = await asyncio.start_server(patient.serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        model = BACKEND.factory(parse_spec("openai:m"), BackendOptions(url, 20.0, concurrency=everyone))
        assert isinstance(model, OpenAIModel)
        results = await asyncio.gather(*(call(model) for _ in range(everyone)))
        await model.aclose()
        server.close()
        return results

    assert {text(result) for result in asyncio.run(use())} == {"hello"}


def test_redirects_are_followed() -> None:
    """A redirect that keeps the method leads to the answer."""
    moved = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /v2/chat/completions\r\nContent-Length: 0\r\n\r\n"
    server = Server([moved, OK])
    assert text(server.run(call)) == "hello"
    assert server.first_lines == ["POST /v1/chat/completions HTTP/1.1", "POST /v2/chat/completions HTTP/1.1"]


def test_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls go through the proxy that the environment names, except to hosts in ``no_proxy``."""
    server = Server([OK, OK])

    async def through(model: OpenAIModel) -> Result:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
        return await call(model)

    assert text(server.run(through, url="http://api.invalid/v1")) == "hello"
    assert server.first_lines == ["POST http://api.invalid/v1/chat/completions HTTP/1.1"]
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert error(server.run(call)).kind == "connection"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert text(server.run(call)) == "hello"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Return a private certificate authority."""
    return trustme.CA()


def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    """Return a server's TLS context, with a certificate of the authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


def test_private_authority_of_the_environment_is_trusted(
    authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server certificate signed by the authority in ``SSL_CERT_FILE`` is trusted."""
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    server = Server([OK, OK])
    assert server.run(twice, url="https://127.0.0.1:{port}/v1", tls=server_tls(authority)) == [
        "hello",
        "hello",
    ]
    assert server.connections == 1


def test_unknown_authority_is_a_fatal_error(authority: trustme.CA) -> None:
    """An untrusted certificate stops the run with one line."""
    refused = error(Server([OK]).run(call, url="https://127.0.0.1:{port}/v1", tls=server_tls(authority)))
    assert (refused.kind, refused.fatal) == ("connection", True)
    assert "certificate cannot be verified" in str(refused)


def test_user_of_the_address_is_sent_as_a_header(monkeypatch: pytest.MonkeyPatch) -> None:
    """User and password of the base URL are sent in place of the key, and only as the Authorization header."""
    monkeypatch.setenv("OPENAI_API_KEY", "unused-key-1")
    server = Server([OK])
    reply = server.run(call, url="http://user:se%20cret@127.0.0.1:{port}/v1")
    assert text(reply) == "hello"
    assert "\r\nauthorization: basic dxnlcjpzzsbjcmv0\r\n" in server.head.lower()
    assert "unused-key-1" not in server.head
    assert server.first_lines == ["POST /v1/chat/completions HTTP/1.1"]


def test_error_does_not_show_the_password() -> None:
    """An error message has neither the password of the base URL nor the header's value."""
    body = b'{"error": {"message": "user:secret9 (dXNlcjpzZWNyZXQ5) is unknown"}}'
    refusal = b"HTTP/1.1 401 No\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    message = error(Server([refusal + body]).run(call, url="http://user:secret9@127.0.0.1:{port}/v1")).message
    assert "user:[key] ([key]) is unknown" in message


def test_key_in_a_reply_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that the server repeats in its reply is replaced, and with it the tokens of the text."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-abc-123-echo")
    tokens = [{"token": part, "logprob": -1.0} for part in ("sk-abc", "-123-echo")]
    message = {"content": "Your key is sk-abc-123-echo."}
    choice = {"message": message, "finish_reason": "stop", "logprobs": {"content": tokens}}
    body = json.dumps({"model": "m of sk-abc-123-echo", "choices": [choice]}).encode()
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    reply = Server([answer]).run(call)
    assert isinstance(reply, Reply)
    assert (reply.text, reply.served_model, reply.logprobs) == ("Your key is [key].", "m of [key]", None)


def test_word_that_is_a_local_servers_key_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A local server may take any word as the key, which stays in replies."""
    monkeypatch.setenv("OPENAI_API_KEY", "password")
    body = completion("The password is right.")
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    assert text(Server([answer]).run(call)) == "The password is right."
