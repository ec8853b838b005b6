"""Entity extraction: prompt 1 (appendix A.1), the list in its reply, and repeated samples.

Two extracted entities are the same if their normalised names are equal (:func:`normalised`). The class is ignored: a
model may call Paris a city in one reply and a location in another.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from pytest_llmprops.benchmarks.oracle.replies import LONGEST_READ, list_lines
from pytest_llmprops.core.requests import PLANNED, Reply
from pytest_llmprops.core.texts import folded

#: prompt 1, word for word
PROMPT = """Please perform entity recognition for all entities in the following sentence: "{text}"

Present the result as a strictly formatted numbered list e.g.

"1. movie: Wizard of Oz
2. animal: tiger\""""

#: maximum length of an entity's name, in characters; anything longer is a remark
LONGEST_NAME = 200

Names = frozenset[str]

_ARTICLE = re.compile(r"(?:the|an?) (?=\S)")
_QUOTE_MARKS = str.maketrans(
    {**dict.fromkeys("‘’‚‛`´ʼ", "'"), **dict.fromkeys("“”„‟«»", '"'), **dict.fromkeys("‐‑‒–—", "-")}
)
_EDGES = " \t\n'\"*_.,;:!?()[]{}<>|"
_NO_CLASS = re.compile(r"[^\w\s/&'-]")
_SAYS_NONE = re.compile(
    r"\b(?:no|zero|without)\s+(?:\w+\s+){0,3}entit(?:y|ies)\b"
    r"|(?:\bnot|n't)\s+(?:contain|have|include|mention|find|see|identify|detect)\b[^.\n]{0,40}\bentit(?:y|ies)\b",
    re.I,
)
_NONE = frozenset(
    {
        "none", "none found", "n/a", "na", "nothing", "empty", "no entities", "no entity", "no named entities",
        "-",
    }
)  # fmt: skip
_AFTER = re.compile(r"\s+[-–—]+\s+|\s*[(\[]")
_CLOSING = re.compile(r"(?<=[\"”»])[.,;]\Z")
_SPLIT = re.compile(r"\s*[,;]\s*(?:and\s+)?|\s+and\s+")


@dataclass(frozen=True, slots=True)
class Extracted:
    """One item of a list: the entity's name as the model writes it, and its class in lower case, or ""."""

    name: str
    kind: str = ""


@dataclass(frozen=True)
class ListReading:
    """A reply read as a list: ``entities`` (empty if the reply says there are none), or None and the ``problem``."""

    entities: tuple[Extracted, ...] | None
    problem: str = ""

    @cached_property
    def names(self) -> Names | None:
        """The answer set: the normalised names; None if the reply cannot be read."""
        return None if self.entities is None else frozenset(normalised(e.name) for e in self.entities)


@lru_cache(maxsize=4096)
def normalised(name: str) -> str:
    """Return the form in which names are compared.

    - Unicode NFKC, folded case, no invisible characters, one space between words (``core.texts.folded``)
    - one kind of apostrophe, quotation mark and hyphen
    - no quotes, brackets, emphasis and punctuation at the ends, and no possessive ``'s``
    - no leading articles, as long as a word remains
    """
    text = folded(name).translate(_QUOTE_MARKS)
    while True:
        shorter = text.strip(_EDGES).removesuffix("'s")
        shorter = _ARTICLE.sub("", shorter, count=1) if _ARTICLE.match(shorter) else shorter
        if shorter == text:
            return text
        text = shorter


def contains_words(text: str, part: str) -> bool:
    """Return True if ``text`` contains ``part`` as whole words. Both are normalised; "" is never contained."""
    start = text.find(part) if part else -1
    while start >= 0:
        stop = start + len(part)
        if not (_joins(text, start - 1, start) or _joins(text, stop - 1, stop)):
            return True
        start = text.find(part, start + 1)
    return False


def _joins(text: str, left: int, right: int) -> bool:
    return left >= 0 and right < len(text) and text[left].isalnum() and text[right].isalnum()


# Samples of one sentence, and above all null extractors, often reply alike.
@lru_cache(maxsize=512)
def read_list(reply: str, text: str = "") -> ListReading:
    """Read a reply to prompt 1 leniently as entities. Never raises.

    The items are those of :func:`list_lines`. A line is ``class: entity`` unless ``text`` contradicts: if the first
    halves are in it and the second halves are not, the list is read as ``entity: class``. In the same way, ``text``
    decides on ``entity (class)``, on remarks after the name, and on several names on one line. Each name is kept once.

    :param text: the sentence of the prompt; without it, only the form of the lines counts.
    """
    if not reply.strip():
        return ListReading(None, "the reply is empty")
    reply = reply[:LONGEST_READ]
    lines = list_lines(reply)
    if not lines:
        if reply.strip(_EDGES).lower() in _NONE or _SAYS_NONE.search(reply.replace("’", "'")):
            return ListReading(())
        return ListReading(None, "the reply is not a list")
    sentence = normalised(text)
    pairs = [_halves(line, sentence) for line in lines]
    is_entity_first = _is_entity_first(pairs, text)
    entities: dict[str, Extracted] = {}
    dropped = False
    for entity in (entity for pair in pairs for entity in _entities(*pair, sentence, is_entity_first)):
        key = normalised(entity.name)
        says_none = _SAYS_NONE.search(entity.name[:LONGEST_NAME]) and not contains_words(sentence, key)
        if key in _NONE or says_none:
            continue
        if any(map(str.isalnum, key)) and len(entity.name) <= LONGEST_NAME:
            entities.setdefault(key, entity)
        else:
            dropped = True
    if dropped and not entities:
        return ListReading(None, "the list has no names")
    return ListReading(tuple(entities.values()))


def _halves(line: str, sentence: str) -> tuple[str, str]:
    """Split a line at its first colon into class and entity; ("", line) if no class comes before the colon."""
    left, _, right = line.partition(":")
    left, right = left.strip(_EDGES), right.strip()
    if not left or not right.strip(_EDGES):
        return "", line.strip()
    if (_NO_CLASS.search(left) or len(left.split()) > 4) and not contains_words(sentence, normalised(left)):
        return "", line.strip()
    # The colon may be part of the name: "Mission: Impossible", "Mission: Impossible (film)".
    head = _before_remark(line)[0] or line
    return ("", line.strip()) if contains_words(sentence, normalised(head)) else (left, right)


def _is_entity_first(pairs: Sequence[tuple[str, str]], text: str) -> bool:
    """Return True if the list is ``entity: class``: on more lines, the sentence contains only the first half.

    The case of a first half counts. In lower case before a capital, it is a class that is also a word of the sentence
    ("novel: Twilight", for a sentence about a novel).
    """
    sentence = normalised(text)
    first = second = 0
    for left, right in pairs:
        if left:
            has_second = contains_words(sentence, normalised(right))
            class_like = left.islower() and not right.islower()
            second += has_second
            first += not has_second and not class_like and contains_words(text, left)
    return first > second


def _entities(left: str, right: str, sentence: str, is_entity_first: bool) -> list[Extracted]:
    if is_entity_first and left:
        return [Extracted(_clean(left), _kind(right))]
    name, kind = _clean(right), _kind(left)
    if contains_words(sentence, normalised(name)):
        return [Extracted(name, kind)]
    parts = [part for part in _SPLIT.split(name) if part.strip(_EDGES)]
    if len(parts) > 1:
        # "Tom Cruise (actor), Nicole Kidman (actress)" are two names, each with a remark.
        heads = [
            part if contains_words(sentence, normalised(part)) else _before_remark(part)[0] for part in parts
        ]
        if all(contains_words(sentence, normalised(part)) for part in heads):
            return [Extracted(_clean(part), kind) for part in heads]
    head, rest = _before_remark(name)
    if head and (contains_words(sentence, normalised(head)) or not (sentence or left)):
        return [Extracted(head, kind or _kind(rest))]
    return [Extracted(name, kind)]


def _before_remark(name: str) -> tuple[str, str]:
    """Split ``Tom Cruise (actor)`` or ``Tom Cruise - actor`` into name and remark; ("", "") without a remark."""
    match = _AFTER.search(name)
    if match is None or not name[: match.start()].strip(_EDGES):
        return "", ""
    return _clean(name[: match.start()]), name[match.end() :]


def _clean(name: str) -> str:
    """Remove quotes, emphasis and punctuation around a name. Brackets and full stops that belong to it stay."""
    name = _CLOSING.sub("", name).strip(' \t*_`"“”„«»').rstrip(",;:!")
    if name.startswith(("'", "‘")):
        name = name.strip("'‘’")
    return " ".join(name.split())


def _kind(text: str) -> str:
    return " ".join(text.strip(_EDGES).lower().split())[:60]


@dataclass(frozen=True)
class Samples:
    """The sampled replies about one sentence, read as lists, in order.

    :param refused: number of replies that a content filter withheld; also counted as unread.
    :param planned: whether they are the empty replies of a plan.
    """

    text: str
    readings: tuple[ListReading, ...]
    refused: int = 0
    planned: bool = False

    @cached_property
    def sets(self) -> list[Names]:
        """The answer sets of the replies that could be read, in order."""
        return [names for reading in self.readings if (names := reading.names) is not None]

    @property
    def unread(self) -> int:
        """Number of replies that are not a list, cut off or refused."""
        return sum(reading.entities is None for reading in self.readings)

    def first_with(self, names: Names) -> tuple[Extracted, ...]:
        """Return the entities of the first reply with the answer set ``names``, as that reply writes them."""
        return next(r.entities for r in self.readings if r.entities is not None and r.names == names)


def samples_of(text: str, replies: Iterable[Reply]) -> Samples:
    """Read the replies to prompt 1 about ``text``. A reply that was cut off is unread: its end is unknown."""
    readings = []
    refused = 0
    planned = False
    for reply in replies:
        planned = planned or reply.key == PLANNED
        if reply.finish_reason == "content_filter":
            refused += 1
            readings.append(ListReading(None, "a content filter refused"))
        elif reply.finish_reason == "length":
            readings.append(ListReading(None, "the reply is cut off"))
        elif len(reply.text) > LONGEST_READ:
            readings.append(ListReading(None, f"the reply has more than {LONGEST_READ:,} characters"))
        else:
            readings.append(read_list(reply.text, text))
    return Samples(text, tuple(readings), refused, planned)


def most_frequent(sets: Sequence[Names]) -> tuple[Names, int]:
    """Return the most frequent set and its count; the first of equally frequent ones; ``(frozenset(), 0)`` for none."""
    counts = Counter(sets)
    # Counter keeps the order of first appearance, and max returns the first of equals.
    return max(counts.items(), key=lambda item: item[1], default=(frozenset(), 0))


def together(several: Sequence[Samples]) -> Samples:
    """Return all replies about one sentence, those with the most frequent set first."""
    readings = [reading for samples in several for reading in samples.readings]
    names, times = most_frequent([r.names for r in readings if r.names is not None])
    if times:
        readings.sort(key=lambda reading: reading.names != names)
    return Samples(several[0].text, tuple(readings), sum(s.refused for s in several))
