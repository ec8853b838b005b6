"""How DTAiLS compares texts: trimming, whole-word search and the Indel ratio.

Replies, forms and translations are folded and split into words by :mod:`pytest_llmprops.core.words`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rapidfuzz.distance import Indel

from pytest_llmprops.core.words import TOKENIZER, folded, is_word_character, unicode_words

__all__ = [
    "TOKENIZER",
    "folded",
    "indel_ratio",
    "is_word_character",
    "occurrences",
    "quoted_list",
    "trimmed",
    "unicode_words",
]

#: Scripts without spaces between words: kana, Han, Thai, Lao, Myanmar, Khmer.
_UNSPACED = re.compile(
    "[\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"
)


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
    start = text.find(form) if form else -1
    while start >= 0 and whole and not _is_whole_word(text, start, start + len(form)):
        start = text.find(form, start + 1)
    return start


def _is_whole_word(text: str, start: int, stop: int) -> bool:
    before, after = text[start - 1 : start], text[stop : stop + 1]
    return _is_boundary(text[start], before) and _is_boundary(text[stop - 1], after)


def _is_boundary(inside: str, outside: str) -> bool:
    if not outside or not is_word_character(outside):
        return True
    return bool(_UNSPACED.match(inside)) or bool(_UNSPACED.match(outside))


def quoted_list(texts: Sequence[str]) -> str:
    """Return ``['a', 'b']``, as the authors' files print a list, but without escapes."""
    marks = ['"' if "'" in text else "'" for text in texts]
    return "[" + ", ".join(f"{mark}{text}{mark}" for mark, text in zip(marks, texts, strict=True)) + "]"
