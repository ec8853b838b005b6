"""ERAS paradigms, this project's and the published ones: two templates that differ in three characters (Li & Hao)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, cast

from pytest_llmprops.core.errors import DataError

# A paradigm's test template contains the *test site* x1x2x3, in which both x1x2 and x2x3 are words. In a
# left-branching paradigm x1x2 is the true word and x2x3 the canary word; in a right-branching one, the
# reverse. The control template has three other, unambiguous characters in place of the site (sections 2.1 and
# 2.3, table 3).

Branching = Literal["left", "right"]
_TRUE_CLASSES, _CANARY_CLASSES = ("+", "-"), ("+", "-", "0")


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot of a template, filled with a word from the word list ``name``."""

    name: str


Parts = tuple[str | Slot, ...]
"""A parsed template: literal text and slots, in order."""


@dataclass(frozen=True, slots=True)
class Paradigm:
    """One minimal pair paradigm.

    :param id: ``01`` to ``39``. :param test_frame: The test template as written in its source.
    :param site: The test site, three characters. :param control_site: The control's characters in its place.
    :param branching: ``left`` or ``right``. :param true_class: ``+`` or ``-``.
    :param canary_class: ``+``, ``-`` or ``0``; never the true class.
    :param test_parts: The parsed test template. :param control_parts: The parsed control template, with the
        same slots in the same order and text of the same lengths between them.
    :param site_part: Index of the part that contains the site. :param site_offset: The site's index in it.
    :param across_edge: Dictionary words that intentionally cross an edge of the test site (机房 does so in
        the true reading of 留心机房). :param control_across_edge: The same for the control site.
    :param gloss: English translation of the test sentence.
    :param traditional: The test and the control site in traditional characters, written by hand; empty if a converter
        has to write them.
    :param first_number: Number of the first pair. A changed frame does not use the numbers of earlier pairs again.
    """

    id: str
    test_frame: str
    control_frame: str
    site: str
    control_site: str
    branching: Branching
    true_class: str
    canary_class: str
    test_parts: Parts
    control_parts: Parts
    site_part: int
    site_offset: int
    across_edge: tuple[str, ...] = ()
    control_across_edge: tuple[str, ...] = ()
    gloss: str = ""
    first_number: int = 0
    traditional: tuple[str, str] | tuple[()] = ()

    @property
    def true_word(self) -> str:
        """Return the word in the site according to the only grammatical reading."""
        return self.site[:2] if self.branching == "left" else self.site[1:]

    @property
    def canary_word(self) -> str:
        """Return the word that results only from a wrong segmentation of the site."""
        return self.site[1:] if self.branching == "left" else self.site[:2]

    @property
    def sentiment(self) -> str:
        """Return "true class/canary class": ``+/-``, ``+/0``, ``-/0`` or ``-/+``."""
        return f"{self.true_class}/{self.canary_class}"

    @property
    def slots(self) -> tuple[str, ...]:
        """Return the names of the slots, in order; a name may occur twice."""
        return tuple(part.name for part in self.test_parts if isinstance(part, Slot))


_CODES = {"+": 1.0, "0": 0.0, "-": -1.0}
_CLASSES = {code: name for name, code in _CODES.items()}


@dataclass(frozen=True, slots=True)
class ParadigmFacts:
    """The properties that determine a paradigm's groups; ``sentiment`` is ``+/-``, ``-/0`` …"""

    branching: Branching
    sentiment: str


def paradigm_values(paradigm: Paradigm) -> dict[str, float]:
    """Return ``paradigm`` (its number), ``right_branching`` (0, 1), ``true_class``, ``canary_class`` (1, 0, -1)."""
    return {
        "paradigm": float(paradigm.id),
        "right_branching": float(paradigm.branching == "right"),
        "true_class": _CODES[paradigm.true_class],
        "canary_class": _CODES[paradigm.canary_class],
    }


def paradigm_name(values: Mapping[str, float]) -> str:
    """Return the paradigm's id, for example ``07``."""
    return f"{int(values['paradigm']):02d}"


def facts_of(values: Mapping[str, float]) -> ParadigmFacts:
    """Return the paradigm's branching and sentiment from the values of :func:`paradigm_values`."""
    sentiment = f"{_CLASSES[values['true_class']]}/{_CLASSES[values['canary_class']]}"
    return ParadigmFacts("right" if values["right_branching"] else "left", sentiment)


def checked_paradigm(where: str, **fields: Any) -> Paradigm:
    """Return a paradigm with these fields; ``control_site`` is read from the control template.

    :raises DataError: if the site, the classes and the two templates are inconsistent.
    """
    test, control = fields["test_parts"], fields["control_parts"]
    part, offset = fields["site_part"], fields["site_offset"]
    if fields["branching"] not in ("left", "right"):
        fail(where, f"branching is {fields['branching']!r}, not 'left' or 'right'")
    fields["branching"] = cast(Branching, fields["branching"])
    true, canary = fields["true_class"], fields["canary_class"]
    if true not in _TRUE_CLASSES or canary not in _CANARY_CLASSES or true == canary:
        fail(
            where,
            f"classes {true!r}, {canary!r}: the true class is + or -, the canary class another of + - 0",
        )
    if not any(isinstance(p, Slot) for p in test):
        fail(where, "the template has no slot")
    for piece in (*test, *control):
        if isinstance(piece, str) and not is_chinese(piece.rstrip("。")) and piece != "。":
            fail(where, f"{piece!r} is not Chinese text")
    if [_shape(p) for p in test] != [_shape(p) for p in control]:
        fail(where, "test and control template differ in more than characters: slots or lengths differ")
    fields["control_site"] = str(control[part])[offset : offset + 3]
    for site in (fields["site"], fields["control_site"]):
        if len(site) != 3 or not is_chinese(site):
            fail(where, f"the site {site!r} is not three Chinese characters")
    for parts, site in ((test, fields["site"]), (control, fields["control_site"])):
        if sum(_occurrences(piece, site) for piece in parts if isinstance(piece, str)) != 1:
            fail(where, f"the template contains its site {site!r} twice")
    _check_difference(test, control, part, offset, where)
    return Paradigm(**fields)


def _check_difference(test: Parts, control: Parts, part: int, offset: int, where: str) -> None:
    for number, (left, right) in enumerate(zip(test, control, strict=True)):
        if left == right:
            if number == part:
                fail(where, "test and control template do not differ in the site")
            continue
        if number != part or not isinstance(left, str) or not isinstance(right, str):
            fail(where, "test and control template differ away from the site")
        places = [i for i, (a, b) in enumerate(zip(left, right, strict=True)) if a != b]
        inside = [i for i in places if offset <= i < offset + 3]
        if not inside or places[0] < offset - 1 or places[-1] > offset + 3:
            fail(where, "test and control template differ away from the site: the location does not fit")


def _occurrences(text: str, site: str) -> int:
    return sum(text.startswith(site, start) for start in range(len(text)))


def _shape(part: str | Slot) -> int | str:
    return len(part) if isinstance(part, str) else part.name


def is_chinese(text: str) -> bool:
    """Return True if a text consists of Chinese characters only."""
    return bool(text) and all("一" <= character <= "鿿" for character in text)


def fail(where: str, problem: str) -> NoReturn:
    """Raise a :class:`DataError` for a problem in a file."""
    raise DataError(f"{where}: {problem}; correct it or get the file again")


#: Indices of the benchmark's 39 paradigms among the 60 published template pairs.
PUBLISHED_INDICES: tuple[int, ...] = (*range(18), *range(18, 60, 2))
PUBLISHED_SLOTS = ("human", "en", "ver", "two", "one", "ob", "no", "con", "ad", "lo")
#: True class/canary class of the 39 paradigms, in order (table 3).
SENTIMENTS: tuple[str, ...] = ("+/-", "-/+") * 9 + ("-/0",) * 11 + ("+/0",) * 10
#: Length that ``key_word_locations.json`` counts for each slot, in characters.
_SLOT_LENGTH = 2
_TEMPLATES = 60
_FIELDS = (
    "id", "site", "control_site", "branching", "true_class", "canary_class", "frame",
    "across_edge", "control_across_edge", "gloss",
)  # fmt: skip


def parse_builtin(data: Any, *, where: str = "data/eras/paradigms.json") -> tuple[Paradigm, ...]:
    """Parse ``paradigms.json``; ``{site}`` in a frame is the site, other names in braces are slots.

    :param data: The JSON document. :param where: Name of the document in messages.
    :raises DataError: for a malformed document.
    """
    _check_version(data, where)
    rows = data.get("paradigms")
    if not isinstance(rows, list) or not rows:
        fail(where, "'paradigms' must be a list of objects")
    paradigms = tuple(_builtin(row, f"{where}: paradigm {number}") for number, row in enumerate(rows, 1))
    ids = [paradigm.id for paradigm in paradigms]
    for number, name in enumerate(ids):
        if name in ids[:number]:
            fail(where, f"two paradigms have the id {name!r}")
    return paradigms


def to_json(paradigms: Sequence[Paradigm]) -> dict[str, Any]:
    """Return the JSON document that :func:`parse_builtin` reads back as ``paradigms``.

    If the two frames differ outside the site (published paradigm 36), both are written.
    """
    return {"version": 1, "paradigms": [_row(paradigm) for paradigm in paradigms]}


def parse_slot_words(
    data: Any, paradigms: Sequence[Paradigm], part: str, *, where: str = "data/eras/slot_words.json"
) -> dict[str, tuple[str, ...]]:
    """Return slot name -> words for every slot of ``paradigms``.

    :param part: The part of the document to use: ``builtin`` or ``published``.
    :raises DataError: for a missing or empty list, and for words that are not Chinese or occur twice.
    """
    _check_version(data, where)
    lists = data.get(part)
    if not isinstance(lists, dict):
        fail(where, f"{part!r} must be an object of word lists")
    words: dict[str, tuple[str, ...]] = {}
    for name in dict.fromkeys(slot for paradigm in paradigms for slot in paradigm.slots):
        entries = lists.get(name)
        if not isinstance(entries, list) or not entries:
            fail(where, f"the word list {part}/{name} is missing or empty")
        for number, word in enumerate(entries):
            if not isinstance(word, str) or not is_chinese(word):
                fail(where, f"{part}/{name} contains {word!r}, which is not a Chinese word")
            if word in entries[:number]:
                fail(where, f"{part}/{name} contains {word!r} twice")
        words[name] = tuple(entries)
    return words


def parse_published(templates: Any, locations: Any) -> tuple[Paradigm, ...]:
    """Parse the 39 paradigms of the authors' ``templates.json`` and ``key_word_locations.json``.

    A location is [start, end, branch]. Start and end (exclusive) count the characters of the filled test
    template from 1, two for each slot. Branch 0 is left, 1 is right. Test and control must have the same slots
    and lengths and differ inside the site. Outside it, only characters next to it may differ (pair 52).

    :raises DataError: naming the file and the malformed pair.
    """
    tests, controls = (_template_list(templates, key) for key in ("amb_templates", "nonamb_templates"))
    where = "key_word_locations.json"
    if not isinstance(locations, list) or len(locations) != _TEMPLATES:
        fail(where, f"must be a list of {_TEMPLATES} locations, one per template pair")
    return tuple(
        _published(
            f"{number:02d}", tests[index], controls[index], locations[index], SENTIMENTS[number - 1], index
        )
        for number, index in enumerate(PUBLISHED_INDICES, 1)
    )


def _template_list(templates: Any, key: str) -> list[str]:
    entries = templates.get(key) if isinstance(templates, dict) else None
    if not isinstance(entries, list) or len(entries) != _TEMPLATES:
        fail("templates.json", f"{key!r} must be a list of {_TEMPLATES} templates")
    for index, template in enumerate(entries):
        if not isinstance(template, str) or not template.strip():
            fail("templates.json", f"{key}[{index}] is {template!r}, not a template")
    return entries


def _published(name: str, test: str, control: str, location: Any, sentiment: str, index: int) -> Paradigm:
    where = f"key_word_locations.json: pair {index} ({test[:40]})"
    if not isinstance(location, list) or len(location) != 3 or any(type(n) is not int for n in location):
        fail(where, f"{location!r} is not [start, end, branch] as integers")
    start, end, branch = location
    if branch not in (0, 1):
        fail(where, f"branch is {branch}, not 0 (left) or 1 (right)")
    if end - start != 3 or start < 1:
        fail(where, f"[{start}, {end}) is not a range of three characters, counted from 1")
    parts = [_split_published(text, f"templates.json: pair {index}") for text in (test, control)]
    part, offset = _place(parts[0], start - 1, where)
    site = str(parts[0][part])[offset : offset + 3]
    return checked_paradigm(
        where, id=name, test_frame=test, control_frame=control, site=site,
        branching="left" if branch == 0 else "right", true_class=sentiment[0], canary_class=sentiment[2],
        test_parts=parts[0], control_parts=parts[1], site_part=part, site_offset=offset,
    )  # fmt: skip


def _split_published(template: str, where: str) -> Parts:
    parts: list[str | Slot] = []
    for piece in re.findall(r"[A-Za-z]+|[^A-Za-z]+", template):
        if not piece[0].isascii():
            parts.append(piece)
        elif piece in PUBLISHED_SLOTS:
            parts.append(Slot(piece))
        else:
            fail(
                where, f"{piece!r} in {template!r} is not a slot; the slots are {', '.join(PUBLISHED_SLOTS)}"
            )
    return tuple(parts)


def _place(parts: Parts, start: int, where: str) -> tuple[int, int]:
    """Return the part and the index in it of the three characters at ``start``; a slot counts as two characters."""
    position = 0
    place = None
    for number, part in enumerate(parts):
        length = _SLOT_LENGTH if isinstance(part, Slot) else len(part)
        if isinstance(part, str) and position <= start and start + 3 <= position + length:
            place = number, start - position
        position += length
    if place is None:
        fail(where, f"the three characters from {start + 1} on overlap a slot or the end of the template")
    return place


def _builtin(row: Any, where: str) -> Paradigm:
    if not isinstance(row, dict):
        fail(where, "must be an object")
    for field in _FIELDS:
        kind: type = list if field.endswith("across_edge") else str
        if not isinstance(row.get(field), kind):
            fail(where, f"{field!r} must be a {'list' if kind is list else 'string'}")
    if any(not isinstance(word, str) for name in _FIELDS[-3:-1] for word in row[name]):
        fail(where, "words across an edge must be strings")
    traditional = row.get("traditional", [])
    if not isinstance(traditional, list) or any(
        not isinstance(site, str) or len(site) != 3 or not is_chinese(site) for site in traditional
    ):
        fail(where, f"'traditional' is {traditional!r}, not the two sites of three Chinese characters")
    if len(traditional) not in (0, 2):
        fail(where, f"'traditional' has {len(traditional)} sites, not two")
    first_number = row.get("first_number", 0)
    if type(first_number) is not int or first_number < 0:
        fail(where, f"'first_number' is {first_number!r}, not a number from 0")
    name = row["id"]
    if not re.fullmatch(r"[0-9]{2}", name):
        fail(where, f"id {name!r} is not two digits")
    for site in (row["site"], row["control_site"]):
        if len(site) != 3:
            fail(where, f"the site {site!r} is not three characters")
    frame = row["frame"]
    control = row.get("control_frame", frame)
    if not isinstance(control, str) or frame.count("{site}") != 1 or control.count("{site}") != 1:
        fail(where, "a frame must contain {site} once")
    tests, place = _split_builtin(frame, row["site"], where)
    controls, _ = _split_builtin(control, row["control_site"], where)
    return checked_paradigm(
        where, id=name, test_frame=frame, control_frame=control, site=row["site"],
        branching=row["branching"], true_class=row["true_class"], canary_class=row["canary_class"],
        test_parts=tests, control_parts=controls, site_part=place[0], site_offset=place[1],
        across_edge=tuple(row["across_edge"]), control_across_edge=tuple(row["control_across_edge"]),
        gloss=row["gloss"], first_number=first_number, traditional=tuple(traditional),
    )  # fmt: skip


def _split_builtin(frame: str, site: str, where: str) -> tuple[Parts, tuple[int, int]]:
    """Return the parts of a frame with the site filled in, and the site's (part, offset)."""
    before, after = frame.split("{site}")
    parts: list[str | Slot] = []
    place = (0, 0)
    text = f"{before}\0{after}"
    for piece in re.split(r"(\{[^{}]*\})", text):
        if piece.startswith("{"):
            if not re.fullmatch(r"\{[a-z_]+\}", piece):
                fail(where, f"{piece!r} is not a slot; write {{name}} in lower case")
            parts.append(Slot(piece[1:-1]))
        elif piece:
            if "\0" in piece:
                place = (len(parts), piece.index("\0"))
            parts.append(piece.replace("\0", site))
    return tuple(parts), place


def _row(paradigm: Paradigm) -> dict[str, Any]:
    frames = []
    for parts in (paradigm.test_parts, paradigm.control_parts):
        texts = [part if isinstance(part, str) else f"{{{part.name}}}" for part in parts]
        text, start = texts[paradigm.site_part], paradigm.site_offset
        texts[paradigm.site_part] = f"{text[:start]}{{site}}{text[start + 3 :]}"
        frames.append("".join(texts))
    row: dict[str, Any] = {
        "id": paradigm.id, "site": paradigm.site, "control_site": paradigm.control_site,
        "branching": paradigm.branching, "true_class": paradigm.true_class,
        "canary_class": paradigm.canary_class, "frame": frames[0],
        "across_edge": list(paradigm.across_edge), "control_across_edge": list(paradigm.control_across_edge),
        "gloss": paradigm.gloss,
    }  # fmt: skip
    if frames[0] != frames[1]:
        row["control_frame"] = frames[1]
    if paradigm.traditional:
        row["traditional"] = list(paradigm.traditional)
    if paradigm.first_number:
        row["first_number"] = paradigm.first_number
    return row


def _check_version(data: Any, where: str) -> None:
    if not isinstance(data, dict):
        fail(where, "must be a JSON object")
    if data.get("version") != 1:
        fail(where, f"version is {data.get('version')!r}; this release reads version 1")
