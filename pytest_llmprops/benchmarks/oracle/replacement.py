"""The replacement R(v): synonyms replace the entities whose bits are 1 in the vector v (section 3.1).

Optionally, R(v) is an entity-preserving paraphrase of that sentence (section 3.2).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_llmprops.benchmarks.oracle.entities import Entity
from pytest_llmprops.benchmarks.oracle.extraction import contains_words, normalised
from pytest_llmprops.benchmarks.oracle.scheme import fill

_INDEFINITE = re.compile(r"(?<!\w)(an?)(\s+[\"'“‘(]*)\Z", re.I)
_ARTICLE_BEFORE = re.compile(r"(?<!\w)(?:the|an?)\s+[\"'“‘(]*\Z", re.I)
_THE = re.compile(r"the\s+(?=\S)", re.I)
_ACRONYM = re.compile(r"[A-Z][A-Z0-9]+\b|[A-Z]\b")
#: letters whose names begin with a vowel: an FBI agent
_VOWEL_NAMES = "AEFHILMNORSX"
#: words whose first sound differs from their first letter
_AN = re.compile(r"(?:hour|honest|honou?r|heir)|8|1[18](?!\d)")
_A = re.compile(r"(?:uni(?![dmn])|us[aeu]|eu|ewe|one\b|once\b|ub|uk|ura|ut[aei])")


@dataclass(frozen=True, slots=True)
class Mention:
    """The position of an entity or its synonym in a transformed sentence, in characters.

    :param entity: its index in the vector.
    :param replaced: whether the synonym is there.
    """

    entity: int
    start: int
    end: int
    replaced: bool


@dataclass(frozen=True, slots=True)
class Transformed:
    """A sentence R(v) with the positions of its entities, in order."""

    text: str
    mentions: tuple[Mention, ...]


def replaced(sentence: str, entities: Sequence[Entity], synonyms: Sequence[str], x: int) -> Transformed:
    """Return R(x): every mention of entity i is replaced by its synonym if bit i of ``x`` is 1.

    A synonym at the start of the sentence keeps the capital. An indefinite article before a synonym becomes "a" or "an"
    by its sound. A "the" in the synonym is dropped after an article. ``replaced(..., 0)`` is the sentence itself.

    :param entities: with spans that do not overlap.
    :param synonyms: one per entity.
    """
    spans = sorted((span, place) for place, entity in enumerate(entities) for span in entity.spans)
    parts: list[str] = []
    mentions: list[Mention] = []
    done = length = 0
    begins = next((place for place, letter in enumerate(sentence) if letter.isalnum()), 0)
    for (start, end), place in spans:
        swap = bool(x >> place & 1)
        text, before = sentence[start:end], sentence[done:start]
        if swap:
            text = synonyms[place]
            if _ARTICLE_BEFORE.search(before):
                text = _THE.sub("", text, count=1) if _THE.match(text) else text
            before = _with_article(before, text)
            if start == begins and sentence[start].isupper():
                text = text[:1].upper() + text[1:]
        length += len(before)
        mentions.append(Mention(place, length, length + len(text), swap))
        length += len(text)
        parts += [before, text]
        done = end
    return Transformed("".join([*parts, sentence[done:]]), tuple(mentions))


def _with_article(before: str, text: str) -> str:
    """Return ``before`` with the "a" or "an" at its end adapted to ``text``."""
    match = _INDEFINITE.search(before)
    if match is None:
        return before
    article = "an" if sounds_like_vowel(text) else "a"
    if match[1][0].isupper():
        article = article.upper() if len(match[1]) > 1 and match[1].isupper() else article.capitalize()
    return before[: match.start()] + article + match[2]


def sounds_like_vowel(text: str) -> bool:
    """Return whether a word takes "an", by its first letter and common exceptions. Acronyms are spelt out."""
    text = text.lstrip("\"'“‘( ")
    if _ACRONYM.match(text):
        return text[0] in _VOWEL_NAMES
    word = text.lower()
    if _AN.match(word):
        return True
    return word[:1] in "aeiouáéíóúàèìòùäëïöüâêîôû" and bool(word) and not _A.match(word)


def paraphrase_prompt(template: str, transformed: Transformed) -> str:
    """Return the prompt for an entity-preserving paraphrase, with each entity as the sentence has it."""
    forms = dict.fromkeys(transformed.text[mention.start : mention.end] for mention in transformed.mentions)
    return fill(template, text=transformed.text, entities=", ".join(f'"{form}"' for form in forms))


def read_paraphrase(reply: str, transformed: Transformed) -> str | None:
    """Return the paraphrase, or None if it is empty, unchanged, several lines, or lacks an entity."""
    text = reply.strip().strip('"“”').strip()
    key = normalised(text)
    if not key or "\n" in text or key == normalised(transformed.text):
        return None
    forms = (transformed.text[mention.start : mention.end] for mention in transformed.mentions)
    return text if all(contains_words(key, normalised(form)) for form in forms) else None
