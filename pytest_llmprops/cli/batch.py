"""``batch``: the batches that the runs with a reply store submitted, outside of a run."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_llmprops.cli.kit import Groups
from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.texts import terminal_line

if TYPE_CHECKING:
    from pytest_llmprops.engine.batch.ledger import Entry, Ledger
    from pytest_llmprops.engine.store.base import Store
    from pytest_llmprops.models.api.batches import BatchApi, BatchState


def add_batch(groups: Groups) -> None:
    """Add ``batch``."""
    batch = groups.add_parser(
        "batch",
        help="show, collect or cancel the batches that runs submitted",
        description="Show the open batches that runs submitted.",
    )
    action = batch.add_mutually_exclusive_group()
    for name, about in (
        ("collect", "store the replies of batches that are over, as the next run would"),
        ("cancel", "cancel the open batches; lines that were run are paid for, and can be collected"),
    ):
        action.add_argument(f"--{name}", action="store_const", const=name, dest="name", help=about)
    batch.add_argument(
        "--llm-store", metavar="FILE", help="file of the reply store (default: in the user's cache directory)"
    )
    batch.add_argument(
        "--llm-base-url",
        default="",
        metavar="URL",
        help="the models' server, if its address has a user and a password, which no file has",
    )
    batch.set_defaults(command=_run, name="show")


def _run(options: argparse.Namespace) -> int:
    from pytest_llmprops.engine.batch.ledger import Ledger, ledger_path
    from pytest_llmprops.engine.store.location import default_store, is_url, open_store

    location = options.llm_store or str(default_store())
    # A ledger without its store may still have batches that cost money.
    if not (is_url(location) or Path(location).is_file() or ledger_path(location).is_file()):
        raise UsageError(f"{location}: no such file; name the reply store of the runs with --llm-store FILE")
    with closing(open_store(location)) as store, closing(Ledger(ledger_path(location))) as ledger:
        lines = asyncio.run(_lines(options.name, options.llm_base_url, store, ledger))
    print("\n".join(map(terminal_line, lines or ["no open batches"])))
    return 0


async def _lines(name: str, base_url: str, store: Store, ledger: Ledger) -> list[str]:
    """Do what the command says to each open batch; return a line for each."""
    from pytest_llmprops.models.secrets import Secrets

    lines: list[str] = []
    secrets = Secrets.of_run({}, [base_url] if base_url else [])
    apis: dict[tuple[str, str], BatchApi] = {}
    async with AsyncExitStack() as closing_models:
        for entry in ledger.open_batches():
            if entry.state != "submitted":
                lines.append(_line(entry))
                continue
            try:
                place = entry.spec, entry.base_url
                if place not in apis:
                    apis[place] = _api(entry, base_url, closing_models)
                call = apis[place].cancel if name == "cancel" else apis[place].state
                state = await call(entry.batch)
                ledger.progress(entry.mark, state.status, state.done, state.expires)
                entry = replace(entry, status=state.status, done=state.done, expires=state.expires)
                if name == "collect" and state.is_over:
                    stored = await _collect(apis[place], entry, state, store, ledger, secrets)
                    lines.append(f"{entry.batch} {entry.label}: {state.status}, {stored:,} replies stored")
                    continue
            except BackendError as error:
                if name != "show":
                    raise secrets.error(error) from None
            lines.append(_line(entry))
    return lines


def _api(entry: Entry, base_url: str, closing_models: AsyncExitStack) -> BatchApi:
    """Return the batches of an entry's model, which is closed with the stack.

    :raises BackendError: if its key is missing or wrong.
    """
    from pytest_llmprops.models.api.openai import normalised_url
    from pytest_llmprops.models.base import BackendOptions
    from pytest_llmprops.models.registry import find_backend, parse_spec

    spec = parse_spec(entry.spec)
    address = base_url if base_url and normalised_url(base_url) == entry.base_url else entry.base_url
    model: Any = find_backend(spec.backend).factory(spec, BackendOptions(address or None))
    closing_models.push_async_callback(model.aclose)
    api: BatchApi = model.batches()
    return api


async def _collect(
    api: BatchApi, entry: Entry, state: BatchState, store: Store, ledger: Ledger, secrets: Any
) -> int:
    """Store the replies of a batch, and leave its other requests to the next run; return the number of replies."""
    from pytest_llmprops.engine.batch.collect import results
    from pytest_llmprops.engine.store.base import row_of

    stored = 0
    async for chunk in results(api, entry, state, ledger.members(entry.mark), Counter()):
        now = time.time()
        replies = [secrets.reply(reply) for result in chunk for reply in result.replies]
        store.put_many([row_of(reply.key, entry.label, replace(reply, stored=now)) for reply in replies])
        stored += len(replies)
    ledger.end(entry.mark, state.status)
    return stored


def _line(entry: Entry) -> str:
    from pytest_llmprops.engine.batch.ledger import moment

    if entry.state == "intent":
        return f"(being submitted) {entry.label}: {entry.lines:,} lines, since {moment(entry.created)}"
    expires = f", expires {moment(entry.expires)}" if entry.expires else ""
    return (
        f"{entry.batch} {entry.label}: {entry.status}, {entry.done:,} of {entry.lines:,} lines done{expires}"
    )
