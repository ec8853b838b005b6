"""The settings of a DTAiLS measurement, and what it needs besides the items: baselines, orders and rules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pytest_llmprops.benchmarks.dtails.items import (
    SELECT,
    Baseline,
    Slot,
    frequency_baseline,
    items,
    slots,
    train_rows,
)
from pytest_llmprops.benchmarks.dtails.prompts import variation_name
from pytest_llmprops.benchmarks.dtails.rules import (
    ConceptRules,
    RulesFile,
    concept_sentences,
    parse_rules_file,
)
from pytest_llmprops.core.benchmark import DataFiles, Loaded
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.strict_json import short

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
    missing: dict[str, Item] = {}
    for item in selected:
        file = context.rules.get(item.language)
        if item.task != SELECT:
            continue
        if file is None or file.find(item["concept"], item["variations"], item["pos"]) is None:
            missing.setdefault(item.cluster, item)
    if not missing:
        return
    first = next(iter(missing.values()))
    if first.language not in context.rules:
        known = sorted(context.rules)
        raise UsageError(
            f"dtails.rules={setting}: rules for {', '.join(known)}, not for '{first.language}'; add that language's"
            f" file (after a comma), or select with -k dtails/{known[0]}"
        )
    names = ", ".join(map(variation_name, first["variations"]))
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    raise UsageError(
        f"dtails.rules={setting}: no rules for {short(first['concept'])} with the variations {short(names)}{more};"
        f" make them with `llmprops lab dtails rules --lang {first.language}`"
    )


def _sentences(every: Sequence[Item], files: DataFiles) -> dict[str, Sentences]:
    sentences: dict[str, Sentences] = {}
    for language in dict.fromkeys(item.language for item in every):
        own = [item for item in every if item.language == language and item.task == SELECT]
        concepts = {item.cluster: (item["concept"], item["variations"]) for item in own}
        test = [item["sentence"] for item in own]
        examples = concept_sentences(train_rows(files, language), concepts.values(), test)
        sentences |= zip(concepts, examples, strict=True)
    return sentences
