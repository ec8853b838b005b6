"""``llmprops batch``: look at, collect and cancel the batches of ``--llm-engine batch``."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from pytest_llmprops.cli.kit import Groups, add_group
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.texts import terminal_line


def add(groups: Groups) -> None:
    """Add ``batch status``, ``collect`` and ``cancel``."""
    commands = add_group(groups, "batch", "show, collect or cancel the batches that runs submitted")
    for name, about in (
        ("status", "show the open batches"),
        ("collect", "store the replies of batches that are over, as the next run would"),
        ("cancel", "cancel the open batches; lines that were run are paid for, and can be collected"),
    ):
        command = commands.add_parser(name, help=about, description=about)
        command.add_argument(
            "--llm-store",
            metavar="FILE",
            help="file of the reply store (default: in the user's cache directory)",
        )
        command.add_argument(
            "--llm-base-url",
            default="",
            metavar="URL",
            help="the models' server, if its address has a user and a password, which no file has",
        )
        if name == "collect":
            command.add_argument(
                "files", nargs="*", type=Path, metavar="FILE", help="downloaded output file, with --model"
            )
            command.add_argument("--model", metavar="SPEC", help="model that gave the replies in the files")
        command.set_defaults(command=_run, name=name)


def _run(options: argparse.Namespace) -> int:
    from pytest_llmprops.engine.batch.ledger import ledger_path
    from pytest_llmprops.engine.store.location import default_store, is_url

    has_files = bool(getattr(options, "files", None))
    if has_files and not options.model:
        raise UsageError("batch collect FILE: name the model that gave the replies with --model SPEC")
    store = options.llm_store or str(default_store())
    # A ledger without its store may still have batches that cost money.
    exists = is_url(store) or Path(store).is_file() or ledger_path(store).is_file()
    if not (exists or has_files):
        raise UsageError(f"{store}: no such file; name the reply store of the runs with --llm-store FILE")
    lines = asyncio.run(_lines(options, store))
    print("\n".join(map(terminal_line, lines)))
    return 0


async def _lines(options: argparse.Namespace, store: str) -> list[str]:
    from pytest_llmprops.engine.batch.commands import BatchCommands

    async with BatchCommands(store, options.llm_base_url) as commands:
        if options.name == "status":
            return await commands.status()
        if options.name == "cancel":
            return await commands.cancel()
        if options.files:
            return commands.read(options.files, options.model)
        return await commands.collect()
