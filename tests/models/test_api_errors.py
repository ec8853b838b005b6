"""What the network backends share: the classification of errors, and one deadline per call."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat
from pytest_llmprops.models.api import errors
from pytest_llmprops.models.api.client import ChatApiModel
from pytest_llmprops.models.api.deviations import Deviations
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.registry import parse_spec
from pytest_llmprops.models.secrets import Secrets
from tests.support.backends import error


def classify(status: int, body: Any, **headers: str) -> BackendError:
    """Return the error of a response."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return errors.from_status(status, names, body, url="http://h/v1", model="m")


#: nginx, in front of an API
PAGE = "<html><head><title>{}</title></head></html>"
BUDGET = "Budget has been exceeded! Current cost: 26.075, Max budget: 0.25"
DEPLOYMENT = (
    "No deployments available - crossed budget: Exceeded budget for deployment model_name: m: 2.0 >= 1d"
)
WRAPPED = "litellm.RateLimitError: RateLimitError: OpenAIException - "


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        (502, PAGE.format("502 Bad gateway"), "status 502", "^status 502: Bad gateway$"),
        (400, PAGE.format("400 The plain HTTP request was sent to HTTPS port"), "url", "only with TLS; write https://"),
        (400, PAGE.format("400 No required SSL certificate was sent"), "forbidden", "asks for a client certificate"),
        # vLLM and Ollama
        (404, {"object": "error", "message": "The model `m` does not exist.", "code": 404}, "model", "unknown model"),
        (404, {"error": {"message": 'model "m" not found, try pulling it first'}}, "model", "unknown model"),
        # LiteLLM's budgets end the run, and the line begins with the cause (its issues 10973 and 22726).
        (400, {"error": {"message": BUDGET}}, "quota", f"^the account's quota is used up: {BUDGET}$"),
        (429, {"error": {"message": WRAPPED + DEPLOYMENT}}, "quota", f"^the account's quota is used up: {DEPLOYMENT}$"),
    ],
)  # fmt: skip
def test_errors_in_the_words_of_servers(status: int, body: Any, kind: str, said: str) -> None:
    """Only the failure of a server is transient; all others end the run, and the line says what to do."""
    got = classify(status, body, content_type="text/html" if isinstance(body, str) else "application/json")
    assert (got.kind, got.transient, got.fatal) == (kind, status == 502, status != 502)
    assert re.search(said, got.message)


def test_messages_are_one_short_line_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control characters are escaped, and 300 characters kept; the broker removes what looks like a secret."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "very-secret-value")
    text = (
        "very-secret-value Authorization: Bearer abcdef123456 sk-proj-abc123***xyz\n"
        "http://me:pw@host/v1?api_key=qwertz1 \x1b[31mred\x1b[0m\x00\u202e " + "x" * 400
    )
    secrets = Secrets.of_run({}, [])
    line = errors.clean(text)
    assert len(line) == 300
    # As the broker does.
    line = secrets.error(BackendError(line)).message
    assert line.isprintable()
    for secret in ("very-secret", "abcdef123456", "abc123", "pw@", "qwertz1"):
        assert secret not in line
    assert "␛[31mred␛[0m␀[U+202E] x" in line
    assert "red" in line


@pytest.mark.parametrize(
    ("status", "message", "sent", "expected"),
    [
        (400, "openai does not support parameters: ['temperature']", ["temperature"], "temperature"),
        (403, "You are not allowed to request logprobs from this model", ["logprobs"], "logprobs"),
        (400, "Invalid value for 'max_tokens': must be at most 4096", ["max_tokens"], None),
        (500, "Unsupported parameter: 'stop'", ["stop"], None),
    ],
)
def test_refused_parameter_is_found(status: int, message: str, sent: list[str], expected: str | None) -> None:
    """A refused parameter is found by its name and is distinct from a wrong value and from other errors."""
    body = {"message": message, "param": None, "code": None}
    assert errors.refused_parameter(status, body, dict.fromkeys(sent)) == expected


class Transport(ChatApiModel):
    """A model with this transport."""

    def __init__(self, post: Any, timeout: float) -> None:
        options = CallOptions(timeout=timeout)
        super().__init__(parse_spec("openai:m"), options, "openai", "http://x/v1", Deviations())
        self._open, self._post = lambda: None, post


@pytest.mark.parametrize("late", ["ends", "does not end", "fails"])
def test_a_call_ends_at_its_deadline(late: str, caplog: pytest.LogCaptureFixture) -> None:
    """A transport without a timeout is a transient timeout, whatever it does, or raises, when it is cancelled."""

    async def post(body: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if late == "fails":
                raise OSError("connection lost") from None
            if late == "does not end":
                await asyncio.sleep(60)
            raise
        return {}

    started = time.monotonic()
    [result] = asyncio.run(Transport(post, 0.1).chat([Chat.user("q")]))
    assert (error(result).kind, error(result).transient) == ("timeout", True)
    assert time.monotonic() - started < 30
    assert not caplog.records


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (403, {"code": "x", "error": "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO"}),
        (403, {"error": {"code": 403, "message": "Your input was flagged", "metadata": {"reasons": ["violence"]}}}),
        (400, {"error": {"code": "data_inspection_failed", "message": "Input data may be inappropriate."}}),
    ],
    ids=["xai", "openrouter", "dashscope"],
)  # fmt: skip
def test_filters_are_refusals(status: int, body: dict[str, Any]) -> None:
    """The refusals of content filters, in their own words, are not errors of the key or of the request."""
    assert errors.is_filtered(status, body)
    assert not errors.is_filtered(401, body)
    assert not errors.is_filtered(403, {"error": {"message": "You have no access to this model"}})


@pytest.mark.parametrize(
    ("code", "more", "kind"),
    [
        (1008, {}, "quota"), (2049, {}, "key"), (1000, {}, "status 500"), (1026, {}, "filtered"),
        (0, {}, ""), (1002, {"choices": [{"message": {"content": "A"}}]}, ""), (1000, {"base_resp": "x"}, ""),
    ],
)  # fmt: skip
def test_errors_of_minimax_have_status_200(code: int, more: Mapping[str, Any], kind: str) -> None:
    """``base_resp`` says what failed (platform.minimax.io/docs/api-reference/errorcode), if there is no reply."""
    state = {"status_code": code, "status_msg": "what failed"}
    failure = errors.in_answer({"choices": None, "base_resp": state, "error": None, **more})
    assert (failure is not None) == bool(kind)
    if failure is not None:
        got = classify(*failure)
        assert errors.is_filtered(*failure) == (kind == "filtered")
        assert (got.kind, got.transient) == (kind.replace("filtered", "request"), kind == "status 500")
        assert f"what failed ({code})" in got.message
