"""The pre-trained encoder that a training of ERAS starts from."""

from __future__ import annotations

import importlib
from typing import Any

from pytest_llmprops.core.errors import UsageError

#: the encoder that is used by default
DEFAULT_BASE = "google-bert/bert-base-chinese"
#: the smallest window: some characters of text and the tokens around them
_LEAST = 8


def check_window(window: int) -> None:
    """Check the option ``--window``.

    :raises UsageError: if no text fits into a row.
    """
    if window < _LEAST:
        raise UsageError(f"--window must be at least {_LEAST}, not {window}")


class Encoder:
    """The configuration and the tokenizer of a pre-trained encoder of transformers.

    :param name: a folder or a repository of the hub.
    :param window: maximum number of tokens of a row; less if the encoder takes fewer.
    :param option: the option that names it, for messages.
    :raises UsageError: if it cannot be loaded, or the window is too small.
    """

    def __init__(self, name: str, *, window: int, option: str = "--base ") -> None:
        check_window(window)
        transformers: Any = _transformers()
        self.name = name
        try:
            self.config: Any = transformers.AutoConfig.from_pretrained(name)
            self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(name)
        except Exception as error:
            line = " ".join(str(error).split())[:200]
            raise UsageError(
                f"{option}{name}: cannot be loaded: {line}; give the folder of a downloaded model"
            ) from None
        positions = int(getattr(self.config, "max_position_embeddings", 0) or window)
        if "roberta" in str(self.config.model_type):
            # RoBERTa models count positions from the padding token's index + 1.
            positions -= int(self.config.pad_token_id or 0) + 1
        self.window = min(window, positions, int(self.tokenizer.model_max_length or window))

    def fitting(self, text: str) -> str:
        """Return a text without its end, if it has too many tokens."""
        while (more := len(self.tokenizer(text)["input_ids"]) - self.window) > 0:
            text = text[:-more]
        return text

    def load(self, network: Any, **changes: Any) -> Any:
        """Return the pre-trained network with a new last layer.

        :param network: class with ``from_pretrained``, or the name of one of transformers.
        :param changes: values of the configuration that differ from the base's.
        :raises UsageError: if the weights cannot be loaded.
        """
        loader = getattr(_transformers(), network) if isinstance(network, str) else network
        try:
            return loader.from_pretrained(self.name, ignore_mismatched_sizes=True, **changes)
        except (OSError, ValueError) as error:
            line = " ".join(str(error).split())[:200]
            raise UsageError(f"--base {self.name}: its weights cannot be loaded: {line}") from None


def _transformers() -> Any:
    transformers: Any = importlib.import_module("transformers")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers
