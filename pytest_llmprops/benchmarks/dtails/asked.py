"""From a logged prompt back to what it was made of: the inverses of :mod:`.prompts`.

A run record keeps prompts, not items, so this is how a report learns of an item's concept, its sentence and the
order in which the variations were shown. A reading counts only where making the prompt again gives the same text;
of a prompt in another wording (of an older version, or changed by hand) there is none. Two prompts that are the
same text cannot be told apart: a concept that holds ``" in "`` would be read too short.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_llmprops.benchmarks.dtails import prompts
from pytest_llmprops.benchmarks.dtails.text import quoted_list

#: stand for what is filled in, to find the words around it; characters for private use, which JSON leaves alone
_CONCEPT, _SENTENCE, _NAME, _LANGUAGE, _RULES = "\ue000", "\ue001", "\ue002", "\ue003", "\ue004"
_FOREIGN = ((_NAME,),)
_LIST = quoted_list([_NAME])


@dataclass(frozen=True, slots=True)
class Selection:
    """What a prompt for a choice was made of.

    :param names: the variations in the order shown, their forms joined by ``/``.
    :param language: name of the target language; empty without rules. :param rules: rule by variation name.
    :param retried: it is the prompt that goes out once more after a reply outside of the template.
    """

    concept: str
    sentence: str
    names: tuple[str, ...]
    language: str = ""
    rules: Mapping[str, str] = field(default_factory=dict)
    retried: bool = False


@dataclass(frozen=True, slots=True)
class RuleGeneration:
    """What a prompt for rules was made of; ``sentences`` by variation name, empty where the prompt had none."""

    concept: str
    names: tuple[str, ...]
    language: str
    sentences: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def read_selection(prompt: str) -> Selection | None:
    """The inverse of :func:`.prompts.selection` and :func:`.prompts.retried`; None for any other text."""
    found = _selection(prompt)
    if found is not None:
        return found
    before, after = prompts.retried("", _FOREIGN).split(_LIST)
    for place in _places(prompt, before) if prompt.endswith(after) else ():
        found = _selection(prompt[:place])
        if found is not None and prompts.retried(prompt[:place], _forms(found.names)) == prompt:
            return Selection(
                found.concept, found.sentence, found.names, found.language, found.rules, retried=True
            )
    return None


def _selection(prompt: str) -> Selection | None:
    language, rules, user = _rules(prompt)
    template = prompts.selection(
        _CONCEPT, _SENTENCE, _FOREIGN, language=_LANGUAGE if rules else "", rules=_RULES if rules else ""
    )
    template = template.rpartition("\n")[2]
    start, template = template.split(_CONCEPT)
    between, template = template.split(_SENTENCE)
    before, end = template.split(_LIST)
    concept, _, rest = user.removeprefix(start).partition(between)
    for place in _places(rest, before):
        names = read_list(rest[place + len(before) :].removesuffix(end))
        if names is None:
            continue
        found = Selection(concept, rest[:place], names, language, rules)
        text = prompts.shown_rules(rules) if rules else ""
        again = prompts.selection(concept, found.sentence, _forms(names), language=language, rules=text)
        if again == prompt:
            return found
    return None


def _rules(prompt: str) -> tuple[str, dict[str, str], str]:
    """Language and rules of a prompt, and the rest of it; nothing, and the whole, where there are none."""
    template = prompts.selection(_CONCEPT, _SENTENCE, _FOREIGN, language=_LANGUAGE, rules=_RULES)
    start, between, before = template.partition(_RULES)[0].replace(_LANGUAGE, _CONCEPT).split(_CONCEPT)
    nothing: tuple[str, dict[str, str], str] = "", {}, prompt
    if not prompt.startswith(start):
        return nothing
    _, _, rest = prompt.removeprefix(start).partition(between)
    language, _, rest = rest.partition(before)
    rules, rest = _json(rest)
    if not isinstance(rules, dict) or not all(isinstance(text, str) for text in rules.values()):
        return nothing
    return language, rules, rest.removeprefix("\n")


def read_rule_generation(prompt: str) -> RuleGeneration | None:
    """The inverse of :func:`.prompts.rule_generation`, also where ``repaired`` put a problem behind it."""
    template = prompts.rule_generation(_CONCEPT, _FOREIGN, _LANGUAGE).rpartition("\n")[2]
    start, template = template.split(_CONCEPT)
    between, template = template.split(_LANGUAGE)
    before, after = template.split(_LIST)
    with_sentences = prompts.rule_generation(_CONCEPT, _FOREIGN, _LANGUAGE, {_NAME: [_SENTENCE]})
    lead = with_sentences.rpartition(after)[2].partition("{")[0]
    concept, _, rest = prompt.partition("\n")[2].removeprefix(start).partition(between)
    language, _, rest = rest.partition(before)
    listed, _, rest = rest.partition(after)
    names = read_list(listed)
    if names is None:
        return None
    sentences: dict[str, tuple[str, ...]] = {}
    if rest.startswith(lead):
        given, _ = _json(rest.removeprefix(lead))
        if not isinstance(given, dict) or not all(isinstance(texts, list) for texts in given.values()):
            return None
        sentences = {name: tuple(map(str, texts)) for name, texts in given.items()}
    again = prompts.rule_generation(concept, _forms(names), language, sentences)
    if prompt != again and not prompt.startswith(prompts.repaired(again, _RULES).partition(_RULES)[0]):
        return None
    return RuleGeneration(concept, names, language, sentences)


def read_translation(prompt: str) -> str | None:
    """The sentence of a chat model's prompt for a translation; None for any other text."""
    start, between = prompts.translation("", _LANGUAGE).split(_LANGUAGE)
    language, _, sentence = prompt.removeprefix(start).partition(between)
    return sentence if prompts.translation(sentence, language) == prompt else None


def read_list(text: str) -> tuple[str, ...] | None:
    """The inverse of :func:`.text.quoted_list`; None for any other text."""
    if not (text.startswith("[") and text.endswith("]")):
        return None
    rest, names = text[1:-1], []
    while rest:
        mark = rest[0]
        end = rest.find(mark, 1)
        # Double quotes stand around a text with a single one in it, and it may hold double ones, too.
        while end > 0 and rest[end + 1 : end + 3] not in ("", ", "):
            end = rest.find(mark, end + 1)
        if mark not in "'\"" or end < 0:
            return None
        names.append(rest[1:end])
        rest = rest[end + 1 :].removeprefix(", ")
    return tuple(names) if quoted_list(names) == text else None


def _forms(names: tuple[str, ...]) -> list[tuple[str]]:
    return [(name,) for name in names]


def _json(text: str) -> tuple[Any, str]:
    """The JSON value at the start of ``text``, and what follows; None and ``text`` where there is none."""
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None, text
    return value, text[end:]


def _places(text: str, part: str) -> Iterator[int]:
    """Where ``part`` stands in ``text``, from the right."""
    place = text.rfind(part)
    while place >= 0:
        yield place
        # One character further left is enough: an overlapping place counts, too.
        place = text.rfind(part, 0, place + len(part) - 1)
