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
    keeps_best: bool = True,
) -> None:
    """Add the options that all trainings have; :func:`training_settings` reads them.

    :param batch: default of ``--batch``, for the help. :param learning_rate: the same for ``--learning-rate``.
    :param keeps_best: evaluations choose the checkpoint, so that a training may end early.
    """
    command.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder to write the model into"
    )
    command.add_argument("--epochs", type=float, metavar="N", help="passes over the data (default: 3)")
    command.add_argument("--batch", type=int, metavar="N", help=f"rows per step (default: {batch})")
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
        help=f"highest learning rate (default: {learning_rate})",
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
        "--evaluations", type=int, metavar="N", help="evaluations and checkpoints of a training (default: 10)"
    )
    command.add_argument(
        "--patience",
        type=int,
        metavar="N",
        help="stop after N evaluations without a better result; 0 never stops (default: 3)",
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
    return Settings(**values).checked()  # type: ignore[arg-type]
