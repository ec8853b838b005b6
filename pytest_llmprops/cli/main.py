"""The command line of ``llmprops``. A command that fails prints one line on standard error and exits with status 2."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence

from pytest_llmprops import __version__
from pytest_llmprops.benchmark_registry import registrations
from pytest_llmprops.cli import (
    batch,
    compare,
    completion,
    data,
    gate,
    generate,
    init,
    models,
    report,
    run,
    runs,
    segment,
    site,
    store,
    suites,
    view,
)
from pytest_llmprops.cli.kit import Command, add_registered
from pytest_llmprops.core.errors import LLMPropsError
from pytest_llmprops.core.texts import terminal_line
from pytest_llmprops.models.dotenv_file import read_dotenv


def parser() -> argparse.ArgumentParser:
    """Return the command line of ``llmprops``, with the commands of all registered benchmarks.

    :raises UsageError: if a benchmark's registration or command cannot be imported.
    """
    top = argparse.ArgumentParser(
        prog="llmprops",
        description="Measure models, and manage the data, runs and reports of pytest-llmprops.",
    )
    top.add_argument("--version", action="version", version=f"pytest-llmprops {__version__}")
    groups = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for module in (init, run, suites, models, data, generate):
        module.add(groups)
    for registration in registrations():
        if registration.commands is not None:
            add_registered(groups, registration.name, registration.commands)
    for module in (segment, batch, runs, gate, compare, report, view, site, store):
        module.add(groups)
    completion.add(groups, top)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            # The console may lack Chinese, arrows and the like (cp1252 on Windows). They are escaped.
            stream.reconfigure(errors="backslashreplace")
    try:
        options = parser().parse_args(arguments)
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
