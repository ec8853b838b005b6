"""Having a model write the rules of one concept (Barua et al., section 3 and figure 9)."""

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

#: how often a model is asked at most until its reply is the JSON that was asked for
TRIES = 3
#: a rule as long as most, for a plan of what a run would cost
_SUPPOSED = "x" * 300


@dataclass(frozen=True, slots=True)
class MadeRules:
    """What came of asking for rules.

    :param rules: None where no reply could be read; :param problem: then says why, in one phrase.
    :param tries: calls made. :param fenced: the JSON stood between fences, which were not asked for.
    :param refused: a content filter kept the rules back.
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
) -> MadeRules:
    """Ask for the rules of one concept, up to :data:`TRIES` times.

    The prompt is the same for every item of the concept, so that within a run it goes out once.

    :param language: two-letter code. :param sentences: example sentences by variation name; may be empty.
    """
    first = prompt = rule_generation(concept, variations, language_name(language), sentences)
    problem = ""
    for number in range(TRIES):
        # Told apart, as the same fault twice makes the same prompt.
        reply = await ask(
            Chat.user(prompt, temperature=temperature, max_tokens=max_tokens, sample=max(0, number - 1))
        )
        if reply.finish_reason == "content_filter":
            return MadeRules(None, "a content filter refused", number + 1, refused=True)
        read = read_rules_reply(reply.text, variations)
        if read.texts is not None:
            counts = sentence_counts(sentences)
            rules = tuple(
                Rule(name, read.texts[name], counts.get(name, 0)) for name in map(variation_name, variations)
            )
            return MadeRules(ConceptRules(concept, pos, rules), "", number + 1, read.fenced)
        problem = f"{read.problem}, cut off" if reply.finish_reason == "length" else read.problem
        prompt = repaired(first, problem)
    if reply.key == PLANNED:
        # Rules that can be read are the dearer case: only then are the choices asked for, too.
        supposed = tuple(Rule(variation_name(forms), _SUPPOSED) for forms in variations)
        return MadeRules(ConceptRules(concept, pos, supposed), "", TRIES)
    return MadeRules(None, problem, TRIES)
