"""The OpenAI backend against the stub server: replies, errors, deviations, safety."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from bench.stub_server import RunningStub, running_stub
from pytest_llmprops.core.errors import BackendError, MissingExtra, UsageError
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.models.api.openai import BACKEND, OpenAIModel, normalised_url
from pytest_llmprops.models.base import BackendOptions, Result
from pytest_llmprops.models.registry import parse_spec

ASKED = Chat.user("question", temperature=0.0, max_tokens=5)


@pytest.fixture(scope="module")
def stub() -> Iterator[RunningStub]:
    """One server for all tests that do not depend on its counts."""
    with running_stub(delay=0.005) as running:
        yield running


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove keys, addresses and proxies of the machine from the environment."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def openai_model(name: str, url: str | None, timeout: float = 10.0) -> OpenAIModel:
    """Return the model ``openai:name`` at ``url``."""
    model = BACKEND.factory(parse_spec(f"openai:{name}"), BackendOptions(url, timeout))
    assert isinstance(model, OpenAIModel)
    return model


def asked(model: OpenAIModel, *requests: Chat) -> list[Result]:
    """Return the results of concurrent calls; close the model."""

    async def calls() -> list[Result]:
        try:
            return [r for [r] in await asyncio.gather(*(model.chat([request]) for request in requests))]
        finally:
            await model.aclose()

    return asyncio.run(calls())


def one(name: str, url: str | None, request: Chat = ASKED, *, timeout: float = 10.0) -> Result:
    """Return the result of one call."""
    return asked(openai_model(name, url, timeout), request)[0]


def reply(result: Result) -> Reply:
    """Return the result, which must be a reply."""
    assert isinstance(result, Reply), result
    return result


def error(result: Result) -> BackendError:
    """Return the result, which must be an error."""
    assert isinstance(result, BackendError), result
    return result


def test_reply_carries_text_usage_model_and_price(stub: RunningStub) -> None:
    """A reply has text, finish reason, usage, served model, cost and time."""
    got = reply(one("m?price_in=1000000&price_out=1000000", stub.url))
    assert got.text in ("A", "B")
    assert (got.finish_reason, got.served_model) == ("stop", "m-0001")
    assert got.usage.completion_tokens == 1
    assert got.cost_usd == got.usage.prompt_tokens + 1
    assert 0.004 < got.seconds < 10


def test_many_calls_at_once_keep_their_answers(stub: RunningStub) -> None:
    """Two hundred calls in flight each get the answer to their own prompt."""
    chats = [Chat.user(f"question {i}") for i in range(200)]
    at_once = [reply(r).text for r in asked(openai_model("m", stub.url), *chats)]
    again = [reply(one("m", stub.url, chat)).text for chat in chats[:5]]
    assert at_once[:5] == again
    assert set(at_once) == {"A", "B"}


def test_conversation_and_parameters_are_sent(stub: RunningStub) -> None:
    """All turns are sent, and a reply is cut at ``max_tokens``."""
    chat = Chat.user("first").then("B", "one two three four five six seven")
    with running_stub(delay=0, answer="echo") as echo:
        got = reply(one("m", echo.url, Chat(chat.messages, max_tokens=2)))
    assert (got.text, got.finish_reason) == ("one two", "length")


def test_logprobs_have_alternatives(stub: RunningStub) -> None:
    """Each reply token comes with its log probability and the requested alternatives."""
    got = reply(one("m", stub.url, Chat.user("q", logprobs=3)))
    assert got.logprobs is not None
    assert got.logprobs[0]["token"] == got.text
    assert len(got.logprobs[0]["top"]) == 3
    assert got.logprobs[0]["logprob"] < 0


def test_missing_logprobs_are_none(stub: RunningStub) -> None:
    """A server that ignores ``logprobs`` returns a reply without them."""
    assert reply(one("no-logprobs", stub.url, Chat.user("q", logprobs=3))).logprobs is None


def test_extra_parameters_reach_the_server(stub: RunningStub) -> None:
    """A parameter of ``--llm-param`` is sent: the server refuses the unknown name, which stops the run."""
    request = Chat.user("q", extra=(("shoe_size", 9),))
    refused = error(one("strict", stub.url, request))
    assert (refused.kind, refused.fatal) == ("request", True)
    assert "--llm-param shoe_size" in str(refused)


def test_extra_parameters_cannot_change_the_request(stub: RunningStub) -> None:
    """``--llm-param stream=...`` is a fatal error that names the parameter."""
    refused = error(one("m", stub.url, Chat.user("q", extra=(("stream", True),))))
    assert refused.fatal
    assert "--llm-param stream" in str(refused)


def test_content_filter_of_the_prompt_is_a_reply(stub: RunningStub) -> None:
    """Azure's 400 for a filtered prompt is a refusal, not an error."""
    got = reply(one("filtered", stub.url))
    assert (got.text, got.finish_reason) == ("", "content_filter")


def test_content_filter_of_the_reply(stub: RunningStub) -> None:
    """A reply emptied by the filter keeps its finish reason."""
    got = reply(one("filtered-reply", stub.url))
    assert (got.text, got.finish_reason) == ("", "content_filter")


def test_refusal_field_is_the_text(stub: RunningStub) -> None:
    """The text of a refusal field is kept and marked as a refusal."""
    got = reply(one("refusing", stub.url))
    assert (got.text, got.finish_reason) == ("I cannot help with that.", "content_filter")


def test_huge_reply_is_kept() -> None:
    """A reply of two megabytes is stored as it is; the evaluator cuts what a benchmark reads."""
    with running_stub(delay=0, answer="huge") as huge:
        got = reply(one("m", huge.url, Chat.user("q")))
    assert (len(got.text), got.finish_reason) == (2_000_001, "stop")


def test_control_characters_of_a_reply_are_kept() -> None:
    """The reply's text is stored unchanged; the reports escape it."""
    with running_stub(delay=0, answer="control") as control:
        assert reply(one("m", control.url, Chat.user("q"))).text == "A\x1b[31mred\x1b[0m\x00\x07\u202e"


@pytest.mark.parametrize(
    ("name", "kind", "fatal", "transient", "said"),
    [
        ("missing", "model", True, False, "unknown model 'missing'"),
        ("quota", "quota", True, False, "quota is used up"),
        ("too-long", "request", False, False, "maximum context length is 8 tokens. However, you"),
        ("html", "url", True, False, "returned HTML instead of JSON"),
        ("not-json", "url", True, False, "returned text instead of JSON"),
        ("status-400", "request", False, False, "status 400"),
        ("status-401", "key", True, False, "refuses the key"),
        ("status-403", "key", True, False, "refuses the key"),
        ("status-404", "url", True, False, "usually ends in /v1"),
        ("status-408", "status 408", False, True, "status 408"),
        ("status-409", "status 409", False, True, "status 409"),
        ("status-429", "status 429", False, True, "status 429"),
        ("status-500", "status 500", False, True, "status 500"),
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
def test_retry_after_is_read(stub: RunningStub, name: str, low: float, high: float) -> None:
    """Retry-After is read as seconds, as a date or in milliseconds."""
    with running_stub(delay=0) as server:
        wait = error(one(f"limited-{name}", server.url)).retry_after
    assert wait is not None
    assert low <= wait <= high


def test_wrong_path_names_the_usual_ending(stub: RunningStub) -> None:
    """A base URL without /v1 is a fatal error that suggests the usual ending."""
    got = error(one("m", stub.url.removesuffix("/v1")))
    assert (got.kind, got.fatal) == ("url", True)
    assert "usually ends in /v1" in str(got)


def test_refused_connection_is_transient() -> None:
    """A server that is not running is a transient error that names the URL."""
    with running_stub(delay=0) as gone:
        url = gone.url
    got = error(one("m", url))
    assert (got.kind, got.transient, got.fatal) == ("connection", True, False)
    assert str(got).startswith(f"cannot reach {url}: ")
    assert "Connect call failed" in str(got)


def test_unknown_host_is_named() -> None:
    """A host that cannot be resolved is a connection error that names the URL."""
    got = error(one("m", "http://no-such-host.invalid/v1"))
    assert (got.kind, got.transient) == ("connection", True)
    assert "no-such-host.invalid" in str(got)


def test_no_answer_in_time_is_transient(stub: RunningStub) -> None:
    """A call without an answer is a transient error after the timeout."""
    got = error(one("hang", stub.url, timeout=0.2))
    assert (got.kind, got.transient) == ("timeout", True)


def test_missing_key_is_one_line() -> None:
    """Without base URL and key the first call is a fatal error that names the variable."""
    got = error(one("gpt-4o", None))
    assert (got.kind, got.fatal) == ("key", True)
    assert "set the environment variable OPENAI_API_KEY" in str(got)


def test_own_server_needs_no_key(stub: RunningStub) -> None:
    """A server with a base URL is called without a key."""
    assert reply(one("m", stub.url)).text


@pytest.mark.parametrize("key", ["wrong", "forbidden"])
def test_refused_key_is_never_shown(stub: RunningStub, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """A key that the server repeats in its error does not reach the message."""
    monkeypatch.setenv("OPENAI_API_KEY", key)
    got = error(one("m", stub.url))
    assert (got.kind, got.fatal) == ("key", True)
    assert "wrong" not in str(got)


def test_unusable_key_is_a_clear_line(stub: RunningStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key with a line break inside is an error about the key, which is not shown."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-abc\ndef")
    got = error(one("m", stub.url))
    assert (got.kind, got.fatal) == ("key", True)
    assert "abc" not in str(got)


def test_prompt_that_is_not_valid_text_is_an_error(stub: RunningStub) -> None:
    """A lone surrogate in a prompt is an error of this call only."""
    got = error(one("m", stub.url, Chat.user("\ud800")))
    assert (got.kind, got.fatal, got.transient) == ("request", False, False)


def test_reasoning_model_is_adapted_to_once(stub: RunningStub) -> None:
    """Refused parameters are left out or renamed and the budget raised; all calls in flight succeed."""
    with running_stub(delay=0.02) as server:
        model = openai_model("reasoner-1", server.url)
        first = asked(model, *(Chat.user(f"q{i}", temperature=0.0, max_tokens=5) for i in range(8)))
        adapted = server.stats()["requests"]
        again = asked(model, *(Chat.user(f"r{i}", temperature=0.0, max_tokens=5) for i in range(8)))
        assert server.stats()["requests"] == adapted + 8
    assert all(reply(r).text in ("A", "B") for r in first + again)
    assert reply(first[0]).usage.reasoning_tokens == 200
    assert model.deviations() == (
        "max_tokens sent as max_completion_tokens",
        "temperature left out",
        "token budget raised by 4096",
    )


def test_plain_model_has_no_deviations(stub: RunningStub) -> None:
    """If nothing is refused, nothing is recorded."""
    model = openai_model("m", stub.url)
    asked(model, ASKED)
    assert model.deviations() == ()


def test_other_refused_parameters_are_left_out(stub: RunningStub) -> None:
    """``stop`` is left out if the server does not accept it."""
    model = openai_model("no-stop", stub.url)
    assert reply(asked(model, Chat.user("q", stop=("\n",)))[0]).text
    assert model.deviations() == ("stop left out",)


def test_length_without_reasoning_keeps_the_budget() -> None:
    """An empty reply of a model that does not reason is a reply, and its budget is unchanged."""
    with running_stub(delay=0, answer="empty") as empty:
        model = openai_model("m", empty.url)
        assert reply(asked(model, ASKED)[0]).text == ""
    assert model.deviations() == ()


def test_batch_gives_results_in_order(stub: RunningStub) -> None:
    """Several requests in one call return their results in order, including errors."""

    async def calls() -> list[Result]:
        model = openai_model("m", stub.url)
        results = await model.chat([Chat.user("one"), Chat.user("\ud800"), Chat.user("two")])
        await model.aclose()
        return results

    first, bad, third = asyncio.run(calls())
    assert reply(first).text == reply(one("m", stub.url, Chat.user("one"))).text
    assert error(bad).kind == "request"
    assert reply(third).text == reply(one("m", stub.url, Chat.user("two"))).text


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("http://LOCALHOST:8000/v1/", "http://localhost:8000/v1"),
        ("https://user:secret@host/v1?key=1", "https://host/v1"),
        ("http://[::1]:80/v1", "http://[::1]:80/v1"),
    ],
)
def test_recorded_address_holds_no_secret(address: str, kept: str) -> None:
    """An address is recorded by host, port and path only, in a normalised form."""
    assert normalised_url(address) == kept


@pytest.mark.parametrize("url", ["localhost:8000/v1", "ftp://host/v1", "http://", "http://host:port/v1"])
def test_bad_address_gives_one_line(url: str) -> None:
    """An address that is not http is a UsageError that shows how to write one."""
    with pytest.raises(UsageError, match=r"--llm-base-url .*write http://HOST:PORT/v1"):
        openai_model("m", url)


def test_identity_and_pinning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The identity names model and server; a name that ends in a date is pinned."""
    assert openai_model("gpt-4o", None).identity == {"backend": "openai", "name": "gpt-4o", "base_url": ""}
    assert openai_model("m", "http://h/v1/").identity["base_url"] == "http://h/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://other/v1")
    assert openai_model("m", None).identity["base_url"] == "http://other/v1"
    assert openai_model("gpt-4o-2024-05-13", None).pinned
    assert not openai_model("gpt-4o", None).pinned


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the SDK the factory says what to install."""
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'openai\[aiohttp\]'"):
        openai_model("m", "http://h/v1")


def test_sdk_is_imported_at_the_first_call_only() -> None:
    """Creating a model does not import the SDK, so a run with stored replies never waits for it."""
    code = (
        "import sys\n"
        "from pytest_llmprops.models.base import BackendOptions\n"
        "from pytest_llmprops.models.registry import find_backend, parse_spec\n"
        "find_backend('openai').factory(parse_spec('gpt-4o'), BackendOptions())\n"
        "print(*{'openai', 'litellm', 'httpx', 'httpx2', 'aiohttp'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("\n", "")


def test_error_inside_a_200_is_an_error() -> None:
    """A proxy's error with status 200 is classified by the code in its body."""

    async def call(inner: dict[str, Any]) -> Result:
        class Client:
            async def post(self, body: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
                return json.dumps(inner).encode(), {"content-type": "application/json"}

        model = openai_model("m", "http://h/v1")
        model.client = Client()
        return (await model.chat([ASKED]))[0]

    limited = error(asyncio.run(call({"error": {"message": "slow down", "code": 429}})))
    assert (limited.kind, limited.transient) == ("status 429", True)
    nothing = error(asyncio.run(call({"choices": []})))
    assert (nothing.kind, nothing.transient) == ("response", True)
