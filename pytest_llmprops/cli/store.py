"""``store``: stored replies."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_llmprops.cli.kit import Groups, add_group
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.texts import terminal_line

if TYPE_CHECKING:
    from pytest_llmprops.engine.store.base import Store


STORE = "file or postgresql:// URL (default: the same as pytest)"


def add_store(groups: Groups) -> None:
    """Add ``store info`` and ``store prune``."""
    commands = add_group(groups, "store", "show and prune stores of replies")
    info = commands.add_parser("info", help="show the size of a store and its replies by model")
    info.add_argument("store", nargs="?", metavar="STORE", help=STORE)
    info.set_defaults(command=_info)
    prune = commands.add_parser("prune", help="delete old replies")
    prune.add_argument("store", nargs="?", metavar="STORE", help=STORE)
    prune.add_argument(
        "--older-than", type=float, metavar="DAYS", default=0.0, help="age of the replies in days"
    )
    prune.add_argument("--model", metavar="LABEL", help="only replies of this model, as info shows it")
    prune.set_defaults(command=_prune)


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


def _info(options: argparse.Namespace) -> int:
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
    if not options.older_than >= 0:
        raise UsageError("--older-than must be a number of days of at least 0")
    if not options.older_than and options.model is None:
        raise UsageError("say what to delete: --older-than DAYS, --model LABEL, or both")
    with closing(_opened(options.store)) as store:
        before = time.time() - options.older_than * 86400 if options.older_than else float("inf")
        deleted = store.prune(before=before, model=options.model)
        print(f"{terminal_line(store.place)}: {deleted:,} replies deleted")
        _show_notes(store)
    return 0


def _show_notes(store: Store) -> None:
    for note in store.notes:
        print(f"note: {terminal_line(note)}", file=sys.stderr)
