"""``batch``: the open batches of the runs with a reply store."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_llmprops.cli.kit import Groups
from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.texts import terminal_line

if TYPE_CHECKING:
    from pytest_llmprops.engine.batch.ledger import Entry, Ledger
    from pytest_llmprops.models.api.batches import BatchApi


def add_batch(groups: Groups) -> None:
    """Add ``batch``."""
    batch = groups.add_parser(
        "batch",
        help="show or cancel the batches that runs submitted",
        description="Show the open batches that runs submitted.",
    )
    batch.add_argument(
        "--cancel",
        action="store_true",
        help="cancel the open batches; lines that were run are paid for, and the next run collects them",
    )
    batch.add_argument(
        "--llm-store", metavar="FILE", help="file of the reply store (default: in the user's cache directory)"
    )
    batch.add_argument(
        "--llm-base-url",
        default="",
        metavar="URL",
        help="the models' server, if its address has a user and a password, which no file has",
    )
    batch.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from pytest_llmprops.engine.batch.ledger import Ledger, ledger_path
    from pytest_llmprops.engine.store.location import default_store, is_url

    location = options.llm_store or str(default_store())
    # A ledger without its store may still have batches that cost money.
    if not (is_url(location) or Path(location).is_file() or ledger_path(location).is_file()):
        raise UsageError(f"{location}: no such file; name the reply store of the runs with --llm-store FILE")
    with closing(Ledger(ledger_path(location))) as ledger:
        lines = asyncio.run(_lines(options.llm_base_url, ledger, cancels=options.cancel))
    print("\n".join(map(terminal_line, lines or ["no open batches"])))
    return 0


async def _lines(base_url: str, ledger: Ledger, *, cancels: bool) -> list[str]:
    """Ask for the state of each open batch, or cancel it; return a line for each."""
    from pytest_llmprops.models.secrets import Secrets

    lines: list[str] = []
    secrets = Secrets.of_run({}, [base_url] if base_url else [])
    for entry in ledger.open_batches():
        if entry.state == "submitted":
            try:
                entry = await _looked_at(base_url, ledger, entry, cancels=cancels)
            except BackendError as error:
                if cancels:
                    raise secrets.error(error) from None
        lines.append(_line(entry))
    return lines


async def _looked_at(base_url: str, ledger: Ledger, entry: Entry, *, cancels: bool) -> Entry:
    """Return an open batch with its new state.

    :raises BackendError: if the provider does not answer, or the key is missing or wrong.
    """
    from pytest_llmprops.models.base import CallOptions
    from pytest_llmprops.models.registry import find_backend, parse_spec
    from pytest_llmprops.models.spec import normalised_url

    spec = parse_spec(entry.spec)
    address = base_url if base_url and normalised_url(base_url) == entry.base_url else entry.base_url
    model: Any = find_backend(spec.backend).factory(spec, CallOptions(address or None))
    try:
        api: BatchApi = model.batches()
        state = await (api.cancel if cancels else api.state)(entry.batch)
    finally:
        await model.aclose()
    ledger.progress(entry.mark, state)
    return replace(entry, status=state.status, done=state.done, expires=state.expires)


def _line(entry: Entry) -> str:
    from pytest_llmprops.engine.batch.ledger import moment

    if entry.state == "intent":
        return f"(being submitted) {entry.label}: {entry.lines:,} lines, since {moment(entry.created)}"
    expires = f", expires {moment(entry.expires)}" if entry.expires else ""
    return (
        f"{entry.batch} {entry.label}: {entry.status}, {entry.done:,} of {entry.lines:,} lines done{expires}"
    )
