"""The command ``llmprops oracle``: your own sentences for the linearity test."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_llmprops.cli.kit import subcommands, wrote


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the command ``oracle sentences``."""
    commands = subcommands(parser)
    sentences = commands.add_parser(
        "sentences",
        help="convert a text file of sentences to items",
        description="Write a folder for --llm-data DIR from a UTF-8 text file with one sentence per line. Blank"
        " lines and duplicates are skipped. The sentences have no labels; the linearity test needs none.",
    )
    sentences.add_argument("file", type=Path, metavar="FILE", help="text file with one sentence per line")
    sentences.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write into")
    sentences.set_defaults(command=_sentences)


def _sentences(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.oracle.tools.sentences import write_sentences

    return wrote(write_sentences(options.file, options.out))
