"""The settings of a training, and the errors of its packages."""

from __future__ import annotations

import importlib.util
import math
import os
from dataclasses import asdict, dataclass
from typing import Literal

from pytest_llmprops.core.errors import MissingExtra, UsageError

Precision = Literal["auto", "32", "bf16", "fp16"]
#: module -> package of the extra ``train`` that a training needs
_PACKAGES = {
    "torch": "torch",
    "transformers": "transformers",
    "accelerate": "accelerate",
    "safetensors": "safetensors",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """How a network is trained.

    :param batch: rows per step of the optimizer, per process.
    :param accumulate: parts of a batch whose gradients are added before the step; a part has batch / accumulate rows.
    :param epochs: passes over the training data. With ``minutes``, the limit that is reached first ends the training.
    :param minutes: time limit; None without one. The learning rate falls to 0 within it.
    :param warmup: share of the training during which the learning rate rises.
    :param evaluations: number of evaluations on the held-out part, evenly over the training. A checkpoint is written
        after each of them.
    :param patience: stop after this many evaluations without a better result; 0 never stops.
    """

    batch: int = 32
    accumulate: int = 1
    epochs: float = 3.0
    minutes: float | None = None
    learning_rate: float = 3e-5
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip: float = 1.0
    seed: int = 0
    precision: Precision = "auto"
    evaluations: int = 10
    patience: int = 3
    threads: int | None = None

    def checked(self) -> Settings:
        """Return the settings.

        :raises UsageError: if a value cannot be used.
        """
        for name in ("batch", "accumulate", "evaluations"):
            if getattr(self, name) < 1:
                raise UsageError(f"--{name} must be at least 1, not {getattr(self, name)}")
        if self.batch % self.accumulate:
            raise UsageError(
                f"--batch {self.batch} cannot be divided into --accumulate {self.accumulate} equal parts"
            )
        for name in ("epochs", "minutes", "learning_rate"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise UsageError(f"--{name.replace('_', '-')} must be above 0, not {value}")
        if self.patience < 0 or self.seed < 0:
            raise UsageError("--patience and --seed must be 0 or more")
        return self

    def record(self) -> dict[str, object]:
        """Return the settings by name, for ``training.json`` and the model card."""
        return asdict(self)


def require_packages() -> None:
    """Check that the packages of the extra ``train`` are installed, before one of them is imported.

    :raises MissingExtra: if one is not.
    """
    # By default, a thread of OpenMP that waits for the others keeps its core busy. If other processes use the cores,
    # too, a step of the small network with two threads took 8.0 s, and 0.27 s with this setting.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for module, package in _PACKAGES.items():
        if importlib.util.find_spec(module) is None:
            raise MissingExtra("llmprops eras train", package=package, extra="train")
