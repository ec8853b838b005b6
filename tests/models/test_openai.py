"""The OpenAI backend: against the stub server, and against a server whose raw answers a test sets."""

from __future__ import annotations

import asyncio
import gzip
import json
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from bench.stub_server import RunningStub, running_stub
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.requests import Chat
from pytest_llmprops.models.api.http import LARGEST_ANSWER
from pytest_llmprops.models.api.openai import OpenAIModel
from pytest_llmprops.models.base import Result
from pytest_llmprops.models.secrets import Secrets
from pytest_llmprops.models.spec import normalised_url
from tests.support.backends import called, error, fatal, make, reply
from tests.support.networks import clear_network

T = TypeVar("T")
ASKED = Chat.user("question", temperature=0.0, max_tokens=5)


@pytest.fixture(scope="module")
def stub() -> Iterator[RunningStub]:
    """One server for all tests that do not depend on its counts."""
    with running_stub(delay=0.005) as running:
        yield running


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove what the machine sets from the environment."""
    clear_network(monkeypatch)


def one(name: str, url: str | None, request: Chat = ASKED, *, timeout: float = 10.0) -> Result:
    """Return the result of one call."""
    return called(make(f"openai:{name}", base_url=url, timeout=timeout), request)[0]


def test_reply_carries_text_usage_model_and_price(stub: RunningStub) -> None:
    """A reply has text, finish reason, usage, served model, cost and time."""
    got = reply(one("m?price_in=1000000&price_out=1000000", stub.url))
    assert got.text in ("A", "B")
    assert (got.finish_reason, got.served_model) == ("stop", "m-0001")
    assert got.usage.completion_tokens == 1
    assert got.cost_usd == got.usage.prompt_tokens + 1
    assert 0.004 < got.seconds < 10


@pytest.mark.parametrize(
    "tokens",
    [
        [{"token": {"__array__": "!!!", "type": "zz", "shape": [1]}, "logprob": -1.0}],
        [{"token": "a", "logprob": -1.0, "top_logprobs": [{"token": 1, "logprob": -1.0}]}],
    ],
)
def test_logprobs_that_are_not_tokens_with_numbers_are_left_out(tokens: list[Any]) -> None:
    """A server may send any JSON in place of log probabilities; its answer is kept."""
    choice = {"message": {"content": "yes"}, "logprobs": {"content": tokens}}
    got = reply(Server([whole(json.dumps({"choices": [choice]}).encode())]).run(call))
    assert (got.text, got.logprobs) == ("yes", None)


@pytest.mark.parametrize("cost", [-1, 10**400])
def test_cost_that_is_not_a_number_is_unknown(cost: Any) -> None:
    """A server's ``cost_usd`` may be anything; its answer is kept."""
    body = {"choices": [{"message": {"content": "yes"}}], "cost_usd": cost}
    got = reply(Server([whole(json.dumps(body).encode())]).run(call))
    assert (got.text, got.cost_usd) == ("yes", None)


@pytest.mark.parametrize(("name", "parameter"), [("strict", "shoe_size"), ("m", "stream")])
def test_refused_extra_parameters_are_named(stub: RunningStub, name: str, parameter: str) -> None:
    """An unknown ``--llm-param`` reaches the server, which refuses it; one that the plugin sets is refused here."""
    refused = fatal(one(name, stub.url, Chat.user("q", extra=((parameter, 9),))), f"--llm-param {parameter}")
    assert refused.kind == "request"


@pytest.mark.parametrize(
    ("name", "text"), [("filtered", ""), ("filtered-reply", ""), ("refusing", "I cannot help with that.")]
)
def test_refusals_are_replies(stub: RunningStub, name: str, text: str) -> None:
    """Azure's 400 for a prompt, a reply emptied by the filter and the text of a refusal field are refusals."""
    got = reply(one(name, stub.url))
    assert (got.text, got.finish_reason) == (text, "content_filter")


@pytest.mark.parametrize(
    ("name", "kind", "fatal", "transient", "said"),
    [
        ("missing", "model", True, False, "unknown model 'missing'"),
        ("quota", "quota", True, False, "quota is used up"),
        ("too-long", "request", False, False, "maximum context length is 8 tokens. However, you"),
        ("not-json", "url", True, False, "returned text instead of JSON"),
        ("status-404", "url", True, False, "usually ends in /v1"),
        ("status-429", "status 429", False, True, "status 429"),
        ("status-503", "status 503", False, True, "Something went ␛[31mwrong."),
    ],
)
def test_errors_are_classified(
    stub: RunningStub, name: str, kind: str, fatal: bool, transient: bool, said: str
) -> None:
    """Each kind of failure becomes an error of its kind, in one clean line."""
    got = error(one(name, stub.url))
    assert (got.kind, got.fatal, got.transient) == (kind, fatal, transient)
    assert said in str(got)
    assert str(got).isprintable()


def test_each_failed_call_is_one_request() -> None:
    """The SDK's own retries are off: the server sees a failing call once."""
    with running_stub(delay=0) as server:
        one("status-503", server.url)
        assert server.stats()["requests"] == 1


@pytest.mark.parametrize(("name", "low", "high"), [("seconds", 0.3, 0.3), ("ms", 0.25, 0.25), ("date", 1, 3)])
def test_retry_after_is_read(name: str, low: float, high: float) -> None:
    """Retry-After is read as seconds, as a date or in milliseconds."""
    with running_stub(delay=0) as server:
        wait = error(one(f"limited-{name}", server.url)).retry_after
    assert wait is not None
    assert low <= wait <= high


def test_missing_key_is_one_line() -> None:
    """Without base URL and key the first call is a fatal error that names the variable."""
    assert fatal(one("gpt-4o", None), "set the environment variable OPENAI_API_KEY").kind == "key"


@pytest.mark.parametrize("key", ["wrong", "forbidden", "sk-abc\nwrong"])
def test_refused_key_is_never_shown(stub: RunningStub, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """The message has neither a key that the server repeats, nor one that cannot be sent."""
    monkeypatch.setenv("OPENAI_API_KEY", key)
    got = Secrets.of_run({}, ()).error(fatal(one("m", stub.url)))
    assert got.kind == ("forbidden" if key == "forbidden" else "key")
    assert "wrong" not in str(got)


def test_reasoning_model_is_adapted_to_once() -> None:
    """Refused parameters are left out or renamed; all calls in flight succeed."""
    with running_stub(delay=0.02) as server:
        model = make("openai:reasoner-1", base_url=server.url)
        first = called(model, *(Chat.user(f"q{i}", temperature=0.0, max_tokens=4096) for i in range(8)))
        adapted = server.stats()["requests"]
        again = called(model, *(Chat.user(f"r{i}", temperature=0.0, max_tokens=4096) for i in range(8)))
        assert server.stats()["requests"] == adapted + 8
    assert all(reply(r).text in ("A", "B") for r in first + again)
    assert reply(first[0]).usage.reasoning_tokens == 200
    assert model.deviations() == (
        "max_tokens sent as max_completion_tokens",
        "temperature left out",
    )


def test_batch_gives_results_in_order(stub: RunningStub) -> None:
    """Results are in order; a lone surrogate in a prompt is an error of its call only."""

    async def calls() -> Any:
        model = make("openai:m", base_url=stub.url)
        try:
            return await model.chat([Chat.user("one"), Chat.user("\ud800"), Chat.user("two")])
        finally:
            await model.aclose()

    first, bad, third = asyncio.run(calls())
    assert reply(first).text == reply(one("m", stub.url, Chat.user("one"))).text
    assert (error(bad).kind, error(bad).fatal, error(bad).transient) == ("request", False, False)
    assert reply(third).text == reply(one("m", stub.url, Chat.user("two"))).text


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("https://user:secret@host/v1?key=1", "https://host/v1"),
        ("http://[::1]:80/v1", "http://[::1]:80/v1"),
    ],
)
def test_recorded_address_holds_no_secret(address: str, kept: str) -> None:
    """An address is recorded by host, port and path only, in a normalised form."""
    assert normalised_url(address) == kept


@pytest.mark.parametrize("url", ["localhost:8000/v1", "http://"])
def test_bad_address_gives_one_line(url: str) -> None:
    """An address that is not http is a UsageError that shows how to write one."""
    with pytest.raises(UsageError, match=r"--llm-base-url .*write http://HOST:PORT/v1"):
        make("openai:m", base_url=url)


def test_identity_and_pinning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The identity names model and server; a name that ends in a date is pinned."""
    assert make("openai:gpt-4o").identity == {"backend": "openai", "name": "gpt-4o", "base_url": ""}
    assert make("openai:m", base_url="http://h/v1/").identity["base_url"] == "http://h/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://other/v1")
    assert make("openai:m").identity["base_url"] == "http://other/v1"
    assert make("openai:gpt-4o-2024-05-13").pinned
    assert not make("openai:gpt-4o").pinned


def completion(text: str) -> bytes:
    """Return the JSON body of a reply."""
    message = {"role": "assistant", "content": text}
    return json.dumps({"model": "m", "choices": [{"message": message, "finish_reason": "stop"}]}).encode()


def whole(body: bytes, status: bytes = b"200 OK") -> bytes:
    """Return an answer with this body."""
    head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(body)) + body


def chunked(body: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    """Return a body in two chunks, the second with an extension."""
    first, second = body[:2], body[2:]
    return b"%x\r\n%s\r\n%x;x=y\r\n%s\r\n%s" % (len(first), first, len(second), second, end)


HELLO = completion("hello")
SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n" % len(HELLO)
OK = SIZED + b"\r\n" + HELLO

#: a body in each way in which servers compress
PACKED = {
    "gzip": gzip.compress(HELLO),
    "x-gzip": gzip.compress(HELLO[:20]) + gzip.compress(HELLO[20:]),
    "deflate": zlib.compress(HELLO),
    "Deflate": zlib.compress(HELLO, wbits=-zlib.MAX_WBITS),
}


@dataclass
class Server:
    """Sends ``answers`` in turn; None closes the connection without an answer.

    :param answer: returns the answer to a prompt, in place of ``answers``.
    :param closing: close the connection after every answer. :param pause: seconds between the pieces of an answer.
    """

    answers: list[bytes | None] = field(default_factory=list)
    answer: Callable[[str], bytes] | None = None
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
            while self.answers or self.answer:
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                prompt = json.loads(await reader.readexactly(size))["messages"][0]["content"]
                self.first_lines.append(head.split(b"\r\n")[0].decode())
                self.head = head.decode()
                self.has_read.set()
                answer = self.answer(prompt) if self.answer else self.answers.pop(0)
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
    ) -> T:
        """Return the result of ``use`` for a model at this server, or at another ``url``."""

        async def used() -> T:
            server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            model = make("openai:m", base_url=url.format(port=self.port), timeout=timeout)
            try:
                return await use(model)
            finally:
                await model.aclose()
                server.close()

        return asyncio.run(used())


async def call(model: OpenAIModel) -> Result:
    """Make one call."""
    [result] = await model.chat([Chat.user("question")])
    return result


async def twice(model: OpenAIModel) -> list[str]:
    """Return the texts of two calls, one after the other."""
    return [reply(await call(model)).text, reply(await call(model)).text]


def packed(encoding: str) -> bytes:
    """Return the answer with a compressed body."""
    body = PACKED[encoding]
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n"
    return head % (encoding.encode(), len(body)) + body


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "connections"),
    [
        (CHUNKED + chunked(HELLO), 1),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, 1),
        (b"HTTP/1.0 200 OK\r\n\r\n" + HELLO, 2),
        *((packed(name), 1) for name in PACKED),
        (SIZED + b"Connection: close\r\n\r\n" + HELLO, 2),
    ],
    ids=["chunks", "continue", "until-closed", *PACKED, "close"],
)
def test_bodies_are_read_whole_and_connections_kept(answer: bytes, connections: int) -> None:
    """Bodies arrive whole, and the connection serves the next call unless the server closes it."""
    server = Server([answer, answer], closing=connections == 2)
    assert server.run(twice) == ["hello", "hello"]
    assert server.connections == connections


def test_connections_are_used_again() -> None:
    """Each prompt gets its own reply, over about as many connections as there are calls in flight."""

    async def calls(model: OpenAIModel) -> list[str]:
        slots = asyncio.Semaphore(4)

        async def text(number: int) -> str:
            async with slots:
                [result] = await model.chat([Chat.user(str(number))])
                return reply(result).text

        return await asyncio.gather(*map(text, range(400)))

    server = Server(answer=lambda prompt: whole(completion(prompt)))
    assert server.run(calls) == list(map(str, range(400)))
    assert server.connections <= 8


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + HELLO,
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["nothing", "cut-off", "ssh", "no-chunk"],
)
def test_broken_answers_are_transient_connection_errors(answer: bytes | None) -> None:
    """A connection cut short and an answer that is not HTTP are transient errors, and the next call works."""
    server = Server([answer, OK], closing=True)

    async def use(model: OpenAIModel) -> tuple[Result, Result]:
        return await call(model), await call(model)

    broken, after = server.run(use)
    assert (error(broken).kind, error(broken).transient, error(broken).fatal) == ("connection", True, False)
    assert str(broken).startswith(f"cannot reach http://127.0.0.1:{server.port}/v1")
    assert reply(after).text == "hello"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"[" * 5_000, "nested too deeply"),
        (b'{"usage": ' + b"9" * 5_000 + b"}", "an integer has too many digits"),
        (
            b'{"choices": [{"message": {"content": "x"}, "finish_reason": ["stop"]}]}',
            "has a finish_reason of JSON type array",
        ),
        (b'{"choices": [{"finish_reason": "stop"}]}', "has a message of JSON type null"),
    ],
    ids=["deep", "digits", "finish_reason", "no message"],
)
def test_odd_json_is_named_as_what_it_is(body: bytes, said: str) -> None:
    """The error for JSON that no reply has says what is odd, and not what Python calls it."""
    odd = error(Server([whole(body)]).run(call), said)
    assert (odd.kind, odd.transient) == ("response", True)


ZERO_BYTES = b"\x00" * 2**20
SMALL_ZEROS = gzip.compress(ZERO_BYTES)


def piece(head: bytes) -> bytes:
    """Return what a server sends again and again after the head of its answer."""
    if b"gzip" in head:
        return SMALL_ZEROS
    return b"%x\r\n%b\r\n" % (len(ZERO_BYTES), ZERO_BYTES) if head.startswith(b"Transfer") else ZERO_BYTES


@pytest.mark.parametrize(
    ("status", "head", "pieces"),
    [
        (b"200 OK", b"Transfer-Encoding: chunked\r\n", 200),
        (b"500 No", b"", 200),
        # 32 MB, which become 32 GB
        (b"200 OK", b"Content-Encoding: gzip\r\n", 32_000),
    ],
    ids=["chunks", "until closed", "gzip"],
)
def test_large_bodies_are_refused_before_they_fill_the_memory(
    status: bytes, head: bytes, pieces: int
) -> None:
    """A body above 64 MB, compressed or not, is an error that is not retried; the memory stays below 80 MB."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        with suppress(ConnectionError):
            writer.write(b"HTTP/1.1 " + status + b"\r\n" + head + b"\r\n")
            for _ in range(pieces):
                writer.write(piece(head))
                await writer.drain()
            await writer.drain()
        writer.close()

    async def work() -> tuple[Result, int]:
        listening = await asyncio.start_server(serve, "127.0.0.1", 0)
        model = make(
            "openai:m", base_url=f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1", timeout=30.0
        )
        tracemalloc.start()
        try:
            return await call(model), tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            await model.aclose()
            listening.close()

    result, peak = asyncio.run(work())
    large = error(result)
    assert (large.kind, large.transient) == ("response", False)
    assert f"limit of {LARGEST_ANSWER:,} bytes" in str(large)
    assert peak < 80 * 2**20


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
        return reply(await call(model)).text

    assert server.run(use) == "hello"
    assert server.connections == 2


def test_user_of_the_address_is_sent_as_a_header(monkeypatch: pytest.MonkeyPatch) -> None:
    """User and password of the base URL are sent in place of the key, and only as the Authorization header."""
    monkeypatch.setenv("OPENAI_API_KEY", "unused-key-1")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    server = Server([OK])
    assert reply(server.run(call, url="http://user:se%20cret@127.0.0.1:{port}/v1")).text == "hello"
    assert "\r\nauthorization: basic dxnlcjpzzsbjcmv0\r\n" in server.head.lower()
    assert "unused-key-1" not in server.head
    assert "\r\nopenai-organization: org-1\r\n" in server.head.lower()
    assert server.first_lines == ["POST /v1/chat/completions HTTP/1.1"]
