"""Generate Chinese homophone items from sentences: the automation that the paper leaves as future work.

Chinese has the clearest homophones: another word can sound exactly the same and have no character in common
(Liu & Ross, "Examining the Efficacy of LLMs in Comprehending Homophones", sections 10.2 and 13). A word is
replaced by characters with the same toneless pinyin syllables, none of which occurs in the word itself.

This module reads no files or dictionaries; a :class:`Lexicon` provides the words and their sounds.
"""

from __future__ import annotations

import random
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

from pytest_llmprops.benchmarks.homophones.tools.sentences import Source
from pytest_llmprops.core.errors import MissingExtra, UsageError
from pytest_llmprops.core.protocols import generator

#: First letters of the part-of-speech tags of content words (ICTCLAS tags, from jieba).
CONTENT_TAGS = ("n", "v", "a", "i", "l", "t", "s", "z")
#: Names are excluded: a sentence does not say which name was meant.
NAME_TAGS = ("nr", "nrt", "nrfg", "ns", "nt")
#: Words tagged as verbs or times with so little content that the context cannot determine them.
LIGHT_WORDS = frozenset(
    re.findall(
        "[一-鿿]{2}",
        "没有 可以 可能 能够 应该 需要 不能 不会 不是 就是 还是 觉得 知道 认为 成为 进行 开始 使得 似乎 好像 "
        "现在 今天 明天 昨天 时候 以后 以前 之前 之后 有些 有的 可是 只好 只能 看到 听到 是否 起来 出来 下来",
    )
)
LONGEST_WORD = 4
#: Maximum attempts per word. An attempt fails if it gives a real word, or one that occurs in the sentence.
ATTEMPTS = 30

_TONE = re.compile(r"[1-5]$")
_HAN = re.compile(r"[一-鿿]+")


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The generator's knowledge of Chinese.

    :param segment: Sentence -> (word, part-of-speech tag) pairs in order; the words join to the sentence.
    :param read: Word -> toned syllables, one per character, such as ``("chu2", "fang2")``; tone 5 is neutral.
    :param characters: Toned syllable -> the common characters with this usual reading.
    :param words: All dictionary words.
    """

    segment: Callable[[str], Sequence[tuple[str, str]]]
    read: Callable[[str], tuple[str, ...]]
    characters: Mapping[str, Sequence[str]]
    words: Container[str]


def toneless(syllable: str) -> str:
    """Return a syllable without its tone: ``"chu2"`` -> ``"chu"``."""
    return _TONE.sub("", syllable)


def content_words(text: str, lexicon: Lexicon) -> tuple[str, ...]:
    """Return the content words of ``text``: 2 to 4 characters, in the dictionary, occurring once."""
    words = []
    for word, tag in lexicon.segment(text):
        if (
            2 <= len(word) <= LONGEST_WORD
            and _HAN.fullmatch(word)
            and tag.startswith(CONTENT_TAGS)
            and not tag.startswith(NAME_TAGS)
            and word not in LIGHT_WORDS
            and word in lexicon.words
            and text.count(word) == 1
        ):
            words.append(word)
    return tuple(words)


def homophone(
    word: str,
    lexicon: Lexicon,
    rng: random.Random,
    *,
    text: str = "",
    taken: Container[tuple[str, str]] = (),
) -> str | None:
    """Return a made-up word that sounds like ``word``, or None if there is none.

    Each character is replaced by another common one with the same toneless syllable, and with the same tone if
    one exists. The result shares no character with ``word``, does not occur in ``text``, and ``(result, word)`` is
    not in ``taken``. It is not a dictionary word, so it cannot be another spelling of the word or a synonym.
    """
    pools = _pools(word, lexicon)
    if pools is None:
        return None
    for _ in range(ATTEMPTS):
        candidate = "".join(rng.choice(pool) for pool in pools)
        is_new = (candidate, word) not in taken
        if is_new and candidate not in lexicon.words and candidate not in text:
            return candidate
    return None


def homophones(word: str, rng: random.Random, *, text: str, used: Collection[str], most: int) -> list[str]:
    """Return up to ``most`` different made-up words that sound like ``word``; see :func:`homophone`.

    :raises MissingExtra: if jieba or pypinyin is not installed.
    """
    lexicon, found = load_lexicon(), list[str]()
    for _ in range(2 * most):
        one = homophone(word, lexicon, rng, text=text, taken={(one, word) for one in (*used, *found)})
        if one is None or len(found) == most:
            break
        found.append(one)
    return found


def make_rows(
    sources: Iterable[Source],
    *,
    n: int,
    seed: int,
    lexicon: Lexicon,
    translations: Mapping[str, str],
    taken: Container[tuple[str, str]] = (),
) -> list[dict[str, str]]:
    """Return ``n`` rows with the columns sentence, word, answer_english, answer_chinese.

    Every sentence gives one item before any sentence gives a second one, with another word. The first word is the
    answer of the source, if it has one. The items of a sentence depend only on the seed and the sentence.

    :param translations: Chinese word -> English translations, for words that are not the answer of a source; words
        without any are not replaced.
    :param taken: (homophone, word) pairs that are not new.
    :raises UsageError: (a ValueError) if fewer than ``n`` items are possible.
    """
    if n < 1:
        raise UsageError(f"cannot generate {n} items: request at least 1")
    unique = list({source.text: source for source in sources}.values())
    generator("homophones/zh/order", seed).shuffle(unique)
    rows: list[dict[str, str]] = []
    waiting = [_items(source, seed, lexicon, translations, taken) for source in unique]
    depth = 0
    while len(rows) < n and any(depth < len(items) for items in waiting):
        rows += [items[depth] for items in waiting if depth < len(items)]
        depth += 1
    if len(rows) < n:
        raise UsageError(
            f"only {len(rows)} of {n} homophone items (zh) can be generated from {len(unique)} sentences: "
            "give more sentences, each with its answer of two to four characters and its English translation after "
            "tabs, or request fewer items"
        )
    return rows[:n]


def _items(
    source: Source,
    seed: int,
    lexicon: Lexicon,
    translations: Mapping[str, str],
    taken: Container[tuple[str, str]],
) -> list[dict[str, str]]:
    """Return all items of one sentence, that of its answer first."""
    rng = generator("homophones/zh", seed, source.text)
    words = [word for word in content_words(source.text, lexicon) if word != source.answer]
    rng.shuffle(words)
    if source.answer:
        words.insert(0, source.answer)
    rows = []
    for word in words:
        english = source.english if word == source.answer else ""
        english = english or translations.get(word, "")
        replacement = homophone(word, lexicon, rng, text=source.text, taken=taken) if english else None
        if replacement is None:
            continue
        sentence = source.text.replace(word, replacement, 1)
        # A neighbouring character can complete a second copy of either word.
        if sentence.count(replacement) == 1 and word not in sentence:
            rows.append(
                {
                    "sentence": sentence,
                    "word": replacement,
                    "answer_english": english,
                    "answer_chinese": word,
                }
            )
    return rows


def _pools(word: str, lexicon: Lexicon) -> list[list[str]] | None:
    """Return the possible replacements of each character of ``word``; None if a character has none."""
    syllables = lexicon.read(word)
    if len(syllables) != len(word):
        return None
    pools = []
    for syllable in syllables:
        same_tone = [c for c in lexicon.characters.get(syllable, ()) if c not in word]
        base = toneless(syllable)
        all_tones = (f"{base}{tone}" for tone in "12345")
        pool = same_tone or [c for s in all_tones for c in lexicon.characters.get(s, ()) if c not in word]
        if not pool:
            return None
        pools.append(pool)
    return pools


#: Replacement characters are among this many most frequent ones, and among the 3,755 of GB 2312 level 1.
_COMMON = 3000
#: pypinyin reads them as shuí, lǜ, shén and cān, but many readers say shéi, shuài, shí and shēn.
_READ_OTHERWISE = "谁率什参"


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
    """Return the most frequent characters of the dictionary's words, most frequent first, except misread ones."""
    counts: Counter[str] = Counter()
    for word, frequency in frequencies.items():
        for character in word:
            counts[character] += frequency
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    return [
        character
        for character in ranked[:_COMMON]
        if _is_level_1(character) and character not in _READ_OTHERWISE
    ]


def _is_level_1(character: str) -> bool:
    """Return True if a character is in GB 2312 level 1 (common characters); excludes misprints."""
    try:
        code = character.encode("gb2312")
    except UnicodeEncodeError:
        return False
    return len(code) == 2 and 0xB0 <= code[0] <= 0xD7


def _import(name: str) -> Any:
    package = name.partition(".")[0]
    try:
        with warnings.catch_warnings():
            # jieba has invalid escapes and imports pkg_resources; users cannot fix these warnings.
            warnings.simplefilter("ignore")
            return import_module(name)
    except ImportError as error:
        raise MissingExtra("generating Chinese homophones", package=package, extra="zh") from error
