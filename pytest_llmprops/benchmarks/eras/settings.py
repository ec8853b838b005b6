"""The settings of an ERAS measurement, and the directions of its metrics, which gates read before a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

#: ``difference`` is control minus test, as in the paper's tables
EXPLICIT_TASK: Mapping[str, str] = {
    "test_accuracy": "higher",
    "control_accuracy": "higher",
    "difference": "lower",
    "both_accuracy": "higher",
}
#: How the sentences are cut, whether or not the site is right.
CUTTING: Mapping[str, str] = {
    "words_per_character": "none",
    "degenerate_rate": "lower",
    "site_cut_rate": "none",
    "decided_rate": "none",
    "decided_accuracy": "higher",
    "boundary_recall": "higher",
}
IMPLICIT_TASK: Mapping[str, str] = {
    "pair_accuracy": "target:0.5",
    "necessity": "lower",
    "sufficiency": "lower",
    "gper": "lower",
    "sentiment_difference": "target:0",
}
#: as the authors' code computes them
AUTHORS: Mapping[str, str] = {
    "authors_gper": "lower",
    "authors_necessity": "lower",
    "authors_sufficiency": "lower",
}


@dataclass(frozen=True, slots=True)
class ErasSettings:
    """How pairs are measured and reported.

    :param script: ``simplified``, or the converter to traditional characters.
    :param case: What a pytest case is: a pair, a paradigm, or ``auto`` (by the number of pairs). Display only.
    :param mlm_score: How a masked language model's scores chose the slot words of a generated set.
    :param chat_score: How to measure a chat model's sentiment. :param samples: Replies per sentence when sampling.
    :param rule: When a site is right: by the ``paper``'s rule, or only if the sentence is ``segmented`` into words too.
    :param temperature: Temperature of a chat model for segmentation; ``max_tokens`` is for segmentation too.
    """

    script: Literal["simplified", "chinese-converter", "opencc"] = "simplified"
    case: Literal["auto", "pair", "paradigm"] = "auto"
    mlm_score: Literal["ratio", "absolute"] = "ratio"
    chat_score: Literal["auto", "logprobs", "sampling"] = "auto"
    samples: int = 5
    rule: Literal["paper", "segmented"] = "segmented"
    temperature: float = 0.0
    max_tokens: int = 256

    def __post_init__(self) -> None:
        if self.samples < 1 or self.max_tokens < 1 or self.temperature < 0:
            raise ValueError("samples and max_tokens must be at least 1 and temperature at least 0")
