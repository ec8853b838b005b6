"""The task of training a sentiment classifier, alone or jointly with word segmentation (ERAS, section 4.1)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmarks.eras.implicit import Score
from pytest_llmprops.benchmarks.eras.tools.sentiment_files import (
    Labelled,
    SentimentAccuracy,
    sentiment_accuracy,
)
from pytest_llmprops.benchmarks.eras.tools.training.base import Encoder
from pytest_llmprops.benchmarks.eras.tools.training.corpus import Words
from pytest_llmprops.benchmarks.eras.tools.training.labels import LABELS, labelled_rows
from pytest_llmprops.benchmarks.eras.tools.training.rows import Row, padded
from pytest_llmprops.benchmarks.eras.tools.training.scoring import segmented
from pytest_llmprops.benchmarks.eras.tools.training.segmenter import segment_model
from pytest_llmprops.benchmarks.eras.tools.training.task import token_tensors
from pytest_llmprops.core.segmentation import score
from pytest_llmprops.models.character_tokens import CharacterTokens
from pytest_llmprops.models.hf_sentiment import probability

#: The classes, by index.
CLASSES = ("negative", "positive")
_SENTIMENT, _SEGMENTATION = 0, 1
#: reviews per batch of an evaluation
_BATCH = 64


@dataclass(frozen=True, slots=True)
class Segmentation:
    """The second part of joint training.

    :param lines: the words of the lines to train on. :param held_out: lines whose F1 is reported.
    :param weight: factor of the loss of segmentation; that of sentiment is 1.
    :param window: maximum number of tokens of a line; longer ones are divided after punctuation.
    """

    lines: Sequence[Words]
    held_out: Sequence[Words]
    weight: float = 1.0
    window: int = 256


class SentimentTask:
    """Training of a binary classifier on labelled reviews.

    A review of more tokens than the window is cut at its end. With ``segmentation``, the encoder is shared, each batch
    of reviews is followed by one of segmented lines, and an epoch is one pass over the reviews.

    :param held_out: reviews whose accuracy chooses the best checkpoint.
    """

    metric = "accuracy"

    def __init__(
        self,
        encoder: Encoder,
        reviews: Sequence[Labelled],
        held_out: Sequence[Labelled],
        segmentation: Segmentation | None = None,
        *,
        dropout: float = 0.1,
    ) -> None:
        self._encoder, self._held_out, self._segmentation = encoder, held_out, segmentation
        self._dropout = dropout
        self.rows: list[Row] = [
            Row(ids, [int(review.positive)], _SENTIMENT)
            for ids, review in zip(self._ids(reviews), reviews, strict=True)
        ]
        if segmentation is not None:
            characters = CharacterTokens(encoder.tokenizer, name="--base", fold=True)
            window = min(encoder.window, segmentation.window)
            self.rows += labelled_rows(segmentation.lines, characters, window=window, source=_SEGMENTATION)

    def _ids(self, reviews: Sequence[Labelled]) -> list[list[int]]:
        if not reviews:
            return []
        texts = [review.text for review in reviews]
        rows = self._encoder.tokenizer(texts, truncation=True, max_length=self._encoder.window)["input_ids"]
        return [[int(token) for token in row] for row in rows]

    def network(self) -> Any:
        """Return the base with a new classifier, and with a second head for joint training."""
        classifier = self._encoder.load(
            "AutoModelForSequenceClassification",
            classifier_dropout=self._dropout,
            num_labels=len(CLASSES),
            id2label=dict(enumerate(CLASSES)),
            label2id={name: index for index, name in enumerate(CLASSES)},
        )
        if self._segmentation is None:
            return classifier
        joint: Any = importlib.import_module("pytest_llmprops.benchmarks.eras.tools.training.joint")
        return joint.JointNetwork(
            classifier, labels=len(LABELS), weight=self._segmentation.weight, dropout=self._dropout
        )

    def collate(self, rows: Sequence[Row]) -> Mapping[str, Any]:
        """Return the tensors of some rows of one source."""
        return token_tensors(rows, pad=self._encoder.tokenizer.pad_token_id or 0)

    def evaluate(self, network: Any) -> Mapping[str, float]:
        """Return the accuracy on the held-out reviews; of a joint network, also F1 on the held-out lines."""
        scores = {"accuracy": self.accuracy(network, self._held_out).value}
        if self._segmentation is not None and self._segmentation.held_out:
            joint: Any = importlib.import_module("pytest_llmprops.benchmarks.eras.tools.training.joint")
            model = segment_model(joint.SegmentationHead(network).eval(), self._encoder.tokenizer)
            lines = self._segmentation.held_out
            f1 = score(lines, segmented(model, ["".join(line) for line in lines])).f1
            scores["segmentation_f1"] = f1 or 0.0
        return scores

    def accuracy(self, network: Any, reviews: Sequence[Labelled]) -> SentimentAccuracy:
        """Return the accuracy of a network on reviews; those of too many tokens are cut at their end."""
        odds = log_odds(network, self._ids(reviews), pad=self._encoder.tokenizer.pad_token_id or 0)
        return sentiment_accuracy(reviews, [Score(probability(x), x) for x in odds])

    def cut(self, reviews: Sequence[Labelled]) -> int:
        """Return how many reviews have more tokens than the window."""
        rows = self._encoder.tokenizer([review.text for review in reviews])["input_ids"] if reviews else []
        return sum(len(row) > self._encoder.window for row in rows)

    def save(self, network: Any, folder: Path) -> None:
        """Write the sentiment classifier for ``hf:FOLDER``; the head for segmentation is not written."""
        classifier = network if self._segmentation is None else network.classifier
        classifier.save_pretrained(folder)
        self._encoder.tokenizer.save_pretrained(folder)


def log_odds(network: Any, rows: Sequence[Sequence[int]], *, pad: int) -> list[float]:
    """Return the log odds of the positive class of rows of tokens.

    :param pad: the id of the padding token.
    """
    torch: Any = importlib.import_module("torch")
    odds: dict[int, float] = {}
    order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
    with torch.inference_mode():
        for start in range(0, len(order), _BATCH):
            chosen = order[start : start + _BATCH]
            ids = [rows[index] for index in chosen]
            logits = network(
                input_ids=torch.tensor(padded(ids, pad), device=network.device),
                attention_mask=torch.tensor(
                    padded([[1] * len(row) for row in ids], 0), device=network.device
                ),
            ).logits.double()
            odds.update(zip(chosen, (logits[:, 1] - logits[:, 0]).tolist(), strict=True))
    return [odds[index] for index in range(len(rows))]
