"""What the evaluation of DTAiLS items needs beside the items: baselines, rules, sentences for rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_llmprops.benchmarks.dtails.frequency import Baseline, frequency_baseline
from pytest_llmprops.benchmarks.dtails.items import SELECT, items, train_rows
from pytest_llmprops.benchmarks.dtails.prompts import Variations
from pytest_llmprops.benchmarks.dtails.rows import Row
from pytest_llmprops.benchmarks.dtails.rule_sentences import choose_sentences
from pytest_llmprops.benchmarks.dtails.rules import ConceptRules, RulesFile, check_covers, parse_rules_file
from pytest_llmprops.core.benchmark import DataFiles, Loaded
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.items import Item

NONE, SELF = "none", "self"
Sentences = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Context:
    """Of one folder of data.

    :param baselines: by language, over its whole file.
    :param sentences: cluster -> variation name -> sentences to make rules from; only for ``rules = self``.
    :param rules: by language, as the files of the setting ``rules`` have them. :param given: the setting.
    """

    baselines: Mapping[str, Baseline]
    sentences: Mapping[str, Sentences] = field(default_factory=dict)
    rules: Mapping[str, RulesFile] = field(default_factory=dict)
    given: str = NONE

    def rules_of(self, item: Item) -> ConceptRules:
        """The rules in the given files for the item's concept; ``check_selected`` saw that there are some."""
        found = self.rules[item.language].find(item["concept"], item["variations"], item["pos"])
        assert found is not None
        return found


def load_items(files: DataFiles) -> Loaded:
    """The items of every language, and the frequency baseline of each."""
    every = tuple(items(files))
    rows: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for item in every:
        if item.task == SELECT:
            rows.setdefault(item.language, []).append((item.cluster, item["label"]))
    return Loaded(every, Context({language: frequency_baseline(those) for language, those in rows.items()}))


def with_rules(part: Loaded, files: DataFiles, given: str) -> Loaded:
    """``part`` with what the setting ``rules`` needs.

    :param given: ``none``, ``self``, or rules files joined by commas, one a language.
    :raises DataError: a file is not what it should be. :raises UsageError: two files for one language.
    """
    context: Context = part.context
    if given == NONE:
        return part
    if given == SELF:
        return Loaded(part.items, replace(context, given=SELF, sentences=_sentences(part.items, files)))
    rules: dict[str, RulesFile] = {}
    for path in (text.strip() for text in given.split(",")):
        found = parse_rules_file(files.given(path), path)
        if found.language in rules:
            raise UsageError(f"dtails.rules={given}: two files for '{found.language}'; give one a language")
        rules[found.language] = found
    return Loaded(part.items, replace(context, given=given, rules=rules))


def check_rules(selected: Sequence[Item], context: Context) -> None:
    """Refuse items whose concepts the rules files do not have.

    :raises UsageError: naming the language or the first concept.
    """
    if context.given in (NONE, SELF):
        return
    wanted: dict[str, dict[str, tuple[str, str, Variations]]] = {}
    for item in selected:
        if item.task == SELECT:
            concept = (item["concept"], item["pos"], item["variations"])
            wanted.setdefault(item.language, {}).setdefault(item.cluster, concept)
    for language, concepts in wanted.items():
        if language not in context.rules:
            there = ", ".join(sorted(context.rules))
            raise UsageError(
                f"dtails.rules={context.given}: rules for {there}, not for '{language}'; give that language's file"
                f" too (joined by a comma), or select with -k dtails/{sorted(context.rules)[0]}"
            )
        check_covers(context.rules[language], language, concepts.values(), context.given)


def concept_sentences(
    train: Iterable[Row], concept: str, variations: Variations, test_sentences: Iterable[str]
) -> Sentences:
    """Sentences for one concept's rules: of train rows of the concept with one of these variations."""
    forms = {form for variation in variations for form in variation}
    rows = [
        (row.sentence, row.variations[row.label].forms)
        for row in train
        if row.concept == concept and not forms.isdisjoint(row.variations[row.label].forms)
    ]
    return choose_sentences(rows, variations, test_sentences)


def _sentences(every: Sequence[Item], files: DataFiles) -> dict[str, Sentences]:
    found: dict[str, Sentences] = {}
    for language in dict.fromkeys(item.language for item in every):
        own = [item for item in every if item.language == language and item.task == SELECT]
        test = [item["sentence"] for item in own]
        train = train_rows(files, language)
        by_concept: dict[str, list[Row]] = {}
        for row in train:
            by_concept.setdefault(row.concept, []).append(row)
        for item in own:
            if item.cluster not in found:
                rows = by_concept.get(item["concept"], [])
                found[item.cluster] = concept_sentences(rows, item["concept"], item["variations"], test)
    return found
