"""The evidence in a DTAiLS verdict, which reports show (``docs/record-evidence.md``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_llmprops.benchmarks.dtails.prompts import variation_name
from pytest_llmprops.benchmarks.dtails.rules import ConceptRules, Rule
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.strict_json import JSON
from pytest_llmprops.core.texts import shortened
from pytest_llmprops.core.verdicts import (
    Evidence,
    count_in,
    objects_in,
    text_in,
    text_lists_in,
    texts_in,
    without_empty,
)

#: Maximum characters of a translation in the record; ``requests.jsonl`` has the whole reply.
LONGEST = 1_000


@dataclass(frozen=True, slots=True)
class SelectionEvidence:
    """How a choice was asked for. The verdict's values say what the model chose.

    :param variations: In the item's order, their forms joined by ``/``.
    :param shown: The variations of each run in the order shown; empty if nothing could be asked.
    :param rules: The rules in the prompt for the right variation and for those chosen. Storing all rules in every
        verdict would make a run's record half as large again.
    :param clue: The words of the sentence that decide, if the data names them.
    """

    concept: str = ""
    sentence: str = ""
    variations: tuple[str, ...] = ()
    shown: tuple[tuple[str, ...], ...] = ()
    rules: tuple[Rule, ...] = ()
    clue: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        item: Item,
        orders: Sequence[Sequence[int]] = (),
        chosen: Iterable[int] = (),
        rules: ConceptRules | None = None,
    ) -> SelectionEvidence:
        """Return the evidence of an item.

        :param orders: For each run, the index of the variation at each position shown.
        :param chosen: Indexes of the variations chosen. :param rules: The rules in the prompt.
        """
        names = tuple(map(variation_name, item["variations"]))
        shown = tuple(tuple(names[index] for index in order) for order in orders)
        kept = {variation_name(item["label"]), *(names[index] for index in chosen)}
        own = () if rules is None else rules.of(kept)
        return cls(item["concept"], item["sentence"], names, shown, own, tuple(item["clue"]))

    @classmethod
    def from_json(cls, evidence: Evidence) -> SelectionEvidence:
        """Read a verdict's evidence; missing parts are empty."""
        rules = (
            Rule(text_in(rule, "variation"), text_in(rule, "rule"), count_in(rule, "sentences"))
            for rule in objects_in(evidence, "rules")
        )
        return cls(
            text_in(evidence, "concept"),
            text_in(evidence, "sentence"),
            texts_in(evidence, "variations"),
            text_lists_in(evidence, "shown"),
            tuple(rules),
            texts_in(evidence, "clue"),
        )

    def to_json(self) -> Evidence:
        """Return the object for the record, without its empty parts."""
        rules: list[JSON] = [
            {"variation": rule.variation, "rule": rule.text}
            | ({"sentences": rule.sentences} if rule.sentences else {})
            for rule in self.rules
        ]
        return without_empty(
            {
                "concept": self.concept,
                "sentence": self.sentence,
                "variations": list(self.variations),
                "shown": [list(names) for names in self.shown],
                "rules": rules,
                "clue": list(self.clue),
            }
        )


@dataclass(frozen=True, slots=True)
class TranslationEvidence:
    """A sentence, its translation by the model, and its reference translation.

    :param translation: At most :data:`LONGEST` characters. :param reference: The corpus's own translation.
    :param tokenizer: What split the translation into words; empty if words were not needed.
    """

    concept: str = ""
    sentence: str = ""
    translation: str = ""
    reference: str = ""
    tokenizer: str = ""

    @classmethod
    def from_json(cls, evidence: Evidence) -> TranslationEvidence:
        """Read a verdict's evidence; missing parts are empty."""
        return cls(*(text_in(evidence, key) for key in cls.__slots__))

    def to_json(self) -> Evidence:
        """Return the object for the record, without its empty parts."""
        texts = {key: getattr(self, key) for key in self.__slots__}
        return without_empty(texts | {"translation": shortened(self.translation, LONGEST)})
