"""The settings of a DTAiLS measurement."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pytest_llmprops.benchmarks.dtails.context import NONE


@dataclass(frozen=True, slots=True)
class DtailsSettings:
    """How an item is measured.

    :param rules: ``none``; ``self``: the model under test writes the rules; or rules files by another model or a
        person, one per language, separated by commas (section 4).
    :param runs: Number of times each choice is asked for, each time in another order (appendix B.4).
    :param max_tokens: Limit for a choice or a chat model's translation. :param rule_max_tokens: Limit for rules.
    :param tokenizer: How translations are split into words. ``stanza`` uses the helper ``parse``, ``unicode`` the
        Unicode rules, and ``auto`` the helper if it has a model of the language and Unicode otherwise.
    """

    rules: str = NONE
    runs: int = 1
    temperature: float = 0.0
    max_tokens: int = 1024
    rule_max_tokens: int = 2048
    tokenizer: Literal["auto", "stanza", "unicode"] = "auto"

    def __post_init__(self) -> None:
        if not 1 <= self.runs <= 20:
            raise ValueError("runs must be from 1 to 20")
        if self.max_tokens < 1 or self.rule_max_tokens < 1 or not 0 <= self.temperature < math.inf:
            raise ValueError("max_tokens and rule_max_tokens must be at least 1 and temperature at least 0")
        if not all(path.strip() for path in self.rules.split(",")):
            raise ValueError("rules must be none, self, or rules files separated by commas")
