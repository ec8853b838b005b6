"""What sessions do without pytest: requests of a command to one model, the import of SDKs, and the end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Reply, Segment
from pytest_llmprops.engine import session
from pytest_llmprops.engine.config import BrokerConfig, import_sdks
from pytest_llmprops.engine.session import Engine, OneModel
from pytest_llmprops.engine.store.base import CacheMode
from pytest_llmprops.engine.store.sqlite import SQLiteStore
from pytest_llmprops.models import registry
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.fake import FakeModel
from pytest_llmprops.models.registry import Backend, Maker, always, parse_spec
from pytest_llmprops.models.spec import ModelSpec
from tests.support.stores import put


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


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record which of the backends ``one``, ``two`` and ``broken`` are prepared; ``broken`` fails."""
    names: list[str] = []

    def backend(name: str) -> Backend:
        def prepare() -> None:
            if name == "broken":
                raise ImportError(name)
            names.append(name)

        def check(spec: ModelSpec, options: CallOptions) -> Maker:
            return lambda: pytest.fail("a model was made")

        return Backend(check, always("chat"), prepare=prepare)

    monkeypatch.setattr(
        registry, "registered", {name: (backend(name), "") for name in ("one", "two", "broken")}
    )
    return names


def imported(config: BrokerConfig) -> None:
    """Run the import and wait for it."""
    import_sdks(config)
    for thread in threading.enumerate():
        if thread.name == "llmprops-imports":
            thread.join()


@pytest.mark.parametrize(
    ("cache", "expected"),
    [("reuse", ["two"]), ("refresh", ["one", "two"]), ("only", [])],
)
def test_sdks_of_models_without_replies_are_imported(
    prepared: list[str], tmp_path: Path, cache: CacheMode, expected: list[str]
) -> None:
    """An SDK is imported early unless the store has replies of its model; a failing import affects no other."""
    path = tmp_path / "replies.sqlite"
    store = SQLiteStore(path)
    put(store, "k", Reply("text", stored=1.0), model="a")
    store.close()
    models = {"a": parse_spec("one"), "b": parse_spec("broken"), "c": parse_spec("two")}
    imported(BrokerConfig(models, cache=cache, store=str(path)))
    assert prepared == expected


@pytest.mark.parametrize("content", [None, b"no database"])
def test_store_that_cannot_be_read_has_no_replies(
    prepared: list[str], tmp_path: Path, content: bytes | None
) -> None:
    """If the store file cannot be read, calls are expected; the file is not changed."""
    path = tmp_path / "replies.sqlite"
    if content is not None:
        path.write_bytes(content)
    imported(BrokerConfig({"a": parse_spec("one")}, store=str(path)))
    assert prepared == ["one"]
    assert path.exists() == (content is not None)
