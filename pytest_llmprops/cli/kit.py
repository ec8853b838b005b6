"""Functions that the commands of ``llmprops`` share."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pytest_llmprops.core import registration
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.protocols import typed_values
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
S = TypeVar("S")
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


def add_annotation(commands: Groups, *, about: str, description: str) -> argparse.ArgumentParser:
    """Add ``annotate DIR``, which writes sheets for people, and reads the filled ones with ``--score``."""
    command = commands.add_parser("annotate", help=about, description=description)
    command.add_argument("folder", type=Path, metavar="DIR", help="folder of the sheets and key.json")
    command.add_argument("--score", action="store_true", help="print the results of the filled sheets in DIR")
    command.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed of all random choices (default: 0)"
    )
    return command


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


def add_settings(command: argparse.ArgumentParser, defaults: Any) -> None:
    """Add ``--set NAME=VALUE`` for the fields of a dataclass; :func:`settings_in` reads it."""
    shown = ", ".join(
        f"{field.name}={','.join(value) if isinstance(value, tuple) else value}"
        for field in dataclasses.fields(defaults)
        for value in [getattr(defaults, field.name)]
    )
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"change a setting; repeatable. The settings are: {shown}",
    )


def settings_in(options: argparse.Namespace, defaults: S) -> S:
    """Return settings with the values of ``--set``.

    :raises UsageError: if a setting is unknown, or a value cannot be used.
    """
    texts = {}
    for text in options.set:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text}: must be NAME=VALUE")
        texts[name] = value
    values = typed_values(defaults, texts, "--set ")
    return dataclasses.replace(defaults, **values)  # type: ignore[type-var]


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
