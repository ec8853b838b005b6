"""``llmprops eras``: human evaluation, sites for new paradigms, sentiment accuracy, the authors' table 2, training."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_llmprops.benchmarks.eras.cli import (
    sentiment_accuracy,
    table2,
    train,
    train_sentiment,
    train_tables,
    train_wwm,
)
from pytest_llmprops.cli.kit import subcommands, wrote


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add ``eras annotate``, ``score``, ``mine``, ``sentiment-accuracy``, ``table2`` and ``train``."""
    commands = subcommands(parser)
    annotate = commands.add_parser(
        "annotate",
        help="write blind ranking sheets for annotators",
        description="Write annotator_1.csv ... and key.json. Annotators rank the three sentences of a line by"
        " sentiment: 1 is the most positive, equal ranks are ties. Do not show key.json to annotators.",
    )
    annotate.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write into")
    annotate.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed of all random choices (default: 0)"
    )
    annotate.add_argument(
        "--annotators", type=int, default=5, metavar="N", help="number of sheets (default: 5)"
    )
    annotate.add_argument(
        "--per-paradigm", type=int, default=4, metavar="N", help="pairs per paradigm and sheet (default: 4)"
    )
    annotate.add_argument(
        "--set",
        type=Path,
        metavar="DIR",
        help="pairs of `llmprops generate eras --out DIR` (default: built-in)",
    )
    annotate.set_defaults(command=_annotate)
    score = commands.add_parser(
        "score", help="compute human accuracy and the human baseline from filled sheets"
    )
    score.add_argument("folder", type=Path, metavar="DIR", help="folder of the filled sheets and key.json")
    score.set_defaults(command=_score)
    mine = commands.add_parser(
        "mine",
        help="list candidates for new paradigms from jieba's dictionary and a sentiment lexicon",
        description="Print overlapping words with different sentiment labels, best first. Write frames for them by"
        " hand. The lexicon is UTF-8 in the format of ANTUSD, one entry per line: WORD,SCORE,POS,NEU,NEG,NON,NOT.",
    )
    mine.add_argument("--lexicon", type=Path, required=True, metavar="FILE")
    mine.add_argument("--top", type=int, default=100, metavar="N", help="number of candidates (default: 100)")
    mine.add_argument(
        "--traditional", action="store_true", help="the lexicon uses traditional characters, like ANTUSD"
    )
    mine.set_defaults(command=_mine)
    sentiment_accuracy.add_command(commands)
    table2.add_command(commands)
    group = train.add_command(commands)
    train_sentiment.add_command(group)
    train_wwm.add_command(group)
    train_tables.add_commands(group)


def _annotate(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.tools.annotation import write_sheets
    from pytest_llmprops.benchmarks.eras.tools.generation import load_templates, make_pairs, read_set

    if options.set is not None:
        pairs = read_set(options.set)
    else:
        needed = max(1, options.annotators * options.per_paradigm)
        pairs = list(make_pairs(*load_templates(), seed=options.seed, pairs=needed))
    return wrote(
        write_sheets(
            options.out,
            pairs,
            seed=options.seed,
            annotators=options.annotators,
            per_paradigm=options.per_paradigm,
        )
    )


def _score(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.tools.annotation import read_sheets, result_lines

    print("\n".join(result_lines(read_sheets(options.folder))))
    return 0


def _mine(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.tools.mining import mine_lexicon, table
    from pytest_llmprops.core.errors import UsageError

    if options.top < 1:
        raise UsageError("--top must be at least 1")
    print(table(mine_lexicon(options.lexicon, traditional=options.traditional), top=options.top))
    return 0
