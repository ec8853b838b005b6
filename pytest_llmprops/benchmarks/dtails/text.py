"""How DTAiLS compares texts: trimming, whole-word search and the Indel ratio.

Replies, forms and translations are folded and split into words by :mod:`pytest_llmprops.core.texts`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from rapidfuzz.distance import Indel

from pytest_llmprops.core.texts import TOKENIZER, folded, is_word_character, unicode_words

__all__ = [
    "TOKENIZER",
    "begins_word",
    "folded",
    "indel_ratio",
    "is_boundary",
    "is_sign",
    "is_stem",
    "is_whole",
    "is_word_character",
    "occurrences",
    "quoted",
    "quoted_list",
    "starts",
    "trimmed",
    "unicode_words",
]

#: Scripts without spaces between words: kana, Han, Thai, Lao, Myanmar, Khmer.
_UNSPACED = re.compile(
    "[\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"
)
#: Devanagari to Malayalam.
_INDIC = re.compile("[\u0900-\u0d7f]")


def trimmed(text: str) -> str:
    """Return ``text`` without the quotes, brackets, punctuation and spaces at its ends."""
    start, stop = 0, len(text)
    while start < stop and not is_word_character(text[start]):
        start += 1
    while stop > start and not is_word_character(text[stop - 1]):
        stop -= 1
    return text[start:stop]


def indel_ratio(first: str, second: str) -> float:
    """Return the similarity in [0, 1]: ``2 L / (len(first) + len(second))``; 1 for two empty texts.

    L is the length of the longest common subsequence. This is the normalised Indel similarity, known as Levenshtein
    ratio (a substitution is a deletion and an insertion).
    """
    total = len(first) + len(second)
    # One division, not 1 - distance / total, so that a ratio of 0.8 equals a threshold of 0.8.
    return Indel.similarity(first, second) / total if total else 1.0


def occurrences(form: str, text: str, *, whole: bool = False) -> int:
    """Return the index of the first occurrence of ``form`` in ``text`` (both folded), or -1.

    :param whole: Count an occurrence only if it does not begin or end inside a longer word. In scripts without
        spaces, every occurrence counts.
    """
    places = (start for start in starts(form, text) if not whole or is_whole(text, start, start + len(form)))
    return next(places, -1)


def starts(form: str, text: str) -> Iterator[int]:
    """Yield the index of every occurrence of ``form`` in ``text``, also of overlapping ones; none if it is empty."""
    start = text.find(form) if form else -1
    while start >= 0:
        yield start
        start = text.find(form, start + 1)


def is_whole(text: str, start: int, stop: int) -> bool:
    """Return whether ``text[start:stop]`` neither begins nor ends inside a longer word."""
    return begins_word(text, start) and is_boundary(text[stop - 1], text[stop : stop + 1])


def begins_word(text: str, start: int) -> bool:
    """Return whether a word may begin at ``start``."""
    return is_boundary(text[start], text[max(0, start - 1) : start])


def is_stem(text: str, start: int, stop: int) -> bool:
    """Return whether ``text[start:stop]`` begins a word of a script of India, whose suffixes are part of the word."""
    is_indic = bool(_INDIC.match(text[start]))
    return is_indic and begins_word(text, start) and not is_sign(text[stop : stop + 1])


def is_boundary(inside: str, outside: str) -> bool:
    """Return whether a word may end between two neighbours; ``outside`` is empty at the ends of a text."""
    if not outside or not is_word_character(outside) or inside.isdigit() != outside.isdigit():
        return True
    return bool(_UNSPACED.match(inside)) or bool(_UNSPACED.match(outside))


def is_sign(character: str) -> bool:
    """Return whether a character is a combining mark, such as a vowel sign or a virama; false for an empty text."""
    return bool(character) and unicodedata.category(character)[0] == "M"


def quoted_list(texts: Sequence[str]) -> str:
    """Return ``['a', 'b']``, as the authors' files print a list, but without escapes."""
    return "[" + ", ".join(map(quoted, texts)) + "]"


def quoted(text: str) -> str:
    """Return ``text`` in the quotes that Python prints, without escapes for characters that are not ASCII."""
    if "'" not in text:
        return f"'{text}'"
    return f'"{text}"' if '"' not in text else "'" + text.replace("'", "\\'") + "'"
