"""One encoder with two heads: sentiment of a text, and word segmentation (ERAS, section 4.1).

Importing this module imports torch and transformers.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers.modeling_outputs import TokenClassifierOutput

_IGNORED = -100


class JointNetwork(nn.Module):
    """A sentiment classifier whose encoder also has a head that labels tokens.

    The labels of a batch say which head it trains: one label per text, or one per token.

    :param classifier: a sequence classifier of transformers.
    :param labels: number of labels of a token.
    :param weight: factor of the loss of the token head; that of the sentiment head is 1.
    """

    def __init__(self, classifier: Any, *, labels: int, weight: float, dropout: float) -> None:
        super().__init__()
        self.classifier, self.weight = classifier, weight
        self.dropout = nn.Dropout(dropout)
        self.segmentation = nn.Linear(classifier.config.hidden_size, labels)
        nn.init.normal_(
            self.segmentation.weight, std=float(getattr(classifier.config, "initializer_range", 0.02))
        )
        nn.init.zeros_(self.segmentation.bias)

    @property
    def config(self) -> Any:
        return self.classifier.config

    @property
    def device(self) -> torch.device:
        return self.segmentation.weight.device

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None, **loss_options: Any
    ) -> Any:
        """Return the output of the head that ``labels`` are for; without labels, that of the sentiment head."""
        if labels is None or labels.ndim == 1:
            return self.classifier(
                input_ids=input_ids, attention_mask=attention_mask, labels=labels, **loss_options
            )
        logits = self.token_logits(input_ids, attention_mask)
        # With accumulation, the mean is over the tokens of all parts of a batch.
        items = loss_options.get("num_items_in_batch")
        total = cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=_IGNORED,
            reduction="mean" if items is None else "sum",
        )  # fmt: skip
        return TokenClassifierOutput(
            loss=self.weight * (total if items is None else total / items), logits=logits
        )

    def token_logits(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the logits of the token head; shape (rows, tokens, labels)."""
        states = self.classifier.base_model(input_ids=input_ids, attention_mask=attention_mask)[0]
        logits: Tensor = self.segmentation(self.dropout(states))
        return logits


class SegmentationHead(nn.Module):
    """The token head of a :class:`JointNetwork` as a token classifier."""

    def __init__(self, joint: JointNetwork) -> None:
        super().__init__()
        self._joint = joint
        self.config = copy.deepcopy(joint.config)
        self.config.fold_width = True

    @property
    def device(self) -> torch.device:
        return self._joint.device

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        """Return the logits of the token head."""
        return TokenClassifierOutput(logits=self._joint.token_logits(input_ids, attention_mask))
