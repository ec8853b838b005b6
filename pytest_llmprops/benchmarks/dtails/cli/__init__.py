"""``llmprops dtails``: make rules, extract concepts from a parallel corpus, run annotation studies."""

from __future__ import annotations

import argparse

from pytest_llmprops.benchmarks.dtails.cli import annotation as dtails_annotate
from pytest_llmprops.benchmarks.dtails.cli import mining as dtails_extract
from pytest_llmprops.benchmarks.dtails.cli import rules as dtails_rules
from pytest_llmprops.cli.kit import subcommands


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add ``dtails rules``, ``extract``, ``annotate``, ``page`` and ``agreement``."""
    commands = subcommands(parser)
    for module in (dtails_rules, dtails_extract, dtails_annotate):
        module.add_commands(commands)
