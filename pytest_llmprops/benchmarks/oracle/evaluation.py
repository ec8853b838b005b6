"""The measurement of one item, and the search for a counterexample, by the checkers of the oracle-checker."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

from pytest_llmprops.benchmarks.oracle.checker_benchmark import verdict_of
from pytest_llmprops.benchmarks.oracle.covering import Aligner
from pytest_llmprops.benchmarks.oracle.edits import KINDS, minimal_edits
from pytest_llmprops.benchmarks.oracle.items import LINEARITY, NO, PAIR_SEARCHES, RULES, YES
from pytest_llmprops.benchmarks.oracle.linearity import LinearityChecker, Sentence
from pytest_llmprops.benchmarks.oracle.metric_names import CONSISTENCY, OWN, RANDOM
from pytest_llmprops.benchmarks.oracle.nulls import (
    null_values,
    own_paraphrase,
    random_checker,
    self_consistency,
)
from pytest_llmprops.benchmarks.oracle.pair_evidence import Pair
from pytest_llmprops.benchmarks.oracle.pair_search import PAIR_PROPERTIES
from pytest_llmprops.benchmarks.oracle.paraphrase import ParaphraseChecker
from pytest_llmprops.benchmarks.oracle.reduction import Reducible
from pytest_llmprops.benchmarks.oracle.replies import ask_answer, sentences_prompt
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Oracle
from pytest_llmprops.benchmarks.oracle.search import linearity_search
from pytest_llmprops.benchmarks.oracle.settings import OracleSettings
from pytest_llmprops.benchmarks.oracle.synonym_rules import Context
from pytest_llmprops.core.benchmark import Ask, Measured, Searched
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.neutral_edits import EDITS, neutral_edits
from pytest_llmprops.core.protocols import Protocol
from pytest_llmprops.core.verdicts import READ_BY, Verdict


async def evaluate(item: Item, context: Context, ask: Ask, protocol: Protocol[OracleSettings]) -> Verdict:
    """Return the verdict on one item: whether its checker accepts the model's answer."""
    settings = protocol.settings
    oracle = _oracle(ask, settings)
    rng = protocol.rng(item.id)
    if item.task == LINEARITY:
        # Only a user's own sentences have no labels; the others may be labelled with no entity.
        labels = None if item["domain"] == "own" else tuple(name for name, _ in item["entities"])
        checker = LinearityChecker(settings.linearity(), context.rules, context.pool)
        acceptance = await checker.check(Sentence(item["text"], labels), oracle, rng)
        return _verdict(acceptance, {"rule": float(RULES.index(settings.rule))})
    align = Aligner(ask, settings.alignment, settings.whole)
    if item.task == OWN:
        acceptance = await own_paraphrase(
            item["first"], oracle, ParaphraseChecker(settings.pairs(), align), rng, settings.askings
        )
        return _verdict(acceptance)
    pair = Pair(item["first"], item["second"], item["label"], item.fields.get("phrases"))
    if item.task == CONSISTENCY:
        return _verdict(await self_consistency(pair, oracle, settings.askings))
    if item.task == RANDOM:
        acceptance = await random_checker(settings.pairs(), align).check(pair, oracle, rng)
        verdict = _verdict(acceptance)
        if acceptance.values["said_yes"] == 1:
            return replace(
                verdict, status="wrong", score=0.0, reason=f"unrelated sentences: {acceptance.why}"
            )
        return verdict
    pairs = ParaphraseChecker(settings.pairs(), align)
    acceptance = await pairs.check(pair, oracle, rng)
    values = await null_values(pair, pairs, rng)
    if settings.edits:
        values |= await _edit_values(pair, align, oracle, protocol.rng(item.id, 1))
    verdict = _verdict(acceptance, values)
    said = acceptance.values["said_yes"]
    return verdict if said < 0 else replace(verdict, task=YES if said else NO)


async def _edit_values(pair: Pair, align: Aligner, oracle: Oracle, rng: random.Random) -> dict[str, float]:
    """Ask about a sentence with a minimal edit, and about one with a neutral edit, if there are any.

    :raises BackendError: if a call could not be made.
    """
    found = await align(*pair.sentences)
    minimal = [
        (parsed.text, edited, KINDS.index(kind))
        for parsed in (found.first, found.second)
        if parsed is not None
        for kind, edited in minimal_edits(parsed).items()
    ]
    neutral = [
        (text, edited, [*EDITS].index(name))
        for text in pair.sentences
        for name, edited in neutral_edits(text).items()
    ]
    drawn = {name: rng.choice(edits) for name, edits in (("minimal", minimal), ("neutral", neutral)) if edits}
    answers = await asyncio.gather(
        *(ask_answer(oracle, sentences_prompt(text, edited)) for text, edited, _ in drawn.values())
    )
    values: dict[str, float] = {}
    for (name, (_, _, number)), answer in zip(drawn.items(), answers, strict=True):
        values[f"said_yes_{name}"] = -1.0 if answer.said is None else float(answer.said)
        values[f"{name}_edit"] = float(number)
    return values


async def search(
    item: Item, context: Context, ask: Ask, protocol: Protocol[OracleSettings], measured: Measured, name: str
) -> Searched | str:
    """Return the search for a counterexample, or the reason why there is none."""
    settings = protocol.settings
    if settings.search == "rejected" and (outcome := (await measured()).given) != "rejected":
        return f"its measurement is {outcome}"
    if name in PAIR_SEARCHES:
        return await _pair_search(item, ask, settings, measured, name)
    checker = LinearityChecker(settings.linearity(), context.rules, context.pool)
    # The measurement draws this number first, so the synonyms are the same.
    pool_seed = protocol.rng(item.id).getrandbits(64)
    oracle = _oracle(ask, settings)
    most = settings.shrink_calls, settings.replications
    return await linearity_search(checker, item["text"], oracle, pool_seed, *most)


async def _pair_search(
    item: Item, ask: Ask, settings: OracleSettings, measured: Measured, name: str
) -> Searched | str:
    if name in (YES, NO):
        said = {1.0: YES, 0.0: NO}.get((await measured()).values["said_yes"], "unreadable")
        if said != name:
            return f"its answer is {said}"
    parser = Aligner(ask)
    first, second = [Reducible(text, await parser.parsed(text)) for text in (item["first"], item["second"])]
    oracle, most = _oracle(ask, settings), settings.shrink_calls
    made = PAIR_PROPERTIES[name]
    return made(first, second, oracle, settings.paraphrases, most, replications=settings.replications)


def _oracle(ask: Ask, settings: OracleSettings) -> Oracle:
    return Oracle(ask, temperature=settings.temperature, max_tokens=settings.max_tokens)


def _verdict(acceptance: Acceptance, more_values: dict[str, float] | None = None) -> Verdict:
    """Return a checker's decision as a verdict, with ``more_values``."""
    verdict = verdict_of(acceptance)
    evidence = dict(verdict.evidence)
    # How an answer was read is not the cause if something after it could not be read or tested.
    is_read = acceptance.outcome in ("untested", "unmeasurable") or evidence.get("answer") in ("yes", "no")
    if verdict.status == "unparsed" and is_read:
        evidence.pop(READ_BY, None)
    return replace(verdict, values={**acceptance.values, **(more_values or {})}, evidence=evidence)
