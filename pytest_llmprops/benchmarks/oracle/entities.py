"""Extracted entities found again in their sentence: which stretches of text each of them is.

Only an entity that stands literally in the sentence can be replaced, so only those make up the vectors; the
others are kept and counted. Where mentions overlap, the longer entity has the stretch: an entity all of whose
mentions lie inside longer ones is *contained* ("Mohammed" beside "Mohammed's family"). It cannot be replaced by
itself, since that would change the other, and is left out of the vectors, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pytest_llmprops.benchmarks.oracle.extraction import Extracted, normalised

#: most entities of a sentence that can be tested: {0,1}^12 has 4,096 vectors
MOST_ENTITIES = 12

#: why an entity is not in the vectors; ``tested`` for those that are
State = Literal["tested", "not_literal", "contained", "no_synonym"]

_APOSTROPHE = "['’‘ʼ]"
_DASH = "[-‐‑‒–—]"
_LEADING = re.compile(r"(?:the|an?)\s+(?=\S)", re.I)
_POSSESSIVE = re.compile(rf"{_APOSTROPHE}s\Z", re.I)

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Entity:
    """One entity of the answer.

    :param name: as it stands in the sentence at its first mention, without article and possessive ``'s``; where it
        does not stand there, as the model wrote it.
    :param kind: the model's class for it, lower case, or "".
    :param named: whether it is a named entity (appendix A.2); None until that is decided.
    :param spans: its own mentions, as (start, end) in characters of the sentence, in order.
    :param inside: the normalised name of the longer entity that has all its mentions; "" where it has its own.
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
        """Whether it stands in the sentence, by itself or inside a longer entity."""
        return bool(self.spans or self.inside)

    @property
    def state(self) -> State:
        """Whether it can be replaced, else why not."""
        if self.spans:
            return "tested"
        return "contained" if self.inside else "not_literal"


def locate(extracted: Sequence[Extracted], sentence: str) -> tuple[Entity, ...]:
    """The entities with their mentions, those in the sentence in order of their first mention, then the others.

    A mention is the name as whole words, in its own case, else, where there is none such, in any case; with any kind
    of apostrophe, dash and white space. At the sentence's beginning its first letter may be of the other case, and
    a name of which only that mention has its own case is meant in the other one, too: "Dogs bark at dogs". Longer
    names choose their mentions first.
    """
    taken: list[tuple[Span, str]] = []
    found: list[Entity] = []
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
        found.append(entity)
    order = {normalised(item.name): place for place, item in enumerate(extracted)}
    far = len(sentence)
    return tuple(sorted(found, key=lambda e: (e.spans[0][0] if e.spans else far, order.get(e.key, 0), e.key)))


def _core(name: str) -> str:
    """The name without leading article, possessive and the marks around it: the part that is replaced."""
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
    # A border is asked for only beside a letter or digit: "U.S." and "C++" end in none.
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
    # Else "mode" and "MODE", "apple" and "Apple" are two.
    return sorted({*spans, *(span for span in more if starts or span[0] == begin)})


def _with_full_stop(span: Span, sentence: str) -> Span:
    """With the full stop of an abbreviation ("Acme Inc. said"), unless it may end the sentence."""
    start, stop = span
    more = sentence[stop : stop + 1] == "." and sentence[stop + 1 :].strip(" \"'”’)")
    return (start, stop + 1) if more else span


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]
