"""``llmprops htest`` and ``llmprops generate htest``."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_llmprops.cli.kit import add_seed_and_number, subcommands, wrote
from pytest_llmprops.core.errors import LLMPropsError


def add_generate(command: argparse.ArgumentParser) -> None:
    """Add the arguments of ``generate htest``."""
    add_seed_and_number(command, number=200)
    command.add_argument(
        "--task", action="append", metavar="TASK", help="generate only this task; repeatable"
    )
    command.set_defaults(command=_generate)


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add ``htest export-train``."""
    commands = subcommands(parser)
    train = commands.add_parser(
        "export-train", help="write chat fine-tuning files per task that share no item with the tests"
    )
    add_seed_and_number(train, number=1000)
    train.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="also exclude the items of this folder (published or generated)",
    )
    train.set_defaults(command=_export_train)


def _generate(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.htest.tools.generation import generate_set

    return wrote(generate_set(options.out, seed=options.seed, n=options.n, tasks=options.task))


def _export_train(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.htest.rows import text_of
    from pytest_llmprops.benchmarks.htest.tools.generation import export_train
    from pytest_llmprops.data.files import DataFolder

    exclude: set[str] = set()
    if options.data is not None:
        folder = DataFolder(options.data, "published")
        for path in sorted(Path(options.data, "htest").glob("*.jsonl")):
            rows = enumerate(folder.jsonl(f"htest/{path.name}"), 1)
            exclude |= {text_of(row, f"htest/{path.name}: row {number}") for number, row in rows}
        if not exclude:
            raise LLMPropsError(
                f"{options.data}: no items to exclude; --data needs a folder with htest/*.jsonl"
            )
    return wrote(export_train(options.out, n=options.n, seed=options.seed, exclude=exclude))
