"""Made-up Chinese words that sound like another one."""

from __future__ import annotations

import pytest

from pytest_llmprops.benchmarks.homophones.tools import chinese
from pytest_llmprops.benchmarks.homophones.tools.chinese import (
    READ_OTHERWISE,
    Lexicon,
    homophones,
    load_lexicon,
    syllables,
)
from pytest_llmprops.core.protocols import generator


def made(word: str, seed: int = 0) -> list[str]:
    [group] = homophones([word], generator(seed))
    return group


def test_same_tone_is_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tian1` has a replacement in the same tone; `kong1` has none, so the fourth tone is used.

    If the only replacement is a word, or a character has none, there is no homophone.
    """
    # Dictionaries small enough to check by hand, in place of jieba's.
    characters = {"tian1": ["天", "添"], "tian2": ["田"], "kong1": ["空"], "kong4": ["控"], "lan2": ["蓝"]}
    for words, replacements in (({"天空", "田控"}, ["添控"]), ({"添控"}, [])):
        monkeypatch.setattr(chinese, "load_lexicon", lambda words=words: Lexicon(words, characters))
        assert made("天空") == replacements
        assert made("蓝天") == []


@pytest.mark.parametrize("word", ["牙齿", "收音机"])
def test_homophones_have_the_syllables_of_the_word(word: str) -> None:
    """Each has the syllables that the characters have in the word, but none of its characters, and is no word."""
    lexicon = load_lexicon()
    for seed in range(3):
        group = made(word, seed)
        assert group == made(word, seed)
        assert group
        for one in group:
            assert not set(one) & set(word)
            read = [syllable for character in one for syllable in syllables(character)]
            assert [s[:-1] for s in read] == [s[:-1] for s in syllables(word)]
            assert one not in lexicon.words


def test_characters_are_common_and_read_alike() -> None:
    """Characters that many readers read otherwise than pypinyin are left out, and so are rare ones."""
    characters = {c for members in load_lexicon().characters.values() for c in members}
    assert not set(READ_OTHERWISE) & characters
    assert set("牙家天人") <= characters
    assert not set("彳龘囧") & characters
    assert 2000 < len(characters) <= 3000
