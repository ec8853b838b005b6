"""``llmprops lab homophones``: generated items."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_llmprops.cli.kit import add_seed_and_number, subcommands, wrote


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add ``generate``."""
    command = subcommands(parser).add_parser(
        "generate", help="generate items from sentences; use them with --llm-data DIR"
    )
    add_seed_and_number(command, number=100)
    command.add_argument("--lang", required=True, choices=("en", "es", "zh"))
    command.add_argument(
        "--sentences",
        type=Path,
        metavar="FILE",
        help="your own sentences, one per line: sentence<TAB>answer, for Spanish and Chinese also <TAB>English "
        "translations (default: those of the package)",
    )
    command.set_defaults(command=_generate)


def _generate(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.homophones.tools.published import write_homophones

    path = write_homophones(
        options.out, options.lang, n=options.n, seed=options.seed, sentences=options.sentences
    )
    return wrote([path])
