"""Import of SDKs in a thread."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pytest_llmprops.core.requests import Reply
from pytest_llmprops.engine.config import BrokerConfig, import_sdks
from pytest_llmprops.engine.store.base import CacheMode
from pytest_llmprops.engine.store.sqlite import SQLiteStore
from pytest_llmprops.models import registry
from pytest_llmprops.models.base import BackendOptions
from pytest_llmprops.models.registry import Backend, Maker, always, parse_spec
from pytest_llmprops.models.spec import ModelSpec
from tests.support.stores import put


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record which of the backends ``one``, ``two`` and ``broken`` are prepared; ``broken`` fails."""
    names: list[str] = []

    def backend(name: str) -> Backend:
        def prepare() -> None:
            if name == "broken":
                raise ImportError(name)
            names.append(name)

        def check(spec: ModelSpec, options: BackendOptions) -> Maker:
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
    [("reuse", ["two"]), ("refresh", ["one", "two"]), ("off", ["one", "two"]), ("only", [])],
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
