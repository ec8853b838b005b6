"""Fixtures of the engine's tests."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.engine.broker.local import LocalBroker
from pytest_llmprops.engine.calls import calls
from pytest_llmprops.models import registry
from tests.support.engine_models import MakeBroker, config_of


@pytest.fixture
def make_broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MakeBroker:
    """Return a factory of brokers that serve one model as ``m`` and share one store."""
    monkeypatch.setattr(registry, "registered", {})
    # Waits between retries are scaled down; a wait that the server requests is kept in full.
    monkeypatch.setattr(calls, "FIRST_WAIT", 0.001)

    def make(model: Any, **settings: Any) -> LocalBroker:
        registry.register_model("own", lambda spec, options: model)
        settings = {"store": str(tmp_path / "replies.sqlite"), **settings}
        return LocalBroker(config_of({"m": registry.parse_spec("own")}, **settings))

    return make


@pytest.fixture
def path() -> Iterator[str]:
    """Return a path short enough for a socket."""
    folder = tempfile.mkdtemp(prefix="llmprops-")
    yield f"{folder}/broker"
    shutil.rmtree(folder)
