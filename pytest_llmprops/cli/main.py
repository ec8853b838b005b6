"""``llmprops``: its commands, and how they fail: one line on standard error, status 2."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from pytest_llmprops.cli.kit import Command
from pytest_llmprops.core.errors import LLMPropsError

#: modules, in the order of the help; each has ``add(groups)``, which adds its commands
COMMANDS = (
    "pytest_llmprops.cli.data",
    "pytest_llmprops.cli.generate",
    "pytest_llmprops.benchmarks.htest.cli",
    "pytest_llmprops.benchmarks.eras.cli",
    "pytest_llmprops.benchmarks.dtails.cli",
    "pytest_llmprops.benchmarks.oracle.cli",
    "pytest_llmprops.cli.segment",
    "pytest_llmprops.cli.runs",
    "pytest_llmprops.cli.gate",
    "pytest_llmprops.cli.compare",
    "pytest_llmprops.cli.report",
)


def parser() -> argparse.ArgumentParser:
    """The command line of ``llmprops``."""
    top = argparse.ArgumentParser(
        prog="llmprops",
        description="Data and records of pytest-llmprops. Models are measured by pytest --model.",
    )
    groups = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name in COMMANDS:
        importlib.import_module(name).add(groups)
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


if __name__ == "__main__":
    sys.exit(main())
