"""Chinese homophone items made from sentences: the automation that the paper leaves as future work.

Chinese makes the cleanest homophones: another word can sound exactly the same and share nothing in writing
(Liu & Ross, "Examining the Efficacy of LLMs in Comprehending Homophones", sections 10.2 and 13). A word is
replaced by characters of the same toneless pinyin syllables, none of which occurs in the word itself.

Nothing here reads a file or a dictionary: what Chinese sounds like comes in as a :class:`Lexicon`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_llmprops.core.seeds import generator

#: First letters of the part-of-speech tags (ICTCLAS, as jieba gives them) of words that carry content.
CONTENT_TAGS = ("n", "v", "a", "i", "l", "t", "s", "z")
#: Names: nothing in a sentence says which name was meant.
NAME_TAGS = ("nr", "nrt", "nrfg", "ns", "nt")
#: Verbs and time words by their tag, yet so empty that any of them fits; the context cannot give them back.
LIGHT_WORDS = frozenset(
    re.findall(
        "[一-鿿]{2}",
        "没有 可以 可能 能够 应该 需要 不能 不会 不是 就是 还是 觉得 知道 认为 成为 进行 开始 使得 似乎 好像 "
        "现在 今天 明天 昨天 时候 以后 以前 之前 之后 有些 有的 可是 只好 只能 看到 听到 是否 起来 出来 下来",
    )
)
LONGEST_WORD = 4
#: Draws per word before it is given up: each draw that fails met a real word or a clash with the sentence.
DRAWS = 30

_TONE = re.compile(r"[1-5]$")
_HAN = re.compile(r"[一-鿿]+")


@dataclass(frozen=True, slots=True)
class Lexicon:
    """What the generator must know of Chinese.

    :param segment: sentence -> (word, part-of-speech tag) pairs in order; the words make up the sentence.
    :param read: word -> toned syllables, one a character, as in ``("chu2", "fang2")``; tone 5 is the neutral.
    :param characters: toned syllable -> the common characters whose usual reading it is.
    :param words: all dictionary words.
    """

    segment: Callable[[str], Sequence[tuple[str, str]]]
    read: Callable[[str], tuple[str, ...]]
    characters: Mapping[str, Sequence[str]]
    words: Container[str]


@dataclass(frozen=True, slots=True)
class Source:
    """A correct sentence to make items from.

    :param answer: the word to replace first, when one is known to be recoverable from the context.
    :param english: that word's English, alternatives separated by ``/``.
    :param used: homophones of that word already published; a fresh one differs from them.
    """

    text: str
    answer: str = ""
    english: str = ""
    used: frozenset[str] = frozenset()


def toneless(syllable: str) -> str:
    """``"chu2"`` -> ``"chu"``."""
    return _TONE.sub("", syllable)


def content_words(text: str, lexicon: Lexicon) -> tuple[str, ...]:
    """The words of ``text`` worth replacing: 2 to 4 characters, in the dictionary, occurring once."""
    found = []
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
            found.append(word)
    return tuple(found)


def homophone(
    word: str,
    lexicon: Lexicon,
    rng: random.Random,
    *,
    text: str = "",
    used: Container[str] = (),
) -> str | None:
    """A made-up word that sounds like ``word``, or None when there is none.

    Each character becomes another common one of the same toneless syllable, of the same tone where there is
    one. The result shares no character with ``word``, does not occur in ``text``, is not in ``used`` and is
    no dictionary word: so it cannot be another spelling of the same word, or a word of the same meaning.
    """
    pools = _pools(word, lexicon)
    if pools is None:
        return None
    for _ in range(DRAWS):
        made = "".join(rng.choice(pool) for pool in pools)
        if made not in used and made not in lexicon.words and made not in text:
            return made
    return None


def make_rows(sources: Iterable[Source], *, n: int, seed: int, lexicon: Lexicon) -> list[dict[str, str]]:
    """``n`` rows with the columns sentence, word, answer_english, answer_chinese.

    Every sentence gives one item before any gives a second (of another word). The items that a sentence gives
    depend on the seed and that sentence only.

    :raises ValueError: fewer than ``n`` items can be made.
    """
    if n < 1:
        raise ValueError(f"n is {n}: ask for at least one Chinese homophone item")
    unique = list({source.text: source for source in sources}.values())
    generator("homophones/zh/order", seed).shuffle(unique)
    rows: list[dict[str, str]] = []
    waiting = [_items(source, seed, lexicon) for source in unique]
    depth = 0
    while len(rows) < n and any(depth < len(items) for items in waiting):
        rows += [items[depth] for items in waiting if depth < len(items)]
        depth += 1
    if len(rows) < n:
        raise ValueError(
            f"{n} Chinese homophone items asked for, but {len(unique)} sentences give only {len(rows)}: "
            "add sentences with content words of two to four characters, or ask for fewer"
        )
    return rows[:n]


def _items(source: Source, seed: int, lexicon: Lexicon) -> list[dict[str, str]]:
    """Every item of one sentence, the known answer's first."""
    rng = generator("homophones/zh", seed, source.text)
    words = [word for word in content_words(source.text, lexicon) if word != source.answer]
    rng.shuffle(words)
    if source.answer:
        words.insert(0, source.answer)
    rows = []
    for word in words:
        known = word == source.answer
        made = homophone(word, lexicon, rng, text=source.text, used=source.used if known else ())
        if made is None:
            continue
        sentence = source.text.replace(word, made, 1)
        # A neighbouring character can complete a second copy of either word.
        if sentence.count(made) == 1 and word not in sentence:
            rows.append(
                {
                    "sentence": sentence,
                    "word": made,
                    "answer_english": source.english if known else "",
                    "answer_chinese": word,
                }
            )
    return rows


def _pools(word: str, lexicon: Lexicon) -> list[list[str]] | None:
    """Per character of ``word`` the characters that may stand for it; None when one has no stand-in."""
    syllables = lexicon.read(word)
    if len(syllables) != len(word):
        return None
    pools = []
    for syllable in syllables:
        same_tone = [c for c in lexicon.characters.get(syllable, ()) if c not in word]
        bare = toneless(syllable)
        other = (f"{bare}{tone}" for tone in "12345")
        pool = same_tone or [c for s in other for c in lexicon.characters.get(s, ()) if c not in word]
        if not pool:
            return None
        pools.append(pool)
    return pools
