"""Import of the SDKs of a run's models in a thread, while pytest collects."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence

from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.engine.store.location import holds_replies
from pytest_llmprops.models.registry import Backend, find_backend


def import_sdks(config: BrokerConfig) -> None:
    """Start to import the SDKs that the models of ``config`` need.

    Importing an SDK takes half a second or more. A model with stored replies may need no call, so its SDK is imported
    at its first call.
    """
    if config.cache == "only":
        return
    needed: list[tuple[str, Backend]] = []
    for label, spec in config.models.items():
        backend = find_backend(spec.backend)
        if backend.prepare is not None:
            needed.append((label, backend))
    if needed:
        # Not a daemon thread: the interpreter must not exit during the import of an extension module.
        threading.Thread(target=_import, args=(needed, config), name="llmprops-imports", daemon=False).start()


def _import(needed: Sequence[tuple[str, Backend]], config: BrokerConfig) -> None:
    reuses = config.cache == "reuse"
    for label, backend in needed:
        if backend.prepare is None or (reuses and holds_replies(config.store, label)):
            continue
        # The first call reports a failed import.
        with contextlib.suppress(Exception):
            backend.prepare()
