"""What a training needs to know about a model: its rows, its network, how it is scored and saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pytest_llmprops.benchmarks.eras.tools.training.rows import IGNORED, Row, padded


class Task(Protocol):
    """A model to train: a segmenter, or a sentiment classifier with or without a second head that segments."""

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
        """Write the model as transformers reads it: ``config.json``, safetensors and the tokenizer."""


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

    :param title: the card's heading.
    :param base: the model that the training starts from; empty if it starts from random weights.
    :param use: how to measure it, as shell commands.
    :param assumed: choices that neither the paper nor the authors' code states.
    :param notes: sentences about the data, such as lines that were left out.
    """

    title: str
    base: str
    use: Sequence[str]
    files: Sequence[DataFile]
    assumed: Sequence[str]
    notes: Sequence[str] = ()
    options: Mapping[str, object] = field(default_factory=dict)


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
