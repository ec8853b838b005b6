"""The measurement of one DTAiLS item: ask the model and judge its reply."""

from __future__ import annotations

from pytest_llmprops.benchmarks.dtails.context import NONE, SELF, Context
from pytest_llmprops.benchmarks.dtails.evidence import SelectionEvidence
from pytest_llmprops.benchmarks.dtails.items import TRANSLATE
from pytest_llmprops.benchmarks.dtails.prompts import language_name, variation_name
from pytest_llmprops.benchmarks.dtails.rule_making import RulesOutcome, make_rules
from pytest_llmprops.benchmarks.dtails.rules import ConceptRules
from pytest_llmprops.benchmarks.dtails.selecting import runs_without_choice, select_in_runs
from pytest_llmprops.benchmarks.dtails.settings import DtailsSettings
from pytest_llmprops.benchmarks.dtails.translating import translate
from pytest_llmprops.core.benchmark import Ask
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.verdicts import Verdict


async def evaluate(item: Item, context: Context, ask: Ask, settings: DtailsSettings, *, seed: int) -> Verdict:
    """Return the verdict on one item.

    :param seed: determines the orders of the variations.
    """
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
        outcome = await _rules(item, context, ask, settings)
        more["rules_read"] = float(outcome.rules is not None)
        if outcome.rules is None:
            return _without_rules(item, outcome, more, settings.runs)
        more["sentences"] = float(outcome.rules.sentences)
        rules = outcome.rules
    return await select_in_runs(
        item,
        ask,
        runs=settings.runs,
        seed=seed,
        temperature=settings.temperature,
        max_tokens=settings.max_tokens,
        rules=rules,
        language=language_name(item.language),
        slot=context.slots.get(item.base_id),
        more=more,
    )


async def _rules(item: Item, context: Context, ask: Ask, settings: DtailsSettings) -> RulesOutcome:
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
