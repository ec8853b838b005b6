"""Making homophone items: respell a word of a sentence so that it sounds the same and looks different.

The paper (Liu & Ross, section 13) asks for this automation. A word is respelt many times by seeded choice
among the spellings of ``respelling_tables.py``; of the candidates that the letter-to-sound rules read as
the answer (phoneme distance at most :data:`GENERATED_DISTANCE`), the one spelt least like it is kept.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from pytest_llmprops.benchmarks.homophones.function_words import is_function_word
from pytest_llmprops.benchmarks.homophones.spelling import spelling_distance
from pytest_llmprops.benchmarks.homophones.tools.phonetics import (
    THRESHOLDS,
    Phonemes,
    Pronunciations,
    SoundDistance,
    english_pronunciations,
    sound_distance,
)
from pytest_llmprops.benchmarks.homophones.tools.respelling_tables import (
    ENGLISH_SPELLINGS,
    ENGLISH_UNREADABLE,
    HETERONYMS,
    SPANISH_SPELLINGS,
)
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.seeds import generator

CANDIDATES = 160
"""Spellings tried for one word."""
MINIMUM_SPELLING_DISTANCE = 0.25
"""A respelling closer to the answer than this is not worth asking about."""
SHARE_CHANGED = 0.9
SHARE_LENGTHENED = 0.1
"""How often a Spanish grapheme is respelt when that adds no letter, and when it does."""
GENERATED_DISTANCE = 0.05
"""Largest phoneme distance of a generated word: stricter than for the built-in words, since nobody reads it
before it is used, and small enough that no sound of a word can be another one altogether."""
LETTERS_A_LETTER_MORE = 4
"""A respelling may have one letter more for this many letters of its answer; English ones one more still."""
SHORTEST_ANSWER = 4
"""Letters of the shortest word that is respelt: shorter ones are rarely content words."""

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


@dataclass(frozen=True, slots=True)
class Respelling:
    """A made-up spelling of ``answer``, and its phoneme and spelling distance from it, each in [0, 1]."""

    word: str
    answer: str
    sound: float
    spelling: float


@dataclass(frozen=True, slots=True)
class GeneratedItem:
    """A sentence with one word replaced by a made-up homophone of ``answer``."""

    sentence: str
    word: str
    answer: str


def words_of(text: str) -> list[str]:
    """The words of a text in order: runs of letters, with inner apostrophes."""
    return _WORD.findall(text)


def restore(sentence: str, word: str, answer: str) -> str:
    """The sentence with ``answer`` in place of ``word``, which must stand in it exactly once.

    :raises ValueError: when the word does not occur, or occurs more than once.
    """
    restored, count = re.subn(
        rf"(?<!\w){re.escape(word)}(?!\w)", lambda _: answer, sentence, flags=re.IGNORECASE
    )
    if count != 1:
        raise ValueError(f"{word!r} occurs {count} times in {sentence!r}: it must occur exactly once")
    return restored


@cache
def _english_spellings() -> Mapping[Phonemes, tuple[str, ...]]:
    table: dict[Phonemes, tuple[str, ...]] = {}
    for line in ENGLISH_SPELLINGS:
        phonemes, _, spellings = line.partition(" = ")
        table[tuple(phonemes.split())] = tuple(spellings.split())
    return MappingProxyType(table)


@cache
def _spanish_spellings() -> tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]:
    rules = []
    for line in SPANISH_SPELLINGS:
        pattern, _, spellings = line.partition(" = ")
        rules.append((re.compile(pattern), tuple(s if s != "-" else "" for s in spellings.split())))
    return tuple(rules)


@cache
def _unreadable() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern) for pattern in ENGLISH_UNREADABLE)


def _allowed(spelling: str, *, first: bool, last: bool) -> bool:
    return not (
        (spelling[0] == "^" and not first)
        or (spelling[0] == "-" and first)
        or (spelling[-1] == "$" and not last)
        or (spelling[-1] == "-" and last)
    )


def spell_english(phonemes: Phonemes, rng: random.Random) -> str:
    """One spelling of an ARPAbet sequence, drawn from the table."""
    table = _english_spellings()
    letters: list[str] = []
    position = 0
    while position < len(phonemes):
        options = [
            (length, spelling.strip("^-$"))
            for length in (3, 2, 1)
            for spelling in table.get(phonemes[position : position + length], ())
            if position + length <= len(phonemes)
            and _allowed(spelling, first=position == 0, last=position + length == len(phonemes))
        ]
        if not options:
            raise ValueError(f"no spelling for {phonemes[position]!r}: use ARPAbet without stress digits")
        length, spelling = rng.choice(options)
        letters.append(spelling)
        position += length
    return "".join(letters)


def _graphemes(word: str) -> list[tuple[str, tuple[str, ...]]]:
    """A Spanish word as (letters, other spellings of them)."""
    parts: list[tuple[str, tuple[str, ...]]] = []
    position = 0
    while position < len(word):
        for pattern, spellings in _spanish_spellings():
            match = pattern.match(word, position)
            if match:
                parts.append((match[0], tuple(match.expand(spelling) for spelling in spellings)))
                break
        else:
            parts.append((word[position], ()))
        position += len(parts[-1][0])
    return parts


def respell_spanish(word: str, rng: random.Random, count: int = 1) -> list[str]:
    """``count`` other spellings of a Spanish word, drawn grapheme by grapheme from the table."""
    parts = _graphemes(word)
    results = []
    for _ in range(count):
        letters = []
        for same, others in parts:
            if not others:
                letters.append(same)
                continue
            other = rng.choice(others)
            share = SHARE_CHANGED if len(other) <= len(same) else SHARE_LENGTHENED
            letters.append(other if rng.random() < share else same)
        results.append("".join(letters))
    return results


def _longest(answer: str, lang: str) -> int:
    return len(answer) + max(1, len(answer) // LETTERS_A_LETTER_MORE) + (lang == "en")


def _candidates(
    answer: str, lang: str, rng: random.Random, pronunciations: Pronunciations | None
) -> Iterator[str]:
    if lang == "es":
        yield from respell_spanish(answer, rng, CANDIDATES)
        return
    sounds = english_pronunciations(answer, pronunciations or {})
    for _ in range(CANDIDATES):
        spelling = spell_english(rng.choice(sounds), rng)
        if not any(pattern.search(spelling) for pattern in _unreadable()):
            yield spelling


def respell(
    answer: str,
    lang: str,
    *,
    rng: random.Random,
    measure: SoundDistance,
    pronunciations: Pronunciations | None = None,
    avoid: Collection[str] = (),
) -> Respelling | None:
    """The candidate spelt least like ``answer`` among those that sound like it, or None where there is none.

    :param answer: a lower-case word.
    :param measure: the phoneme distance of the language, from ``phonetics.sound_distance``.
    :param avoid: lower-case words that the respelling must not be (the sentence's own).
    """
    ranked = sorted(
        set(_candidates(answer, lang, rng, pronunciations)),
        # the text breaks ties, so that the order of a set never shows
        key=lambda word: (-spelling_distance(word, answer), word),
    )
    for word in ranked:
        distance = spelling_distance(word, answer)
        if distance < MINIMUM_SPELLING_DISTANCE:
            break
        # a reply that only repeats such a word would contain the answer
        if answer in word or word in avoid or len(word) > _longest(answer, lang):
            continue
        sound = measure(word, answer).distance
        if sound <= GENERATED_DISTANCE:
            return Respelling(word, answer, sound, distance)
    return None


def replaceable_words(sentence: str, lang: str, pronunciations: Pronunciations | None = None) -> list[str]:
    """The content words of a sentence that can become an item's answer, in order.

    They are in lower case (names are left alone), have at least four letters and no apostrophe, and stand
    nowhere else in the sentence, not even inside another word; English ones are in the dictionary, and said
    in one way only.
    """
    lowered = sentence.lower()
    return [
        word
        for word in words_of(sentence)
        if word.isalpha()
        and word.islower()
        and len(word) >= SHORTEST_ANSWER
        and not is_function_word(word, lang)
        and lowered.count(word) == 1
        and (lang != "en" or (word in (pronunciations or {}) and word not in HETERONYMS))
    ]


def generate_items(
    sentences: Sequence[str], lang: str, *, n: int, seed: int, pronunciations: Pronunciations | None = None
) -> list[GeneratedItem]:
    """``n`` items made from sentences, the same for the same arguments.

    Each sentence gives one item before any gives a second one, with another of its words. No two items share
    their answer or their made-up word.

    :param lang: ``en`` (needs ``pronunciations``, word -> ARPAbet tuples) or ``es``.
    :raises UsageError: (a ValueError) when the sentences do not yield ``n`` items; it says how many they do.
    """
    if lang not in THRESHOLDS:
        raise UsageError(f"no respelling rules for language {lang!r}: use one of {', '.join(THRESHOLDS)}")
    if n < 1:
        raise UsageError(f"cannot make {n} items: ask for at least 1")
    measure = sound_distance(lang, pronunciations)
    rng = generator("homophones", lang, seed)
    pool = list(dict.fromkeys(" ".join(sentence.split()) for sentence in sentences))
    waiting = [(s, words) for s in pool if (words := replaceable_words(s, lang, pronunciations))]
    rng.shuffle(waiting)
    for _, words in waiting:
        rng.shuffle(words)
    items: list[GeneratedItem] = []
    used: set[str] = set()
    while waiting and len(items) < n:
        for sentence, words in waiting:
            if len(items) == n:
                break
            while words:
                answer = words.pop()
                if answer in used:
                    continue
                own = {word.lower() for word in words_of(sentence)}
                found = respell(
                    answer, lang, rng=rng, measure=measure, pronunciations=pronunciations, avoid=own | used
                )
                if found is not None:
                    used |= {answer, found.word}
                    changed = re.sub(rf"(?<!\w){re.escape(answer)}(?!\w)", found.word, sentence)
                    items.append(GeneratedItem(changed, found.word, answer))
                    break
        waiting = [(sentence, words) for sentence, words in waiting if words]
    if len(items) < n:
        raise UsageError(
            f"only {len(items)} of {n} homophone items ({lang}) can be made from {len(pool)} sentences: "
            "give more sentences with content words of four letters or more, or ask for fewer"
        )
    return items
