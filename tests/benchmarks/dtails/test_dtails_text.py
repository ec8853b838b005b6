"""Folding, words, inflected forms and the Indel ratio of DTAiLS."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.dtails.text import (
    indel_ratio,
    inflected,
    occurrences,
    quoted_list,
    trimmed,
)
from pytest_llmprops.core.texts import folded, is_word_character, unicode_words

SHORT = st.text("abcdé", max_size=9)


def longest_common(first: str, second: str) -> int:
    """Return the length of the longest common subsequence by dynamic programming."""
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


@given(SHORT, SHORT)
def test_indel_ratio_matches_its_definition(first: str, second: str) -> None:
    """The ratio is twice the longest common subsequence over both lengths, and 1 for two empty texts."""
    total = len(first) + len(second)
    expected = 2 * longest_common(first, second) / total if total else 1.0
    assert indel_ratio(first, second) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("مهم‌ترین", "مهمترین"),  # zero-width non-joiner
        ("\u200fخرما\u200f", "خرما"),  # right-to-left marks
        ("\u2067خرما\u2069", "خرما"),  # isolates
        ("خـــرما", "خرما"),  # tatweel
        ("ﺧﺮﻣﺎ", "خرما"),  # presentation forms
        (unicodedata.normalize("NFD", "இப்போது"), unicodedata.normalize("NFC", "இப்போது")),
        ("क्\u200dष", "क्ष"),  # zero-width joiner
        ("ﾃﾞｻﾞｲﾝ", "デザイン"),
        ("Ｋｙｋ", "kyk"),
        ("ℂ", "c"),  # has a capital only after NFKC
        ("  Kyk \n na ", "kyk na"),
    ],
)
def test_folding_makes_equal(one: str, other: str) -> None:
    """Folding removes differences in joiners, direction marks, Unicode forms, width, case and spacing."""
    assert folded(one) == folded(other)


def test_folding_leaves_spelling_alone() -> None:
    """Folding keeps Arabic and Persian yeh, accents and different words distinct."""
    assert folded("رهبري") != folded("رهبری")
    assert folded("gesê") != folded("gese")


@given(st.text(max_size=30))
@example("aﹱb")  # NFKC decomposes it into a tatweel and a mark
def test_folding_twice_changes_nothing(text: str) -> None:
    """Folding a folded text does not change it."""
    assert folded(folded(text)) == folded(text)


def test_trimming_keeps_vowel_signs() -> None:
    """Quotes and brackets are trimmed, and a vowel sign at the end of an Indic word stays."""
    assert trimmed("**「நம்மை」**.") == "நம்மை"
    assert trimmed("...") == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Wat 'n mooi dag!", ["wat", "n", "mooi", "dag"]),
        ("学生達はデザイナーです。", ["学生達", "は", "デザイナー", "です"]),
        ("எங்கள் நிதி", ["எங்கள்", "நிதி"]), ("میادین، خرما.", ["میادین", "خرما"]), ("らーめん", ["らーめん"]),
        ("IT企業", ["it", "企業"]), ("", []),
    ],
)  # fmt: skip
def test_words(text: str, words: list[str]) -> None:
    """Letters with their marks form words, separated by punctuation and by changes of Japanese script."""
    assert unicode_words(text) == words


@given(st.text(max_size=40))
def test_words_lose_no_letter(text: str) -> None:
    """The joined words are the letters, marks and digits of the folded text, in order."""
    assert "".join(unicode_words(text)) == "".join(filter(is_word_character, folded(text)))


def test_whole_word_occurrence() -> None:
    """A form inside a longer word is not a whole word, except in scripts without spaces."""
    assert occurrences("te", "beteken te veel") == 2
    assert occurrences("te", "beteken te veel", whole=True) == 8
    assert occurrences("te", "beteken", whole=True) == -1
    assert occurrences("学生", "答えは学生です", whole=True) == 3
    assert occurrences("it", "答えはitです", whole=True) == 3
    assert occurrences("学生", "a学生b", whole=True) == 1
    assert occurrences("நம", "நமது", whole=True) == -1, "a vowel sign goes on with the word"
    assert occurrences("", "x") == -1


def test_quoted_list_has_no_escapes() -> None:
    """A list is printed unescaped, and a form with an apostrophe is put in double quotes."""
    assert quoted_list(["مهم‌ترین", "'n/een"]) == "['مهم‌ترین', \"'n/een\"]"


@pytest.mark.parametrize(
    ("form", "text", "start"),
    [
        ("破る", "沈黙を破りました", 3), ("破る", "破れた", 0), ("破る", "看破した", -1), ("壊れる", "壊れない", 0),
        ("読む", "本を読んだ", 2), ("読む", "読書", -1), ("かける", "かけた", -1), ("வருடம்", "ஒன்பது வருடங்களுக்கு", 7),
        ("தரவு", "தரவிலிருந்து", 0), ("தரவு", "உத்தரவின்", -1), ("సమయం", "ఆ సమయాన్ని", 2),
        ("చెప్పు", "చెప్పాడు", 0), ("தீ", "தண்ணீர்", -1), ("sien", "siener", -1),
    ],
)  # fmt: skip
def test_inflected_forms(form: str, text: str, start: int) -> None:
    """A Japanese verb is found with another ending, and a Tamil or Telugu word with a suffix, at its beginning."""
    assert inflected(form, text) == start
