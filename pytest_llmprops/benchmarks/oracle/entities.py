"""Locate extracted entities in their sentence.

Only an entity that occurs literally in the sentence can be replaced, so only those are in the vectors. The others are
kept and counted. If mentions overlap, the longer entity gets the span. An entity whose mentions are all inside longer
ones is *contained* ("Mohammed" next to "Mohammed's family"). Replacing it would also change the longer entity, so it
is left out of the vectors too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pytest_llmprops.benchmarks.oracle.extraction import Extracted, normalised

#: maximum entities of a sentence that are tested, the first ones: {0,1}^12 has 4,096 vectors
MOST_ENTITIES = 12

#: ``tested`` if an entity is in the vectors, otherwise why it is not
State = Literal["tested", "not_literal", "contained", "no_synonym"]

_APOSTROPHE = "['’‘ʼ]"
_DASH = "[-‐‑‒–—]"
_LEADING = re.compile(r"(?:the|an?)\s+(?=\S)", re.I)
_POSSESSIVE = re.compile(rf"{_APOSTROPHE}s\Z", re.I)

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Entity:
    """One entity of the answer.

    :param name: the text of its first mention in the sentence, without article and possessive ``'s``; the model's
        text if the sentence does not contain it.
    :param kind: the model's class for it, lower case, or "".
    :param named: whether it is a named entity (appendix A.2); None if not decided yet.
    :param spans: its own mentions, as (start, end) in characters of the sentence, in order.
    :param inside: the normalised name of the longer entity that contains all its mentions; "" if it has its own.
    """

    name: str
    kind: str = ""
    named: bool | None = None
    spans: tuple[Span, ...] = ()
    inside: str = ""

    @property
    def key(self) -> str:
        """The normalised name, by which entities are compared."""
        return normalised(self.name)

    @property
    def literal(self) -> bool:
        """True if the sentence contains it, on its own or inside a longer entity."""
        return bool(self.spans or self.inside)

    @property
    def state(self) -> State:
        """``tested`` if it can be replaced, otherwise why not."""
        if self.spans:
            return "tested"
        return "contained" if self.inside else "not_literal"


def locate(extracted: Sequence[Extracted], sentence: str) -> tuple[Entity, ...]:
    """Return the entities with their mentions, in the order of the first mention. Entities without mentions are last.

    A mention is the name as whole words, with any kind of apostrophe, dash and white space. Mentions have the case of
    the name; if there are none, any case. The first letter of the sentence may have the other case. If the only
    mention with the name's case is there, mentions with the other case count too: "Dogs bark at dogs". Longer names
    get their mentions first.
    """
    taken: list[tuple[Span, str]] = []
    entities: list[Entity] = []
    for item in sorted(extracted, key=lambda e: (-len(_core(e.name)), e.name)):
        core = _core(item.name)
        mentions = _mentions(core, sentence)
        if item.name.rstrip(" '\"”’").endswith("."):
            mentions = [_with_full_stop(span, sentence) for span in mentions]
        free = [span for span in mentions if not any(_overlap(span, other) for other, _ in taken)]
        name = sentence[slice(*free[0])] if free else core if mentions else item.name
        entity = Entity(name, item.kind, spans=tuple(free))
        if mentions and not free:
            entity = replace(entity, inside=next(key for span, key in taken if _overlap(mentions[0], span)))
        taken += [(span, entity.key) for span in free]
        entities.append(entity)
    order = {normalised(item.name): place for place, item in enumerate(extracted)}
    end = len(sentence)
    return tuple(
        sorted(entities, key=lambda e: (e.spans[0][0] if e.spans else end, order.get(e.key, 0), e.key))
    )


def _core(name: str) -> str:
    """Return the part of a name that is replaced: without leading article, possessive and surrounding marks."""
    core = name.strip(" \t\n'\"“”‘’*_.,;:!?()[]{}")
    core = _POSSESSIVE.sub("", core)
    shorter = _LEADING.sub("", core, count=1) if _LEADING.match(core) else core
    return shorter or core


def _mentions(core: str, sentence: str) -> list[Span]:
    if not core:
        return []
    pattern = r"\s+".join(map(re.escape, core.split()))
    pattern = re.sub("['’‘ʼ]", lambda _: _APOSTROPHE, pattern)
    pattern = re.sub(r"(?:\\)?[-‐‑‒–—]", lambda _: _DASH, pattern)
    # Only a letter or digit at the end of the name needs a word boundary: "U.S." and "C++" do not end in one.
    left = r"(?<!\w)" if core[0].isalnum() else ""
    right = r"(?!\w)" if core[-1].isalnum() else ""
    for flags in (0, re.IGNORECASE):
        spans = [match.span() for match in re.finditer(left + pattern + right, sentence, flags)]
        if spans:
            break
    else:
        return []
    begin = next((place for place, letter in enumerate(sentence) if letter.isalnum()), 0)
    starts = [span for span in spans if span[0] == begin]
    if core[0].swapcase() == core[0] or (starts and len(spans) > 1):
        return spans
    other = re.escape(core[0].swapcase()) + pattern[len(re.escape(core[0])) :]
    more = [match.span() for match in re.finditer(left + other + right, sentence)]
    # Otherwise "mode" and "MODE", or "apple" and "Apple", are different names.
    return sorted({*spans, *(span for span in more if starts or span[0] == begin)})


def _with_full_stop(span: Span, sentence: str) -> Span:
    """Include the full stop of an abbreviation ("Acme Inc. said"), unless it may end the sentence."""
    start, stop = span
    has_stop = sentence[stop : stop + 1] == "." and sentence[stop + 1 :].strip(" \"'”’)")
    return (start, stop + 1) if has_stop else span


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


# The replacement R(v): synonyms replace the entities whose bits are 1 in the vector v (section 3.1).

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
    """Return True if a word takes "an", by its first letter and common exceptions. Acronyms are spelt out."""
    text = text.lstrip("\"'“‘( ")
    if _ACRONYM.match(text):
        return text[0] in _VOWEL_NAMES
    word = text.lower()
    if _AN.match(word):
        return True
    return word[:1] in "aeiouáéíóúàèìòùäëïöüâêîôû" and bool(word) and not _A.match(word)


_WORD = re.compile(r"[^\W_](?:[\w'’.+#/:-]*[\w+#])?")
#: what may be before a word that begins a sentence or a quotation
_BEGINS = re.compile(r"(?:\A|[.!?:;…][\"'“”‘’)\]]*\s|[\"“‘(\[]|(?:\A|\s)['–—-])\s*\Z")
#: a digit, an underscore, a capital after a small letter, or two capitals in a row
_IDENTIFIER = re.compile(r"\d|\w_\w|[a-z][A-Z]|[A-Z]{2}|\w::\w")
_PRONOUN = re.compile(r"I(?:['’]\w+)?\Z")
#: words that a heading in capitals writes small
_SMALL = frozenset(
    {
        "a", "an", "and", "as", "at", "but", "by", "for", "from", "in", "into", "of", "on", "or", "over", "the", "to",
        "via", "vs", "with",
    }
)  # fmt: skip


def written_names(sentence: str) -> tuple[str, ...]:
    """Return the words that are names by how they are written, in order, each once.

    These are words with a capital where no sentence begins, numbers in digits, and technical identifiers such as
    ``MAX_SIZE`` or ``readAll``. In a heading, whose words all have capitals, these tell nothing.
    """
    words = [match for match in _WORD.finditer(sentence) if any(map(str.isalnum, match[0]))]
    is_heading = all(match[0] in _SMALL or not match[0][0].islower() for match in words)
    names = []
    for match in words:
        word = match[0]
        if is_heading:
            is_name = any(map(str.isdigit, word))
        else:
            begins = _BEGINS.search(sentence, 0, match.start())
            is_name = bool(_IDENTIFIER.search(word)) or (word[0].isupper() and not begins)
        if is_name and not _PRONOUN.match(word):
            names.append(word)
    return tuple(dict.fromkeys(names))
