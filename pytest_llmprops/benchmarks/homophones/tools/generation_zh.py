"""Generate Chinese homophone items: load jieba and pypinyin, and pass them to the pure generator."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

from pytest_llmprops.benchmarks.homophones.tools.chinese import Lexicon, Source, make_rows
from pytest_llmprops.core.errors import DataError, MissingExtra
from pytest_llmprops.data.files import DataFolder, builtin_data

_BUILTIN = "homophones/chinese.csv"
#: Replacement characters are among this many most frequent ones, and among the 3,755 of GB 2312 level 1.
_COMMON = 3000


def generate_zh(*, n: int, seed: int, sentences: Sequence[str] | None = None) -> list[dict[str, str]]:
    """Return ``n`` new items: columns sentence, word, answer_english (empty if unknown), answer_chinese.

    :param sentences: Correct Chinese sentences; by default the built-in ones with their answers restored.
    :raises ValueError: if fewer than ``n`` items are possible, or a sentence has no Chinese character.
    :raises MissingExtra: if jieba or pypinyin is not installed.
    """
    sources = _builtin_sources() if sentences is None else list(_user_sources(sentences))
    return make_rows(sources, n=n, seed=seed, lexicon=load_lexicon())


@lru_cache(maxsize=1)
def load_lexicon() -> Lexicon:
    """Load jieba's segmentation and dictionary, and pypinyin's readings."""
    jieba, posseg, pypinyin = _import("jieba"), _import("jieba.posseg"), _import("pypinyin")
    jieba.setLogLevel("ERROR")
    # Use a separate tokenizer: words that a program added to jieba's global one must not change the items.
    tokenizer = jieba.Tokenizer()
    tokenizer.initialize()
    tagger = posseg.POSTokenizer(tokenizer)
    frequencies = {word: frequency for word, frequency in tokenizer.FREQ.items() if frequency}

    def segment(sentence: str) -> list[tuple[str, str]]:
        # Without the hidden Markov model, which invents words that are not in the dictionary.
        return [(pair.word, pair.flag) for pair in tagger.cut(sentence, HMM=False)]

    def read(word: str) -> tuple[str, ...]:
        syllables = pypinyin.pinyin(word, style=pypinyin.Style.TONE3, neutral_tone_with_five=True)
        return tuple(readings[0] for readings in syllables)

    characters: dict[str, list[str]] = defaultdict(list)
    for character in _common_characters(frequencies):
        (syllable,) = read(character)
        characters[syllable].append(character)
    return Lexicon(
        segment=segment,
        read=read,
        characters={syllable: tuple(members) for syllable, members in characters.items()},
        words=frozenset(frequencies),
    )


def _common_characters(frequencies: dict[str, int]) -> list[str]:
    """Return the most frequent characters of the dictionary's words, most frequent first."""
    counts: Counter[str] = Counter()
    for word, frequency in frequencies.items():
        for character in word:
            counts[character] += frequency
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    return [character for character in ranked[:_COMMON] if _is_level_1(character)]


def _is_level_1(character: str) -> bool:
    """Return whether a character is in GB 2312 level 1 (common characters); excludes misprints."""
    try:
        code = character.encode("gb2312")
    except UnicodeEncodeError:
        return False
    return len(code) == 2 and 0xB0 <= code[0] <= 0xD7


def _builtin_sources() -> list[Source]:
    sources = []
    rows = DataFolder(builtin_data(), "builtin").csv(
        _BUILTIN, ("sentence", "word", "answer_english", "answer_chinese", "function_word")
    )
    for row in rows:
        if row["sentence"].count(row["word"]) != 1:
            raise DataError(
                f"{_BUILTIN}: {row['word']!r} must occur once in {row['sentence']!r}: correct the row"
            )
        text = row["sentence"].replace(row["word"], row["answer_chinese"])
        # If the answer is a function word or a single character, another word of the sentence is replaced.
        if row["function_word"] == "1" or len(row["answer_chinese"]) < 2:
            sources.append(Source(text))
        else:
            published = frozenset({row["word"]})
            sources.append(Source(text, row["answer_chinese"], row["answer_english"], published))
    return sources


def _user_sources(sentences: Iterable[str]) -> Iterable[Source]:
    for number, sentence in enumerate(sentences, start=1):
        text = sentence.strip()
        if not text:
            continue
        if not any("一" <= character <= "鿿" for character in text):
            raise ValueError(
                f"sentence {number} has no Chinese character: {text[:40]!r}; give one Chinese sentence per line"
            )
        yield Source(text)


def _import(name: str) -> Any:
    package = name.partition(".")[0]
    try:
        with warnings.catch_warnings():
            # jieba has invalid escapes and imports pkg_resources; users cannot fix these warnings.
            warnings.simplefilter("ignore")
            return import_module(name)
    except ImportError as error:
        raise MissingExtra("generating Chinese homophones", package=package, extra="zh") from error
