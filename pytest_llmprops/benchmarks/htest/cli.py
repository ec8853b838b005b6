"""``llmprops htest`` and ``llmprops generate htest``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_llmprops.cli.kit import add_seed_and_number, subcommands, wrote
from pytest_llmprops.core.errors import LLMPropsError


def add_generate(command: argparse.ArgumentParser) -> None:
    """Add the arguments of ``generate htest``."""
    add_seed_and_number(command, number=200)
    command.add_argument(
        "--task", action="append", metavar="TASK", help="generate only this task; repeatable"
    )
    _add_excluded(command)
    command.set_defaults(command=_generate)


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add ``htest export-train``."""
    commands = subcommands(parser)
    train = commands.add_parser(
        "export-train", help="write chat fine-tuning files per task that share no item with the tests"
    )
    add_seed_and_number(train, number=1000)
    _add_excluded(train)
    train.set_defaults(command=_export_train)


def _add_excluded(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--data",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="also exclude the items of this folder (published or generated); repeatable. Built-in items are always"
        " excluded",
    )


def _generate(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.htest.tools.generation import (
        feature_line,
        generate_set,
        palindromes_left,
    )

    exclude = _excluded(options.data)
    paths = generate_set(options.out, seed=options.seed, n=options.n, exclude=exclude, tasks=options.task)
    status = wrote(paths)
    # The standard output has only the paths.
    for path in paths:
        task, _, part = path.stem.rpartition("_")
        if part == "test":
            rows = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
            print(feature_line(task, rows), file=sys.stderr)
    if not options.task or "palindrome" in options.task:
        print(palindromes_left(exclude), file=sys.stderr)
    return status


def _export_train(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.htest.tools.generation import export_train

    return wrote(export_train(options.out, n=options.n, seed=options.seed, exclude=_excluded(options.data)))


def _excluded(folders: Sequence[Path]) -> set[str]:
    """Return the texts of all H-TEST items in folders of data."""
    from pytest_llmprops.benchmarks.htest.benchmark import text_of
    from pytest_llmprops.data.files import DataFolder

    exclude: set[str] = set()
    for root in folders:
        folder = DataFolder(root, "published")
        paths = [f"htest/{path.name}" for path in sorted(Path(root, "htest").glob("*.jsonl"))]
        if not paths:
            raise LLMPropsError(f"{root}: no items to exclude; --data needs a folder with htest/*.jsonl")
        for path in paths:
            exclude |= {text_of(row, f"{path}: row {n}") for n, row in enumerate(folder.jsonl(path), 1)}
    return exclude
