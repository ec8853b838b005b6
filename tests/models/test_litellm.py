"""The litellm backend: replies from litellm's own mock, errors from the stub server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.stub_server import RunningStub, running_stub
from fixtures.apis import completion, serving
from pytest_llmprops.core.requests import Chat
from tests.support.backends import called, error, fatal, make, needs, printed, refuse, reply, sampled
from tests.support.runs import ROOT

pytestmark = needs("litellm", extra="litellm")
ASKED = Chat.user("question", temperature=0.0, max_tokens=5)


@pytest.fixture(scope="module")
def stub() -> Iterator[RunningStub]:
    """One server for all tests here."""
    with running_stub(delay=0.005) as running:
        yield running


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a key for the stub and none for other providers."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)


def test_import_uses_no_network_and_no_dotenv(tmp_path: Path) -> None:
    """litellm is loaded with all sockets blocked, reads no ``.env`` and prints nothing."""
    (tmp_path / ".env").write_text("LLMPROPS_TEST_SECRET=1\n")
    code = (
        "import os, socket\n"
        "def blocked(*a, **k): raise SystemExit('network at import')\n"
        "socket.socket.connect = socket.getaddrinfo = blocked\n"
        "from pytest_llmprops.models.api.litellm import load_litellm\n"
        "load_litellm()\n"
        "raise SystemExit('LLMPROPS_TEST_SECRET' in os.environ)\n"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LITELLM")}
    assert printed(code, env=environment | {"PYTHONPATH": str(ROOT)}, cwd=tmp_path) == ""


def test_reply_of_a_known_model_has_its_price() -> None:
    """litellm's table gives the cost of a call; the reply is from litellm's own mock."""
    chat = Chat.user("question", extra=(("mock_response", "A"),))
    got = reply(called(make("litellm:openai/gpt-4o"), chat)[0])
    assert (got.text, got.finish_reason) == ("A", "stop")
    assert got.cost_usd is not None
    assert 0 < got.cost_usd < 0.01


def test_reply_of_a_server(stub: RunningStub) -> None:
    """Text, usage, served model and log probabilities are read as with OpenAI's SDK."""
    got = reply(called(make("litellm:openai/m", base_url=stub.url), Chat.user("q", logprobs=2))[0])
    assert got.text in ("A", "B")
    assert (got.served_model, got.usage.completion_tokens) == ("m-0001", 1)
    assert got.logprobs is not None
    assert len(got.logprobs[0]["top"]) == 2


@pytest.mark.parametrize(
    ("name", "kind", "fatal", "transient"),
    [
        ("missing", "model", True, False),
        ("quota", "quota", True, False),
        ("html", "url", True, False),
        ("status-500", "status 500", False, True),
        ("limited-seconds", "status 429", False, True),
    ],
)
def test_errors_are_classified(stub: RunningStub, name: str, kind: str, fatal: bool, transient: bool) -> None:
    """Failures become the same values as with OpenAI's SDK, in one clean line."""
    got = error(called(make(f"litellm:openai/{name}", base_url=stub.url), Chat.user(name))[0])
    assert (got.kind, got.fatal, got.transient) == (kind, fatal, transient)
    assert str(got).isprintable()
    assert len(str(got)) <= 300
    if name == "limited-seconds":
        assert got.retry_after == 0.3


@pytest.mark.parametrize("header", ["x-request-id", "x-litellm-call-id"])
def test_id_of_a_call_is_kept(header: str) -> None:
    """litellm passes the provider's headers on."""
    with serving(lambda call: (200, {header: "req_1"}, completion(call)[2])) as url:
        got = called(make("litellm:openai/m", base_url=f"{url}/v1"), ASKED)[0]
    assert reply(got).request_id == "req_1"


def test_samples_of_a_prompt_are_one_call(stub: RunningStub) -> None:
    """Five samples are one request to the server, and share its usage."""
    stub.reset()
    model = make("litellm:openai/m", base_url=stub.url)
    got = sampled(model, 5)
    assert (len(got), stub.stats()["requests"]) == (5, 1)
    assert sum(r.usage.completion_tokens for r in got) == 5
    assert (model.most_samples, list(model.notes())) == (128, [])


def test_provider_without_n_gets_single_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """If litellm knows that a provider does not accept ``n``, the samples are requested one by one."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789")
    model = make("litellm:anthropic/claude-3-5-haiku-20241022", base_url="http://127.0.0.1:9")
    assert sampled(model, 5) == []


def test_refusals_are_replies(stub: RunningStub) -> None:
    """A content filter's 400 and a refusal field are refusals, not errors."""
    for name, text in (("filtered", ""), ("refusing", "I cannot help with that.")):
        got = reply(called(make(f"litellm:openai/{name}", base_url=stub.url), ASKED)[0])
        assert (got.text, got.finish_reason) == (text, "content_filter")


def test_timeout_and_refused_connection_are_transient(stub: RunningStub) -> None:
    """A timeout and an unreachable server are transient errors."""
    # litellm imports its provider at the first call, which may take longer than the timeout.
    called(make("litellm:openai/m", base_url=stub.url), ASKED)
    assert (
        error(called(make("litellm:openai/hang", base_url=stub.url, timeout=0.3), ASKED)[0]).kind == "timeout"
    )
    got = error(called(make("litellm:openai/m", base_url="http://127.0.0.1:9/v1"), ASKED)[0])
    assert (got.kind, got.transient) == ("unreachable", True)


def test_each_failed_call_is_one_request() -> None:
    """litellm's own retries are off: the server sees a failing call once."""
    with running_stub(delay=0) as server:
        called(make("litellm:openai/status-503", base_url=server.url), ASKED)
        assert server.stats()["requests"] == 1


def test_reasoning_model_is_adapted_to(stub: RunningStub) -> None:
    """Parameters that the API refuses are left out or renamed, and the deviations are listed."""
    model = make("litellm:openai/reasoner-x", base_url=stub.url)
    assert reply(called(model, Chat.user("question", temperature=0.0, max_tokens=4096))[0]).text in ("A", "B")
    assert model.deviations() == ("max_tokens sent as max_completion_tokens", "temperature left out")


def test_missing_key_and_unknown_provider_are_one_line() -> None:
    """A missing key, a name without a provider and a misspelt parameter stop the run with one line."""
    for name, kind, said in (
        ("anthropic/claude-3-5-haiku-20241022", "key", "ANTHROPIC_API_KEY"),
        ("nonsense/x", "model", "litellm:PROVIDER/NAME"),
    ):
        assert fatal(called(make(f"litellm:{name}"), ASKED)[0], said).kind == kind
    refuse("litellm:openai/m?pricein=3", "'pricein' is not a parameter of litellm")
