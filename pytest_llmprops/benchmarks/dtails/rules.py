"""Rules on how the variations of a concept differ (Barua et al., section 3): their file, and asking for them.

A rules file is JSON that a person can read and edit::

    {
      "format": "dtails-rules 1",
      "language": "af",
      "model": "openai:gpt-4o",
      "concepts": [
        {
          "concept": "live",
          "pos": "VERB",
          "variations": [
            {"variation": "leef/lewe", "sentences": 50, "rule": "to be alive, ..."},
            {"variation": "woon", "sentences": 50, "rule": "to have one's home ..."}
          ]
        }
      ]
    }

``sentences`` is the number of example sentences in the prompt. 0 means that the rule comes only from the model's own
knowledge. ``pos`` may be empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_llmprops.benchmarks.dtails.items import Row
from pytest_llmprops.benchmarks.dtails.prompts import (
    Variations,
    language_name,
    repaired,
    rule_generation,
    variation_name,
)
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.requests import PLANNED, Chat, Reply
from pytest_llmprops.core.strict_json import is_unicode, short, strict_json
from pytest_llmprops.core.texts import folded, is_word_character

#: Maximum characters of a rule. A rule is a few sentences and is in every prompt of its concept.
LONGEST_RULE = 4_000
#: Maximum sentences per variation. Every sentence has fewer than ``TOKENS`` tokens (section 3).
MOST, TOKENS = 50, 50
#: Maximum number of calls until the reply is the JSON that was asked for.
TRIES = 3
_FORMAT = "dtails-rules 1"
#: A placeholder of typical length, to plan the cost of a run.
_PLACEHOLDER = "x" * 300
_TOKEN = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
_FENCED = re.compile(r"```(?:\s*json\s*\n)?(.*)```", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule by a person or a model for one variation (its forms joined by ``/``)."""

    variation: str
    text: str
    sentences: int = 0


@dataclass(frozen=True, slots=True)
class ConceptRules:
    """The rules of one concept, one per variation."""

    concept: str
    pos: str
    rules: tuple[Rule, ...]

    @property
    def sentences(self) -> int:
        """The number of example sentences in the prompt, over all variations."""
        return sum(rule.sentences for rule in self.rules)

    def texts(self) -> dict[str, str]:
        """Return the rules by variation, in file order, as the prompt shows them."""
        return {rule.variation: rule.text for rule in self.rules}

    def of(self, names: Iterable[str]) -> tuple[Rule, ...]:
        """Return the rules of these variations, in file order. The forms in a name may be in any order."""
        wanted = [_key(name) for name in names]
        return tuple(rule for rule in self.rules if _key(rule.variation) in wanted)

    def fits(self, concept: str, names: Iterable[str]) -> bool:
        """Return True if the rules are for this concept with exactly these variations, in any order."""
        own = (_key(rule.variation) for rule in self.rules)
        return self.concept == concept and sorted(own) == sorted(map(_key, names))


@dataclass(frozen=True, slots=True)
class RulesFile:
    """The rules of one model for one language."""

    language: str
    model: str
    concepts: tuple[ConceptRules, ...]

    def find(self, concept: str, variations: Variations, pos: str = "") -> ConceptRules | None:
        """Return the rules for a concept with these variations; if two fit, those of the part of speech."""
        names = [variation_name(forms) for forms in variations]
        fitting = [entry for entry in self.concepts if entry.fits(concept, names)]
        same = [entry for entry in fitting if entry.pos == pos]
        return next(iter(same or fitting), None)

    def to_json(self) -> str:
        """Return the file's text: indented JSON without escapes for non-ASCII characters."""
        concepts = [
            {
                "concept": entry.concept,
                "pos": entry.pos,
                "variations": [
                    {"variation": rule.variation, "sentences": rule.sentences, "rule": rule.text}
                    for rule in entry.rules
                ],
            }
            for entry in self.concepts
        ]
        data = {"format": _FORMAT, "language": self.language, "model": self.model, "concepts": concepts}
        return json.dumps(data, ensure_ascii=False, indent=2) + "\n"


def parse_rules_file(text: str, where: str) -> RulesFile:
    """Read and check a rules file.

    :param where: The file's name, for messages.
    :raises DataError: The text is not JSON or has another format; a key is missing or unknown; a value has the
        wrong type; a rule is empty; a concept has fewer than two variations; a concept or variation is repeated.
    """
    try:
        data = strict_json(text)
    except ValueError as error:
        raise DataError(f"{where}: not JSON: {error}; correct it") from None
    _check(data, {"format": str, "language": str, "model": str, "concepts": list}, where)
    if data["format"] != _FORMAT:
        raise DataError(f'{where}: format is {short(data["format"])}; this version reads "{_FORMAT}"')
    concepts: list[ConceptRules] = []
    for number, entry in enumerate(data["concepts"], 1):
        place = f"{where}: concept {number}"
        _check(entry, {"concept": str, "pos": str, "variations": list}, place, may_be_empty="pos")
        rules = []
        for n, item in enumerate(entry["variations"], 1):
            here = f"{place} ({entry['concept']}): variation {n}"
            _check(item, {"variation": str, "sentences": int, "rule": str}, here)
            if item["sentences"] < 0 or len(item["rule"]) > LONGEST_RULE:
                raise DataError(
                    f"{here}: write sentences from 0, and a rule of at most {LONGEST_RULE} characters"
                )
            rules.append(Rule(item["variation"], item["rule"], item["sentences"]))
        own = ConceptRules(entry["concept"], entry["pos"], tuple(rules))
        names = [rule.variation for rule in rules]
        # Compared unfolded, because two Tamil variations are the same word in two Unicode forms.
        if len(names) < 2 or len({frozenset(name.split("/")) for name in names}) < len(names):
            raise DataError(f"{place} ({own.concept}): write at least two variations, each once")
        if any(own.pos == other.pos and other.fits(own.concept, names) for other in concepts):
            raise DataError(f"{place}: {short(own.concept)} is repeated; remove one")
        concepts.append(own)
    if not concepts:
        raise DataError(f"{where}: there are no concepts; run `llmprops lab dtails rules` again")
    return RulesFile(data["language"], data["model"], tuple(concepts))


def _check(value: Any, types: Mapping[str, type], where: str, may_be_empty: str = "model") -> None:
    """Check that ``value`` is an object with exactly these keys and types, and no empty or damaged text."""
    if not isinstance(value, dict) or set(value) != set(types):
        keys = short(", ".join(map(str, value))) if isinstance(value, dict) else short(str(value))
        raise DataError(f"{where}: {keys}; write an object with the keys {', '.join(types)}")
    names = {str: "a text", int: "a whole number", list: "a list"}
    for key, kind in types.items():
        is_text = kind is str and type(value[key]) is str
        is_empty = is_text and key != may_be_empty and not value[key].strip()
        if type(value[key]) is not kind or is_empty or (is_text and not is_unicode(value[key])):
            raise DataError(f"{where}: {key} is {short(str(value[key]))}; write {names[kind]}")


def _key(name: str) -> list[str]:
    # Folded, because an editor may save the same word in another Unicode form.
    return sorted(folded(form.strip()) for form in name.split("/"))


def concept_sentences(
    train: Iterable[Row], concepts: Iterable[tuple[str, Variations]], test_sentences: Iterable[str]
) -> list[dict[str, tuple[str, ...]]]:
    """Return the sentences for each concept's rules, by variation name, from its train rows.

    :param concepts: (concept, variations). :param test_sentences: All sentences of the language's test rows.
    """
    rows: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for row in train:
        rows.setdefault(row.concept, []).append((row.sentence, row.variations[row.label].forms))
    test = list(test_sentences)
    return [choose_sentences(rows.get(name, ()), variations, test) for name, variations in concepts]


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
            if not set(forms).isdisjoint(label):
                sentences[variation_name(forms)].setdefault(key, sentence)

    def length(text: str) -> tuple[int, int]:
        return english_tokens(text), len(text)

    longest = {name: sorted(texts.values(), key=length, reverse=True) for name, texts in sentences.items()}
    return {name: tuple(texts[:most]) for name, texts in longest.items()}


def english_tokens(sentence: str) -> int:
    """Return the number of words and punctuation marks; ``don't`` and ``well-known`` are one word each.

    The paper does not name the tokenizer for its limit of 50 tokens.
    """
    return len(_TOKEN.findall(sentence))


def sentence_key(sentence: str) -> str:
    """Return a key that ignores case, spacing and punctuation."""
    letters = "".join(c if is_word_character(c) else " " for c in folded(sentence))
    return " ".join(letters.split())


@dataclass(frozen=True, slots=True)
class RulesOutcome:
    """The outcome of asking a model for rules.

    :param rules: None if no reply could be read. :param problem: A short phrase that says why there are no rules.
    :param refused: A content filter blocked the rules.
    """

    rules: ConceptRules | None
    problem: str = ""
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
    names = [variation_name(forms) for forms in variations]
    problem = ""
    for _ in range(TRIES):
        reply = await ask(Chat(prompt, temperature=temperature, max_tokens=max_tokens))
        if reply.finish_reason == "content_filter":
            return RulesOutcome(None, "a content filter refused", refused=True)
        try:
            texts = read_rules(reply.text, names)
        except ValueError as error:
            problem = f"{error}, cut off" if reply.finish_reason == "length" else str(error)
            prompt = repaired(prompt, problem)
            continue
        rules = tuple(Rule(name, texts[name], len(sentences.get(name, ()))) for name in names)
        return RulesOutcome(ConceptRules(concept, pos, rules))
    if reply.key == PLANNED:
        # Plan the more expensive case: choices are only asked for if the rules can be read.
        return RulesOutcome(ConceptRules(concept, pos, tuple(Rule(name, _PLACEHOLDER) for name in names)))
    return RulesOutcome(None, problem)


def read_rules(reply: str, names: Sequence[str]) -> dict[str, str]:
    """Read rules from a reply: one JSON object, optionally between code fences, with one text per variation.

    Keys are compared folded, because models drop zero-width joiners. The result has ``names`` as keys.

    :raises ValueError: The reply is something else; the message is a short phrase.
    """
    text = reply.strip()
    match = _FENCED.fullmatch(text)
    try:
        data = strict_json(match[1].strip() if match else text)
    except ValueError as error:
        raise ValueError(f"it is not JSON ({error})" if text else "it is empty") from None
    if not isinstance(data, dict):
        raise ValueError("it is not a JSON object")
    values: dict[str, Any] = {}
    # Exact matches come first, because two variations may be equal after folding.
    for normalise in (str, folded):
        for name in names:
            key = next((key for key in data if normalise(key) == normalise(name)), None)
            if name not in values and key is not None:
                values[name] = data.pop(key)
    if missing := [name for name in names if name not in values]:
        raise ValueError(f"the key {short(missing[0])} is missing")
    if data:
        raise ValueError(f"the key {short(next(iter(data)))} was not asked for")
    for name, value in values.items():
        if not isinstance(value, str) or not value.strip() or not is_unicode(value):
            raise ValueError(f"the value of {short(name)} is not a text")
        if len(value) > LONGEST_RULE:
            raise ValueError(f"the value of {short(name)} is longer than {LONGEST_RULE} characters")
    return {name: values[name].strip() for name in names}
