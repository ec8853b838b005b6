"""Words of any language without a model, and the folding by which two spellings of a word are the same.

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

#: how :func:`unicode_words` is named in records and tables
TOKENIZER = "unicode-words"

_INVISIBLE = re.compile("[\u00ad\u061c\u0640\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_KANJI, _HIRAGANA, _KATAKANA = re.compile("[\u3005-\u3007\u3400-\u9fff\uf900-\ufaff]"), "\u3040", "\u30a0"


def folded(text: str) -> str:
    """``text`` as it is compared; positions in records count its characters from 0."""
    # NFKC first, as it brings out capitals and tatweels; again at the end, as the rest can undo it.
    text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).casefold()
    return " ".join(unicodedata.normalize("NFKC", text).split())


def is_word_character(character: str) -> bool:
    """Whether it is part of a word: a letter, a mark (Indic vowel signs, which ``\\w`` leaves out) or a digit."""
    return unicodedata.category(character)[0] in "LMN"


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
