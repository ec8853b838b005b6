"""Anthropic's Messages API: what is sent, how answers and errors are read. Its batches: tests/engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fixtures.apis import Answer, Call, serving
from pytest_llmprops.core.requests import Chat, Message, Reply
from pytest_llmprops.models.api.anthropic import AnthropicModel
from pytest_llmprops.models.base import Result
from pytest_llmprops.models.registry import parse_spec
from pytest_llmprops.models.secrets import Secrets
from tests.support.backends import called, error, make, refuse

KEY = "sk-ant-api03-0123456789"
HELLO = Chat.user("Hello", max_tokens=16)


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Result, Any, AnthropicModel]]:
    """Return a function that sends a request to a server with an answer; it returns (result, body, model)."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)

    def send(request: Chat, answer: Any = None, status: int = 200) -> Any:
        bodies = []

        def respond(call: Call) -> Answer:
            assert call.path == "/v1/messages"
            bodies.append(call.body)
            return status, {}, answer or message("Hi")

        with serving(respond) as url:
            model = make("anthropic:claude-x?price_in=10&price_out=20", base_url=url)
            [result] = called(model, request)
        [body] = bodies
        return result, body, model

    return send


def message(*texts: str, reason: str = "end_turn", **usage: int) -> dict[str, Any]:
    """Return an answer."""
    blocks = [{"type": "text", "text": text} for text in texts]
    counted = {"input_tokens": 12, "output_tokens": 3, **usage}
    return {
        "type": "message",
        "model": "claude-x-1",
        "content": blocks,
        "stop_reason": reason,
        "usage": counted,
    }


def refusal(kind: str, text: str) -> dict[str, Any]:
    """Return an error's body."""
    return {"type": "error", "error": {"type": kind, "message": text}}


def test_a_conversation_is_sent_as_the_api_takes_it(ask: Any) -> None:
    """System messages are a parameter, stop sequences have another name, and the reply has text, usage and cost."""
    roles = ("user", "assistant", "user")
    turns = (Message("system", "Be brief."), *map(Message, roles, "ABC"))
    request = Chat(turns, temperature=0.5, max_tokens=16, stop=("###",), extra=(("top_k", 5),))
    reply, body, model = ask(request, message("D", "E", cache_read_input_tokens=8))
    assert body == {
        "model": "claude-x",
        "system": "Be brief.",
        "messages": [{"role": role, "content": text} for role, text in zip(roles, "ABC", strict=True)],
        "temperature": 0.5,
        "max_tokens": 16,
        "stop_sequences": ["###"],
        "top_k": 5,
    }
    assert (reply.text, reply.finish_reason, reply.served_model) == ("DE", "stop", "claude-x-1")
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (20, 3)
    assert reply.cost_usd == pytest.approx((20 * 10 + 3 * 20) / 1e6)
    assert model.deviations() == ()


def test_what_the_api_lacks_is_a_deviation(ask: Any) -> None:
    """Log probabilities and stops of white space are left out, and a limit is added; all are recorded."""
    request = Chat.user("Hello", logprobs=5, stop=("\n",), extra=(("seed", 1),))
    reply, body, model = ask(replace(request, response_format="json_object"))
    assert reply.text == "Hi"
    assert body.keys() == {"model", "messages", "max_tokens"}
    assert model.deviations() == (
        "logprobs left out",
        "response_format left out",
        "seed left out",
        "stop left out",
        "at most 4096 tokens, because the API requires a limit",
    )


INVALID = "invalid_request_error"


@pytest.mark.parametrize(
    ("status", "kind", "text", "expected", "is_fatal", "is_transient"),
    [
        (401, "authentication_error", f"invalid x-api-key {KEY}", "refuses the key", True, False),
        (404, "not_found_error", "model: claude-x", "unknown model 'claude-x'", True, False),
        (400, INVALID, "Your credit balance is too low to use the API.", "quota", True, False),
        (529, "overloaded_error", "Overloaded", "status 529: Overloaded", False, True),
        (400, INVALID, "top_k: Extra inputs are not permitted", "--llm-param top_k", True, False),
    ],
)
def test_errors(
    ask: Any, status: int, kind: str, text: str, expected: str, is_fatal: bool, is_transient: bool
) -> None:
    """Each error says what to do, and shows no key."""
    request = Chat.user("Hello", max_tokens=9, extra=(("top_k", 5),))
    result = Secrets.of_run({}, ()).error(error(ask(request, refusal(kind, text), status)[0], expected))
    assert KEY not in result.message
    assert (result.fatal, result.transient) == (is_fatal, is_transient)


def test_refusals_of_the_provider_are_replies(ask: Any) -> None:
    """A reply or a prompt that its content filter withheld is not an error."""
    reply, _, _ = ask(HELLO, message("Hi", reason="refusal"))
    assert (reply.text, reply.finish_reason) == ("Hi", "content_filter")
    reply, _, _ = ask(HELLO, refusal(INVALID, "Output blocked by content filtering policy"), 400)
    assert reply == Reply(finish_reason="content_filter", cost_usd=0.0)


@pytest.mark.parametrize("answer", [{"content": "Hi"}, {"content": [{"text": 5}], "stop_reason": 3}])
def test_an_answer_of_another_kind_is_an_error(ask: Any, answer: Any) -> None:
    """Untrusted answers never end in a traceback."""
    error(ask(HELLO, answer)[0])


def test_specifications() -> None:
    """A name of Claude needs no backend; identity and pinning are those of the API's name."""
    for text in ("claude-x-20250101", "anthropic:claude-x-20250101"):
        model = make(text)
        assert parse_spec(text).backend == "anthropic"
        assert model.identity == {"backend": "anthropic", "name": "claude-x-20250101", "base_url": ""}
        assert model.pinned
    # With a server of one's own, every bare name is its model.
    assert parse_spec("claude-x", base_url="http://gpu:8000/v1").backend == "openai"
    refuse("claude-x?base_url=nowhere", "base_url nowhere: write http://HOST")
