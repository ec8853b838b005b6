"""Rules files: how the variations of each concept differ (Barua et al., section 3).

A rules file is JSON that a person can read and edit::

    {
      "format": "dtails-rules 1",
      "language": "af",
      "model": "openai:gpt-4o",
      "concepts": [
        {
          "concept": "live",
          "pos": "VERB",
          "sentences": 100,
          "variations": [
            {"variation": "leef/lewe", "sentences": 50, "rule": "to be alive, ..."},
            {"variation": "woon", "sentences": 50, "rule": "to have one's home ..."}
          ]
        }
      ]
    }

``sentences`` is the number of example sentences in the prompt, for the concept and for each variation. 0 means that
the rules come only from the model's own knowledge. ``pos`` may be empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from pytest_llmprops.benchmarks.dtails.prompts import Variations, variation_name
from pytest_llmprops.benchmarks.dtails.reading import FENCE
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.strict_json import is_unicode, short, strict_json
from pytest_llmprops.core.texts import folded

# Read a model's rules for one concept from its reply: strict JSON with one string per variation.

#: Maximum characters of a rule. A rule is a few sentences and is in every prompt of its concept.
LONGEST_RULE = 4_000


@dataclass(frozen=True, slots=True)
class RulesReply:
    """A model's reply read as rules: ``texts`` by variation name, or the ``problem`` in a short phrase.

    :param fenced: The JSON was between code fences, although only JSON was asked for.
    """

    texts: Mapping[str, str] | None
    problem: str = ""
    fenced: bool = False


def read_rules_reply(reply: str, variations: Variations) -> RulesReply:
    """Read rules from a reply: one JSON object, optionally between code fences, with one string per variation.

    Keys are compared folded (``text.folded``), because models drop zero-width joiners. The result has the names of
    ``variations`` as keys.
    """
    text = reply.strip()
    parts = text.split(FENCE)
    fenced = len(parts) == 3 and not parts[0].strip() and not parts[2].strip()
    if fenced:
        text = parts[1].strip()
        label, _, rest = text.partition("\n")
        text = rest if label.strip().casefold() == "json" else text
    problem, texts = _reply_texts(text, [variation_name(forms) for forms in variations])
    return RulesReply(None if problem else texts, problem, fenced)


def _reply_texts(text: str, names: Sequence[str]) -> tuple[str, dict[str, str]]:
    try:
        data = strict_json(text)
    except ValueError as error:
        return f"it is not JSON ({error})" if text else "it is empty", {}
    if not isinstance(data, dict):
        return "it is not a JSON object", {}
    remaining = dict(data)
    values: dict[str, Any] = {}
    # Exact matches come first, because two variations may be equal after folding.
    for normalise in (str, folded):
        for name in names:
            key = next((key for key in remaining if normalise(key) == normalise(name)), None)
            if name not in values and key is not None:
                values[name] = remaining.pop(key)
    missing = [name for name in names if name not in values]
    if missing:
        return f"the key {short(missing[0])} is missing", {}
    if remaining:
        return f"the key {short(next(iter(remaining)))} was not asked for", {}
    for name, value in values.items():
        if not isinstance(value, str) or not value.strip():
            return f"the value of {short(name)} is not a text", {}
        if not is_unicode(value):
            return f"the value of {short(name)} has half a surrogate pair", {}
        if len(value) > LONGEST_RULE:
            return f"the value of {short(name)} is longer than {LONGEST_RULE} characters", {}
    return "", {name: values[name].strip() for name in names}


FORMAT = "dtails-rules 1"


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
        variations = list(names)
        return tuple(
            rule for rule in self.rules if any(_same([rule.variation], [name]) for name in variations)
        )

    def fits(self, concept: str, variations: Variations) -> bool:
        """Return True if the rules are for this concept with exactly these variations, in any order."""
        return self.concept == concept and _same(
            (rule.variation for rule in self.rules), map(variation_name, variations)
        )


@dataclass(frozen=True, slots=True)
class RulesFile:
    """The rules of one model for one language."""

    language: str
    model: str
    concepts: tuple[ConceptRules, ...]

    def find(self, concept: str, variations: Variations, pos: str = "") -> ConceptRules | None:
        """Return the rules for a concept with these variations; if two fit, those of the part of speech."""
        fitting = [entry for entry in self.concepts if entry.fits(concept, variations)]
        same = [entry for entry in fitting if entry.pos == pos]
        return next(iter(same or fitting), None)

    def to_json(self) -> str:
        """Return the file's text: indented JSON without escapes for non-ASCII characters."""
        data = {
            "format": FORMAT,
            "language": self.language,
            "model": self.model,
            "concepts": [
                {
                    "concept": entry.concept,
                    "pos": entry.pos,
                    "sentences": entry.sentences,
                    "variations": [
                        {"variation": rule.variation, "sentences": rule.sentences, "rule": rule.text}
                        for rule in entry.rules
                    ],
                }
                for entry in self.concepts
            ],
        }
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
    _check_keys(data, {"format": str, "language": str, "model": str, "concepts": list}, where)
    if data["format"] != FORMAT:
        _fail(where, f"format is {short(data['format'])}", f'this version reads "{FORMAT}"')
    if not data["language"].strip():
        _fail(where, "the language is empty", 'write a code such as "af"')
    concepts = tuple(
        _concept(entry, f"{where}: concept {number}") for number, entry in enumerate(data["concepts"], 1)
    )
    if not concepts:
        _fail(where, "there are no concepts", "run `llmprops dtails rules` again")
    for number, entry in enumerate(concepts, 1):
        for other in concepts[: number - 1]:
            if entry.pos == other.pos and entry.fits(
                other.concept, [rule.variation.split("/") for rule in other.rules]
            ):
                _fail(f"{where}: concept {number}", f"{short(entry.concept)} is repeated", "remove one")
    return RulesFile(data["language"], data["model"], concepts)


def check_covers(
    rules: RulesFile, language: str, concepts: Iterable[tuple[str, str, Variations]], where: str
) -> None:
    """Check that a rules file has the rules for all concepts.

    :param concepts: (concept, part of speech, variations) of all selected items.
    :raises UsageError: The file is for another language, or has no rules for a concept's variations. The message
        names the first such concept.
    """
    if rules.language != language:
        raise UsageError(
            f"{where}: rules for '{rules.language}', not '{language}'; use the file for '{language}'"
        )
    missing = [
        (concept, variations)
        for concept, pos, variations in concepts
        if rules.find(concept, variations, pos) is None
    ]
    if not missing:
        return
    concept, variations = missing[0]
    names = ", ".join(map(variation_name, variations))
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    is_known = any(entry.concept == concept for entry in rules.concepts)
    what = "has other variations in this file" if is_known else "is not in this file"
    raise UsageError(
        f"{where}: rules for other concepts: {short(concept)} ({short(names)}) {what}{more};"
        f" make them with `llmprops dtails rules --lang {language}`"
    )


def _concept(entry: Any, where: str) -> ConceptRules:
    _check_keys(entry, {"concept": str, "pos": str, "sentences": int, "variations": list}, where)
    if not entry["concept"].strip():
        _fail(where, "the concept is empty", "write the English word")
    where = f"{where} ({entry['concept']})"
    rules = []
    for number, item in enumerate(entry["variations"], 1):
        place = f"{where}: variation {number}"
        _check_keys(item, {"variation": str, "sentences": int, "rule": str}, place)
        for key in ("variation", "rule"):
            if not item[key].strip():
                _fail(place, f"the {key} is empty", "write it, or remove the concept")
        if not is_unicode(item["rule"] + item["variation"]):
            _fail(place, "half a surrogate pair", "write the whole character")
        if len(item["rule"]) > LONGEST_RULE:
            _fail(place, f"the rule has {len(item['rule'])} characters", f"use at most {LONGEST_RULE}")
        if item["sentences"] < 0:
            _fail(place, f"sentences is {item['sentences']}", "write 0 or more")
        rules.append(Rule(item["variation"], item["rule"], item["sentences"]))
    names = [_key(rule.variation) for rule in rules]
    if len(names) < 2:
        _fail(where, f"there are rules for {len(names)} variation(s)", "a concept has at least two")
    if len(set(names)) < len(names):
        _fail(where, "a variation is repeated", "remove one")
    concept_rules = ConceptRules(entry["concept"], entry["pos"], tuple(rules))
    if entry["sentences"] != concept_rules.sentences:
        what = f"sentences is {entry['sentences']}, but its variations have {concept_rules.sentences}"
        _fail(where, what, "correct one of them")
    return concept_rules


def _check_keys(value: Any, types: Mapping[str, type], where: str) -> None:
    if not isinstance(value, dict):
        _fail(where, "not a JSON object", f"write one with the keys {', '.join(types)}")
    for key in types:
        if key not in value:
            _fail(where, f"the key '{key}' is missing", f"the keys are {', '.join(types)}")
    for key in value:
        if key not in types:
            _fail(where, f"unknown key {short(key)}", f"the keys are {', '.join(types)}")
    names = {str: "a string", int: "a whole number", list: "a list"}
    for key, kind in types.items():
        if type(value[key]) is not kind:
            _fail(where, f"'{key}' is {short(str(value[key]))}", f"it must be {names[kind]}")


def _key(name: str) -> frozenset[str]:
    return frozenset(form.strip() for form in name.split("/"))


def _same(names: Iterable[str], others: Iterable[str]) -> bool:
    # Folded, because an editor may save the same word in another Unicode form.
    def folded_names(texts: Iterable[str]) -> list[list[str]]:
        return sorted(sorted(map(folded, _key(text))) for text in texts)

    return folded_names(names) == folded_names(others)


def _fail(where: str, what: str, fix: str) -> NoReturn:
    raise DataError(f"{where}: {what}; {fix}")
