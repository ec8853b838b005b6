"""The broker cleans the replies and errors of every backend."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import quote

import pytest

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Reply
from tests.models.test_secrets import KEY, in_base64, is_shown
from tests.support.engine_models import MakeBroker, ask_all
from tests.support.scripted import Plain


class Leaky(Plain):
    """A backend of another package, which repeats the key wherever it can."""

    blocking = False

    async def chat(self, requests: list[Chat]) -> list[Reply | BackendError]:
        """Return a reply or an error with the key."""
        return [
            BackendError(f"refused {in_base64('x')}")
            if request.prompt == "fail"
            else Reply(KEY.lower(), finish_reason=quote(KEY, safe=""), served_model=f"m {KEY}", reasoning=KEY)
            for request in requests
        ]

    def notes(self) -> list[str]:
        """Return a note with the key."""
        return [f"unknown finish_reason {KEY}"]


def test_no_backend_can_show_a_secret(
    make_broker: MakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replies and errors of any backend are cleaned before store, log and notes have them, and reasons of a stop."""
    monkeypatch.setenv("SOME_API_KEY", KEY)
    done = ask_all(make_broker(Leaky(), run_dir=str(tmp_path)), ["hello", "fail"])
    reply, error = done.results
    assert (reply.text, reply.finish_reason, reply.served_model, reply.reasoning) == (
        "[key]", "[key]", "m [key]", "[key]",
    )  # fmt: skip
    assert isinstance(error, BackendError)
    assert "refused" in error.message
    assert not is_shown(str(error))
    report = done.broker.snapshot()
    assert report["notes"] == ["m: unknown finish_reason [key]"]
    written = [path.read_bytes().decode("latin-1") for path in tmp_path.iterdir() if path.is_file()]
    assert any("m [key]" in text for text in written)
    assert not any(is_shown(text) for text in [*written, str(report)])
    broker = make_broker(Leaky())
    asyncio.run(broker.stop(f"gone: {KEY}"))
    assert broker.stopped == "gone: [key]"
