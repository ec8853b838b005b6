"""The settings of a DTAiLS measurement, and what it needs besides the items: baselines, rules, and their sentences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from pytest_llmprops.benchmarks.dtails.items import SELECT, Slot, items, slots, train_rows
from pytest_llmprops.benchmarks.dtails.rows import Row
from pytest_llmprops.core.benchmark import DataFiles, Loaded
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.items import Item

if TYPE_CHECKING:
    from pytest_llmprops.benchmarks.dtails.prompts import Variations
    from pytest_llmprops.benchmarks.dtails.rules import ConceptRules, RulesFile


# The frequency baseline: always choose the concept's most common variation (Barua et al., section 4).
#
# The baseline is *in-sample*: the most common variation is counted on the rows that it is scored on, over the
# whole file of a language. It could not be known before the test.


@dataclass(frozen=True, slots=True)
class Baseline:
    """The number of rows with their concept's most common label (``right``), of all rows, and of concepts."""

    right: int
    n: int
    concepts: int

    @property
    def accuracy(self) -> float | None:
        """The share of right rows in [0, 1]; None without rows."""
        return self.right / self.n if self.n else None


def frequency_baseline(rows: Iterable[tuple[Hashable, Hashable]]) -> Baseline:
    """Return the baseline of one language.

    :param rows: (concept, label) of every row of the language's file. The concept must be unique for words with the
        same spelling but different variations, such as an item's cluster.
    """
    labels: dict[Hashable, Counter[Hashable]] = {}
    for concept, label in rows:
        labels.setdefault(concept, Counter())[label] += 1
    # Ties do not matter: equally common labels are right equally often.
    right = sum(max(counts.values()) for counts in labels.values())
    return Baseline(right, sum(counts.total() for counts in labels.values()), len(labels))


#: values of the setting ``rules``; all others are files
NONE, SELF, HELPER = "none", "self", "helper"
Sentences = Mapping[str, tuple[str, ...]]


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
    :param rules: The rules files of the setting ``rules``, by language. :param rules_setting: The setting.
    :param slots: By item id; they balance the orders of variations.
    """

    baselines: Mapping[str, Baseline]
    sentences: Mapping[str, Sentences] = field(default_factory=dict)
    rules: Mapping[str, RulesFile] = field(default_factory=dict)
    rules_setting: str = NONE
    slots: Mapping[str, Slot] = field(default_factory=dict)

    def rules_of(self, item: Item) -> ConceptRules:
        """Return the rules for the item's concept. ``check_rules`` has checked that they exist."""
        rules = self.rules[item.language].find(item["concept"], item["variations"], item["pos"])
        assert rules is not None
        return rules


def load_items(files: DataFiles) -> Loaded:
    """Load the items of every language, with each language's frequency baseline and the slots of its items."""
    every = tuple(items(files))
    rows: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for item in every:
        if item.task == SELECT:
            rows.setdefault(item.language, []).append((item.cluster, item["label"]))
    baselines = {language: frequency_baseline(labels) for language, labels in rows.items()}
    return Loaded(every, Context(baselines, slots=slots(item for item in every if item.task == SELECT)))


def with_rules(part: Loaded, files: DataFiles, setting: str) -> Loaded:
    """Return ``part`` with the rules or sentences that the setting ``rules`` needs.

    :param setting: ``none``, ``self``, ``helper``, or rules files separated by commas, one per language.
    :raises DataError: A file is invalid. :raises UsageError: Two files are for one language.
    """
    context: Context = part.context
    if setting == NONE:
        return part
    if setting in (SELF, HELPER):
        sentences = _sentences(part.items, files)
        return Loaded(part.items, replace(context, rules_setting=setting, sentences=sentences))
    from pytest_llmprops.benchmarks.dtails.rules import parse_rules_file

    rules: dict[str, RulesFile] = {}
    for path in (text.strip() for text in setting.split(",")):
        file = parse_rules_file(files.given(path), path)
        if file.language in rules:
            raise UsageError(f"dtails.rules={setting}: two files for '{file.language}'; use one per language")
        rules[file.language] = file
    return Loaded(part.items, replace(context, rules_setting=setting, rules=rules))


def check_rules(selected: Sequence[Item], context: Context) -> None:
    """Check that the rules files have the concepts of all items.

    :raises UsageError: A language or a concept is missing; the message names the first.
    """
    setting = context.rules_setting
    if setting in (NONE, SELF, HELPER):
        return
    from pytest_llmprops.benchmarks.dtails.rules import check_covers

    concepts_by_language: dict[str, dict[str, tuple[str, str, Variations]]] = {}
    for item in selected:
        if item.task == SELECT:
            concept = (item["concept"], item["pos"], item["variations"])
            concepts_by_language.setdefault(item.language, {}).setdefault(item.cluster, concept)
    for language, concepts in concepts_by_language.items():
        if language not in context.rules:
            known = ", ".join(sorted(context.rules))
            raise UsageError(
                f"dtails.rules={setting}: rules for {known}, not for '{language}'; add that language's file"
                f" (after a comma), or select with -k dtails/{sorted(context.rules)[0]}"
            )
        check_covers(context.rules[language], language, concepts.values(), setting)


def concept_sentences(
    train: Iterable[Row], concepts: Iterable[tuple[str, Variations]], test_sentences: Sequence[str]
) -> list[Sentences]:
    """Return the sentences for each concept's rules, from its train rows with one of its variations.

    :param concepts: (concept, variations). :param test_sentences: All sentences of the language's test rows.
    """
    from pytest_llmprops.benchmarks.dtails.rule_making import choose_sentences

    rows: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for row in train:
        rows.setdefault(row.concept, []).append((row.sentence, row.variations[row.label].forms))
    examples: list[Sentences] = []
    for name, variations in concepts:
        forms = {form for variation in variations for form in variation}
        own = [row for row in rows.get(name, ()) if not forms.isdisjoint(row[1])]
        examples.append(choose_sentences(own, variations, test_sentences))
    return examples


def _sentences(every: Sequence[Item], files: DataFiles) -> dict[str, Sentences]:
    sentences: dict[str, Sentences] = {}
    for language in dict.fromkeys(item.language for item in every):
        own = [item for item in every if item.language == language and item.task == SELECT]
        concepts = {item.cluster: (item["concept"], item["variations"]) for item in own}
        test = [item["sentence"] for item in own]
        examples = concept_sentences(train_rows(files, language), concepts.values(), test)
        sentences |= zip(concepts, examples, strict=True)
    return sentences
