"""``llmprops``: its commands, and how they fail: one line on standard error, status 2."""

from __future__ import annotations

import argparse
import importlib
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from pytest_llmprops.core.errors import LLMPropsError

Command = Callable[[argparse.Namespace], int]
# argparse has no public name for what add_subparsers() returns.
Groups: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

#: modules of this package, in the order of the help; each has ``add(groups)``, which adds its commands
COMMANDS = (
    "data",
    "generate",
    "htest",
    "eras",
    "dtails",
    "oracle",
    "segment",
    "runs",
    "gate",
    "compare",
    "report",
)


def parser() -> argparse.ArgumentParser:
    """The command line of ``llmprops``."""
    top = argparse.ArgumentParser(
        prog="llmprops",
        description="Data and records of pytest-llmprops. Models are measured by pytest --model.",
    )
    groups = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name in COMMANDS:
        importlib.import_module(f"pytest_llmprops.cli.{name}").add(groups)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    options = parser().parse_args(arguments)
    command: Command = options.command
    try:
        status = command(options)
        sys.stdout.flush()
        return status
    except (LLMPropsError, ValueError) as error:
        print(f"llmprops: {error}", file=sys.stderr)
    except BrokenPipeError:
        # The reader, head or less, has seen enough. Nothing may be written at exit either.
        sys.stdout = None
        return 0
    except OSError as error:
        print(f"llmprops: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("llmprops: interrupted", file=sys.stderr)
        return 130
    return 2


def add_group(groups: Groups, name: str, about: str) -> Groups:
    """Add a command that has commands of its own; what to add those to."""
    return groups.add_parser(name, help=about, description=about).add_subparsers(
        required=True, metavar="COMMAND"
    )


def add_seed_and_number(command: argparse.ArgumentParser, *, number: int) -> None:
    """Add ``--n``, ``--seed`` and ``--out`` to a command that makes items."""
    command.add_argument("--n", type=int, default=number, metavar="N", help=f"how many (default: {number})")
    command.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed of every random choice (default: 0)"
    )
    command.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write into")


def wrote(paths: Iterable[Path]) -> int:
    """Print the files that a command wrote; status 0."""
    for path in paths:
        print(path)
    return 0


def terminal_width() -> int:
    """Columns of the terminal, or ``COLUMNS``; wide where the output goes to a file or a pipe."""
    return shutil.get_terminal_size((200, 24)).columns


if __name__ == "__main__":
    sys.exit(main())
