"""The task of training a word segmenter: labels of characters, a pre-trained base or a small network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pytest_llmprops.benchmarks.eras.tools.training.base import Encoder
from pytest_llmprops.benchmarks.eras.tools.training.corpus import Words
from pytest_llmprops.benchmarks.eras.tools.training.labels import LABELS, labelled_rows
from pytest_llmprops.benchmarks.eras.tools.training.rows import Row
from pytest_llmprops.benchmarks.eras.tools.training.scoring import segmented
from pytest_llmprops.benchmarks.eras.tools.training.task import token_tensors
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.segmentation import score
from pytest_llmprops.models.character_tokens import CharacterTokens
from pytest_llmprops.models.hf_own import check_packages, own_network
from pytest_llmprops.models.hf_segment import HfSegmentModel

#: texts per batch of an evaluation
_BATCH = 64


class Base(Protocol):
    """What the network of a segmenter is made from."""

    @property
    def tokenizer(self) -> Any:
        """A tokenizer of transformers."""

    @property
    def window(self) -> int:
        """The maximum number of tokens of a row, with special tokens."""

    def network(self) -> Any:
        """Return a network with one output per label; its ``config`` has :func:`label_names`."""


def label_names() -> dict[str, Any]:
    """Return the labels as ``config.json`` has them."""
    return {"id2label": dict(enumerate(LABELS)), "label2id": {label: i for i, label in enumerate(LABELS)}}


class PretrainedBase:
    """A pre-trained encoder of transformers: its last layer, dropout and a linear layer, optionally a CRF.

    :param name: a folder or a repository of the hub.
    :param crf: add a linear-chain conditional random field; for BERT only.
    :raises UsageError: if the base cannot be loaded.
    """

    def __init__(self, name: str, *, crf: bool = False, window: int = 256, dropout: float = 0.1) -> None:
        self._encoder, self._dropout = Encoder(name, window=window), dropout
        self.tokenizer: Any = self._encoder.tokenizer
        self.window = self._encoder.window
        self._architecture = "BertCrfForTokenClassification" if crf else ""
        check_packages({"architectures": [self._architecture]}, "--crf")
        kind = self._encoder.config.model_type
        if crf and kind != "bert":
            raise UsageError(f"--crf: needs a BERT model, but --base {name} is a {kind}")

    def network(self) -> Any:
        """Return the pre-trained network with a new last layer."""
        own = own_network({"architectures": [self._architecture]})
        network = self._encoder.load(
            own or "AutoModelForTokenClassification",
            classifier_dropout=self._dropout,
            num_labels=len(LABELS),
            **label_names(),
        )
        network.config.fold_width = True
        return network


class SegmenterTask:
    """Training of a word segmenter on segmented lines.

    :param lines: the lines to train on. :param held_out: the lines that choose the best checkpoint.
    """

    metric = "f1"

    def __init__(self, base: Base, lines: Sequence[Words], held_out: Sequence[Words]) -> None:
        self._base, self._held_out = base, held_out
        self._known = frozenset(word for line in lines for word in line)
        self.characters = CharacterTokens(base.tokenizer, name="--base", fold=True)
        self.rows: Sequence[Row] = labelled_rows(lines, self.characters, window=base.window)

    def network(self) -> Any:
        """Return a new network."""
        return self._base.network()

    def collate(self, rows: Sequence[Row]) -> Mapping[str, Any]:
        """Return the tensors of some rows."""
        return token_tensors(rows, pad=self._base.tokenizer.pad_token_id or 0)

    def evaluate(self, network: Any) -> Mapping[str, float]:
        """Return F1, precision, recall and the recall of unknown words on the held-out lines."""
        model = segment_model(network, self._base.tokenizer)
        result = score(
            self._held_out, segmented(model, ["".join(line) for line in self._held_out]), known=self._known
        )
        scores = {
            "f1": result.f1,
            "precision": result.precision,
            "recall": result.recall,
            "oov_recall": result.oov_recall,
        }
        return {name: value for name, value in scores.items() if value is not None}

    def save(self, network: Any, folder: Path) -> None:
        """Write the model for ``hf:FOLDER``."""
        network.save_pretrained(folder)
        self._base.tokenizer.save_pretrained(folder)


def segment_model(network: Any, tokenizer: Any) -> HfSegmentModel:
    """Return the model that ``hf:FOLDER`` would be, of a network in memory."""
    return HfSegmentModel(
        lambda: (network, tokenizer),
        letters="".join(LABELS),
        name="the trained network",
        identity={},
        pinned=False,
        batch=_BATCH,
    )
