"""Texts as DTAiLS compares them: one folding for replies, forms and translations; words; the Indel ratio.

Folding and words are those of :mod:`pytest_llmprops.core.words`.
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

#: scripts that write no space between words: kana, Han, Thai, Lao, Myanmar, Khmer
_UNSPACED = re.compile(
    "[\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"
)


def trimmed(text: str) -> str:
    """``text`` without the quotes, brackets, punctuation and spaces at its ends."""
    start, stop = 0, len(text)
    while start < stop and not is_word_character(text[start]):
        start += 1
    while stop > start and not is_word_character(text[stop - 1]):
        stop -= 1
    return text[start:stop]


def indel_ratio(first: str, second: str) -> float:
    """Similarity in [0, 1]: ``2 L / (len(first) + len(second))``, L the longest common subsequence; 1 for "", "".

    The normalised Indel similarity, known as Levenshtein ratio (a substitution is a deletion and an insertion).
    """
    total = len(first) + len(second)
    # One division, not 1 - distance / total: a ratio of 0.8 is then 0.8, which thresholds are compared with.
    return Indel.similarity(first, second) / total if total else 1.0


def occurrences(form: str, text: str, *, whole: bool = False) -> int:
    """Where ``form`` first stands in ``text`` (both folded), from 0, or -1.

    :param whole: only where it does not begin or end inside a longer word. Scripts without spaces have no such
        limits: there any place counts.
    """
    start = text.find(form) if form else -1
    while start >= 0 and whole and not _stands_alone(text, start, start + len(form)):
        start = text.find(form, start + 1)
    return start


def _stands_alone(text: str, start: int, stop: int) -> bool:
    return _edge(text[start], text[start - 1 : start]) and _edge(text[stop - 1], text[stop : stop + 1])


def _edge(inside: str, outside: str) -> bool:
    if not outside or not is_word_character(outside):
        return True
    return bool(_UNSPACED.match(inside)) or bool(_UNSPACED.match(outside))


def quoted_list(texts: Sequence[str]) -> str:
    """``['a', 'b']`` as the authors' files print a list, but with the characters themselves, never escapes."""
    marks = ['"' if "'" in text else "'" for text in texts]
    return "[" + ", ".join(f"{mark}{text}{mark}" for mark, text in zip(marks, texts, strict=True)) + "]"
