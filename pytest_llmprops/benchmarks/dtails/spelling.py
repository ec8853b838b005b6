"""Spelling variants of one word: the same letters for readers, other characters for computers.

Models write a word as their tokenizer prefers it: Arabic instead of Persian yeh and kaf, full-width or half-width kana,
hiragana for katakana, an Indic nukta or a Latin accent left out, a space for a zero-width non-joiner. ``Simplified``
removes these differences. Two variations may differ only in them, so a simplified match is compared again with the
characters as they were written (``Simplified.closeness``).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from pytest_llmprops.benchmarks.dtails.text import folded, is_sign

#: Marks that may be left out: Latin accents, Arabic vowel signs and hamza, the nukta of the scripts of India.
_OPTIONAL = re.compile(
    "[\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u093c\u09bc\u0a3c\u0abc\u0b3c\u0c3c\u0cbc]"
)
#: Arabic for Persian letters, heh with its variants, Devanagari chandrabindu and anusvara, typographic apostrophes.
_SAME = str.maketrans("يىېكةەہھ\u0901’ʼ`", "یییکهههه\u0902'''")
_KATAKANA = {code: code - 0x60 for code in range(0x30A1, 0x30F7)}
#: Half-width marks of kana follow their letter.
_HALF_WIDTH_MARKS = "\uff9e\uff9f"
EXACT = 2
#: Where a form may be written as one word, with a space, with a hyphen or with a joiner.
_JOINTS = re.compile("[\u200c\u200d\\s-]+")


def simplified(text: str) -> str:
    """Return ``text`` without differences of spelling, and without a space at its ends."""
    return Simplified(text).text.strip()


def pattern(form: str) -> str:
    """Return a regular expression for a form in a simplified text; empty for a form without characters."""
    return "[ -]?".join(re.escape(part) for part in map(simplified, _JOINTS.split(form)) if part)


class Simplified:
    """A text without differences of spelling, and where its characters come from.

    :ivar text: Runs of spaces are one space.
    """

    def __init__(self, raw: str) -> None:
        self._raw = raw
        letters: list[str] = []
        self._starts: list[int] = []
        for start, cluster in _clusters(raw):
            out = _simplified_cluster(cluster)
            if out == " " and letters[-1:] == [" "]:
                continue
            letters.extend(out)
            self._starts.extend([start] * len(out))
        self._starts.append(len(raw))
        self.text = "".join(letters)

    def written(self, start: int, stop: int) -> str:
        """Return the original characters of ``text[start:stop]``."""
        return self._raw[self._starts[start] : self._starts[stop]]

    def closeness(self, form: str, start: int, stop: int) -> int:
        """Return how closely a form was written at ``text[start:stop]``: 0, 1 after folding, or :data:`EXACT`."""
        written = self.written(start, stop).strip()
        return EXACT if written == form else int(folded(written) == folded(form))


def _clusters(text: str) -> Iterator[tuple[int, str]]:
    """Yield (index, characters) of each letter with its marks."""
    start = 0
    for index in range(1, len(text) + 1):
        if index == len(text) or not (is_sign(text[index]) or text[index] in _HALF_WIDTH_MARKS):
            yield start, text[start:index]
            start = index


@lru_cache(maxsize=4096)
def _simplified_cluster(cluster: str) -> str:
    if cluster.isspace():
        return " "
    letters = unicodedata.normalize("NFKD", folded(cluster))
    return _OPTIONAL.sub("", letters).translate(_SAME).translate(_KATAKANA)
