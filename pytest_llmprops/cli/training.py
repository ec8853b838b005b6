"""The options that all trainings have."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_llmprops.training.task import Settings


def add_training_options(
    command: argparse.ArgumentParser,
    *,
    batch: str = "32",
    learning_rate: str = "3e-5",
    has_small: bool = False,
    keeps_best: bool = True,
) -> None:
    """Add the options that all trainings have; :func:`training_settings` reads them.

    :param batch: default of ``--batch``, for the help. :param learning_rate: the same for ``--learning-rate``.
    :param has_small: the command takes ``--base small``, with defaults of its own.
    :param keeps_best: evaluations choose the checkpoint, so that a training may end early.
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
    command.add_argument("--batch", type=int, metavar="N", help=f"rows per step {default(batch, '64')}")
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
        help=f"highest learning rate {default(learning_rate, '4e-3')}",
    )
    command.add_argument("--seed", type=int, metavar="S", help="seed of all random choices (default: 0)")
    command.add_argument(
        "--precision",
        choices=("auto", "32", "bf16", "fp16"),
        help="bits of the computation (default: auto: bf16 on a GPU that has it)",
    )
    command.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: all cores)")
    if not keeps_best:
        return
    command.add_argument(
        "--minutes", type=float, metavar="N", help="time limit; the learning rate falls to 0 within it"
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


def training_settings(
    options: argparse.Namespace, defaults: Mapping[str, float | bool] | None = None
) -> Settings:
    """Return the settings of the options of :func:`add_training_options`.

    :param defaults: settings that differ from the usual defaults.
    :raises UsageError: if a value cannot be used.
    """
    from pytest_llmprops.training.task import Settings

    values = dict(defaults or {})
    values |= {
        f.name: value for f in fields(Settings) if (value := getattr(options, f.name, None)) is not None
    }
    if getattr(options, "minutes", None) is not None and options.epochs is None:
        # The time limit ends the training.
        values["epochs"] = 1000.0
    return Settings(**values).checked()  # type: ignore[arg-type]
