"""The command line of ``llmprops``. A command that fails prints one line on standard error and exits with status 2."""

from __future__ import annotations

import argparse
import gc
import io
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from pytest_llmprops import __version__
from pytest_llmprops.benchmark_registry import registrations
from pytest_llmprops.cli import batch, demo, listing, papers, reports, run, runs, store
from pytest_llmprops.cli.kit import Command, add_group, add_registered
from pytest_llmprops.core.errors import LLMPropsError
from pytest_llmprops.core.texts import did_you_mean, terminal_line
from pytest_llmprops.models.spec import read_dotenv


class Parser(argparse.ArgumentParser):
    """A parser, also of each command, whose error on an unknown command or value names the nearest known one."""

    def error(self, message: str) -> NoReturn:
        choice = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)$", message)
        if choice is not None:
            message += did_you_mean(choice[1], (name.strip("' ") for name in choice[2].split(",")))
        super().error(message)


def parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Return the command line of ``llmprops``, with the commands of all registered benchmarks.

    :param words: the words that will be parsed, so that other commands of benchmarks get no arguments: adding them
        takes longer than all else here. By default, all commands get theirs.
    :raises UsageError: if a benchmark's registration or command cannot be imported.
    """
    top: argparse.ArgumentParser = Parser(
        prog="llmprops",
        description="Measure models, and manage the data, runs and reports of pytest-llmprops.",
    )
    top.add_argument("--version", action="version", version=f"pytest-llmprops {__version__}")
    groups = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for add in (
        demo.add_demo, run.add_init, run.add_run, listing.add_list, papers.add_papers, run.add_data, batch.add_batch,
        runs.add_runs, runs.add_gate, runs.add_compare, reports.add_readings, reports.add_report, reports.add_view,
        reports.add_site, store.add_store,
    ):  # fmt: skip
        add(groups)
    lab = add_group(groups, "lab", "research with a benchmark: generate and annotate items, train models")
    chosen = [word for word in words or () if not word.startswith("-")][:2]
    for registration in registrations():
        name, registered = registration.name, registration.commands
        if registered is not None and (words is None or chosen == ["lab", name]):
            add_registered(lab, name, registered)
        elif registered is not None:
            lab.add_parser(name, help=registered.help)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            # The console may lack Chinese, arrows and the like (cp1252 on Windows). They are escaped.
            stream.reconfigure(errors="backslashreplace")
    # Records are read and kept: the collector would look at them again and again, for a third of the time of a site.
    gc.set_threshold(200_000, 20, 20)
    try:
        words = sys.argv[1:] if arguments is None else arguments
        options = parser(words).parse_args(words)
        read_dotenv()
        command: Command = options.command
        status = command(options)
        sys.stdout.flush()
        return status
    except (LLMPropsError, ValueError) as error:
        # A name or path on the command line may contain control characters.
        print(f"llmprops: {terminal_line(str(error))}", file=sys.stderr)
    except BrokenPipeError:
        # A reader such as head has closed the pipe; Python must not flush to it at exit either.
        sys.stdout = None
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"llmprops: {terminal_line(f'{where}{error.strerror or error}')}", file=sys.stderr)
    except KeyboardInterrupt:
        print("llmprops: interrupted", file=sys.stderr)
        return 130
    return 2


if __name__ == "__main__":
    sys.exit(main())
