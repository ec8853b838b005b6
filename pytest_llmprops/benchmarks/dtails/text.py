"""How DTAiLS compares texts: trimming, whole-word search and the Indel ratio.

Replies, forms and translations are folded and split into words by :mod:`pytest_llmprops.core.texts`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

from rapidfuzz.distance import Indel

from pytest_llmprops.core.texts import folded, is_word_character

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
    """Return True if ``text[start:stop]`` neither begins nor ends inside a longer word."""
    return begins_word(text, start) and is_boundary(text[stop - 1], text[stop : stop + 1])


def begins_word(text: str, start: int) -> bool:
    """Return True if a word may begin at ``start``."""
    return is_boundary(text[start], text[max(0, start - 1) : start])


def is_stem(text: str, start: int, stop: int) -> bool:
    """Return True if ``text[start:stop]`` begins a word of a script of India, whose suffixes are part of the word."""
    is_indic = bool(_INDIC.match(text[start]))
    return is_indic and begins_word(text, start) and not is_sign(text[stop : stop + 1])


def is_boundary(inside: str, outside: str) -> bool:
    """Return True if a word may end between two neighbours; ``outside`` is empty at the ends of a text."""
    if not outside or not is_word_character(outside) or inside.isdigit() != outside.isdigit():
        return True
    return bool(_UNSPACED.match(inside)) or bool(_UNSPACED.match(outside))


def is_sign(character: str) -> bool:
    """Return True if a character is a combining mark, such as a vowel sign or a virama; false for an empty text."""
    return bool(character) and unicodedata.category(character)[0] == "M"


def quoted_list(texts: Sequence[str]) -> str:
    """Return ``['a', 'b']``, as the authors' files print a list, but without escapes."""
    return "[" + ", ".join(map(quoted, texts)) + "]"


def quoted(text: str) -> str:
    """Return ``text`` in the quotes that Python prints, without escapes for characters that are not ASCII."""
    if "'" not in text:
        return f"'{text}'"
    return f'"{text}"' if '"' not in text else "'" + text.replace("'", "\\'") + "'"


# Spelling variants of one word: the same letters for readers, other characters for computers.
#
# Models write a word as their tokenizer prefers it: Arabic instead of Persian yeh and kaf, full-width or
# half-width kana, hiragana for katakana, an Indic nukta or a Latin accent left out, a space for a zero-width
# non-joiner. ``Simplified`` removes these differences. Two variations may differ only in them, so a
# simplified match is compared again with the characters as they were written (``Simplified.closeness``).

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


# Find inflected forms in a translation, for languages whose words do not resemble their dictionary form
# enough.
#
# A parser gives the lemmas of a translation (Barua et al., appendix B.2). Its model is often missing, and the
# Unicode words of two groups of languages do not replace it:
#
# - Japanese has no spaces, so an inflected verb is not a word of its own. A dictionary form ends in one hiragana, and
#   its inflection changes only this ending.
# - Words of Tamil, Telugu, Kannada and Malayalam carry their suffixes, often several. Before a suffix, the last vowel
#   sign, virama or nasal of the word changes.
#
# On the published reference translations these rules raise the share of rows that are read as their label
# from .940 to .993 (Japanese) and from .933 to .985 (Tamil).

#: What replaces the last hiragana of a verb in its inflected forms.
_ENDINGS = {
    "う": "わいうえおっ", "く": "かきくけこい", "ぐ": "がぎぐげごい", "す": "さしすせそ", "つ": "たちつてとっ",
    "ぬ": "なにぬねのん", "ぶ": "ばびぶべぼん", "む": "まみむめもん", "る": "らりるれろっ",
}  # fmt: skip
#: Before "る", these end the stem of a verb that drops "る" (ichidan), so anything may follow.
_DROPPING = frozenset("いきぎしちじにびみりえけげせぜてでねへべめれ")
_KANJI = re.compile("[\u3005\u3400-\u9fff]")
_DRAVIDIAN = re.compile("[\u0b80-\u0bff\u0c00-\u0d7f]")
#: The Tamil letter m with a virama at the end of a word, which Telugu and the others write as a sign.
_TAMIL_NASAL = "\u0bae\u0bcd"
#: Minimum letters of a stem, so that it does not begin unrelated words.
_LETTERS = 2


def inflected(form: str, text: str) -> int:
    """Return the index of the first inflected form of ``form`` in ``text`` (both folded), or -1."""
    if _KANJI.search(form) and form[-1] in _ENDINGS:
        return _japanese(form, text)
    return _dravidian(form, text) if _DRAVIDIAN.match(form) else -1


def _japanese(form: str, text: str) -> int:
    stem, ending = form[:-1], form[-1]
    for start in starts(stem, text):
        after = text[start + len(stem) : start + len(stem) + 1]
        if (after and after in _ENDINGS[ending]) or (ending == "る" and stem[-1] in _DROPPING):
            return start
    return -1


def _dravidian(form: str, text: str) -> int:
    stem = form.removesuffix(_TAMIL_NASAL)
    if stem == form:
        while stem and is_sign(stem[-1]):
            stem = stem[:-1]
    letters = sum(is_word_character(character) and not is_sign(character) for character in stem)
    if stem == form or letters < _LETTERS:
        return -1
    return next((start for start in starts(stem, text) if begins_word(text, start)), -1)
