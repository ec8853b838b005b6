"""``--base small``: character and bigram embeddings and a bidirectional LSTM, trained from scratch on CPUs."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from pytest_llmprops.benchmarks.eras.tools.training.base import check_window
from pytest_llmprops.benchmarks.eras.tools.training.corpus import Words, sentence
from pytest_llmprops.benchmarks.eras.tools.training.segmenter import label_names

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
#: A character that occurs less often is unknown, so that the unknown character is trained, too.
_LEAST = 2


class SmallBase:
    """A network with random weights and a vocabulary of the characters of the training lines.

    :param sizes: what differs from the defaults of ``BiLstmConfig``.
    :raises UsageError: if the window is too small.
    """

    def __init__(self, lines: Sequence[Words], *, window: int = 100, **sizes: Any) -> None:
        check_window(window)
        counts = Counter(character for words in lines for character in sentence(words))
        frequent = sorted(c for c, count in counts.items() if count >= _LEAST and not c.isspace())
        vocabulary = {token: i for i, token in enumerate((*_SPECIAL, *frequent))}
        transformers: Any = importlib.import_module("transformers")
        self.tokenizer: Any = transformers.BertTokenizer(
            vocab=vocabulary, do_lower_case=False, strip_accents=False
        )
        self.window, self._sizes = window, {"vocab_size": len(vocabulary), **sizes}

    def network(self) -> Any:
        """Return a network with random weights."""
        networks: Any = importlib.import_module("pytest_llmprops.models.networks")
        config = networks.BiLstmConfig(**self._sizes, **label_names(), fold_width=True)
        return networks.BiLstmForTokenClassification(config)
