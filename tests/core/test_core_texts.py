"""Folding a text and splitting it into words, in the languages of the benchmarks."""

from __future__ import annotations

import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from pytest_llmprops.core.texts import folded, is_word_character, unicode_words


def test_folding_makes_equal() -> None:
    """Folding removes differences in joiners, direction marks, Unicode forms, width, case and spacing."""
    for one, other in (
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
    ):
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


def test_words() -> None:
    """Letters with their marks form words, separated by punctuation and by changes of Japanese script."""
    for text, words in {
        "Wat 'n mooi dag!": "wat n mooi dag",
        "学生達はデザイナーです。": "学生達 は デザイナー です",
        "எங்கள் நிதி": "எங்கள் நிதி", "میادین، خرما.": "میادین خرما", "らーめん": "らーめん", "IT企業": "it 企業", "": "",
    }.items():  # fmt: skip
        assert unicode_words(text) == words.split()


@given(st.text(max_size=40))
def test_words_lose_no_letter(text: str) -> None:
    """The joined words are the letters, marks and digits of the folded text, in order."""
    assert "".join(unicode_words(text)) == "".join(filter(is_word_character, folded(text)))
