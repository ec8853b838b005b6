"""Functions that the commands of ``llmprops`` share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pytest_llmprops.core import registration
from pytest_llmprops.data.whole_files import is_stdout
from pytest_llmprops.reports.tables import aligned_table, terminal_width

if TYPE_CHECKING:
    # Imported only for commands on runs: it would slow down --help.
    from pytest_llmprops.runs.reader import Run

#: help of an argument that names a run
RUN = "run folder, or name under reports/runs or baselines"
#: help of ``--baseline`` of a command that compares runs
BASELINE = (
    "run to compare with (default: the run that the gate of another one names, otherwise the first one)"
)
Command = Callable[[argparse.Namespace], int]
# argparse has no public name for what add_subparsers() returns.
Groups: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001


def add_group(groups: Groups, name: str, about: str) -> Groups:
    """Add a command with subcommands, and return the group to add these to."""
    return subcommands(groups.add_parser(name, help=about, description=about))


def subcommands(parser: argparse.ArgumentParser) -> Groups:
    """Give ``parser`` subcommands, and return the group to add these to."""
    return parser.add_subparsers(required=True, metavar="COMMAND")


def add_registered(groups: Groups, name: str, command: registration.Command) -> None:
    """Add the command of a benchmark's registration under ``name``."""
    parser = groups.add_parser(name, help=command.help, description=command.help)
    registration.load_reference(command.add, f"command {name}")(parser)


def add_seed_and_number(command: argparse.ArgumentParser, *, number: int) -> None:
    """Add ``--n``, ``--seed`` and ``--out`` to a command that generates items."""
    command.add_argument(
        "--n", type=int, default=number, metavar="N", help=f"number of items (default: {number})"
    )
    add_seed_and_out(command)


def add_seed_and_out(command: argparse.ArgumentParser) -> None:
    """Add ``--seed`` and ``--out`` to a command that draws what it writes."""
    command.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed of all random choices (default: 0)"
    )
    command.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write into")


def wrote(paths: Iterable[Path]) -> int:
    """Print the files that a command wrote, except standard output, and return the exit status 0."""
    for path in paths:
        if not is_stdout(path):
            print(path)
    return 0


def print_table(rows: Sequence[tuple[str, ...]]) -> int:
    """Print a table as wide as the terminal, with its heads in the first row, and return the exit status 0."""
    print("\n".join(line.removeprefix("  ") for line in aligned_table(rows, terminal_width() + 2)))
    return 0


def recorded(text: str) -> Run:
    """Return the run that an argument names.

    :raises UsageError: if there is none. :raises DataError: if its record cannot be read.
    """
    from pytest_llmprops.runs.catalog import find_run
    from pytest_llmprops.runs.reader import read_run

    return read_run(find_run(text))


def show_notes(notes: Iterable[str], prefix: str = "") -> None:
    """Print notes on standard error."""
    for note in notes:
        print(f"llmprops: note: {prefix}{note}", file=sys.stderr)
