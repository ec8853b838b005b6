"""``llmprops dtails``: make rules, extract concepts from a parallel corpus, run annotation studies."""

from __future__ import annotations

import argparse

from pytest_llmprops.benchmarks.dtails.cli.mining import add_mining
from pytest_llmprops.benchmarks.dtails.cli.rules import add_annotation, add_rules
from pytest_llmprops.cli.kit import subcommands


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add ``dtails rules``, ``extract``, ``annotate`` and ``agreement``."""
    commands = subcommands(parser)
    for add in (add_rules, add_mining, add_annotation):
        add(commands)
