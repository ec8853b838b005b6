"""The commands ``llmprops lab oracle``: your own sentences for the linearity test, and a measurement of the prover."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_llmprops.cli.kit import subcommands, wrote


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the commands ``oracle sentences`` and ``oracle prover``."""
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
    prover = commands.add_parser(
        "prover",
        help="measure the prover without a model",
        description="Print for which share of pairs the phrases can be aligned, before a model is asked:"
        " of the labelled pairs, random pairs, and each sentence with itself. No language model is called.",
    )
    prover.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="folder of --llm-data (default: the built-in sentences and pairs)",
    )
    prover.add_argument(
        "--limit", type=int, default=250, metavar="N", help="maximum pairs of each kind (default: 250)"
    )
    prover.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed of the random draws (default: 0)"
    )
    for role in ("parse", "embed"):
        prover.add_argument(f"--{role}", metavar="SPEC", help=f"helper {role} (default: that of a run)")
    prover.set_defaults(command=_prover)


def _sentences(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.oracle.tools.sentences import write_sentences

    return wrote(write_sentences(options.file, options.out))


def _prover(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.oracle.items import items
    from pytest_llmprops.benchmarks.oracle.tools.sentences import Helpers, run
    from pytest_llmprops.core.errors import UsageError
    from pytest_llmprops.core.protocols import generator
    from pytest_llmprops.data.files import DataFolder, builtin_data

    if options.limit < 2:
        raise UsageError("--limit must be at least 2")
    files = DataFolder(builtin_data(), "builtin")
    if options.data is not None:
        files = DataFolder(options.data, DataFolder(options.data, "published").source_for("oracle"))
    measured = list(items(files))
    helpers = Helpers({"parse": options.parse, "embed": options.embed})
    try:
        for line in run(measured, helpers, options.limit, generator(options.seed, "oracle", "prover")):
            print(line)
    finally:
        helpers.close()
    return 0
