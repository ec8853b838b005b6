"""Stores of every kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from pytest_llmprops.engine.store.base import Store
from pytest_llmprops.engine.store.location import open_store


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where an empty store of each kind is."""
    if request.param == "postgres":
        return str(request.getfixturevalue("database"))
    return str(tmp_path / "replies.sqlite")


@pytest.fixture
def opened(location: str) -> Iterator[Callable[[], Store]]:
    """Return a function that opens the store once more, as another process would."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(open_store(location)))


@pytest.fixture
def store(opened: Callable[[], Store]) -> Store:
    """Return an empty store."""
    return opened()
