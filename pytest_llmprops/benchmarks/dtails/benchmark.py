"""The DTAiLS benchmark: its protocols, and what it loads, asks and counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pytest_llmprops.benchmarks.dtails.context import HELPER, NONE, SELF, Context, DtailsSettings
from pytest_llmprops.benchmarks.dtails.evaluation import evaluate
from pytest_llmprops.benchmarks.dtails.items import (
    SELECT,
    TRANSLATE,
    frequency_baseline,
    items,
    slots,
    train_rows,
)
from pytest_llmprops.benchmarks.dtails.metrics import metric_rows, remarks
from pytest_llmprops.benchmarks.dtails.prompts import variation_name
from pytest_llmprops.benchmarks.dtails.rules import RulesFile, concept_sentences, parse_rules_file
from pytest_llmprops.core.benchmark import Ask, Benchmark, DataFiles, Loaded
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.metrics import Metric
from pytest_llmprops.core.protocols import NamedSettings, Protocol
from pytest_llmprops.core.requests import Kind
from pytest_llmprops.core.strict_json import short
from pytest_llmprops.core.verdicts import Verdict, VerdictRecord

_ASSUMED = (
    "lists of variations, sentences and the prompt for rules are written as by the authors' code, without escapes",
    "similarity counts from 0.7 inclusive, as in the authors' code (the text says that it exceeds 0.7)",
    "of equally similar variations, the first in the list counts, as in the authors' code",
    "of several forms in a translation, the first in the list counts, as in the authors' code",
    "the answer is compared as a whole and split only at '/', as in the authors' code",
    "translations are compared in lower case, as in the authors' code",
    "without Stanza's model of the language, a translation is split by Unicode rules, without lemmas",
    "orders are balanced over the items and runs of a language",
    "the deviation over runs is the sample standard deviation (n - 1)",
    "the paper has no chat models as translators: their prompt is this project's",
)


class Dtails(Benchmark):
    """Measures whether a model chooses the right one of several translations of a word in a sentence."""

    name = "dtails"
    title = "DTAiLS"
    noun = "DTAiLS items"
    side_tasks = frozenset({TRANSLATE})
    about = "Does the model choose the translation of a word that fits the sentence?"
    task_about = {
        SELECT: "Given the English sentence and a shuffled list of words, which word translates the concept?",
        TRANSLATE: "The model translates the sentence. Which of the words does its translation use?",
    }
    metric_directions = {
        "frequency_baseline": "none",
        # k is the number of variations; each row has its own.
        "position_rate": "target:1/k",
        "position_p": "none",
        "order_invariant": "higher",
        "accuracy_mean": "higher",
        "accuracy_sd": "none",
        "retry_rate": "lower",
        "rules_failed_rate": "lower",
        "found_rate": "higher",
        "substring_rate": "none",
        "parser_rate": "none",
        "normalised_accuracy": "higher",
    }
    judges_filtered = True
    kinds = frozenset({"chat", "likelihood", "translate"})
    roles = frozenset({"parse", "rules"})
    limit_per_cluster = True
    # About one item of each concept; standard has all items.
    sizes = {"small": {"select": 8, "translate": 8}}
    protocols = {
        "paper": NamedSettings(DtailsSettings(runs=3, match="paper"), assumed=_ASSUMED),
        "quick": NamedSettings(
            DtailsSettings(),
            gives_up=(
                "two of the three runs in different orders, so no deviation over runs, and the authors' plain reading"
                " of replies (remarks, spellings and notes are understood)"
            ),
        ),
    }

    def load(self, files: DataFiles) -> Loaded:
        """Load the items of every language, with each language's frequency baseline and the slots of its items."""
        every = tuple(items(files))
        selected = [item for item in every if item.task == SELECT]
        baselines = {
            language: frequency_baseline((i.cluster, i["label"]) for i in selected if i.language == language)
            for language in {item.language for item in selected}
        }
        return Loaded(every, Context(baselines, slots=slots(selected)))

    def prepared(self, part: Loaded, files: DataFiles, settings: DtailsSettings) -> Loaded:
        """Return ``part`` with the rules or sentences that the setting ``rules`` needs.

        :raises DataError: A file is invalid. :raises UsageError: Two files are for one language.
        """
        if settings.rules == NONE:
            return part
        if settings.rules in (SELF, HELPER):
            return Loaded(part.items, replace(part.context, sentences=_sentences(part.items, files)))
        rules: dict[str, RulesFile] = {}
        for path in (text.strip() for text in settings.rules.split(",")):
            file = parse_rules_file(files.given(path), path)
            if file.language in rules:
                raise UsageError(
                    f"dtails.rules={settings.rules}: two files for '{file.language}'; use one per language"
                )
            rules[file.language] = file
        return Loaded(part.items, replace(part.context, rules=rules))

    def check_selected(self, items: Sequence[Item], context: Context, settings: DtailsSettings) -> None:
        """Check that the rules files have the concepts of all items.

        :raises UsageError: A language or a concept is missing; the message names the first.
        """
        if settings.rules in (NONE, SELF, HELPER):
            return
        missing = [item for item in items if item.task == SELECT and context.rules_of(item) is None]
        if not missing:
            return
        first, where = missing[0], f"dtails.rules={settings.rules}"
        if first.language not in context.rules:
            known = sorted(context.rules)
            raise UsageError(
                f"{where}: rules for {', '.join(known)}, not for '{first.language}'; add that language's file (after a"
                f" comma), or select with -k dtails/{known[0]}"
            )
        names = ", ".join(map(variation_name, first["variations"]))
        others = len({item.cluster for item in missing}) - 1
        raise UsageError(
            f"{where}: no rules for {short(first['concept'])} with the variations {short(names)}"
            f"{f' and {others} more' if others else ''}; make them with `llmprops lab dtails rules --lang"
            f" {first.language}`"
        )

    def kinds_of(self, task: str, settings: DtailsSettings) -> frozenset[Kind]:
        if task != SELECT:
            return frozenset({"translate", "chat"})
        return frozenset({"likelihood" if settings.answer == "likelihood" else "chat"})

    def helpers(self, settings: DtailsSettings) -> tuple[str, ...]:
        return ("rules",) if settings.rules == HELPER else ()

    async def evaluate(
        self, item: Item, context: Context, ask: Ask, protocol: Protocol[DtailsSettings]
    ) -> Verdict:
        return await evaluate(item, context, ask, protocol.settings, seed=protocol.seed)

    def caption(self, item: Item) -> str:
        return f"{item['concept']} → {item['label'][0]}: {item['target'] or item['sentence']}"

    def metrics(self, records: Sequence[VerdictRecord]) -> Iterable[Metric]:
        """Yield positions chosen, baselines, means over runs, and how translations were read."""
        yield from metric_rows(records)

    def remarks(self, records: Sequence[VerdictRecord]) -> Iterable[str]:
        """Yield a remark for each list length at which the choice depends on the order."""
        yield from remarks(records)


def _sentences(every: Sequence[Item], files: DataFiles) -> dict[str, Mapping[str, tuple[str, ...]]]:
    """Return the example sentences for rules by variation name, by cluster."""
    sentences: dict[str, Mapping[str, tuple[str, ...]]] = {}
    for language in dict.fromkeys(item.language for item in every):
        own = [item for item in every if item.language == language and item.task == SELECT]
        concepts = {item.cluster: (item["concept"], item["variations"]) for item in own}
        test = [item["sentence"] for item in own]
        examples = concept_sentences(train_rows(files, language), concepts.values(), test)
        sentences |= zip(concepts, examples, strict=True)
    return sentences
