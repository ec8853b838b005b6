"""Texts as DTAiLS compares them: one folding for replies, forms and translations; words; the Indel ratio.

Folding makes equal what a reader takes for the same word and leaves spelling alone:

- Unicode NFKC, so that composed and decomposed letters (100 published Tamil rows are not NFC), full-width and
  half-width letters, and Arabic presentation forms are the same. Letters that only look alike stay apart: the
  published Farsi variations list Arabic and Persian yeh as two forms, and so do we.
- Case is folded: a translation may begin with the word.
- Zero-width joiners and non-joiners, direction marks, soft hyphens and the Arabic tatweel are dropped: models
  leave them out or add them, and the published files do not use them alike. Right-to-left text needs nothing
  else, as its characters stand in reading order.
- Runs of whitespace become one space.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

#: how :func:`unicode_words` is named in records and tables
TOKENIZER = "unicode-words"

_INVISIBLE = re.compile("[\u00ad\u061c\u0640\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
#: scripts that write no space between words: kana, Han, Thai, Lao, Myanmar, Khmer
_UNSPACED = re.compile(
    "[\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"
)
_KANJI, _HIRAGANA, _KATAKANA = re.compile("[\u3005-\u3007\u3400-\u9fff\uf900-\ufaff]"), "\u3040", "\u30a0"


def folded(text: str) -> str:
    """``text`` as it is compared; positions in records count its characters from 0."""
    # NFKC first, as it brings out capitals and tatweels; again at the end, as the rest can undo it.
    text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).casefold()
    return " ".join(unicodedata.normalize("NFKC", text).split())


def is_word_character(character: str) -> bool:
    """Whether it is part of a word: a letter, a mark (Indic vowel signs, which ``\\w`` leaves out) or a digit."""
    return unicodedata.category(character)[0] in "LMN"


def trimmed(text: str) -> str:
    """``text`` without the quotes, brackets, punctuation and spaces at its ends."""
    start, stop = 0, len(text)
    while start < stop and not is_word_character(text[start]):
        start += 1
    while stop > start and not is_word_character(text[stop - 1]):
        stop -= 1
    return text[start:stop]


def unicode_words(text: str) -> list[str]:
    """Words of any language without a model: runs of letters, marks and digits, folded.

    Where no spaces are written a run is cut between kanji, hiragana and katakana, which is coarse: a kanji
    compound stays one word, and an inflected word leaves its ending behind.
    """
    words: list[str] = []
    last = ""
    for character in folded(text):
        kind = _kind(character, last)
        if not kind:
            last = ""
        elif kind == last:
            words[-1] += character
        else:
            words.append(character)
            last = kind
    return words


def _kind(character: str, last: str) -> str:
    """Script class of a word's character; empty where it is none. A mark or long-vowel sign goes on as before."""
    if not is_word_character(character):
        return ""
    if _KANJI.match(character):
        return "kanji"
    if last and (unicodedata.category(character)[0] == "M" or character == "ー"):
        return last
    if _HIRAGANA <= character < _KATAKANA:
        return "hiragana"
    return "katakana" if _KATAKANA <= character <= "\u30ff" else "letters"


def indel_ratio(first: str, second: str) -> float:
    """Similarity in [0, 1]: ``2 L / (len(first) + len(second))``, L the longest common subsequence; 1 for "", "".

    The normalised Indel similarity, known as Levenshtein ratio (a substitution is a deletion and an insertion).
    L is counted with Hyyrö's bit-parallel recurrence (Bit-parallel LCS-length computation revisited, 2004),
    on Python's integers: O(len(second)) big-integer steps.
    """
    total = len(first) + len(second)
    if not total:
        return 1.0
    places: dict[str, int] = {}
    for index, character in enumerate(first):
        places[character] = places.get(character, 0) | 1 << index
    every = (1 << len(first)) - 1
    rows = every
    for character in second:
        matched = rows & places.get(character, 0)
        rows = (rows + matched | rows - matched) & every
    return 2 * (len(first) - rows.bit_count()) / total


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
