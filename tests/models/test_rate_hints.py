"""How long a server asks to wait, in the forms that providers document."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pytest_llmprops.models.api import errors
from pytest_llmprops.models.api.rate_hints import seconds_to_wait

_NOW = {"date": "Sat, 28 Nov 2026 16:00:00 GMT"}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        # RFC 9110; a negative wait counts as zero, words and infinite waits are ignored
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "inf"}, None),
        (_NOW | {"retry-after": "Sat, 28 Nov 2026 16:00:07 GMT"}, 7.0),
        # Azure and OpenAI
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        # the LiteLLM proxy, for the server behind it
        ({"llm_provider-retry-after": "7"}, 7.0),
        # OpenAI and Groq: the limit that is used up decides
        (
            {
                "x-ratelimit-limit-requests": "500", "x-ratelimit-remaining-requests": "499",
                "x-ratelimit-reset-requests": "6m0s", "x-ratelimit-limit-tokens": "30000",
                "x-ratelimit-remaining-tokens": "12", "x-ratelimit-reset-tokens": "1m26.4s",
            },
            86.4,
        ),
        (_NOW | {"anthropic-ratelimit-tokens-reset": "2026-11-28T16:00:30Z"}, 30.0),
        # OpenRouter, in milliseconds
        (_NOW | {"x-ratelimit-reset": "1795881612000"}, 12.0),
    ],
)  # fmt: skip
def test_headers(headers: dict[str, str], seconds: float | None) -> None:
    """Each documented header says how long to wait."""
    assert seconds_to_wait(headers) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Limit 30000, Used 29000, Requested 1500. Please try again in 16.17s. Visit https://x.y/1", 16.17),
        ("Please try again in 1m26.4s.", 86.4),
        ("No deployments available for selected model, Try again in 60 seconds.", 60.0),
        ("Limit: 30 requests per 20 s", None),
        ("wait " * 10_000 + "5 s", None),
    ],
)
def test_texts(text: str, seconds: float | None) -> None:
    """The text of an error says how long to wait, unless its details do; a limit in it is not a wait."""
    assert seconds_to_wait({}, None, text) == seconds
    # Gemini's compatible API sends a list with one error, whose details have the delay.
    body: list[Any] = [{"error": {"code": 429, "details": [{"@type": "RetryInfo", "retryDelay": "34s"}]}}]
    assert seconds_to_wait({}, body, text) == 34.0


def test_dates_follow_the_servers_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A date is compared with the answer's own date, because the clock of this machine may be a day off."""
    monkeypatch.setattr(time, "time", lambda: 0.0)
    date = {"retry-after": "Sat, 28 Nov 2026 16:00:07 GMT"}
    assert seconds_to_wait(_NOW | date) == 7.0
    assert seconds_to_wait({"retry-after": "Thu, 01 Jan 1970 00:00:05 GMT"}) == 5.0
    assert seconds_to_wait({"date": "today", "retry-after": "Thu, 01 Jan 1970 00:00:05 GMT"}) == 5.0


def test_a_request_that_no_wait_makes_smaller_is_refused_for_good() -> None:
    """A prompt with more tokens than the limit of a minute is an error of its item, not a reason to wait."""
    message = "Request too large for gpt-4o on tokens per min (TPM): Limit 10000, Requested 12000."
    error = errors.from_status(429, {}, {"error": {"message": message}}, url="u", model="m")
    assert (error.kind, error.transient) == ("request", False)
