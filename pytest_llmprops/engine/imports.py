"""Importing the SDKs of a run's models in a thread, while pytest collects."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from pathlib import Path

from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.engine.store import holds_replies
from pytest_llmprops.models.registry import Backend, find_backend


def import_sdks(config: BrokerConfig) -> None:
    """Start to import what the first calls to the models of ``config`` need.

    An SDK takes half a second or more. A model with replies in the store may need no call: its SDK is imported at the
    first call that there is.
    """
    if config.cache == "only":
        return
    wanted: list[tuple[str, Backend]] = []
    for label, spec in config.models.items():
        backend = find_backend(spec.backend)
        if backend.prepare is not None:
            wanted.append((label, backend))
    if wanted:
        # Not a daemon: the interpreter must not end in the middle of an extension module's import.
        threading.Thread(target=_import, args=(wanted, config), name="llmprops-imports", daemon=False).start()


def _import(wanted: Sequence[tuple[str, Backend]], config: BrokerConfig) -> None:
    reuses = config.cache == "reuse"
    for label, backend in wanted:
        if backend.prepare is None or (reuses and holds_replies(Path(config.store), label)):
            continue
        # What cannot be imported is reported by the first call.
        with contextlib.suppress(Exception):
            backend.prepare()
