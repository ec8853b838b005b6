"""Ask a model to write the rules of one concept (Barua et al., section 3 and figure 9)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_llmprops.benchmarks.dtails.prompts import (
    Variations,
    language_name,
    repaired,
    rule_generation,
    variation_name,
)
from pytest_llmprops.benchmarks.dtails.reading import is_right
from pytest_llmprops.benchmarks.dtails.rules import ConceptRules, Rule, read_rules_reply
from pytest_llmprops.benchmarks.dtails.text import english_forms, occurrences, trimmed
from pytest_llmprops.core.requests import PLANNED, Chat, Reply
from pytest_llmprops.core.texts import folded, is_word_character, unicode_words

# Example sentences for a prompt for rules: for each variation, the 50 longest under 50 tokens (section 3).

#: Maximum sentences per variation. Every sentence has fewer than ``TOKENS`` tokens.
MOST, TOKENS = 50, 50

_TOKEN = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


def english_tokens(sentence: str) -> int:
    """Return the number of words and punctuation marks; ``don't`` and ``well-known`` are one word each.

    The paper does not name the tokenizer for its limit of 50 tokens.
    """
    return len(_TOKEN.findall(sentence))


def sentence_key(sentence: str) -> str:
    """Return a key that ignores case, spacing and punctuation."""
    letters = "".join(c if is_word_character(c) else " " for c in folded(sentence))
    return " ".join(letters.split())


def choose_sentences(
    rows: Iterable[tuple[str, Sequence[str]]],
    variations: Variations,
    test_sentences: Iterable[str],
    *,
    most: int = MOST,
    tokens: int = TOKENS,
) -> dict[str, tuple[str, ...]]:
    """Return each variation's longest sentences by variation name, longest first; an empty tuple if it has none.

    Length is in tokens, then in characters; among equals, the earlier row comes first. A variation has no sentence
    twice. Test sentences are left out. Both comparisons ignore case, spacing and punctuation.

    :param rows: (English sentence, forms of the variation in its translation) of this concept's train rows.
    :param test_sentences: All sentences of the language's test rows, for every concept.
    """
    test_keys = set(map(sentence_key, test_sentences))
    sentences: dict[str, dict[str, str]] = {variation_name(forms): {} for forms in variations}
    for sentence, label in rows:
        key = sentence_key(sentence)
        # All sentences without letters have the same, empty key, and they are useless as examples.
        if not key or key in test_keys or english_tokens(sentence) >= tokens:
            continue
        for forms in variations:
            if is_right(forms, label):
                sentences[variation_name(forms)].setdefault(key, sentence)

    def length(text: str) -> tuple[int, int]:
        return english_tokens(text), len(text)

    longest = {name: sorted(texts.values(), key=length, reverse=True) for name, texts in sentences.items()}
    return {name: tuple(texts[:most]) for name, texts in longest.items()}


def corpus_rows(
    pairs: Iterable[tuple[str, str]], concepts: Sequence[tuple[str, Variations]]
) -> list[list[tuple[str, tuple[str, ...]]]]:
    """Return rows for :func:`choose_sentences` from a plain parallel corpus in one pass, one list per concept.

    A pair counts for a variation if the English sentence has the concept in a regular inflection and the
    translation has a form of this variation, and of no other, as a whole word. Without word alignment this is an
    approximation; ``llmprops dtails extract`` makes train rows from word alignment.

    :param pairs: (English, translation). :param concepts: (concept, variations).
    """
    rows: list[list[tuple[str, tuple[str, ...]]]] = [[] for _ in concepts]
    by_form: dict[str, list[int]] = {}
    for index, (concept, _) in enumerate(concepts):
        for form in english_forms(concept):
            by_form.setdefault(form, []).append(index)
    names = [
        [
            (tuple(forms), [plain for form in forms if (plain := trimmed(folded(form)))])
            for forms in variations
        ]
        for _, variations in concepts
    ]
    for english, translation in pairs:
        indexes = {index for word in unicode_words(english) for index in by_form.get(word, ())}
        text = folded(translation) if indexes else ""
        for index in sorted(indexes):
            used = [
                forms
                for forms, plain in names[index]
                if any(occurrences(form, text, whole=True) >= 0 for form in plain)
            ]
            if len(used) == 1:
                rows[index].append((english, used[0]))
    return rows


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
        reply = await ask(Chat(prompt, temperature=temperature, max_tokens=max_tokens))
        if reply.finish_reason == "content_filter":
            return RulesOutcome(None, "a content filter refused", number + 1, refused=True)
        parsed = read_rules_reply(reply.text, variations)
        if parsed.texts is not None:
            names = map(variation_name, variations)
            rules = tuple(Rule(name, parsed.texts[name], len(sentences.get(name, ()))) for name in names)
            return RulesOutcome(ConceptRules(concept, pos, rules), "", number + 1, parsed.fenced)
        problem = f"{parsed.problem}, cut off" if reply.finish_reason == "length" else parsed.problem
        prompt = repaired(prompt, problem)
    if reply.key == PLANNED:
        # Plan the more expensive case: choices are only asked for if the rules can be read.
        placeholders = tuple(Rule(variation_name(forms), _PLACEHOLDER) for forms in variations)
        return RulesOutcome(ConceptRules(concept, pos, placeholders), "", TRIES)
    return RulesOutcome(None, problem, TRIES)
