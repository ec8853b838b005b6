"""ERAS paradigms, this project's and the published ones: two templates that differ in three characters (Li & Hao)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from pytest_llmprops.core.errors import DataError

# A paradigm's test template contains the *test site* x1x2x3, in which both x1x2 and x2x3 are words. In a
# left-branching paradigm x1x2 is the true word and x2x3 the canary word; in a right-branching one, the
# reverse. The control template has three other, unambiguous characters in place of the site (sections 2.1 and
# 2.3, table 3).

Branching = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot of a template, filled with a word from the word list ``name``."""

    name: str


Parts = tuple[str | Slot, ...]
"""A parsed template: literal text and slots, in order."""


@dataclass(frozen=True, slots=True)
class Paradigm:
    """One minimal pair paradigm.

    :param id: ``01`` to ``39``. :param frame: The test template: ``{site}`` is the site, other names are slots.
    :param control_frame: The same for the control; it may differ in the characters next to the site.
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
    frame: str
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
    traditional: tuple[str, ...] = ()

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


def facts_of(values: Mapping[str, float]) -> tuple[Branching, str]:
    """Return the paradigm's branching and sentiment (``+/-`` …) from the values of :func:`paradigm_values`."""
    sentiment = f"{_CLASSES[values['true_class']]}/{_CLASSES[values['canary_class']]}"
    return "right" if values["right_branching"] else "left", sentiment


def is_chinese(text: object) -> bool:
    """Return True if a value is a text of Chinese characters only."""
    return isinstance(text, str) and bool(text) and all("一" <= character <= "鿿" for character in text)


def _fail(where: str, problem: str) -> NoReturn:
    raise DataError(f"{where}: {problem}; correct it or get the file again")


#: Indices of the benchmark's 39 paradigms among the 60 published template pairs.
PUBLISHED_INDICES: tuple[int, ...] = (*range(18), *range(18, 60, 2))
PUBLISHED_SLOTS = ("human", "en", "ver", "two", "one", "ob", "no", "con", "ad", "lo")
#: True class/canary class of the 39 paradigms, in order (table 3).
SENTIMENTS: tuple[str, ...] = ("+/-", "-/+") * 9 + ("-/0",) * 11 + ("+/0",) * 10
#: Length that ``key_word_locations.json`` counts for each slot, in characters.
_SLOT_LENGTH = 2
_TEMPLATES = 60
#: The texts and the lists of texts of a row.
_TEXTS = (
    "id",
    "site",
    "control_site",
    "branching",
    "true_class",
    "canary_class",
    "frame",
    "gloss",
    "control_frame",
)
_LISTS = ("across_edge", "control_across_edge", "traditional")


def parse_builtin(data: Any, *, where: str = "data/eras/paradigms.json") -> tuple[Paradigm, ...]:
    """Parse ``paradigms.json``; ``{site}`` in a frame is the site, other names in braces are slots.

    :param data: The JSON document. :param where: Name of the document in messages.
    :raises DataError: for a malformed document.
    """
    _check_version(data, where)
    rows = data.get("paradigms")
    if not isinstance(rows, list) or not rows:
        _fail(where, "'paradigms' must be a list of objects")
    paradigms = tuple(_paradigm(row, f"{where}: paradigm {number}") for number, row in enumerate(rows, 1))
    ids = [paradigm.id for paradigm in paradigms]
    for number, name in enumerate(ids):
        if name in ids[:number]:
            _fail(where, f"two paradigms have the id {name!r}")
    return paradigms


def to_json(paradigms: Sequence[Paradigm]) -> dict[str, Any]:
    """Return the JSON document that :func:`parse_builtin` reads back as ``paradigms``."""
    rows = [
        {name: getattr(p, name) for name in (*_TEXTS, "first_number")}
        | {name: list(getattr(p, name)) for name in _LISTS}
        for p in paradigms
    ]
    return {"version": 1, "paradigms": rows}


def _paradigm(row: Any, where: str) -> Paradigm:
    """Return the paradigm of a row.

    :raises DataError: if the row is incomplete, or its site, its classes and its two templates are inconsistent.
    """
    if not isinstance(row, dict):
        _fail(where, "must be an object")
    row = {"control_frame": row.get("frame"), "traditional": [], "first_number": 0, **row}
    for name in _TEXTS:
        if not isinstance(row.get(name), str):
            _fail(where, f"{name!r} must be a string")
    for name in _LISTS:
        if not isinstance(row.get(name), list) or not all(isinstance(text, str) for text in row[name]):
            _fail(where, f"{name!r} must be a list of strings")
    sites, classes = (
        (row["site"], row["control_site"], *row["traditional"]),
        (row["true_class"], row["canary_class"]),
    )
    checks = {
        "'first_number' must be a number from 0": type(row["first_number"]) is int
        and row["first_number"] >= 0,
        "'id' must be two digits": re.fullmatch(r"[0-9]{2}", row["id"]),
        "'branching' must be left or right": row["branching"] in ("left", "right"),
        "the true class must be + or -, the canary class another of + - 0": classes[0] in ("+", "-")
        and classes[1] in _CODES
        and classes[0] != classes[1],
        "a site must have three Chinese characters": all(
            len(site) == 3 and is_chinese(site) for site in sites
        ),
        "'traditional' must be empty or have two sites": len(row["traditional"]) in (0, 2),
    }
    for problem, is_right in checks.items():
        if not is_right:
            _fail(where, problem)
    tests, place = _split(row["frame"], row["site"], where)
    controls, _ = _split(row["control_frame"], row["control_site"], where)
    shapes = [[len(p) if isinstance(p, str) else p.name for p in parts] for parts in (tests, controls)]
    if shapes[0] != shapes[1] or not any(isinstance(part, Slot) for part in tests):
        _fail(
            where,
            "test and control template must have the same slots, one or more, and texts of equal lengths",
        )
    fields: dict[str, Any] = {name: row[name] for name in _TEXTS}
    fields |= {name: tuple(row[name]) for name in _LISTS}
    return Paradigm(
        **fields, first_number=row["first_number"], test_parts=tests, control_parts=controls,
        site_part=place[0], site_offset=place[1],
    )  # fmt: skip


def _split(frame: str, site: str, where: str) -> tuple[Parts, tuple[int, int]]:
    """Return the parts of a frame with the site filled in, and the site's (part, offset)."""
    if frame.count("{site}") != 1:
        _fail(where, "a frame must contain {site} once")
    parts: list[str | Slot] = []
    place = (0, 0)
    for piece in filter(None, re.split(r"(\{[^{}]*\})", frame.replace("{site}", "\0"))):
        if piece.startswith("{"):
            if not re.fullmatch(r"\{[a-z_]+\}", piece):
                _fail(where, f"{piece!r} is not a slot; write {{name}} in lower case")
            parts.append(Slot(piece[1:-1]))
            continue
        if "\0" in piece:
            place = (len(parts), piece.index("\0"))
        text = piece.replace("\0", site)
        parts.append(text)
    return tuple(parts), place


def parse_slot_words(data: Any, paradigms: Sequence[Paradigm], part: str) -> dict[str, tuple[str, ...]]:
    """Return slot name -> words for every slot of ``paradigms``.

    :param part: The part of the document to use: ``builtin`` or ``published``.
    :raises DataError: for a missing or empty list, and for words that are not Chinese or occur twice.
    """
    where = "data/eras/slot_words.json"
    _check_version(data, where)
    lists = data.get(part)
    if not isinstance(lists, dict):
        _fail(where, f"{part!r} must be an object of word lists")
    words: dict[str, tuple[str, ...]] = {}
    for name in dict.fromkeys(slot for paradigm in paradigms for slot in paradigm.slots):
        entries = lists.get(name)
        if not isinstance(entries, list) or not entries:
            _fail(where, f"the word list {part}/{name} is missing or empty")
        for number, word in enumerate(entries):
            if not is_chinese(word) or word in entries[:number]:
                _fail(where, f"{part}/{name} contains {word!r}, which is not a Chinese word or occurs twice")
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
        _fail(where, f"must be a list of {_TEMPLATES} locations, one per template pair")
    return tuple(
        _published(f"{number:02d}", tests[index], controls[index], locations[index], index)
        for number, index in enumerate(PUBLISHED_INDICES, 1)
    )


def _template_list(templates: Any, key: str) -> list[str]:
    entries = templates.get(key) if isinstance(templates, dict) else None
    if not isinstance(entries, list) or [type(entry) for entry in entries] != [str] * _TEMPLATES:
        _fail("templates.json", f"{key!r} must be a list of {_TEMPLATES} templates")
    return entries


def _published(name: str, test: str, control: str, location: Any, index: int) -> Paradigm:
    where = f"key_word_locations.json: pair {index} ({test[:40]})"
    is_location = isinstance(location, list) and [type(number) for number in location] == [int] * 3
    start, end, branch = location if is_location else (0, 0, 0)
    if end - start != 3 or start < 1 or branch not in (0, 1):
        _fail(
            where,
            f"{location!r} is not [start, start + 3, branch], with start from 1 and branch 0 or 1",
        )
    frame, site = _framed(test, start - 1, where)
    control_frame, control_site = _framed(control, start - 1, where)
    sentiment = SENTIMENTS[int(name) - 1]
    row: dict[str, object] = {
        "id": name, "site": site, "control_site": control_site, "branching": ("left", "right")[branch],
        "true_class": sentiment[0], "canary_class": sentiment[2], "frame": frame, "control_frame": control_frame,
        "gloss": "", "across_edge": [], "control_across_edge": [],
    }  # fmt: skip
    return _paradigm(row, where)


def _framed(template: str, start: int, where: str) -> tuple[str, str]:
    """Return a published template as a frame, and its site: three characters from ``start`` on."""
    pieces = re.findall(r"[A-Za-z]+|[^A-Za-z]", template)
    position, place = 0, len(pieces)
    for number, piece in enumerate(pieces):
        if position == start:
            place = number
        position += _SLOT_LENGTH if piece in PUBLISHED_SLOTS else 1
        if piece.isascii() and piece not in PUBLISHED_SLOTS:
            slots = ", ".join(PUBLISHED_SLOTS)
            _fail(f"templates.json, {where}", f"{piece!r} is not a slot; the slots are {slots}")
    site = pieces[place : place + 3]
    if len(site) != 3 or any(piece.isascii() for piece in site):
        _fail(where, f"the three characters from {start + 1} on overlap a slot or the end of the template")
    shown = [f"{{{piece}}}" if piece.isascii() else piece for piece in pieces]
    return "".join([*shown[:place], "{site}", *shown[place + 3 :]]), "".join(site)


def _check_version(data: Any, where: str) -> None:
    if not isinstance(data, dict):
        _fail(where, "must be a JSON object")
    if data.get("version") != 1:
        _fail(where, f"version is {data.get('version')!r}; this release reads version 1")
