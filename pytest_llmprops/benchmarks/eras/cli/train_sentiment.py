"""``llmprops eras train sentiment``: train a sentiment classifier, alone or jointly with word segmentation."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_llmprops.benchmarks.eras.cli.train import add_training_options, training_settings
from pytest_llmprops.cli.kit import Groups


def add_command(group: Groups) -> None:
    """Add ``eras train sentiment`` to the commands of ``llmprops eras train``."""
    command = group.add_parser(
        "sentiment",
        help="train a sentiment classifier (section 4.1)",
        description="Train a binary classifier on labelled reviews, with --cws jointly with word segmentation. The"
        " result is a model folder: measure it with --model hf:DIR. Repeat the command to continue a training that was"
        " stopped.",
    )
    command.add_argument(
        "--data",
        type=Path,
        nargs="+",
        required=True,
        metavar="FILE|FOLDER",
        help="training files, or folders of ASAP and ChnSentiCorp: their train, dev and test files",
    )
    command.add_argument(
        "--base",
        default="google-bert/bert-base-chinese",
        metavar="MODEL",
        help="folder or repository of a pre-trained encoder; the paper's WWM models start from"
        " hfl/chinese-bert-wwm-ext (default: google-bert/bert-base-chinese)",
    )
    command.add_argument(
        "--cws",
        default="",
        metavar="FILE",
        help="train jointly with word segmentation on this segmented file (the paper: msr_training.utf8)",
    )
    command.add_argument(
        "--cws-weight",
        type=float,
        default=1.0,
        metavar="W",
        help="factor of the loss of segmentation; that of sentiment is 1 (default: 1)",
    )
    command.add_argument(
        "--test",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="further labelled files to score; their reviews are left out of the training data",
    )
    command.add_argument(
        "--held-out",
        type=float,
        default=0.05,
        metavar="SHARE",
        help="share of the reviews that choose the best checkpoint if there is no dev file, at most 2,000"
        " (default: 0.05)",
    )
    command.add_argument(
        "--window",
        type=int,
        default=512,
        metavar="N",
        help="tokens per review; longer ones are cut at their end (default: 512)",
    )
    add_training_options(command)
    command.set_defaults(command=_sentiment)


def _sentiment(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.tools.training.sentiment_run import SentimentOptions, train_sentiment

    what = SentimentOptions(
        data=options.data,
        base=options.base,
        cws=options.cws,
        cws_weight=options.cws_weight,
        tests=options.test,
        held_out=options.held_out,
        window=options.window,
    )
    train_sentiment(what, training_settings(options), options.out, plan=options.plan)
    return 0
