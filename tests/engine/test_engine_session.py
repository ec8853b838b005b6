"""What sessions do without pytest: requests of a command to one model, and the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Segment
from pytest_llmprops.engine import session
from pytest_llmprops.engine.session import Engine, OneModel
from pytest_llmprops.models import registry
from pytest_llmprops.models.fake import FakeModel
from pytest_llmprops.models.registry import parse_spec
from pytest_llmprops.models.spec import ModelSpec


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "registered", {})


def spec_for(model: Any) -> ModelSpec:
    """Return the specification of a model in the test."""
    registry.register_model("own", lambda spec, options: model)
    return parse_spec("own")


def ask(model: OneModel, prompts: Sequence[str]) -> list[Any]:
    """Return a reply or the raised error for each prompt; all are sent at once."""

    async def work() -> list[Any]:
        async with model as asking:
            return await asyncio.gather(*(asking(Chat.user(p)) for p in prompts), return_exceptions=True)

    return asyncio.run(work())


def test_replies_are_stored(tmp_path: Path) -> None:
    """A second command with the same store does not repeat the calls of the first."""
    model = FakeModel(lambda chat: chat.prompt.upper())
    store = tmp_path / "s.sqlite"
    for cached in (False, True):
        replies = ask(OneModel(spec_for(model), store=store), ["a", "b", "a"])
        assert [r.text for r in replies] == ["A", "B", "A"]
        assert {r.cached for r in replies} == {cached}
    assert len(model.requests) == 2


def test_the_model_is_closed(tmp_path: Path) -> None:
    """The model is closed at the end even if its requests failed."""
    closed = []

    class Closing(FakeModel):
        def close(self) -> None:
            closed.append(True)

    async def work() -> None:
        async with OneModel(spec_for(Closing(["x"])), store=tmp_path / "s") as asking:
            await asking(Chat.user("a"))
            raise KeyError("b")

    with pytest.raises(KeyError):
        asyncio.run(work())
    assert closed == [True]


def test_kinds_and_label_are_known_before_loading() -> None:
    """Kinds, label and roles are known before the model is loaded; an unserved kind is an error."""
    model = OneModel(parse_spec("fake:constant?text=A"))
    assert (model.kinds, model.roles) == (frozenset({"chat"}), frozenset[str]())
    assert model.label == "fake-constant-text=A"

    async def work() -> None:
        async with model as asking:
            await asking(Segment("x"))

    with pytest.raises(BackendError, match="does not serve segment"):
        asyncio.run(work())


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
