"""Find characters that sound like a Chinese word and look different.

Another Chinese word can sound exactly the same and have no character in common (Liu & Ross, sections 10.2 and 13).
Each character is replaced by a common one with the same pinyin syllable, and with the same tone if there is one.
pypinyin has the readings, jieba the words.
"""

from __future__ import annotations

import random
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

from pytest_llmprops.core.errors import MissingExtra

#: random homophones of a word that are checked
TRIES = 30
#: replacement characters are among this many most frequent ones, and among the 3,755 of GB 2312 level 1
COMMON = 3000
#: pypinyin reads them as shuí, lǜ, shén and cān, but many readers say shéi, shuài, shí and shēn
READ_OTHERWISE = "谁率什参"


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Words, and the common characters of each syllable with its tone, such as ``chu2``."""

    words: Container[str]
    characters: Mapping[str, Sequence[str]]


def homophones(words: Sequence[str], rng: random.Random) -> Iterator[list[str]]:
    """Yield for each word made-up words that sound like it, without its characters.

    None is a word of the dictionary, so none can be another spelling of the word or a synonym.

    :raises MissingExtra: if jieba or pypinyin is not installed.
    """
    lexicon = load_lexicon()
    for word in words:
        pools = [_characters(syllable, word, lexicon) for syllable in syllables(word)]
        drawn = ("".join(rng.choice(pool) for pool in pools) for _ in range(TRIES if all(pools) else 0))
        yield [one for one in dict.fromkeys(drawn) if one not in lexicon.words]


def syllables(word: str) -> tuple[str, ...]:
    """Return the syllable of each character, with its tone in the word; 5 is the neutral tone."""
    pypinyin = _import("pypinyin")
    read = pypinyin.pinyin(word, style=pypinyin.Style.TONE3, neutral_tone_with_five=True)
    return tuple(readings[0] for readings in read)


@lru_cache(maxsize=1)
def load_lexicon() -> Lexicon:
    """Return the words of jieba's dictionary, and the most frequent of their characters by reading."""
    counts: Counter[str] = Counter()
    words = set()
    with _import("jieba").get_dict_file() as file:
        for line in file.read().decode("utf-8").splitlines():
            word, frequency, _ = line.split(" ")
            words.add(word)
            for character in word:
                counts[character] += int(frequency)
    characters: dict[str, list[str]] = defaultdict(list)
    for character in sorted(counts, key=lambda one: (-counts[one], one))[:COMMON]:
        if _is_level_1(character) and character not in READ_OTHERWISE:
            characters[syllables(character)[0]].append(character)
    return Lexicon(words, characters)


def _characters(syllable: str, word: str, lexicon: Lexicon) -> list[str]:
    """Return the characters that may replace one with this syllable in ``word``."""
    other_tones = (re.sub("[1-5]$", tone, syllable) for tone in "12345")
    same, *others = (
        [c for c in lexicon.characters.get(s, ()) if c not in word] for s in (syllable, *other_tones)
    )
    return same or [character for group in others for character in group]


def _is_level_1(character: str) -> bool:
    """Return True if a character is in GB 2312 level 1 (common characters); excludes misprints."""
    code = character.encode("gb2312", "ignore")
    return len(code) == 2 and 0xB0 <= code[0] <= 0xD7


def _import(name: str) -> Any:
    try:
        with warnings.catch_warnings():
            # jieba has invalid escapes and imports pkg_resources; users cannot fix these warnings.
            warnings.simplefilter("ignore")
            return import_module(name)
    except ImportError as error:
        raise MissingExtra("generating Chinese homophones", package=name, extra="zh") from error
