"""What a training is made of: settings, rows and their batches, and the task that is learned."""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from pytest_llmprops.core.errors import MissingExtra, UsageError

#: label of a token that is not trained on; the value that torch's cross entropy ignores
IGNORED = -100
#: Rows of a batch differ by about this many tokens in length, so that not every epoch has the same batches.
_SPREAD = 4.0


@dataclass(frozen=True, slots=True)
class Row:
    """A text to train on.

    :param ids: its tokens, with special tokens.
    :param labels: one label per token (:data:`IGNORED` for special tokens), or the one label of the text.
    :param source: index of the source that the row comes from. All rows of a batch have the same source.
    """

    ids: Sequence[int]
    labels: Sequence[int]
    source: int = 0


class EpochBatches:
    """The batches of each epoch, as a batch sampler of torch's DataLoader.

    Rows of similar length share a batch, which keeps padding short. All batches have the same number of rows: a last,
    smaller batch is filled with other rows. The order depends on the seed and the epoch only, so a resumed training
    continues with the same batches. If there are several sources, one batch of each other source follows each batch of
    the first one, which defines the length of an epoch. The other sources start again when they end.

    Each batch is divided into ``accumulate`` parts, and an iteration yields parts. Another value of ``accumulate``
    changes no batch.

    :param rows: all rows; an iteration yields lists of their indices.
    """

    drop_last = False

    def __init__(self, rows: Sequence[Row], *, batch: int, accumulate: int, seed: int) -> None:
        self._batch, self._accumulate, self._seed = batch, accumulate, seed
        self._lengths = [len(row.ids) for row in rows]
        sources: dict[int, list[int]] = {}
        for index, row in enumerate(rows):
            sources.setdefault(row.source, []).append(index)
        self._sources = [sources[number] for number in sorted(sources)]
        #: rows of a part; accelerate reads this name
        self.batch_size = batch // accumulate
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration."""
        self._epoch = epoch

    @property
    def steps(self) -> int:
        """Steps of the optimizer in an epoch."""
        return self._count(0) * len(self._sources)

    def __len__(self) -> int:
        return self.steps * self._accumulate

    def _count(self, source: int) -> int:
        return -(-len(self._sources[source]) // self._batch)

    def __iter__(self) -> Iterator[list[int]]:
        first = self._batches(0, self._epoch)
        others: dict[tuple[int, int], list[list[int]]] = {}
        for place, batch in enumerate(first):
            yield from self._parts(batch)
            for source in range(1, len(self._sources)):
                epoch, index = divmod(self._epoch * len(first) + place, self._count(source))
                if (source, epoch) not in others:
                    others[source, epoch] = self._batches(source, epoch)
                yield from self._parts(others[source, epoch][index])

    def _batches(self, source: int, epoch: int) -> list[list[int]]:
        choice = random.Random(f"{self._seed} {source} {epoch}")
        rows = self._sources[source]
        order = sorted(rows, key=lambda index: self._lengths[index] + _SPREAD * choice.random())
        batches = [order[start : start + self._batch] for start in range(0, len(order), self._batch)]
        while len(batches[-1]) < self._batch:
            batches[-1].append(choice.choice(rows))
        choice.shuffle(batches)
        return batches

    def _parts(self, batch: list[int]) -> Iterator[list[int]]:
        for start in range(0, len(batch), self.batch_size):
            yield batch[start : start + self.batch_size]


def padded(rows: Sequence[Sequence[int]], fill: int) -> list[list[int]]:
    """Return ``rows`` as lists of the same length; shorter ones end with ``fill``."""
    width = max(map(len, rows))
    return [[*row, *[fill] * (width - len(row))] for row in rows]


Precision = Literal["auto", "32", "bf16", "fp16"]
#: packages of the extra ``train`` that a training needs; their modules have the same names
_PACKAGES = ("torch", "transformers", "accelerate", "safetensors")


@dataclass(frozen=True, slots=True)
class Settings:
    """How a network is trained.

    :param batch: rows per step of the optimizer.
    :param accumulate: parts of a batch whose gradients are added before the step; a part has batch / accumulate rows.
    :param epochs: passes over the training data.
    :param warmup: share of the training during which the learning rate rises; then it falls to 0.
    :param evaluations: number of evaluations on the held-out part, evenly over the training. A checkpoint is written
        after each of them.
    :param patience: stop after this many evaluations without a better result; 0 never stops.
    :param keeps_best: the result is the checkpoint with the best score on the held-out part, otherwise the last one.
    """

    batch: int = 32
    accumulate: int = 1
    epochs: float = 3.0
    learning_rate: float = 3e-5
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip: float = 1.0
    seed: int = 0
    precision: Precision = "auto"
    evaluations: int = 10
    patience: int = 3
    threads: int | None = None
    keeps_best: bool = True

    def checked(self) -> Settings:
        """Return the settings.

        :raises UsageError: if a value cannot be used.
        """
        for name in ("batch", "accumulate", "evaluations"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.batch % self.accumulate:
            raise UsageError(
                f"batch={self.batch} cannot be divided into accumulate={self.accumulate} equal parts"
            )
        for name in ("epochs", "learning_rate"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise UsageError(f"{name} must be above 0, not {value}")
        if self.patience < 0 or self.seed < 0:
            raise UsageError("patience and seed must be 0 or more")
        return self


def require_packages(command: str, *more: str) -> None:
    """Check that the packages of the extra ``train`` are installed, before one of them is imported.

    :param command: the command that needs them, for the message. :param more: further packages that it needs.
    :raises MissingExtra: if one is not.
    """
    # By default, a thread of OpenMP that waits for the others keeps its core busy, also if another process needs it.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for package in (*_PACKAGES, *more):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(command, package=package, extra="research")


class Task(Protocol):
    """A model to train, for example a segmenter, or a language model that learns the labels of H-TEST."""

    @property
    def rows(self) -> Sequence[Row]:
        """The rows of all sources."""

    @property
    def metric(self) -> str:
        """The name of the number of :meth:`evaluate` that chooses the best checkpoint; higher is better."""

    def network(self) -> Any:
        """Return a new network with the weights of the base. It is called after torch's seed is set.

        Its ``forward`` takes the tensors of :meth:`collate` and returns an output with a ``loss``.
        """

    def collate(self, rows: Sequence[Row]) -> Mapping[str, Any]:
        """Return the tensors of some rows of one source."""

    def evaluate(self, network: Any) -> Mapping[str, float]:
        """Return scores on the held-out part. ``network`` is in evaluation mode."""

    def save(self, network: Any, folder: Path) -> None:
        """Write the model, or the adapter of a base, as ``hf:FOLDER`` reads it."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a training, for the model card.

    :param role: "training", "held out", "test" or "left out".
    """

    role: str
    name: str
    sha256: str
    lines: int


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What the model card says about a model.

    :param benchmark: the benchmark whose command trains the model. :param language: ISO 639-1 code of its texts.
    :param title: the card's heading.
    :param base: the model that the training starts from; empty if it starts from random weights.
    :param use: how to measure it, as shell commands.
    :param lines: number of lines, parts of lines, reviews or items that are trained on.
    :param assumed: choices that neither the paper nor the authors' code states.
    :param notes: sentences about the data, such as lines that were left out.
    :param library: the library that reads the folder.
    """

    benchmark: str
    language: str
    title: str
    base: str
    use: Sequence[str]
    files: Sequence[DataFile]
    lines: int
    assumed: Sequence[str]
    notes: Sequence[str] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    library: str = "transformers"


def token_tensors(rows: Sequence[Row], *, pad: int) -> dict[str, Any]:
    """Return ``input_ids``, ``attention_mask`` and ``labels`` of rows.

    ``labels`` has the shape (rows, tokens) for rows with one label per token, otherwise (rows,).

    :param pad: the id of the padding token.
    """
    import torch

    ids = [row.ids for row in rows]
    if all(len(row.labels) == 1 for row in rows):
        labels = torch.tensor([row.labels[0] for row in rows])
    else:
        labels = torch.tensor(padded([row.labels for row in rows], IGNORED))
    mask = padded([[1] * len(row) for row in ids], 0)
    return {
        "input_ids": torch.tensor(padded(ids, pad)),
        "attention_mask": torch.tensor(mask),
        "labels": labels,
    }
