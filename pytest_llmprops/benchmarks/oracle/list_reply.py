"""Read the list in a model's reply to prompt 1, 3 or 4, whatever marks its lines begin with."""

from __future__ import annotations

import re

#: maximum characters of a reply that are read; a list of a sentence's entities is far shorter
LONGEST_READ = 20_000

_NUMBERED = re.compile(r"[\s*_\"“'>#]*\(?(\d{1,3})\s*[.):]+[*_]*\s*(\S.*)")
_FIRST = re.compile(r"(?<!\w)1[.)] (\S.*)")
_BULLET = re.compile(r"[\s\"“'>]*(?:[-•·–—‣◦]|\*(?!\*))\s*(\S.*)")
_UNMARKED = re.compile(r"[\s*_\"“'>]*[A-Za-z][\w /&-]{0,40}[*_]*:[*_]*\s*[^\s*_].*")
_EMPHASIS = re.compile(r"\*\*|__|`")
#: a class without an entity; its entities are the bullets below it
_HEADING = re.compile(r"[^:]{1,60}:[*_]*")


def list_lines(reply: str, *, unmarked: bool = True) -> list[str]:
    """Return the items of the list in ``reply``, without their marks, in order; empty if there is no list.

    The items are the numbered lines; if there are none, the lines with a bullet; if there are none and ``unmarked``
    is set, the lines ``class: entity``. A list on one line is split at its ascending numbers. Bullets below a numbered
    class (``1. city:``) are items of that class. Code fences, bold marks and quotation marks around a whole list (as
    in the prompts) are dropped.
    """
    # Single blanks only: the patterns take quadratic time on a long run of blanks.
    lines = [" ".join(line.split()) for line in _EMPHASIS.sub("", reply[:LONGEST_READ]).splitlines()]
    lines = [line for line in lines if line and not line.startswith("~~~")]
    items = _numbered(lines)
    if not items:
        items = [match[1] for line in lines if (match := _BULLET.fullmatch(line))]
    if not items and unmarked:
        items = [line for line in lines if _UNMARKED.fullmatch(line)]
    return [item for line in items if (item := _unquoted(line))]


def _numbered(lines: list[str]) -> list[str]:
    """Return the items of numbered lines, including a first item on the same line as the preamble."""
    items: list[str] = []
    numbers: list[int] = []
    heading = ""
    for place, line in enumerate(lines):
        match = _NUMBERED.fullmatch(line)
        if match:
            if not numbers and int(match[1]) == 2 and place and (first := _FIRST.search(lines[place - 1])):
                items.append(first[1])
            numbers.append(int(match[1]))
            heading = match[2] if _HEADING.fullmatch(match[2]) else ""
            items.append(match[2])
        elif heading and (bullet := _BULLET.fullmatch(line)):
            if items[-1] == heading:
                items.pop()
            items.append(f"{heading} {bullet[1]}")
    return _split(numbers[0], items[0]) if len(numbers) == len(items) == 1 else items


def _split(number: int, rest: str) -> list[str]:
    """Split ``a 2. b 3. c``, which follows ``1.``, into its items."""
    items: list[str] = []
    while True:
        number += 1
        match = re.search(rf"[\s,;]\(?{number}\s*[.)]\s+(?=\S)", rest)
        if match is None:
            return [*items, rest]
        items.append(rest[: match.start()].strip(" ,;"))
        rest = rest[match.end() :]


def _unquoted(item: str) -> str:
    """Remove a quotation mark without a partner, because it belongs to the list as a whole."""
    item = item.strip().strip("_*").strip()
    for mark in '"“”':
        if item.count(mark) == 1 and (item.startswith(mark) or item.endswith(mark)):
            item = item.strip(mark).strip()
    return item
