"""Where a store is, and what opens it."""

from __future__ import annotations

from pathlib import Path

from pytest_llmprops.core.errors import LLMPropsError, StoreError
from pytest_llmprops.engine.store.base import Store
from pytest_llmprops.engine.store.sqlite import SQLiteStore


def default_store() -> Path:
    """Return ``replies.sqlite`` in the user's cache directory.

    :raises StoreError: if the user has no home directory.
    """
    from platformdirs import user_cache_path

    try:
        return user_cache_path("pytest-llmprops") / "replies.sqlite"
    except RuntimeError:
        raise StoreError(
            "reply store: the user has no home directory; set HOME or XDG_CACHE_HOME, or give --llm-store FILE"
        ) from None


def open_store(location: str, *, read_only: bool = False) -> Store:
    """Open the store at a path or URL.

    :param read_only: read a store that exists, without writing to it.
    :raises StoreError: if it cannot be opened.
    """
    return SQLiteStore(Path(location), read_only=read_only)


def holds_replies(location: str, model: str) -> bool:
    """Return whether the store has any reply of the model with this label; False if it cannot be read."""
    if not Path(location).is_file():
        return False
    try:
        store = open_store(location, read_only=True)
    except LLMPropsError:
        return False
    try:
        return store.holds_replies(model)
    except LLMPropsError:
        return False
    finally:
        store.close()
