"""The settings of an ERAS measurement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ErasSettings:
    """How pairs are measured and reported.

    :param script: ``simplified``, or the paper's converter to traditional characters.
    :param case: What a pytest case is: a pair, a paradigm, or ``auto`` (by the number of pairs). Display only.
    :param chat_score: How to measure a chat model's sentiment. :param samples: Replies per sentence when sampling.
    :param rule: When a site is right: by the ``paper``'s rule, or only if the sentence is ``segmented`` into words too.
    :param temperature: Temperature of a chat model for segmentation; ``max_tokens`` is for segmentation too.
    """

    script: Literal["simplified", "chinese-converter"] = "simplified"
    case: Literal["auto", "pair", "paradigm"] = "auto"
    chat_score: Literal["auto", "logprobs", "sampling"] = "auto"
    samples: int = 5
    rule: Literal["paper", "segmented"] = "segmented"
    temperature: float = 0.0
    max_tokens: int = 256

    def __post_init__(self) -> None:
        if self.samples < 1 or self.max_tokens < 1 or self.temperature < 0:
            raise ValueError("samples and max_tokens must be at least 1 and temperature at least 0")
