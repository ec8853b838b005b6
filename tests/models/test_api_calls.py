"""What the network backends share: one deadline per call, whatever the transport does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat
from pytest_llmprops.models.api.client import ApiCalls, Deviations, Post
from pytest_llmprops.models.base import Result


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
    assert isinstance(result, BackendError)
    assert (result.kind, result.transient) == ("timeout", True)
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
