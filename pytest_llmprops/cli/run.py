"""``llmprops run`` and ``retry``: run the suites of installed benchmarks, and complete a run, with pytest."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from pytest_llmprops.benchmark_registry import benchmark_names, find_registration, registrations
from pytest_llmprops.cli.kit import RUN, Groups, Suggested
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.texts import terminal_line


class _Words(argparse.Action):
    """Keeps all words, except that a call for help is answered."""

    def __call__(
        self, parser: argparse.ArgumentParser, options: argparse.Namespace, words: Any, _: Any = None
    ) -> None:
        if {"-h", "--help"} & set(words):
            parser.print_help()
            parser.exit()
        setattr(options, self.dest, words)


def add(groups: Groups) -> None:
    """Add ``run`` and ``retry``."""
    run = groups.add_parser(
        "run",
        help="measure a model: run the suites of benchmarks with pytest",
        description="Run the suites of these benchmarks, or of all installed ones, with pytest. Prints the command."
        " Every other option is pytest's, and so is the exit status.",
        usage="llmprops run [BENCHMARK ...] --model SPEC [PYTEST OPTION ...]",
        # pytest's options are unknown here, so that none of them may be read as an option of this command.
        prefix_chars="\0",
        add_help=False,
    )
    run.add_argument(
        "words",
        nargs="*",
        action=_Words,
        metavar="BENCHMARK",
        choices=Suggested(benchmark_names()),
        help="name of an installed benchmark",
    )
    run.set_defaults(command=_run)
    retry = groups.add_parser(
        "retry",
        help="measure again what has no verdict in a run, and what ended in an error",
        description="Repeat the pytest command of a run with --llm-resume: only cases without a verdict and errors are"
        " measured, and the record of the run is completed. Run it in the folder of the first command. Prints the"
        " command. The exit status is pytest's.",
        usage="llmprops retry RUN [PYTEST OPTION ...]",
        prefix_chars="\0",
        add_help=False,
    )
    retry.add_argument("words", nargs="*", action=_Words, metavar="RUN", help=RUN)
    retry.set_defaults(command=_retry)


def _run(options: argparse.Namespace) -> int:
    return _pytest(["--pyargs", *pytest_arguments(options.words)])


def _retry(options: argparse.Namespace) -> int:
    return _pytest(retry_arguments(options.words))


def retry_arguments(words: Sequence[str]) -> list[str]:
    """Return the arguments of pytest that go on with the run in the first of ``words``; the others are added.

    :raises UsageError: if no run is named, its record has no command, or it was merged from shards.
    """
    from pytest_llmprops.engine.store.location import without_hidden_password
    from pytest_llmprops.runs.catalog import find_run
    from pytest_llmprops.runs.parts import is_merged, merged_problem
    from pytest_llmprops.runs.reader import read_facts

    if not words or words[0].startswith("-"):
        raise UsageError(f"retry: name the run first: llmprops retry RUN ({RUN})")
    folder = find_run(words[0])
    facts = read_facts(folder)
    if is_merged(facts):
        raise UsageError(f"{folder}: {merged_problem(facts)}")
    command = facts.options.get("command")
    if not isinstance(command, list):
        raise UsageError(
            f"{folder}: has no pytest command, so it cannot be repeated; it was not recorded by pytest"
        )
    recorded = list(map(str, command))
    known = list(map(without_hidden_password, recorded))
    if known != recorded and not any(word.partition("=")[0] == "--llm-store" for word in words[1:]):
        print(
            "note: the password of the reply store is not recorded; set PGPASSWORD or PGPASSFILE, or name the store"
            f" again: llmprops retry {terminal_line(words[0])} --llm-store URL",
            file=sys.stderr,
        )
    return [*known, "--llm-resume", "--llm-run", str(folder), *words[1:]]


def _pytest(arguments: Sequence[str]) -> int:
    command = [sys.executable, "-m", "pytest", *arguments]
    print(shlex.join(command), flush=True)
    if os.name == "posix":
        # pytest takes the place of this process, so that signals reach it.
        os.execv(sys.executable, command)  # noqa: S606
    with subprocess.Popen(command) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                # pytest gets it, too, and ends with its summary.
                continue


def pytest_arguments(words: Sequence[str]) -> list[str]:
    """Return the suites of the benchmarks that ``words`` begin with (all, if none is named), and the other words.

    :raises UsageError: if a benchmark is unknown or has no suite.
    """
    names = list(takewhile(lambda word: not word.startswith("-"), words))
    if names:
        suites = [_suite(name) for name in dict.fromkeys(names)]
    else:
        suites = [registration.suite for registration in registrations() if registration.suite]
    return [*suites, *words[len(names) :]]


def _suite(name: str) -> str:
    suite = find_registration(name).suite
    if not suite:
        raise UsageError(
            f"benchmark {name} has no suite: its registration does not name one; run its test file with pytest"
        )
    return suite
