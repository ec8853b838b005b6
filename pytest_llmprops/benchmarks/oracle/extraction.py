"""Entity extraction: prompt 1 (appendix A.1), the list in its reply, and repeated samples.

Two extracted entities are the same if their normalised names are equal (:func:`normalised`). The class is ignored: a
model may call Paris a city in one reply and a location in another.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from pytest_llmprops.benchmarks.oracle.replies import (
    LONGEST_READ,
    after_correction,
    is_aside,
    list_lines,
    without_asides,
)
from pytest_llmprops.benchmarks.oracle.scheme import Oracle, fill
from pytest_llmprops.core.reply_json import found_json
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
_EDGES = " \t\n'\"*_.,;:!?()[]{}<>|（）"
_NO_CLASS = re.compile(r"[^\w\s/&'-]")
_SAYS_NONE = re.compile(
    r"\b(?:no|zero|without)\s+(?:\w+\s+){0,3}entit(?:y|ies)\b"
    r"|(?:\bnot|n't)\s+(?:contain|have|include|mention|find|see|appear|seem|any)\b[^.\n]{0,40}\bentit(?:y|ies)\b"
    r"|(?:\bnot|n't)\s+(?:identify|detect)\s+any\b[^.\n]{0,40}\bentit(?:y|ies)\b"
    r"|\bthere (?:are|were|is) none\b|\bentit(?:y|ies)\W{0,4}[:：]\W{0,4}none\b",
    re.I,
)
_NONE = frozenset(
    {
        "none", "none found", "n/a", "na", "nothing", "empty", "no entities", "no entity", "no named entities",
        "empty list", "-",
    }
)  # fmt: skip
_AFTER = re.compile(r"\s+[-–—]+\s+|\s*[(\[（]")
_LAST_REMARK = re.compile(r"[^)\]）,;]+[)\]）]\W*")
_CLOSING = re.compile(r"(?<=[\"”»'’])[.,;]\Z")
#: no comma between digits: "12,500 vans"
_SPLIT = re.compile(r"\s*(?:(?<!\d),|,(?!\d)|[;、，；])\s*(?:and\s+)?|\s+and\s+")
_PLURAL = re.compile(r".*[a-rt-z]s|people|persons")

# Prompt 1 and its example; what a model repeats of them is no answer.
_PROMPT = re.compile(
    r"Please perform entity recognition for all entities in[^\n]*|Present the result as a strictly formatted[^\n]*",
    re.I,
)
_EXAMPLE = frozenset({("movie", "wizard of oz"), ("animal", "tiger")})

_TAB = re.compile(r"(?<=[^\s.):•*-])\t")
_SEPARATOR = re.compile(
    r" ?[:：;] ?| ?(?:=>|->|→|⇒|=) ?| [-–—]+ | ?[–—] ?| ?\| ?| / | (?:is|was) (?:an?|the) "
)
#: ``[city] Huy``, ``(city) Huy``, ``<city> Huy``
_MARKED_CLASS = re.compile(r"[\[(<]([A-Za-z][\w /&-]{0,40})[\])>][:：]? ?(\S.*)")
#: how all lines of a list are split if no sign separates entity and class; the class is the part without blanks
_WHOLE_LIST = (
    re.compile(r"(?P<name>.+), ?(?P<kind>[^,]{1,40})"),
    re.compile(r"(?P<kind>[^,]{1,40}), ?(?P<name>.+)"),
    re.compile(r"(?P<kind>\w+)-(?P<name>.+)"),
    re.compile(r"(?P<name>.+)-(?P<kind>\w+)"),
)
_CLASS_BEFORE = re.compile(r"[A-Za-z]\w*(?: \w+){0,2}(?: [-–—]+ | ?(?:=>|->|→|⇒|=) ?)[^\s-]")
_DETAIL = re.compile(r"(?<![^,;|(\s])(?:entity )?(?:type|class|category|label)\s?[:=]\s?", re.I)
_NAME_DETAIL = re.compile(r"(?<=[,;|\s])(?:entity )?(?:name|text|value|entity)\s?[:=]\s?", re.I)
_NAME_KEYS = frozenset(
    {
        "entity",
        "name",
        "text",
        "value",
        "word",
        "mention",
        "span",
        "term",
        "entity name",
        "entity text",
        "entity value",
    }
)
_KIND_KEYS = frozenset(
    {
        "type",
        "class",
        "category",
        "label",
        "kind",
        "tag",
        "entity type",
        "entity class",
        "entity category",
        "entity label",
    }
)
_NOTE_KEYS = frozenset({"error", "message", "note", "notes", "explanation", "reason", "comment"})
_COUNTS = re.compile(r"(?:entity |item )?(?:#|no\.?|number|id|index|\d+)|entity \d+", re.I)
_CONTAINERS = re.compile(
    r"(?:named |recogni[sz]ed |extracted )?(?:entit(?:y|ies)|ner|results?|data|outputs?|list|items?|answer|response)",
    re.I,
)
_UNMARKED = re.compile(r"[\s\"“'>]*(?P<left>[A-Za-z][\w /&-]{0,40})[:：]\s?[^\s_].*")
_REMARK = re.compile(
    r"(?:note|sentence|explanation|sorry|input|text|answer|here|output)\b(?: \w+){0,4}[:：]", re.I
)
_PROSE = re.compile(r" (?:is|was) (?:an?|the) ")
_LEAD = re.compile(
    r"\bentit(?:y|ies)\b(?! \d)[^.:：\n]{0,80}?(?:[:：=→]|->|\b(?:are|is|includes?|including)\b)[:：]? *(\S[^\n]*)",
    re.I,
)
#: HTML of a list: items and breaks begin a line
_HTML = re.compile(
    r"<(?P<line>li|br)\b[^<>\n]{0,80}>|</?(?:ol|ul|li|p|s|b|i|strong|em|div|span)\b[^<>\n]{0,80}>", re.I
)
#: a line of a record: ``- type: city``, ``  entity: Huy``
_FIELD = re.compile(r"[\s*•\d.)-]*(?P<key>[A-Za-z][A-Za-z _]{0,20}?)[\s*]*[:：][\s*]*(?P<value>\S.*)")
_TAGGED = re.compile(r"<([A-Za-z]\w{0,40})(?: [^<>\n]{0,80})?>([^<>\n]{1,200})</\1>")
#: maximum items of a list that are read; a sentence has far fewer entities
_MOST_ITEMS = 200
#: words of a class or an entity on a line without marks; a longer one is prose
_LONGEST_HALF = 6
#: repetitions of the prompt that are skipped
_MOST_PARTS = 4
#: words of a line without a class that is not in the sentence; a longer one is a remark
_LONGEST_UNKNOWN = 10


@dataclass(frozen=True, slots=True)
class Extracted:
    """One item of a list: the entity's name as the model writes it, and its class in lower case, or ""."""

    name: str
    kind: str = ""


@dataclass(frozen=True)
class ListReading:
    """A reply read as a list: ``entities`` (empty if the reply says there are none), or None and the ``problem``.

    :param form: ``JSON`` or ``list``, or ``no entities`` if the reply says that there are no entities.
    """

    entities: tuple[Extracted, ...] | None
    problem: str = ""
    form: str = ""

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

    A list is JSON anywhere in the reply, otherwise a table, numbered lines, bullets, lines ``class: entity``, or
    entities of the sentence on one line or one per line. A line is split into class and entity where one side is in
    ``text``; the other side is the class. Where ``text`` does not decide, the other lines do, and then the form: the
    class comes first. In the same way, ``text`` decides on ``entity (class)``, on remarks after the name, and on
    several names on one line. Each name is kept once. A repeated prompt, with its example, is unread.

    :param text: the sentence of the prompt; without it, only the form of the lines counts.
    """
    if not reply.strip():
        return ListReading(None, "the reply is empty")
    reply = _TAB.sub(" | ", reply[:LONGEST_READ])
    # A model may go on with another sentence after its answer: the first part with an answer counts.
    parts = [part for part in _PROMPT.split(reply) if part.strip(" \t\n\"'.:")]
    unread = None
    for part in parts[:_MOST_PARTS]:
        if corrected := after_correction(part, is_list=True):
            reading = _read_part(corrected, text)
            if reading.entities:
                return replace(reading, form=f"{reading.form} after a correction")
        reading = _read_part(part, text)
        if reading.entities is not None:
            return reading
        unread = unread or reading
    return unread or ListReading(None, "the reply repeats the prompt")


def _read_part(reply: str, text: str) -> ListReading:
    sentence = _Sentence(normalised(text), text)
    values, rest = found_json(reply)
    pairs = [pair for value in values[:_MOST_ITEMS] for pair in _json_pairs(value, sentence)]
    form = "JSON" if pairs else "list"
    if not pairs:
        pairs = _text_pairs(without_asides(rest), sentence)
    if not pairs:
        says_none = reply.strip(_EDGES).lower() in _NONE or _SAYS_NONE.search(reply.replace("’", "'"))
        if says_none or any(value in ((), []) or _is_empty(value) for value in values):
            return ListReading((), form="no entities")
        return ListReading(None, "the reply is not a list")
    is_entity_first = _is_entity_first(pairs[:_MOST_ITEMS], sentence)
    entities: dict[str, Extracted] = {}
    dropped, is_example = not all(map(any, pairs)), False
    for left, right in filter(any, pairs[:_MOST_ITEMS]):
        for entity in _entities(left, right, sentence, is_entity_first):
            key = normalised(entity.name)
            is_known = contains_words(sentence.normal, key)
            if key in _NONE or (
                _SAYS_NONE.search(f"{entity.kind}: {entity.name[:LONGEST_NAME]}") and not is_known
            ):
                continue
            if (entity.kind, key) in _EXAMPLE and not is_known:
                is_example = True
                continue
            is_remark = not (left or is_known) and bool(text) and len(key.split()) > _LONGEST_UNKNOWN
            if any(map(str.isalnum, key)) and len(entity.name) <= LONGEST_NAME and not is_remark:
                entities.setdefault(key, entity)
            else:
                dropped = True
    if not entities and (dropped or is_example):
        return ListReading(None, "the reply repeats the prompt" if is_example else "the list has no names")
    return ListReading(tuple(entities.values()), form=form if entities else "no entities")


@dataclass(frozen=True, slots=True)
class _Sentence:
    """The sentence of the prompt, normalised and as it is."""

    normal: str
    text: str

    def has(self, part: str) -> bool:
        """Return True if a name, with or without a remark, or all names of a list are in the sentence."""
        return self.known(part) > 0

    def known(self, part: str) -> int:
        """Return the length of the name or names in a part that are in the sentence; 0 if they are not all in it."""
        key = normalised(part)
        if key == self.normal:
            return 0
        if length := self._length(key) or self._length(normalised(_before_remark(part)[0])):
            return length
        return self.has_all(part)

    def has_all(self, part: str) -> int:
        """Return the length of two or more names that are all in the sentence; 0 for anything else."""
        parts = [p for p in _SPLIT.split(part) if p.strip(_EDGES)]
        lengths = [
            self._length(normalised(p)) or self._length(normalised(_before_remark(p)[0])) for p in parts
        ]
        return sum(lengths) if len(parts) > 1 and all(lengths) else 0

    def _length(self, key: str) -> int:
        return len(key) if contains_words(self.normal, key) else 0

    def has_whole(self, part: str) -> bool:
        """Return True if a name is in the sentence; a remark in brackets may follow."""
        key = normalised(part)
        if key != self.normal and contains_words(self.normal, key):
            return True
        head, remark = _before_remark(part)
        return (
            bool(remark)
            and remark.rstrip(" .*_")[-1:] in ")]）"
            and contains_words(self.normal, normalised(head))
        )


#: class and entity, or entity and class; "" and a line that is not split
_Pair = tuple[str, str]


def _is_empty(value: Any) -> bool:
    """Return True for ``{"entities": []}`` and ``{"entities": "none"}``."""
    if not isinstance(value, tuple):
        return False
    inners = [inner for key, inner in value if _plain(key) not in _NOTE_KEYS]
    return bool(inners) and all(
        inner in ((), [], None) or (isinstance(inner, str) and inner.strip(_EDGES).lower() in _NONE | {""})
        for inner in inners
    )


def _json_pairs(value: Any, sentence: _Sentence, kind: str = "") -> list[_Pair]:
    """Return the pairs in a JSON value; ``kind`` is the key above it."""
    if isinstance(value, str):
        if normalised(value) == sentence.normal:
            return []
        if kind and value.strip(_EDGES):
            return [(kind, value)]
        return _split_lines(list_lines(value) or [value], sentence)
    if isinstance(value, list):
        # [["city", "Huy"], ["city", "Ghent"]]
        halves = [
            inner for inner in value if isinstance(inner, list) and len(inner) == 2 and _are_texts(inner)
        ]
        if halves and len(halves) == len(value):
            return [(left, right) for left, right in halves]
        texts = [inner for inner in value if isinstance(inner, str)]
        if len(texts) == len(value) and not kind:
            texts = [text for text in texts if normalised(text) != sentence.normal]
            lines = list_lines("\n".join(texts))
            return _split_lines(lines if len(lines) == len(texts) else texts, sentence)
        return [pair for inner in value for pair in _json_pairs(inner, sentence, kind)]
    if not isinstance(value, tuple):
        return []
    texts_of = {_plain(key): inner for key, inner in value if isinstance(inner, str) and inner.strip(_EDGES)}
    names = [
        (key, name)
        for key, name in texts_of.items()
        if key in _NAME_KEYS and normalised(name) != sentence.normal
    ]
    if names and not any(isinstance(inner, (list, tuple)) and inner for _, inner in value):
        # {"entity": "city", "value": "Huy"}
        names.sort(key=lambda pair: pair[0] == "entity")
        key, name = next((pair for pair in names if sentence.has(pair[1])), names[0])
        kinds = [
            inner for other, inner in texts_of.items() if other in _KIND_KEYS | _NAME_KEYS and other != key
        ]
        return [(kinds[0] if kinds else kind, name)]
    pairs: list[_Pair] = []
    for key, inner in value:
        plain = _plain(key)
        is_note = plain in _NOTE_KEYS or (plain in _NAME_KEYS | _KIND_KEYS and names)
        if (is_note and isinstance(inner, str) and not sentence.has(inner)) or is_aside(plain):
            continue
        # {"1": "city: Huy"}, but not {"1964": "year"}
        is_name = sentence.has(key) and isinstance(inner, str)
        is_class = is_name and not any(map(sentence.has, _halves(inner, sentence)))
        is_other = not is_class and (_COUNTS.fullmatch(plain) or _CONTAINERS.fullmatch(plain))
        pairs += _json_pairs(inner, sentence, kind if is_other else key)
    return pairs


def _plain(key: str) -> str:
    """Return a key in lower case, with blanks for underscores."""
    return " ".join(key.replace("_", " ").casefold().split())


def _are_texts(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _text_pairs(reply: str, sentence: _Sentence) -> list[_Pair]:
    """Return the pairs of a list without JSON; an empty list if there is none."""
    reply = _HTML.sub(lambda m: "\n" if m["line"] else "", reply)
    tagged = [(m[1], m[2]) for m in _TAGGED.finditer(reply)]
    if tagged and any(sentence.has(name) for _, name in tagged):
        return [("" if kind.lower() == "entity" else kind, name) for kind, name in tagged]
    if table := _table(reply, sentence) or _records(reply):
        return table
    lines = list_lines(reply, sentence.has_whole if sentence.normal else None)
    if lines:
        return _split_lines([line for line in lines if line[-1] not in ":："] or lines, sentence)
    return _unmarked(reply, sentence)


def _table(reply: str, sentence: _Sentence) -> list[_Pair]:
    """Return the pairs of a table with bars; the sentence, or its heading, decides which column has the entities."""
    lines = [line.strip() for line in reply.splitlines() if "|" in line][:_MOST_ITEMS]
    rules = [line for line in lines if set(line) <= set("|-: \t+")]
    rows = [
        [cell.strip(" *_`") for cell in line.strip("|").split("|")]
        for line in lines
        if line not in rules and (rules or line.startswith("|"))
    ]
    width = max(map(len, rows), default=0)
    if width < 2:
        return []
    columns = [[row[n] if n < len(row) else "" for row in rows] for n in range(width)]
    heads = [_plain(column[0]) for column in columns]
    has_head = any(
        head in _NAME_KEYS | _KIND_KEYS or (_COUNTS.fullmatch(head) and not head.isdigit()) for head in heads
    ) or not any(sentence.has(head) for head in heads)
    body = [column[1:] if has_head else column for column in columns]
    choices = [n for n in range(width) if not _is_count(body[n])] or [width - 1]
    name = max(choices, key=lambda n: (sum(map(sentence.has, body[n])), heads[n] in _NAME_KEYS, n))
    others = [n for n in choices if n != name]
    kind = next((n for n in others if heads[n] in _KIND_KEYS), others[0] if others else None)
    return [
        ("" if kind is None else body[kind][n], cell)
        for n, cell in enumerate(body[name])
        if cell.strip(_EDGES)
    ]


def _records(reply: str) -> list[_Pair]:
    """Return the pairs of a list that has a line for each class and another one for each entity."""
    fields = [m for line in reply.splitlines() if (m := _FIELD.fullmatch(line))]
    names = [m["value"] for m in fields if _plain(m["key"]) in _NAME_KEYS]
    kinds = [m["value"] for m in fields if _plain(m["key"]) in _KIND_KEYS]
    return list(zip(kinds, names, strict=True)) if len(kinds) == len(names) else []


def _is_count(cells: Sequence[str]) -> bool:
    """Return True for 1, 2, 3 …"""
    return all(cell.strip(" .)") == str(n) for n, cell in enumerate(cells, 1))


def _unmarked(reply: str, sentence: _Sentence) -> list[_Pair]:
    """Return the pairs of a list without marks: ``class: entity``, one entity per line, or entities on one line."""
    lines = [" ".join(line.replace("**", "").replace("`", "").split()) for line in reply.splitlines()]
    lines = [line for line in lines if line]
    if not sentence.normal:
        return _split_lines([line for line in lines if _UNMARKED.fullmatch(line)], sentence)
    match = _LEAD.search("\n".join(lines))
    listed = [part for part in _SPLIT.split(match[1]) if part.strip(_EDGES)] if match else []
    if listed and 2 * sum(map(sentence.has, listed)) >= len(listed):
        return _split_lines(listed, sentence)
    lines = [line for line in lines if normalised(line) != sentence.normal and not _is_remark(line, sentence)]
    lines = [line for line in lines if len(lines) > 1 or not _PROSE.search(line)]
    lines = [
        part for line in lines if line[-1] not in ":：" and not _is_head(line) for part in _several(line)
    ]
    pairs = [
        (left, right)
        for line, (left, right) in zip(lines, _split_lines(lines, sentence), strict=False)
        if right != line
        and (max(len(left.split()), len(right.split())) <= _LONGEST_HALF or sentence.has_all(right))
        and (sentence.has(left) or sentence.has(right) or _UNMARKED.fullmatch(line))
    ]
    return pairs or [("", name) for name in _names(lines, sentence)]


def _names(lines: Sequence[str], sentence: _Sentence) -> list[str]:
    """Return the names on lines, or on one line, if all are in the sentence and do not just repeat a part of it."""
    if len(lines) > 1:
        # "Sure!", then all names on one line
        lines = [line for line in lines if sentence.has_all(line)] or lines
    names = (
        [part for part in _SPLIT.split(lines[0]) if part.strip(_EDGES)] if len(lines) == 1 else list(lines)
    )
    if not all(map(sentence.has_whole, names)):
        return []
    words = [name.lstrip(_EDGES).split() for name in names]
    is_part = contains_words(sentence.normal, normalised(" ".join(lines)))
    if is_part and any(
        word[:1].islower() for first in words for word in (first if len(names) == 1 else first[:1])
    ):
        return []
    return names if max(map(len, words), default=0) <= _LONGEST_HALF else []


def _is_remark(line: str, sentence: _Sentence) -> bool:
    remark = _REMARK.match(line)
    return remark is not None and not sentence.has(remark[0])


def _is_head(line: str) -> bool:
    """Return True for ``type,entity``."""
    return all(cell.strip().casefold() in _NAME_KEYS | _KIND_KEYS for cell in line.split(","))


def _split_lines(lines: Sequence[str], sentence: _Sentence) -> list[_Pair]:
    """Split each line of a list into class and entity, or entity and class; both are "" for ``Type: city``."""
    lines = [part for line in lines[:_MOST_ITEMS] for part in _several(" ".join(line.split()))]
    pairs = [_halves(line, sentence) for line in lines]
    unknown = [n for n, (left, right) in enumerate(pairs) if not left and not sentence.has_whole(right)]
    if any(left for left, _ in pairs) or all(_CLASS_BEFORE.match(pairs[n][1]) for n in unknown):
        # A line with a name that is not in the sentence, in a list of "city - Huy".
        for n in unknown:
            if match := _SEPARATOR.search(pairs[n][1], 1):
                left, right = pairs[n][1][: match.start()], pairs[n][1][match.end() :]
                pairs[n] = (left.strip(_EDGES), right) if right.strip(_EDGES) else pairs[n]
    for pattern in _WHOLE_LIST if sentence.normal and 2 * len(unknown) > len(pairs) else ():
        matches = [m for n in unknown if (m := pattern.fullmatch(pairs[n][1]))]
        names = sum(sentence.has_whole(m["name"]) for m in matches)
        kinds = sum(sentence.has(m["kind"]) for m in matches)
        if len(matches) == len(unknown) <= 2 * names and 2 * kinds <= len(unknown):
            for n, match in zip(unknown, matches, strict=True):
                pairs[n] = match["kind"], match["name"]
            break
    result: list[_Pair] = []
    for left, right in pairs:
        key = _plain(left)
        if key in _KIND_KEYS and not sentence.has(right):
            result.append(("", ""))
            continue
        result.append(
            ("" if key in _NAME_KEYS or (_COUNTS.fullmatch(key) and not sentence.has(key)) else left, right)
        )
    return result


#: the classes on one line
_LABELS = re.compile(r"(?:^|[.;|,]\s+|\s[|/]\s)(?=([^\W_][\w &-]{0,30}[:：]\s))")


def _several(line: str) -> list[str]:
    """Split ``city: Huy; city: Ghent`` and ``cities: Huy; Ghent. dates: 1987.`` into their pairs."""
    starts = [match.start(1) for match in _LABELS.finditer(line)]
    if len(starts) > 1 and starts[0] == 0 and not _DETAIL.search(line) and not _NAME_DETAIL.search(line):
        parts = [line[start:stop].strip(" ;|,/") for start, stop in itertools.pairwise([*starts, len(line)])]
        pairs = []
        for part in parts:
            label, _, names = part.replace("：", ":").partition(":")
            pairs += [f"{label}: {name}" for name in names.rstrip(" .").split(";") if name.strip(_EDGES)]
        return pairs
    parts = [part for part in re.split(r" ?[;,] | \| ", line) if part.strip(_EDGES)]
    is_pairs = len(parts) > 1 and all(
        (m := _SEPARATOR.search(part)) and m.start() and m.end() < len(part) and not _DETAIL.match(part)
        for part in parts
    )
    return parts if is_pairs else [line]


def _halves(line: str, sentence: _Sentence) -> _Pair:
    """Split a line where one side is in the sentence, otherwise at its first colon; ("", line) if it has no class."""
    # Entity: Huy, Type: city, or Type: city, Entity: Huy
    detail = _DETAIL.search(line)
    if detail and line[: detail.start()].strip(_EDGES):
        name = _halves(line[: detail.start()], sentence)
        return (line[detail.end() :].strip(_EDGES), name[1]) if name[1].strip(_EDGES) else name
    named = _NAME_DETAIL.search(line) if detail else None
    if detail and named:
        return line[detail.end() : named.start()].strip(_EDGES), line[named.end() :]
    if sentence.has_whole(line) or sentence.has_all(line):
        return "", line
    marked = _MARKED_CLASS.fullmatch(line)
    if marked:
        return marked[1], marked[2]
    best, halves = 0, ("", "")
    for match in itertools.islice(_SEPARATOR.finditer(line), 8):
        left, right = line[: match.start()].strip(_EDGES), line[match.end() :].strip()
        if left and right.strip(_EDGES):
            # "Mission: Impossible - movie": the sign that leaves the longest name.
            length = max(sentence.known(left), sentence.known(right))
            best, halves = (length, (left, right)) if length > best else (best, halves)
    if best:
        return halves
    left, _, right = line.replace("：", ":").partition(":")
    left, right = left.strip(_EDGES), right.strip()
    if not right.strip(_EDGES) or _NO_CLASS.search(left) or len(left.split()) > 4:
        return "", line.strip()
    return left, right


def _is_entity_first(pairs: Sequence[_Pair], sentence: _Sentence) -> bool:
    """Return True if the list is ``entity: class``: on more lines, the sentence contains only the first half."""
    first = sum(_side(left, right, sentence) == 1 for left, right in pairs if left)
    return first > sum(_side(left, right, sentence) == 2 for left, right in pairs if left)


def _side(left: str, right: str, sentence: _Sentence) -> int:
    """Return 1 or 2 if only this half is in the sentence, otherwise 0.

    The case of a first half counts. In lower case before a capital, or with a capital of its own, it is a class that is
    also a word of the sentence ("novel: Twilight", for a sentence about a novel).
    """
    has_left, has_right = sentence.has(left), sentence.has(right)
    if has_left and has_right and left.islower() != right.islower():
        # "SWPH: instruction": in lower case, it is the class.
        name = right if left.islower() else left
        return 1 + (name is right) if contains_words(sentence.text, name.strip(_EDGES)) else 0
    if has_left == has_right:
        return 0
    if has_right:
        return 2
    is_class = not right.islower() and (left.islower() or not contains_words(sentence.text, left))
    return 0 if is_class else 1


def _is_list_of(kind: str, parts: Sequence[str]) -> bool:
    """Return True for ``locations`` with two or more names; "3 March, 1987" and titles with "the" are one name."""
    return (
        len(parts) > 1 and _PLURAL.fullmatch(kind) is not None and all(part[:1].isupper() for part in parts)
    )


def _entities(left: str, right: str, sentence: _Sentence, is_entity_first: bool) -> list[Extracted]:
    side = _side(left, right, sentence) if left else 2
    if side == 1 or (side == 0 and is_entity_first):
        left, right = right, left
    name, kind = _clean(right), _kind(left)
    normal = sentence.normal
    parts = [part for part in _SPLIT.split(name) if part.strip(_EDGES)]
    is_list = _is_list_of(kind, parts)
    if contains_words(normal, normalised(name)) and not is_list:
        return [Extracted(name, kind)]
    head, rest = _before_remark(name)
    # A name that is not in the sentence hardly has brackets of its own.
    if head and _LAST_REMARK.fullmatch(rest):
        return [Extracted(head, kind or _kind(rest))]
    if len(parts) > 1:
        # "Tom Cruise (actor), Nicole Kidman (actress)" are two names, each with a remark.
        heads = [
            part if contains_words(normal, normalised(part)) else _before_remark(part)[0] for part in parts
        ]
        if all(contains_words(normal, normalised(part)) for part in heads):
            return [Extracted(_clean(part), kind) for part in heads]
    is_remark = left and rest.startswith(("the ", "a ", "an "))
    if head and (contains_words(normal, normalised(head)) or is_remark or not (normal or left)):
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
    return _plain(text.strip(_EDGES))[:60]


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

    @property
    def read_by(self) -> str:
        """How the first reply with the most frequent set was read, or why no reply can be read."""
        names, times = most_frequent(self.sets)
        if not times:
            return self.readings[0].problem.partition(":")[0]
        return next(r.form for r in self.readings if r.entities is not None and r.names == names)

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


async def extract(text: str, oracle: Oracle, samples: int, *, first: int = 0) -> Samples:
    """Extract the entities of one sentence, ``samples`` times at once.

    :param first: number of the first sample. Other numbers are new replies to the same question.
    :raises BackendError: if a call could not be made.
    """
    numbers = range(first, first + samples)
    return samples_of(text, await oracle.samples(fill(PROMPT, text=text), numbers))


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
