"""The networks behind ``models/hf/loading.py``. Importing this module imports torch and transformers.

Labels are B, M, E, S (begin, middle, end, single) with the ids 0 to 3; -100 marks tokens without a label.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot, pad
from transformers import BertModel, BertPreTrainedModel, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import TokenClassifierOutput

_B, _M, _S = 0, 1, 3
#: The product of two token ids is hashed with this odd number (Knuth's multiplicative hashing).
_FACTOR = 2654435761


class BiLstmConfig(PretrainedConfig):  # type: ignore[misc]
    """The sizes of a :class:`BiLstmForTokenClassification`."""

    model_type = "llmprops-bilstm"

    def __init__(
        self,
        vocab_size: int = 100,
        embedding_size: int = 64,
        bigram_buckets: int = 1 << 17,
        bigram_size: int = 32,
        hidden_size: int = 192,
        num_hidden_layers: int = 1,
        dropout: float = 0.3,
        **more: Any,
    ) -> None:
        self.vocab_size, self.embedding_size = vocab_size, embedding_size
        self.bigram_buckets, self.bigram_size = bigram_buckets, bigram_size
        self.hidden_size, self.num_hidden_layers, self.dropout = hidden_size, num_hidden_layers, dropout
        super().__init__(**more)


class BiLstmForTokenClassification(PreTrainedModel):  # type: ignore[misc]
    """Embeddings of a character and of its two bigrams, a bidirectional LSTM, and a linear layer.

    A bigram's embedding is chosen by a hash of the two token ids, so a bigram that training never saw has one, too.
    """

    config_class = BiLstmConfig
    base_model_prefix = "bilstm"
    all_tied_weights_keys: dict[str, str] = {}

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.characters = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=0)
        self.bigrams = nn.Embedding(config.bigram_buckets, config.bigram_size)
        self.dropout = nn.Dropout(config.dropout)
        self.lstm = nn.LSTM(
            config.embedding_size + 2 * config.bigram_size,
            config.hidden_size,
            config.num_hidden_layers,
            batch_first=True,
            bidirectional=True,
            dropout=config.dropout if config.num_hidden_layers > 1 else 0.0,
        )
        self.classifier = nn.Linear(2 * config.hidden_size, config.num_labels)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        # torch's own initialisation suits the LSTM and the linear layer; its embeddings are too large.
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.3 if module.padding_idx == 0 else 0.1)

    def _bigram(self, first: Tensor, second: Tensor) -> Tensor:
        # Products of two ids below 2^20 with the factor stay below 2^63.
        key = (first * 1_000_003 + second) % 2147483647 * _FACTOR % 4294967296
        embedded: Tensor = self.bigrams(key % self.config.bigram_buckets)
        return embedded

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None) -> Any:
        """Return the logits (rows, tokens, 4), and the loss if there are labels."""
        before, after = pad(input_ids, (1, 0))[:, :-1], pad(input_ids, (0, 1))[:, 1:]
        parts = [self.characters(input_ids), self._bigram(before, input_ids), self._bigram(input_ids, after)]
        inputs = self.dropout(torch.cat(parts, dim=-1))
        if torch.is_grad_enabled():
            # Packing is slow on a CPU. Rows of a batch have similar lengths, so that the backward direction passes
            # few tokens of padding before it reaches a row's own.
            states, _ = self.lstm(inputs)
        else:
            # A sentence's words must not depend on its batch.
            lengths = attention_mask.sum(1).cpu()
            packed = nn.utils.rnn.pack_padded_sequence(
                inputs, lengths, batch_first=True, enforce_sorted=False
            )
            states, _ = nn.utils.rnn.pad_packed_sequence(
                self.lstm(packed)[0], batch_first=True, total_length=input_ids.shape[1]
            )
        logits = self.classifier(self.dropout(states))
        loss = None
        if labels is not None:
            loss = cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        return TokenClassifierOutput(loss=loss, logits=logits)


class BertCrfForTokenClassification(BertPreTrainedModel):  # type: ignore[misc]
    """BERT, dropout, a linear layer, and a linear-chain conditional random field of pytorch-crf."""

    def __init__(self, config: Any) -> None:
        from torchcrf import CRF

        super().__init__(config)
        stated = getattr(config, "classifier_dropout", None)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.dropout = nn.Dropout(config.hidden_dropout_prob if stated is None else stated)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.crf = CRF(config.num_labels, batch_first=True)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        crf: Any = self.crf
        if module is self.crf:
            crf.reset_parameters()
        else:
            super()._init_weights(module)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None) -> Any:
        """Return the logits (rows, tokens, 4), and the negative log-likelihood per token if there are labels."""
        states = self.bert(input_ids=input_ids, attention_mask=attention_mask)[0]
        logits = self.classifier(self.dropout(states))
        loss = None
        if labels is not None:
            # The forward algorithm adds up many numbers: it is computed in 32 bits.
            with torch.autocast(logits.device.type, enabled=False):
                likelihood = self.crf(
                    logits.float(),
                    complete_labels(labels),
                    mask=attention_mask.bool(),
                    reduction="token_mean",
                )
            loss = -likelihood
        return TokenClassifierOutput(loss=loss, logits=logits)

    def decode(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return 1 for the labels of the most probable sequence, otherwise 0; shape (rows, tokens, 4)."""
        logits = self(input_ids=input_ids, attention_mask=attention_mask).logits.float()
        paths = self.crf.decode(logits, mask=attention_mask.bool())
        width = logits.shape[1]
        best = torch.tensor([[*path, *[_S] * (width - len(path))] for path in paths])
        return one_hot(best, logits.shape[-1]).float()


def complete_labels(labels: Tensor) -> Tensor:
    """Give tokens without a label one that a sequence of B, M, E, S allows there.

    Tokens of a character after its first one continue its word; special tokens and padding are single words.
    """
    complete = labels.clone()
    previous = torch.full_like(labels[:, 0], _S)
    for place in range(labels.shape[1]):
        inside = (previous == _B) | (previous == _M)
        fill = torch.where(inside, _M, _S)
        complete[:, place] = torch.where(labels[:, place] == -100, fill, labels[:, place])
        previous = complete[:, place]
    return complete
