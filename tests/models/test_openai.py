"""The OpenAI backend: against the stub server, and against a server whose raw answers a test sets."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import tracemalloc
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from bench.stub_server import RunningStub, running_stub
from pytest_llmprops.core.requests import Chat
from pytest_llmprops.models.api import http
from pytest_llmprops.models.api.openai import OpenAIModel
from pytest_llmprops.models.base import CallOptions, Result
from pytest_llmprops.models.registry import find_backend, parse_spec
from pytest_llmprops.models.secrets import Secrets
from tests.support.backends import called, error, fatal, make, reply, texts
from tests.support.networks import RawServer, answer, answering, clear_network

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


async def answered(model: OpenAIModel, requests: list[Chat]) -> list[Result]:
    """Return the results of one batch; close the model."""
    try:
        return await model.chat(requests)
    finally:
        await model.aclose()


def test_reply_carries_text_usage_model_and_price(stub: RunningStub) -> None:
    """A reply has text, finish reason, usage, served model, cost and time."""
    got = reply(one("m?price_in=1000000&price_out=1000000", stub.url))
    assert got.text in ("A", "B")
    assert (got.finish_reason, got.served_model) == ("stop", "m-0001")
    assert got.usage.completion_tokens == 1
    assert got.cost_usd == got.usage.prompt_tokens + 1
    assert 0.004 < got.seconds < 10


@pytest.mark.parametrize(
    ("name", "kind", "fatal", "transient", "said"),
    [
        ("missing", "model", True, False, "unknown model 'missing'"),
        ("quota", "quota", True, False, "quota is used up"),
        ("too-long", "request", False, False, "maximum context length is 8 tokens. However, you"),
        ("not-json", "url", True, False, "returned text instead of JSON"),
        ("status-404", "url", True, False, "usually ends in /v1"),
        ("limited-seconds", "status 429", False, True, "status 429"),
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
    assert got.retry_after == (0.3 if name == "limited-seconds" else None)


@pytest.mark.parametrize(
    ("spec", "key", "said"),
    [
        ("openai:gpt-4o", "", "set the environment variable OPENAI_API_KEY"),
        ("anthropic:m", "", "set the environment variable ANTHROPIC_API_KEY"),
        ("anthropic:m", "ä", "not allowed"),
    ],
)
def test_key_that_is_missing_or_cannot_be_sent(
    spec: str, key: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says so before the run, and at the first call."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    parsed = parse_spec(spec)
    assert said in find_backend(parsed.backend).missing(parsed, CallOptions())
    assert fatal(called(make(spec), ASKED)[0], said).kind == "key"


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
    prompts = [Chat.user("one"), Chat.user("\ud800"), Chat.user("two")]
    first, bad, third = asyncio.run(answered(make("openai:m", base_url=stub.url), prompts))
    assert (error(bad).kind, error(bad).fatal, error(bad).transient) == ("request", False, False)
    assert texts([first, third]) == texts([one("m", stub.url, prompts[0]), one("m", stub.url, prompts[2])])


def test_identity_and_pinning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The identity names model and server, without secrets; a name that ends in a date is pinned."""
    assert make("openai:gpt-4o").identity == {"backend": "openai", "name": "gpt-4o", "base_url": ""}
    for url, kept in (
        ("http://h/v1/", "http://h/v1"),
        ("https://user:secret@host/v1?key=1", "https://host/v1"),
        ("http://[::1]:80/v1", "http://[::1]:80/v1"),
    ):
        assert make("openai:m", base_url=url).identity["base_url"] == kept
    monkeypatch.setenv("OPENAI_BASE_URL", "http://other/v1")
    assert make("openai:m").identity["base_url"] == "http://other/v1"
    assert make("openai:gpt-4o-2024-05-13").pinned
    assert not make("openai:gpt-4o").pinned


HELLO = json.dumps({"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]})


OK = answer("200 OK", HELLO)

#: a body in each way in which servers compress
PACKED = {
    "gzip": gzip.compress(HELLO.encode()),
    "x-gzip": gzip.compress(HELLO[:20].encode()) + gzip.compress(HELLO[20:].encode()),
    "deflate": zlib.compress(HELLO.encode()),
    "Deflate": zlib.compress(HELLO.encode(), wbits=-zlib.MAX_WBITS),
}


def raw(head: str, body: bytes, status: str = "200 OK") -> bytes:
    """Return an answer with this header in place of a length."""
    return f"HTTP/1.1 {status}\r\n{head}\r\n\r\n".encode() + body


def model_at(server: RawServer, **options: Any) -> OpenAIModel:
    """Return a model with one connection to a server."""
    url = f"http://127.0.0.1:{server.port}/v1"
    model: OpenAIModel = make("openai:m", **{"base_url": url, "timeout": 10.0, "concurrency": 1} | options)
    return model


@pytest.mark.parametrize("encoding", PACKED)
def test_compressed_bodies_are_read_whole(encoding: str) -> None:
    """Bodies that no call asked to be compressed are read, over as many connections as calls may be in flight."""
    body = PACKED[encoding]
    with answering(raw(f"Content-Encoding: {encoding}\r\nContent-Length: {len(body)}", body)) as server:
        assert texts(called(model_at(server, concurrency=2), *[ASKED] * 8)) == ["hello"] * 8
    assert server.connections == 2


@pytest.mark.parametrize(
    ("encoding", "said", "kind"),
    [
        ("br", "is compressed with 'br', which no call asks for", "response"),
        ("gzip", "is damaged", "connection"),
    ],
)
def test_compressed_bodies_that_cannot_be_read(encoding: str, said: str, kind: str) -> None:
    """Another compression is not retried; a damaged body is."""
    with answering(answer("200 OK", HELLO, f"Content-Encoding: {encoding}")) as server:
        got = error(called(model_at(server), ASKED)[0], said)
    assert (got.kind, got.transient) == (kind, kind == "connection")


@pytest.mark.parametrize(
    "broken",
    [b"", raw("Content-Length: 9999", HELLO.encode()), raw("Transfer-Encoding: chunked", b"zz\r\n")],
    ids=["nothing", "cut-off", "no-chunk"],
)
def test_broken_answers_are_transient_connection_errors(broken: bytes) -> None:
    """A connection cut short and an answer that is not HTTP are transient errors, and the next call works."""
    answers = [broken, OK]
    with answering(lambda head: answers.pop(0), closing=True) as server:
        first, after = called(model_at(server), ASKED, ASKED)
    assert (error(first).kind, error(first).transient, error(first).fatal) == ("connection", True, False)
    assert str(first).startswith(f"cannot reach http://127.0.0.1:{server.port}/v1")
    assert reply(after).text == "hello"


ZEROS = bytes(2**22)


@pytest.mark.parametrize(
    "large",
    [
        raw("Transfer-Encoding: chunked", b"%x\r\n%b\r\n" % (len(ZEROS), ZEROS) * 16),
        raw("X-Until: closed", ZEROS * 16, "500 No"),
        raw("Content-Encoding: gzip", gzip.compress(ZEROS * 16)),
    ],
    ids=["chunks", "until closed", "gzip"],
)
def test_large_bodies_are_refused_before_they_fill_the_memory(
    large: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body above the limit, compressed or not, is an error that is not retried, and is not held in memory."""
    monkeypatch.setattr(http, "LARGEST_ANSWER", 2**23)
    with answering(large, closing=True) as server:
        tracemalloc.start()
        try:
            result, peak = called(model_at(server), ASKED)[0], tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    refused = error(result, "limit of 8,388,608 bytes")
    assert (refused.kind, refused.transient) == ("response", False)
    assert peak < 3 * 2**23


def test_cancelled_call_does_not_spoil_the_next() -> None:
    """A cancelled call drops its connection, so another call cannot get its answer."""
    answers = [raw("Content-Length: 300", b""), OK]
    was_read = threading.Event()

    def next_answer(head: str) -> bytes:
        was_read.set()
        return answers.pop(0)

    async def use(model: OpenAIModel) -> list[Result]:
        cancelled = asyncio.ensure_future(model.chat([ASKED]))
        assert await asyncio.to_thread(was_read.wait, 10)
        # The beginning of the answer may arrive.
        await asyncio.sleep(0.1)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        return await answered(model, [ASKED])

    with answering(next_answer) as server:
        assert texts(asyncio.run(use(model_at(server)))) == ["hello"]
    assert server.connections == 2


def test_user_of_the_address_is_sent_as_a_header(monkeypatch: pytest.MonkeyPatch) -> None:
    """User and password of the base URL are sent in place of the key, and only as the Authorization header."""
    monkeypatch.setenv("OPENAI_API_KEY", "unused-key-1")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    with answering(OK) as server:
        url = f"http://user:se%20cret@127.0.0.1:{server.port}/v1"
        assert texts(called(model_at(server, base_url=url), ASKED)) == ["hello"]
    first, *headers = server.heads[0].splitlines()
    assert first == "POST /v1/chat/completions HTTP/1.1"
    assert {"authorization: basic dxnlcjpzzsbjcmv0", "openai-organization: org-1"} <= {
        header.lower() for header in headers
    }
    assert "unused-key-1" not in server.heads[0]
