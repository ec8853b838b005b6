"""``llmprops generate``: fresh items."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_llmprops.benchmarks.eras import cli as eras
from pytest_llmprops.cli.kit import Groups, add_group, add_seed_and_number, wrote


def add(groups: Groups) -> None:
    """Add ``generate htest``, ``generate homophones`` and ``generate eras``."""
    commands = add_group(
        groups, "generate", "fresh items, loadable with --llm-source published --llm-data DIR"
    )
    htest = commands.add_parser("htest", help="H-TEST items nobody has trained on")
    add_seed_and_number(htest, number=200)
    htest.add_argument("--task", action="append", metavar="TASK", help="only this task; repeatable")
    htest.set_defaults(command=_htest)
    homophones = commands.add_parser("homophones", help="homophone items from sentences")
    add_seed_and_number(homophones, number=100)
    homophones.add_argument("--lang", required=True, choices=("en", "es", "zh"))
    homophones.add_argument(
        "--sentences",
        type=Path,
        metavar="FILE",
        help="your own sentences, one a line (default: the built-in ones)",
    )
    homophones.set_defaults(command=_homophones)
    eras.add_generate(commands)


def _htest(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.htest.tools.generation import generate_set

    return wrote(generate_set(options.out, seed=options.seed, n=options.n, tasks=options.task))


def _homophones(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.homophones.tools.generation import write_homophones

    path = write_homophones(
        options.out, options.lang, n=options.n, seed=options.seed, sentences=options.sentences
    )
    return wrote([path])
