"""Read ERAS paradigms: this project's templates, and the authors' published ones.

Each problem raises a :class:`DataError` with a one-line message. For the definition of a paradigm see
:mod:`pytest_llmprops.benchmarks.eras.templates`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pytest_llmprops.benchmarks.eras.templates import (
    Branching,
    Paradigm,
    Parts,
    Slot,
    checked_paradigm,
    fail,
    is_chinese,
)

__all__ = [
    "PUBLISHED_INDICES",
    "PUBLISHED_SLOTS",
    "SENTIMENTS",
    "Branching",
    "Paradigm",
    "Parts",
    "Slot",
    "parse_builtin",
    "parse_published",
    "parse_slot_words",
    "to_json",
]

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
        gloss=row["gloss"], first_number=first_number,
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
    if paradigm.first_number:
        row["first_number"] = paradigm.first_number
    return row


def _check_version(data: Any, where: str) -> None:
    if not isinstance(data, dict):
        fail(where, "must be a JSON object")
    if data.get("version") != 1:
        fail(where, f"version is {data.get('version')!r}; this release reads version 1")
