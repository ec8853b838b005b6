"""Ask a model to write the rules of one concept (Barua et al., section 3 and figure 9)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from pytest_llmprops.benchmarks.dtails.prompts import (
    Variations,
    language_name,
    repaired,
    rule_generation,
    variation_name,
)
from pytest_llmprops.benchmarks.dtails.rule_sentences import sentence_counts
from pytest_llmprops.benchmarks.dtails.rules import ConceptRules, Rule
from pytest_llmprops.benchmarks.dtails.rules_reply import read_rules_reply
from pytest_llmprops.core.requests import PLANNED, Chat, Reply

#: Maximum number of calls until the reply is the JSON that was asked for.
TRIES = 3
#: A placeholder of typical length, to plan the cost of a run.
_PLACEHOLDER = "x" * 300


@dataclass(frozen=True, slots=True)
class RulesOutcome:
    """The outcome of asking a model for rules.

    :param rules: None if no reply could be read. :param problem: A short phrase that says why there are no rules.
    :param tries: Number of calls. :param fenced: The JSON was between code fences, which were not asked for.
    :param refused: A content filter blocked the rules.
    """

    rules: ConceptRules | None
    problem: str = ""
    tries: int = 0
    fenced: bool = False
    refused: bool = False


async def make_rules(
    ask: Callable[[Chat], Awaitable[Reply]],
    concept: str,
    pos: str,
    variations: Variations,
    language: str,
    sentences: Mapping[str, Sequence[str]],
    *,
    temperature: float,
    max_tokens: int,
) -> RulesOutcome:
    """Ask for the rules of one concept, up to :data:`TRIES` times.

    The prompt is the same for every item of the concept, so a run sends it once.

    :param language: Two-letter code. :param sentences: Example sentences by variation name; may be empty.
    """
    prompt = rule_generation(concept, variations, language_name(language), sentences)
    problem = ""
    for number in range(TRIES):
        reply = await ask(Chat.user(prompt, temperature=temperature, max_tokens=max_tokens))
        if reply.finish_reason == "content_filter":
            return RulesOutcome(None, "a content filter refused", number + 1, refused=True)
        parsed = read_rules_reply(reply.text, variations)
        if parsed.texts is not None:
            counts = sentence_counts(sentences)
            rules = tuple(
                Rule(name, parsed.texts[name], counts.get(name, 0))
                for name in map(variation_name, variations)
            )
            return RulesOutcome(ConceptRules(concept, pos, rules), "", number + 1, parsed.fenced)
        problem = f"{parsed.problem}, cut off" if reply.finish_reason == "length" else parsed.problem
        prompt = repaired(prompt, problem)
    if reply.key == PLANNED:
        # Plan the more expensive case: choices are only asked for if the rules can be read.
        placeholders = tuple(Rule(variation_name(forms), _PLACEHOLDER) for forms in variations)
        return RulesOutcome(ConceptRules(concept, pos, placeholders), "", TRIES)
    return RulesOutcome(None, problem, TRIES)
