"""Requests of a command to one model: the store, limits and failures of a run, without pytest."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.errors import BackendError, RunStopped, StoreError, UsageError
from pytest_llmprops.core.requests import Chat, Segment
from pytest_llmprops.engine import calls
from pytest_llmprops.engine.session import OneModel
from pytest_llmprops.engine.store.location import default_store
from pytest_llmprops.models import registry
from pytest_llmprops.models.fake import FakeModel
from pytest_llmprops.models.registry import parse_spec
from pytest_llmprops.models.spec import ModelSpec


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "registered", {})
    monkeypatch.setattr(calls, "FIRST_WAIT", 0.001)


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


def test_default_store_is_shared() -> None:
    """Without a file, the default store is the one that pytest uses."""
    ask(OneModel(spec_for(FakeModel(lambda chat: "x"))), ["a"])
    assert default_store().is_file()
    assert default_store().is_relative_to(os.environ["XDG_CACHE_HOME"])


def test_refresh_and_off(tmp_path: Path) -> None:
    """refresh asks again; off writes no file."""
    model = FakeModel(lambda chat: str(len(model.requests)))
    store = tmp_path / "s.sqlite"
    texts = [
        ask(OneModel(spec_for(model), store=store, cache=cache), ["a"])[0].text
        for cache in ("reuse", "refresh", "reuse")
    ]
    assert texts == ["1", "2", "2"]
    ask(OneModel(spec_for(model), store=tmp_path / "none.sqlite", cache="off"), ["a"])
    assert not (tmp_path / "none.sqlite").exists()


def test_concurrency_is_bounded(tmp_path: Path) -> None:
    """The number of calls in flight never exceeds the limit."""
    now: list[int] = [0, 0]

    async def respond(chat: Chat) -> str:
        now[0] += 1
        now[1] = max(now)
        await asyncio.sleep(0.01)
        now[0] -= 1
        return "x"

    ask(
        OneModel(spec_for(FakeModel(respond)), store=tmp_path / "s", concurrency=3),
        [str(n) for n in range(9)],
    )
    assert now == [0, 3]


def test_transient_failures_are_retried(tmp_path: Path) -> None:
    """A transient failure is retried; a permanent one is raised for its request only."""
    model = FakeModel(lambda chat: BackendError("no") if chat.prompt == "b" else chat.prompt, fail=1.0)
    a, b = ask(OneModel(spec_for(model), store=tmp_path / "s"), ["a", "b"])
    assert a.text == "a"
    assert isinstance(b, BackendError)
    assert str(b) == "no"


def test_a_fatal_failure_stops(tmp_path: Path) -> None:
    """After an invalid key no more requests are sent, and the error is one line."""
    model = FakeModel(lambda chat: BackendError("wrong key", kind="key", fatal=True))
    results = ask(OneModel(spec_for(model), store=tmp_path / "s", concurrency=1), ["a", "b", "c"])
    assert all(isinstance(r, (RunStopped, BackendError)) for r in results)
    assert "own: wrong key" in map(str, results)
    assert len(model.requests) == 1


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


def test_model_can_be_used_twice(tmp_path: Path) -> None:
    """One model can be entered again, for example by a second event loop."""
    model = OneModel(spec_for(FakeModel(lambda chat: chat.prompt)), store=tmp_path / "s")
    assert [ask(model, [text])[0].text for text in ("a", "b")] == ["a", "b"]


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


def test_an_unknown_model() -> None:
    """A specification that no rule matches is refused immediately."""
    with pytest.raises(UsageError, match="nosuch"):
        parse_spec("nosuch")


def test_a_store_that_cannot_be_opened(tmp_path: Path) -> None:
    """A store path inside a file is a one-line error before the model gets a request."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    model = FakeModel(["x"])
    with pytest.raises(StoreError) as caught:
        ask(OneModel(spec_for(model), store=tmp_path / "file" / "s.sqlite"), ["a"])
    assert "\n" not in str(caught.value)
    assert not model.requests
