"""The settings of a DTAiLS measurement, and the data that its items share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pytest_llmprops.benchmarks.dtails.items import Baseline, Slot
from pytest_llmprops.benchmarks.dtails.rules import ConceptRules, RulesFile
from pytest_llmprops.core.items import Item

#: values of the setting ``rules``; all others are files
NONE, SELF, HELPER = "none", "self", "helper"


@dataclass(frozen=True, slots=True)
class DtailsSettings:
    """How an item is measured.

    :param rules: ``none``; ``self``: the model under test writes the rules; ``helper``: the helper ``rules`` writes
        them for every model; or rules files by another model or a person, one per language, separated by commas
        (section 4).
    :param runs: Number of times each choice is asked for, each time in another order (appendix B.4).
    :param max_tokens: Limit for a choice or a chat model's translation. :param rule_max_tokens: Limit for rules.
    :param tokenizer: How translations are split into words. ``stanza`` uses the helper ``parse``, ``unicode`` the
        Unicode rules, and ``auto`` the helper if it has a model of the language and Unicode otherwise.
    :param answer: ``text``: the model writes its choice. ``likelihood``: its choice is the variation with the highest
        log-likelihood. Translations are always text.
    :param match: How a reply is read. ``paper``: by the authors' plain rule. ``word``: by this project's rule, which
        understands remarks, other spellings and notes (:mod:`~pytest_llmprops.benchmarks.dtails.reading`).
    """

    rules: str = NONE
    runs: int = 1
    temperature: float = 0.0
    max_tokens: int = 1024
    rule_max_tokens: int = 2048
    tokenizer: Literal["auto", "stanza", "unicode"] = "auto"
    answer: Literal["text", "likelihood"] = "text"
    match: Literal["paper", "word"] = "word"

    def __post_init__(self) -> None:
        if not 1 <= self.runs <= 20:
            raise ValueError("runs must be from 1 to 20")
        if self.max_tokens < 1 or self.rule_max_tokens < 1 or not 0 <= self.temperature < math.inf:
            raise ValueError("max_tokens and rule_max_tokens must be at least 1 and temperature at least 0")
        if self.answer == "likelihood" and self.rules == SELF:
            raise ValueError("rules = self needs answer = text, because the model writes the rules")
        if not all(path.strip() for path in self.rules.split(",")):
            raise ValueError("rules must be none, self, helper, or rules files separated by commas")


@dataclass(frozen=True, slots=True)
class Context:
    """The data shared by all items of one data folder.

    :param baselines: By language, over its whole file.
    :param sentences: Example sentences for rules by variation name, by cluster; only if a model writes the rules.
    :param rules: The rules files of the setting ``rules``, by language.
    :param slots: By item id; they balance the orders of variations.
    """

    baselines: Mapping[str, Baseline]
    sentences: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    rules: Mapping[str, RulesFile] = field(default_factory=dict)
    slots: Mapping[str, Slot] = field(default_factory=dict)

    def rules_of(self, item: Item) -> ConceptRules | None:
        """Return the rules of a file for the item's concept; None if no file has them."""
        file = self.rules.get(item.language)
        return None if file is None else file.find(item["concept"], item["variations"], item["pos"])
