"""``llmprops eras train wwm``: continue the pre-training of a masked language model with whole-word masking."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_llmprops.benchmarks.eras.cli.train import add_training_options, training_settings
from pytest_llmprops.cli.kit import Groups


def add_command(group: Groups) -> None:
    """Add ``eras train wwm`` to the commands of ``llmprops eras train``."""
    command = group.add_parser(
        "wwm",
        help="continue the pre-training of an encoder with whole-word masking (section 4.1)",
        description="Train a masked language model on plain text, in which the characters of a word are masked"
        " together. Train a second one with --masking characters to compare. The result is a --base for `train"
        " sentiment`. Repeat the command to continue a training that was stopped.",
    )
    command.add_argument(
        "--corpus",
        type=Path,
        required=True,
        metavar="FILE",
        help="plain text in UTF-8, one sentence per line",
    )
    command.add_argument(
        "--segmenter",
        required=True,
        metavar="SPEC",
        help="what divides the text into words: jieba, pkuseg, hf:DIR",
    )
    command.add_argument(
        "--base",
        default="google-bert/bert-base-chinese",
        metavar="MODEL",
        help="folder or repository of a masked language model (default: google-bert/bert-base-chinese)",
    )
    command.add_argument(
        "--masking",
        choices=("words", "characters"),
        default="words",
        help="mask the characters of a word together, or each character alone (default: words)",
    )
    command.add_argument(
        "--rate",
        type=float,
        default=0.15,
        metavar="SHARE",
        help="share of the characters to mask (default: 0.15)",
    )
    command.add_argument(
        "--held-out",
        type=float,
        default=0.01,
        metavar="SHARE",
        help="share of the lines that choose the best checkpoint, at most 1,000 lines (default: 0.01)",
    )
    command.add_argument(
        "--window",
        type=int,
        default=256,
        metavar="N",
        help="tokens per row; longer lines are divided (default: 256)",
    )
    add_training_options(command)
    command.set_defaults(command=_wwm)


def _wwm(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.tools.training.wwm_run import WwmOptions, train_wwm

    what = WwmOptions(
        corpus=options.corpus,
        segmenter=options.segmenter,
        base=options.base,
        whole_words=options.masking == "words",
        rate=options.rate,
        held_out=options.held_out,
        window=options.window,
    )
    train_wwm(what, training_settings(options), options.out, plan=options.plan)
    return 0
