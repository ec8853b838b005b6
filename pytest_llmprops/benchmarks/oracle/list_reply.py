"""The lines of a list in a model's reply, whatever marks it puts before them: for prompts 1, 3 and 4."""

from __future__ import annotations

import re

#: only so much of a reply is read; a list of the entities of a sentence is far shorter
LONGEST_READ = 20_000

_NUMBERED = re.compile(r"[\s*_\"“'>#]*\(?(\d{1,3})\s*[.):]+[*_]*\s*(\S.*)")
_FIRST = re.compile(r"(?<!\w)1[.)] (\S.*)")
_BULLET = re.compile(r"[\s\"“'>]*(?:[-•·–—‣◦]|\*(?!\*))\s*(\S.*)")
_BARE = re.compile(r"[\s*_\"“'>]*[A-Za-z][\w /&-]{0,40}[*_]*:[*_]*\s*[^\s*_].*")
_EMPHASIS = re.compile(r"\*\*|__|`")
#: a class with nothing after it, whose entities are the bullets below
_HEADING = re.compile(r"[^:]{1,60}:[*_]*")


def list_lines(reply: str, *, bare: bool = True) -> list[str]:
    """The items of the list in ``reply``, without their marks, in order; empty where there is no list.

    Numbered lines if there are any, else lines with a bullet, else, where ``bare``, lines ``class: entity`` after
    a preamble that says nothing after its colon. A list on one line is cut at its ascending numbers. Bullets below a
    numbered class (``1. city:``) are items of that class. Code fences, bold marks and the quotation marks around a
    whole list (as the prompts show one) are dropped.
    """
    # One blank for many: patterns that look for blanks take quadratic time on a long run of them.
    lines = [" ".join(line.split()) for line in _EMPHASIS.sub("", reply[:LONGEST_READ]).splitlines()]
    lines = [line for line in lines if line and not line.startswith("~~~")]
    items = _numbered(lines)
    if not items:
        items = [match[1] for line in lines if (match := _BULLET.fullmatch(line))]
    if not items and bare:
        items = [line for line in lines if _BARE.fullmatch(line)]
    return [item for line in items if (item := _unquoted(line))]


def _numbered(lines: list[str]) -> list[str]:
    """The items of numbered lines; a first one that stands on the line of its preamble included."""
    items: list[str] = []
    numbers: list[int] = []
    heading = ""
    for place, line in enumerate(lines):
        found = _NUMBERED.fullmatch(line)
        if found:
            if not numbers and int(found[1]) == 2 and place and (first := _FIRST.search(lines[place - 1])):
                items.append(first[1])
            numbers.append(int(found[1]))
            heading = found[2] if _HEADING.fullmatch(found[2]) else ""
            items.append(found[2])
        elif heading and (bullet := _BULLET.fullmatch(line)):
            if items[-1] == heading:
                items.pop()
            items.append(f"{heading} {bullet[1]}")
    return _cut(numbers[0], items[0]) if len(numbers) == len(items) == 1 else items


def _cut(number: int, rest: str) -> list[str]:
    """``a 2. b 3. c`` after ``1.`` as its items."""
    items: list[str] = []
    while True:
        number += 1
        found = re.search(rf"[\s,;]\(?{number}\s*[.)]\s+(?=\S)", rest)
        if found is None:
            return [*items, rest]
        items.append(rest[: found.start()].strip(" ,;"))
        rest = rest[found.end() :]


def _unquoted(item: str) -> str:
    """Without a quotation mark that only opens or only closes: it belongs to the list as a whole."""
    item = item.strip().strip("_*").strip()
    for mark in '"“”':
        if item.count(mark) == 1 and (item.startswith(mark) or item.endswith(mark)):
            item = item.strip(mark).strip()
    return item
