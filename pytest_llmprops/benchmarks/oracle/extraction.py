"""Entity extraction: the question (prompt 1, appendix A.1), its reply read as a list, and repeated askings.

Two extracted entities are the same when their names are equal once normalised (:func:`normalised`); the class is
no part of it, as a model that calls Paris once a city and once a location has found the same entity.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from pytest_llmprops.benchmarks.oracle.list_reply import LONGEST_READ, list_lines
from pytest_llmprops.core.requests import PLANNED, Reply
from pytest_llmprops.core.words import folded

#: prompt 1, word for word
PROMPT = """Please perform entity recognition for all entities in the following sentence: "{text}"

Present the result as a strictly formatted numbered list e.g.

"1. movie: Wizard of Oz
2. animal: tiger\""""

#: longest name that is taken for an entity, in characters; longer ones are remarks
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
        "none",
        "none found",
        "n/a",
        "na",
        "nothing",
        "empty",
        "no entities",
        "no entity",
        "no named entities",
        "-",
    }
)
_AFTER = re.compile(r"\s+[-–—]+\s+|\s*[(\[]")
_CLOSING = re.compile(r"(?<=[\"”»])[.,;]\Z")
_SPLIT = re.compile(r"\s*[,;]\s*(?:and\s+)?|\s+and\s+")


@dataclass(frozen=True, slots=True)
class Extracted:
    """One line of a list: the entity's name as the model writes it, and its class, lower case, or ""."""

    name: str
    kind: str = ""


@dataclass(frozen=True)
class ListReading:
    """A reply read as a list: ``entities`` (none at all where the reply says so), or None and the ``problem``."""

    entities: tuple[Extracted, ...] | None
    problem: str = ""

    @cached_property
    def names(self) -> Names | None:
        """The answer set: the normalised names."""
        return None if self.entities is None else frozenset(normalised(e.name) for e in self.entities)


@lru_cache(maxsize=4096)
def normalised(name: str) -> str:
    """The form in which names are compared.

    Unicode NFKC, case folded, invisible characters dropped, one space between words (``core.words.folded``); every
    kind of apostrophe, quotation mark and hyphen made one; quotes, brackets, emphasis and punctuation at the ends
    dropped; a possessive ``'s`` at the end dropped; leading articles dropped, as long as a word remains.
    """
    text = folded(name).translate(_QUOTE_MARKS)
    while True:
        shorter = text.strip(_EDGES).removesuffix("'s")
        shorter = _ARTICLE.sub("", shorter, count=1) if _ARTICLE.match(shorter) else shorter
        if shorter == text:
            return text
        text = shorter


def contains_words(text: str, part: str) -> bool:
    """Whether ``part`` stands in ``text`` as whole words; both normalised. Nothing stands in nothing."""
    start = text.find(part) if part else -1
    while start >= 0:
        stop = start + len(part)
        if not (_joins(text, start - 1, start) or _joins(text, stop - 1, stop)):
            return True
        start = text.find(part, start + 1)
    return False


def _joins(text: str, left: int, right: int) -> bool:
    return left >= 0 and right < len(text) and text[left].isalnum() and text[right].isalnum()


def read_list(reply: str, text: str = "") -> ListReading:
    """A reply to prompt 1 as entities, read leniently; never raises.

    Taken are numbered lines, else lines with bullets, else bare lines ``class: entity``; in code fences, with bold
    marks or quotes, after a preamble, or all on one line. A line is ``class: entity`` unless ``text`` decides
    otherwise: where a name is not in it but its first half is, the list is read as ``entity: class``; the same goes
    for ``entity (class)``, for remarks after the name, and for several names on one line. A name stands once.

    :param text: the sentence that was asked about; without it only the form decides.
    """
    if not reply.strip():
        return ListReading(None, "the reply is empty")
    reply = reply[:LONGEST_READ]
    lines = list_lines(reply)
    if not lines:
        bare = reply.strip(_EDGES).lower()
        if bare in _NONE or _SAYS_NONE.search(reply.replace("’", "'")):
            return ListReading(())
        return ListReading(None, "the reply is no list")
    where = normalised(text)
    pairs = [_halves(line, where) for line in lines]
    turned = _is_turned(pairs, text)
    found: dict[str, Extracted] = {}
    dropped = False
    for entity in (entity for pair in pairs for entity in _entities(*pair, where, turned)):
        key = normalised(entity.name)
        if key in _NONE or (_SAYS_NONE.search(entity.name[:LONGEST_NAME]) and not contains_words(where, key)):
            continue
        if any(map(str.isalnum, key)) and len(entity.name) <= LONGEST_NAME:
            found.setdefault(key, entity)
        else:
            dropped = True
    if dropped and not found:
        return ListReading(None, "the list has no names")
    return ListReading(tuple(found.values()))


def _halves(line: str, where: str) -> tuple[str, str]:
    """What stands before and after the first colon; ("", line) where no class stands before it."""
    left, _, right = line.partition(":")
    left, right = left.strip(_EDGES), right.strip()
    if not left or not right.strip(_EDGES):
        return "", line.strip()
    if (_NO_CLASS.search(left) or len(left.split()) > 4) and not contains_words(where, normalised(left)):
        return "", line.strip()
    # The colon may be part of the name: "Mission: Impossible", "Mission: Impossible (film)".
    head = _before_remark(line)[0] or line
    return ("", line.strip()) if contains_words(where, normalised(head)) else (left, right)


def _is_turned(pairs: Sequence[tuple[str, str]], text: str) -> bool:
    """Whether the list is ``entity: class``: on more lines only the first half stands in the sentence.

    A first half counts as it is written; in lower case before a capital it is a class whose word the sentence
    happens to have ("novel: Twilight", of a sentence on a novel).
    """
    where = normalised(text)
    first = second = 0
    for left, right in pairs:
        if left:
            found = contains_words(where, normalised(right))
            class_like = left.islower() and not right.islower()
            second += found
            first += not found and not class_like and contains_words(text, left)
    return first > second


def _entities(left: str, right: str, where: str, turned: bool) -> list[Extracted]:
    if turned and left:
        return [Extracted(_clean(left), _kind(right))]
    name, kind = _clean(right), _kind(left)
    if contains_words(where, normalised(name)):
        return [Extracted(name, kind)]
    parts = [part for part in _SPLIT.split(name) if part.strip(_EDGES)]
    if len(parts) > 1:
        # "Tom Cruise (actor), Nicole Kidman (actress)" are two with a remark each.
        bare = [
            part if contains_words(where, normalised(part)) else _before_remark(part)[0] for part in parts
        ]
        if all(contains_words(where, normalised(part)) for part in bare):
            return [Extracted(_clean(part), kind) for part in bare]
    head, rest = _before_remark(name)
    if head and (contains_words(where, normalised(head)) or not (where or left)):
        return [Extracted(head, kind or _kind(rest))]
    return [Extracted(name, kind)]


def _before_remark(name: str) -> tuple[str, str]:
    """``Tom Cruise (actor)`` and ``Tom Cruise - actor`` as name and remark; ("", "") without one."""
    found = _AFTER.search(name)
    if found is None or not name[: found.start()].strip(_EDGES):
        return "", ""
    return _clean(name[: found.start()]), name[found.end() :]


def _clean(name: str) -> str:
    """A name without quotes, emphasis and punctuation around it; brackets and full stops that belong to it stay."""
    name = _CLOSING.sub("", name).strip(' \t*_`"“”„«»').rstrip(",;:!")
    if name.startswith(("'", "‘")):
        name = name.strip("'‘’")
    return " ".join(name.split())


def _kind(text: str) -> str:
    return " ".join(text.strip(_EDGES).lower().split())[:60]


@dataclass(frozen=True)
class Samples:
    """The readings of one sentence's repeated askings, in order.

    :param refused: how many replies a content filter withheld; they are among the unread.
    :param planned: they are the empty replies of a plan.
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
        """Replies that are no list, cut off or refused."""
        return sum(reading.entities is None for reading in self.readings)

    def first_with(self, names: Names) -> tuple[Extracted, ...]:
        """The entities of the first reply whose set this is, as that reply writes them."""
        return next(r.entities for r in self.readings if r.entities is not None and r.names == names)


def samples_of(text: str, replies: Iterable[Reply]) -> Samples:
    """The replies to prompt 1 about ``text``. One that was cut off is unread: its last entities are not known."""
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
        else:
            readings.append(read_list(reply.text, text))
    return Samples(text, tuple(readings), refused, planned)


def most_frequent(sets: Sequence[Names]) -> tuple[Names, int]:
    """The set that came most often and how often; the first seen among equals. ``(frozenset(), 0)`` for none."""
    counts = Counter(sets)
    # Counter keeps the order of first appearance, and max the first of equals.
    return max(counts.items(), key=lambda item: item[1], default=(frozenset(), 0))
