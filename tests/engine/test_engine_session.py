"""The engine as pytest uses it: it always ends."""

from __future__ import annotations

import time

import pytest

from pytest_llmprops.engine import session
from pytest_llmprops.engine.session import Engine


def test_model_whose_close_hangs_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine gives up after a while, without an exception: the summary is still to be written."""
    monkeypatch.setattr(session, "CLOSE_SECONDS", 0.05)
    engine = Engine(window=1)
    closed: list[bool] = []

    async def hang() -> None:
        time.sleep(0.3)  # noqa: ASYNC251 -- a model that blocks the loop
        closed.append(True)

    monkeypatch.setattr(engine.broker, "close", hang)
    engine.close()
    # The thread ends after all, and its loop is closed: no warning in a later test.
    assert closed
