"""``store``: stored replies."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_llmprops.cli.kit import Groups
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.texts import terminal_line

if TYPE_CHECKING:
    from pytest_llmprops.engine.store.base import Store


def add_store(groups: Groups) -> None:
    """Add ``store``."""
    command = groups.add_parser(
        "store", help="show a store of replies: its size, replies by model; delete replies"
    )
    command.add_argument(
        "store", nargs="?", metavar="STORE", help="file or postgresql:// URL (default: the same as pytest)"
    )
    command.add_argument(
        "--prune",
        type=float,
        metavar="DAYS",
        help="delete replies that are older than DAYS days; 0 deletes all",
    )
    command.add_argument(
        "--model", metavar="LABEL", help="with --prune: only replies of this model, as the store shows it"
    )
    command.set_defaults(command=_store)


def _opened(location: str | None, *, read_only: bool = False) -> Store:
    """Return a store that exists; without a location, the one that pytest uses.

    :raises UsageError: if it does not exist.
    """
    from pytest_llmprops.engine.store.location import default_store, is_url, open_store

    place = _location(location) if location is not None else str(default_store())
    if not is_url(place) and not Path(place).is_file():
        raise UsageError(f"{place}: no such file; name a reply store")
    return open_store(place, read_only=read_only)


def _location(text: str) -> str:
    """Return the file or the URL of a store.

    :raises UsageError: if it is neither; the line names it.
    """
    from pytest_llmprops.engine.store.location import store_location, without_password

    try:
        return store_location(text)
    except UsageError as error:
        raise UsageError(f"{without_password(text)}: {error}") from None


def _store(options: argparse.Namespace) -> int:
    if options.prune is not None:
        return _prune(options)
    if options.model is not None:
        raise UsageError("--model chooses what --prune deletes; add --prune DAYS")
    with closing(_opened(options.store, read_only=True)) as store:
        info = store.info()
        print(f"{terminal_line(store.place)}: version {info.version}, {info.size / 1e6:.1f} MB")
        for model in info.models:
            since, until = (_day(t) for t in (model.oldest, model.newest))
            print(f"  {terminal_line(model.model)}: {model.replies:,} replies, {since} to {until}")
        if not info.models:
            print("  no replies")
        _show_notes(store)
    return 0


def _day(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):
        return "an unknown day"


def _prune(options: argparse.Namespace) -> int:
    if not options.prune >= 0:
        raise UsageError("--prune must be a number of days of at least 0")
    with closing(_opened(options.store)) as store:
        before = time.time() - options.prune * 86400 if options.prune else float("inf")
        deleted = store.prune(before=before, model=options.model)
        print(f"{terminal_line(store.place)}: {deleted:,} replies deleted")
        _show_notes(store)
    return 0


def _show_notes(store: Store) -> None:
    for note in store.notes:
        print(f"note: {terminal_line(note)}", file=sys.stderr)
