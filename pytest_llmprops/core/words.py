"""Tokenization of any language without a model, and the folding of texts before they are compared.

Folding removes differences that readers do not see as another spelling:

- Unicode NFKC makes composed and decomposed letters (100 published Tamil rows are not NFC), full-width and
  half-width letters, and Arabic presentation forms equal. Letters that only look alike stay different: the
  published Farsi variations list Arabic and Persian yeh as two forms.
- Case is folded, because a translation may begin with the word.
- Zero-width joiners and non-joiners, direction marks, soft hyphens and the Arabic tatweel are dropped, because models
  and the published files use them inconsistently. Right-to-left text needs nothing else: its characters are stored in
  reading order.
- Runs of whitespace become one space.
"""

from __future__ import annotations

import functools
import re
import unicodedata

#: the name of :func:`unicode_words` in records and tables
TOKENIZER = "unicode-words"

_INVISIBLE = re.compile("[\u00ad\u061c\u0640\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_KANJI, _HIRAGANA, _KATAKANA = re.compile("[\u3005-\u3007\u3400-\u9fff\uf900-\ufaff]"), "\u3040", "\u30a0"


def folded(text: str) -> str:
    """Return ``text`` in the form that is compared; positions in records count the characters of this form from 0."""
    # NFKC first, because it can produce capitals and tatweels; again at the end, because the other steps can undo it.
    text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).casefold()
    return " ".join(unicodedata.normalize("NFKC", text).split())


def is_word_character(character: str) -> bool:
    """Return whether a character is a letter, a mark (Indic vowel signs, which ``\\w`` does not match) or a digit."""
    return unicodedata.category(character)[0] in "LMN"


def unicode_words(text: str) -> list[str]:
    """Return the words of a text in any language: runs of letters, marks and digits, folded.

    In Japanese, a run is split between kanji, hiragana and katakana. This is coarse: a kanji compound stays one word,
    and an inflected word is separated from its ending.
    """
    words: list[str] = []
    plain = folded(text)
    start, last = 0, ""
    for place, character in enumerate(plain):
        kind = _kind(character, last)
        if kind != last:
            if last:
                words.append(plain[start:place])
            start, last = place, kind
    return [*words, plain[start:]] if last else words


# a text has few different characters
@functools.lru_cache(maxsize=1 << 16)
def _kind(character: str, last: str) -> str:
    """Return the script class of a word character; empty for others. Marks and long-vowel signs keep the last class."""
    if not is_word_character(character):
        return ""
    if _KANJI.match(character):
        return "kanji"
    if last and (unicodedata.category(character)[0] == "M" or character == "ー"):
        return last
    if _HIRAGANA <= character < _KATAKANA:
        return "hiragana"
    return "katakana" if _KATAKANA <= character <= "\u30ff" else "letters"
