"""The DTAiLS benchmark: its protocols, and what it loads, asks and counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_llmprops.benchmarks.dtails.context import (
    HELPER,
    Context,
    DtailsSettings,
    check_rules,
    load_items,
    with_rules,
)
from pytest_llmprops.benchmarks.dtails.evaluation import evaluate
from pytest_llmprops.benchmarks.dtails.items import SELECT, TRANSLATE
from pytest_llmprops.benchmarks.dtails.metrics import metric_rows, remarks
from pytest_llmprops.core.benchmark import Ask, Benchmark, DataFiles, Loaded
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.metrics import Metric
from pytest_llmprops.core.protocols import NamedSettings, Protocol
from pytest_llmprops.core.requests import Kind
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
        return load_items(files)

    def prepared(self, part: Loaded, files: DataFiles, settings: DtailsSettings) -> Loaded:
        return with_rules(part, files, settings.rules)

    def check_selected(self, items: Sequence[Item], context: Context, settings: DtailsSettings) -> None:
        check_rules(items, context)

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
