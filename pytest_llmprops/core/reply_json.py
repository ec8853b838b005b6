"""JSON in a model's reply, read leniently: anywhere in the text, with the mistakes that models make."""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

#: a JSON object found in a reply: its keys and values in order, repeated keys included
Members: TypeAlias = "tuple[tuple[str, Any], ...]"
_DEEPEST = 20
_BLANK = re.compile(r"(?:\s+|//[^\n]*)*")
_KEY = re.compile(r"([A-Za-z_][\w -]{0,40}?)\s?[:：]")
_COLON = re.compile(r"\s*(?:[:：]|=>?)")
_BARE = re.compile(r"[^\s,，}\]{\[\"“][^,，}\]\n]*")
_SKIPPED = re.compile(r"[^,，}\]{\[]*")
_LITERALS: Mapping[str, Any] = {"true": True, "false": False, "null": None, "none": None}
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_CLOSING = {'"': '"', "'": "'", "“": '”“"', "‘": "’'", "「": "」"}
#: a mark closes a string only before what can follow a value, so that texts may contain unescaped marks
_CLOSES = (
    r"\\.|[{}](?=\s*(?:[,，:：=}}\])]|//|\Z)|[ \t]*\n\s*[\"'“]|[ \t]*[\"'“][\w ]{{1,40}}[\"'”][ \t]*[:：])"
    # A missing comma between two sentences.
    r"|(?<=[.!?])[{}](?=[ \t]+[\"“][A-Z])"
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "b": "", "f": ""}
_SURROGATE = re.compile("[\ud800-\udfff]")


def found_json(text: str) -> tuple[list[Any], str]:
    """Return the JSON objects and arrays in a text, in order, and the text without them. Takes linear time.

    Objects are ``Members``, arrays are lists, numbers are texts. These mistakes are accepted: single and typographic
    quotation marks, unescaped marks inside texts, keys and values without marks, Python's literals and tuples, missing
    and trailing commas, comments, full-width punctuation, line breaks in texts, and a document that ends too early.
    Texts in brackets without marks (``[1]``, ``[sic]``) are not JSON.
    """
    if '{\\"' in text:
        text = text.replace('\\"', '"')
    reader = _Lenient(text)
    values: list[Any] = []
    rest: list[str] = []
    start = 0
    while (match := _OPENING.search(text, reader.at)) is not None:
        before = reader.at = match.start()
        reader.texts = 0
        value = reader.value(0)
        is_empty = value in ((), []) and text[before + 1 : reader.at - 1].strip() == ""
        if value is not _NOTHING and (reader.texts or is_empty):
            values.append(value)
            rest.append(text[start:before])
            start = reader.at
        reader.at = max(reader.at, before + 1)
    return values, "\n".join([*rest, text[start:]])


_OPENING = re.compile(r"[{\[]")
_NOTHING: Any = object()


class _Lenient:
    """Reads values from ``at`` on, which only ever grows. ``texts`` counts keys and texts in quotation marks."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.texts = 0
        self._ends: dict[str, list[int]] = {}

    def value(self, depth: int) -> Any:
        mark = self._mark()
        # A tuple counts inside a list only; elsewhere, brackets are prose.
        if mark in ("{", "[") or (mark == "(" and depth):
            if depth == _DEEPEST:
                self.at += 1
                return _NOTHING
            return self._object(depth) if mark == "{" else self._array(depth)
        if mark in _CLOSING:
            return self._string()
        match = _BARE.match(self.text, self.at)
        if match is None:
            return _NOTHING
        self.at = match.end()
        word = match[0].strip()
        return _LITERALS.get(word.casefold(), word)

    def _object(self, depth: int) -> Any:
        self.at += 1
        members: list[tuple[str, Any]] = []
        while (mark := self._mark()) and mark not in "}]":
            if mark in ",，":
                self.at += 1
                continue
            if mark in "{[":
                # Not an object ("{ Let me see: {...} }"), or an object whose end is missing.
                break
            key = self._key()
            if key is None:
                skipped = _SKIPPED.match(self.text, self.at)
                assert skipped is not None
                self.at = max(skipped.end(), self.at + 1)
                continue
            value = self.value(depth + 1)
            if value is _NOTHING:
                break
            members.append((key, value))
        else:
            self.at += bool(mark)
            return tuple(members) if members or mark else _NOTHING
        return tuple(members) if members else _NOTHING

    def _array(self, depth: int) -> Any:
        self.at += 1
        elements: list[Any] = []
        while (mark := self._mark()) and mark not in ")}]":
            if mark in ",，":
                self.at += 1
                continue
            is_bare = mark not in _CLOSING
            value = self.value(depth + 1)
            if value is _NOTHING:
                return elements if elements else _NOTHING
            if is_bare and isinstance(value, str) and not _NUMBER.fullmatch(value):
                return _NOTHING
            elements.append(value)
        self.at += bool(mark)
        return elements if elements or mark else _NOTHING

    def _mark(self) -> str:
        blank = _BLANK.match(self.text, self.at)
        assert blank is not None
        self.at = blank.end()
        return self.text[self.at : self.at + 1]

    def _key(self) -> str | None:
        if self.text[self.at] not in _CLOSING:
            match = _KEY.match(self.text, self.at)
            if match is None:
                return None
            self.at = match.end()
            self.texts += 1
            return match[1].strip()
        before = self.at
        key = self._string()
        colon = _COLON.match(self.text, self.at) if key is not _NOTHING else None
        if colon is None:
            self.at = max(self.at, before + 1)
            return None
        self.at = colon.end()
        return str(key)

    def _string(self) -> Any:
        mark = self.text[self.at]
        if mark not in self._ends:
            pattern = re.compile(_CLOSES.format(_CLOSING[mark], _CLOSING[mark]), re.DOTALL)
            self._ends[mark] = [m.start() for m in pattern.finditer(self.text) if m[0][0] != "\\"]
        ends = self._ends[mark]
        place = bisect.bisect_right(ends, self.at)
        if place == len(ends):
            return _NOTHING
        raw = self.text[self.at + 1 : ends[place]]
        self.at = ends[place] + 1
        self.texts += 1
        return _unescaped(raw)


def _unescaped(raw: str) -> str:
    text = _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _CONTROLS.get(m[2], m[2]), raw)
    # Two escapes are one character outside the basic plane; a lone one is no character.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _SURROGATE.sub("\ufffd", text)
