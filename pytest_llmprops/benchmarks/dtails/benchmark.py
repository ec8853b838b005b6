"""The DTAiLS benchmark: load the items, ask the model, judge its replies, compute the metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_llmprops.benchmarks.dtails import metrics
from pytest_llmprops.benchmarks.dtails.context import (
    NONE,
    SELF,
    Context,
    check_rules,
    load_items,
    with_rules,
)
from pytest_llmprops.benchmarks.dtails.evidence import SelectionEvidence
from pytest_llmprops.benchmarks.dtails.items import SELECT, TRANSLATE
from pytest_llmprops.benchmarks.dtails.prompts import language_name, variation_name
from pytest_llmprops.benchmarks.dtails.rule_making import RulesOutcome, make_rules
from pytest_llmprops.benchmarks.dtails.rules import ConceptRules
from pytest_llmprops.benchmarks.dtails.selecting import runs_without_choice, select_in_runs
from pytest_llmprops.benchmarks.dtails.translating import translate
from pytest_llmprops.core.benchmark import Ask, Benchmark, DataFiles, Loaded
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.metrics import Metric
from pytest_llmprops.core.protocols import NamedSettings, Protocol
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.requests import Kind
from pytest_llmprops.core.verdicts import Verdict

_ASSUMED = (
    "lists of variations, sentences and the prompt for rules are written as by the authors' code, without escapes",
    "the system prompt is put before the user prompt, for every model",
    "similarity counts from 0.7 inclusive, as in the authors' code (the text says that it exceeds 0.7)",
    "a choice that names several variations is wrong unless it rejects all except one",
    "of overlapping forms in a choice, the longest counts",
    "of several forms in a translation, whole words win, then the longest; up to three letters must be a whole word",
    "without a form in the translation, an inflected Japanese verb or a Dravidian stem counts like a lemma",
    "orders are balanced over the items and runs of a language",
    "the deviation over runs is the sample standard deviation (n - 1)",
    "the paper has no chat models as translators: their prompt is this project's",
)


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
    metric_directions = metrics.DIRECTIONS
    kinds = frozenset({"chat", "translate"})
    limit_per_cluster = True
    # About one item of each concept; standard has all items.
    sizes = {"small": {"select": 8, "translate": 8}}
    protocols = {
        "paper": NamedSettings(DtailsSettings(runs=3), assumed=_ASSUMED),
        "quick": NamedSettings(
            DtailsSettings(),
            gives_up="two of the three runs in different orders, so no deviation over runs",
        ),
    }

    def load(self, files: DataFiles) -> Loaded:
        return load_items(files)

    def prepared(self, part: Loaded, files: DataFiles, settings: DtailsSettings) -> Loaded:
        return with_rules(part, files, settings.rules)

    def check_selected(self, items: Sequence[Item], context: Context, settings: DtailsSettings) -> None:
        check_rules(items, context)

    def kinds_of(self, task: str) -> frozenset[Kind]:
        return frozenset({"chat"}) if task == SELECT else frozenset({"translate", "chat"})

    async def evaluate(
        self, item: Item, context: Context, ask: Ask, protocol: Protocol[DtailsSettings]
    ) -> Verdict:
        settings = protocol.settings
        baseline = context.baselines[item.language]
        more = {"frequency_baseline": round(baseline.accuracy or 0.0, 6), "frequency_n": float(baseline.n)}
        if item.task == TRANSLATE:
            return await translate(
                item,
                ask,
                temperature=settings.temperature,
                max_tokens=settings.max_tokens,
                tokenizer=settings.tokenizer,
                more=more,
            )
        rules: ConceptRules | None = None
        if settings.rules != NONE:
            outcome = await self._rules(item, context, ask, settings)
            more["rules_read"] = float(outcome.rules is not None)
            if outcome.rules is None:
                return _without_rules(item, outcome, more, settings.runs)
            more["sentences"] = float(outcome.rules.sentences)
            rules = outcome.rules
        return await select_in_runs(
            item,
            ask,
            runs=settings.runs,
            seed=protocol.seed,
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            rules=rules,
            language=language_name(item.language),
            slot=context.slots.get(item.base_id),
            more=more,
        )

    async def _rules(self, item: Item, context: Context, ask: Ask, settings: DtailsSettings) -> RulesOutcome:
        if settings.rules != SELF:
            return RulesOutcome(context.rules_of(item))
        return await make_rules(
            ask,
            item["concept"],
            item["pos"],
            item["variations"],
            item.language,
            context.sentences[item.cluster],
            temperature=settings.temperature,
            max_tokens=settings.rule_max_tokens,
        )

    def metrics(self, records: Sequence[VerdictRecord]) -> Iterable[Metric]:
        """Yield positions chosen, baselines, means over runs, and how translations were read."""
        return metrics.metric_rows(records)

    def remarks(self, records: Sequence[VerdictRecord]) -> Iterable[str]:
        """Yield a remark for each list length at which the choice depends on the order of the list."""
        return metrics.remarks(records)


def _without_rules(item: Item, outcome: RulesOutcome, more: dict[str, float], runs: int) -> Verdict:
    """Return the verdict for a model whose own rules cannot be read.

    ``rules = self`` measures choices with the model's own rules, so no run counts as right.
    """
    reason = (
        f"its rules for {item['concept']!r} could not be read in {outcome.tries} tries: {outcome.problem}"
    )
    if outcome.refused:
        reason = f"a content filter refused its rules for {item['concept']!r}"
    return Verdict(
        "refused" if outcome.refused else "unparsed",
        variation_name(item["label"]),
        "",
        reason,
        values={"variations": float(len(item["variations"])), **more, **runs_without_choice(runs)},
        evidence=SelectionEvidence.of(item).to_json(),
    )
