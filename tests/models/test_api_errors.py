"""What the network backends share: the classification of errors for any SDK, and one deadline per call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat
from pytest_llmprops.models.api import errors
from pytest_llmprops.models.api.client import ApiCalls, Deviations, Post
from pytest_llmprops.models.base import Result
from tests.support.backends import error


def classify(status: int, body: Any, **headers: str) -> BackendError:
    """Return the error of a response."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return errors.from_status(status, names, body, url="http://h/v1", model="m")


def test_html_error_pages() -> None:
    """An HTML page with a 404 means a wrong address; a proxy's with a 502 is a failure of the server."""
    assert "returned HTML" in str(classify(404, "<!DOCTYPE html><title>nope</title>"))
    got = classify(502, "<html><body>Bad gateway</body></html>", content_type="text/html")
    assert (got.kind, got.transient, str(got)) == ("status 502", True, "status 502")


@pytest.mark.parametrize(
    "body",
    [
        {"object": "error", "message": "The model `m` does not exist.", "type": "NotFoundError", "code": 404},
        {"error": {"message": 'model "m" not found, try pulling it first', "type": "api_error"}},
        {"error": {"message": "nope", "code": "model_not_found"}},
    ],
)
def test_unknown_model_in_the_words_of_several_servers(body: dict[str, Any]) -> None:
    """The model_not_found errors of OpenAI, vLLM and Ollama are distinct from a wrong path."""
    got = classify(404, body)
    assert (got.kind, got.fatal) == ("model", True)


def test_messages_are_one_short_line_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, bearer strings and passwords are removed, control characters escaped, and 300 characters kept."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "very-secret-value")
    text = (
        "very-secret-value Authorization: Bearer abcdef123456 sk-proj-abc123***xyz\n"
        "http://me:pw@host/v1?api_key=qwertz1 \x1b[31mred\x1b[0m\x00\u202e " + "x" * 400
    )
    line = errors.clean(text, errors.secrets("k3y"))
    assert len(line) == 300
    assert line.isprintable()
    for secret in ("very-secret", "abcdef123456", "abc123", "pw@", "qwertz1"):
        assert secret not in line
    assert "␛[31mred␛[0m␀[U+202E] x" in line
    assert "red" in line


@pytest.mark.parametrize(
    ("status", "message", "sent", "expected"),
    [
        (400, "Unsupported parameter: 'stop' is not supported with this model.", ["stop"], "stop"),
        (400, "Unrecognized request argument supplied: top_p", ["temperature", "top_p"], "top_p"),
        (400, "openai does not support parameters: ['temperature']", ["temperature"], "temperature"),
        (403, "You are not allowed to request logprobs from this model", ["logprobs"], "logprobs"),
        (400, "Invalid value for 'max_tokens': must be at most 4096", ["max_tokens"], None),
        (400, "This model's maximum context length is 8 tokens", ["max_tokens"], None),
        (500, "Unsupported parameter: 'stop'", ["stop"], None),
        (400, "Unsupported parameter: 'seed'", ["stop"], None),
    ],
)
def test_refused_parameter_is_found(status: int, message: str, sent: list[str], expected: str | None) -> None:
    """A refused parameter is found by its name and is distinct from a wrong value and from other errors."""
    body = {"message": message, "param": None, "code": None}
    assert errors.refused_parameter(status, body, dict.fromkeys(sent)) == expected


def asked(post: Post, timeout: float) -> tuple[Result, float]:
    """Return the result of one call and the seconds until it came."""

    async def call() -> tuple[Result, float]:
        start = time.monotonic()
        result = await ApiCalls("m", "http://x/v1", Deviations(), timeout).reply(Chat.user("q"), post)
        return result, time.monotonic() - start

    return asyncio.run(call())


@pytest.mark.parametrize(
    "stubborn", [False, True], ids=["ends when cancelled", "does not end when cancelled"]
)
def test_a_call_ends_at_its_deadline(stubborn: bool) -> None:
    """A transport without a timeout of its own, which may even ignore its cancellation, is a transient timeout."""

    async def post(body: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if stubborn:
                await asyncio.sleep(60)
            raise
        return {}

    result, seconds = asked(post, 0.1)
    assert (error(result).kind, error(result).transient) == ("timeout", True)
    assert seconds < 30


def test_a_late_failure_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    """An exception that a transport raises after the deadline is dropped."""

    async def post(body: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise OSError("connection lost") from None
        return {}

    asked(post, 0.1)
    assert not caplog.records
