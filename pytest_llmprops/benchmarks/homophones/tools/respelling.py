"""Generate homophone items: respell a word of a sentence so that it sounds the same and looks different.

The paper (Liu & Ross, section 13) proposes this automation. A word is respelled many times by seeded choice
among the spellings of ``respelling_tables.py``. Candidates must sound like the answer by the letter-to-sound
rules (phoneme distance at most :data:`GENERATED_DISTANCE`); the one with the most different spelling is used.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from pytest_llmprops.benchmarks.homophones.benchmark import read_rules
from pytest_llmprops.benchmarks.homophones.reading import spelling_distance
from pytest_llmprops.benchmarks.homophones.reading_rules import Words
from pytest_llmprops.benchmarks.homophones.tools.phonetics import (
    THRESHOLDS,
    Phonemes,
    Pronunciations,
    SoundDistance,
    dialect,
    english_pronunciations,
    sound_distance,
    sound_tables,
)
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.data.files import DataFolder, builtin_data
from pytest_llmprops.data.pronunciation import load_cmudict

CANDIDATES = 160
"""Number of spellings tried for one word."""
MINIMUM_SPELLING_DISTANCE = 0.25
"""A respelling closer to the answer than this is too easy."""
SHARE_CHANGED = 0.9
SHARE_LENGTHENED = 0.1
"""Probability of respelling a Spanish grapheme, if that adds no letter and if it does."""
GENERATED_DISTANCE = 0.05
"""Largest phoneme distance of a generated word. It is stricter than for the built-in words, because nobody
checks generated words, and small enough that no sound can be replaced by a very different one."""
LETTERS_PER_EXTRA_LETTER = 4
"""A respelling may have one extra letter per this many letters of its answer; English ones one more."""
SHORTEST_ANSWER = 4
"""Minimum number of letters of a word to respell; shorter words are rarely content words."""

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


@dataclass(frozen=True, slots=True)
class Respelling:
    """A made-up spelling of ``answer``, with its phoneme and spelling distance from it, each in [0, 1]."""

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
    """Return the words of a text in order: runs of letters, with inner apostrophes."""
    return _WORD.findall(text)


def restore(sentence: str, word: str, answer: str) -> str:
    """Return the sentence with ``answer`` in place of ``word``, which must occur exactly once.

    :raises ValueError: if the word does not occur, or occurs more than once.
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
    for line in sound_tables()["english_spellings"]:
        phonemes, _, spellings = line.partition(" = ")
        table[tuple(phonemes.split())] = tuple(spellings.split())
    return MappingProxyType(table)


@cache
def _spanish_spellings() -> tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]:
    rules = []
    for line in sound_tables()["spanish_spellings"]:
        pattern, _, spellings = line.partition(" = ")
        rules.append((re.compile(pattern), tuple(s if s != "-" else "" for s in spellings.split())))
    return tuple(rules)


@cache
def _unreadable() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern) for pattern in sound_tables()["unreadable"])


def _allowed(spelling: str, *, first: bool, last: bool) -> bool:
    return not (
        (spelling[0] == "^" and not first)
        or (spelling[0] == "-" and first)
        or (spelling[-1] == "$" and not last)
        or (spelling[-1] == "-" and last)
    )


def spell_english(phonemes: Phonemes, rng: random.Random) -> str:
    """Return a random spelling of an ARPAbet sequence, from the table."""
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
    """Return a Spanish word as (letters, alternative spellings of them)."""
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
    """Return ``count`` random spellings of a Spanish word, chosen grapheme by grapheme from the table."""
    parts = _graphemes(word)
    results = []
    for _ in range(count):
        letters = []
        for original, alternatives in parts:
            if not alternatives:
                letters.append(original)
                continue
            alternative = rng.choice(alternatives)
            share = SHARE_CHANGED if len(alternative) <= len(original) else SHARE_LENGTHENED
            letters.append(alternative if rng.random() < share else original)
        results.append("".join(letters))
    return results


def _longest(answer: str, lang: str) -> int:
    return len(answer) + max(1, len(answer) // LETTERS_PER_EXTRA_LETTER) + (lang == "en")


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


@cache
def builtin_words() -> Words:
    """Return the word lists of the built-in reading rules."""
    return read_rules(DataFolder(builtin_data(), "builtin")).words


def respell(
    answer: str,
    lang: str,
    *,
    rng: random.Random,
    measure: SoundDistance,
    pronunciations: Pronunciations | None = None,
    avoid: Collection[str] = (),
) -> Respelling | None:
    """Return the candidate that sounds like ``answer`` and is spelled least like it; None if there is none.

    :param answer: A lower-case word.
    :param measure: The phoneme distance of the language, from ``phonetics.sound_distance``.
    :param avoid: Lower-case words that are not allowed as respellings (the sentence's words).
    """
    ranked = sorted(
        set(_candidates(answer, lang, rng, pronunciations)),
        # The word breaks ties, so that the result does not depend on the set's order.
        key=lambda word: (-spelling_distance(word, answer), word),
    )
    for word in ranked:
        distance = spelling_distance(word, answer)
        if distance < MINIMUM_SPELLING_DISTANCE:
            break
        # If the respelling contained the answer, a reply that only repeats it would be correct.
        if answer in word or word in avoid or len(word) > _longest(answer, lang):
            continue
        sound = measure(word, answer).distance
        if sound <= GENERATED_DISTANCE:
            return Respelling(word, answer, sound, distance)
    return None


RESPELLINGS = 6
"""Maximum number of spellings that an edited item is drawn from."""


def respellings(answer: str, word: str, sentence: str, lang: str) -> tuple[str, ...]:
    """Return other spellings of the sound of ``answer`` than ``word``, the most similar to ``word`` first.

    They follow the rules of generated items: each does not contain the answer, looks different and does not occur in
    the sentence. It sounds exactly like the answer, because a spelling that must be read in a rare way would be harder
    than the item. A Spanish one needs no merger of dialects that ``word`` does not need. The same arguments give the
    same spellings. Empty if the answer is not a single word, or has two pronunciations.

    :raises MissingExtra: if the dictionary of the language is not installed.
    """
    rng = generator("homophones", "respellings", lang, answer)
    if lang == "zh":
        from pytest_llmprops.benchmarks.homophones.tools.chinese import homophones

        found = homophones(answer, rng, text=sentence, used={word}, most=RESPELLINGS)
    else:
        found = _respelled(answer.lower(), word.lower(), sentence, lang, rng)
    return tuple(sorted(found, key=lambda one: (spelling_distance(one, word), one)))


def _respelled(answer: str, word: str, sentence: str, lang: str, rng: random.Random) -> list[str]:
    pronunciations = load_cmudict() if lang == "en" else None
    heteronyms = " ".join(sound_tables()["heteronyms"]).split()
    if not answer.isalpha() or (pronunciations is not None and answer not in pronunciations):
        return []
    if lang == "en" and answer in heteronyms:
        return []
    measure = sound_distance(lang, pronunciations)
    mergers = set(dialect(word, answer).split()) if lang == "es" else set()
    found: list[str] = []
    for one in dict.fromkeys(_candidates(answer, lang, rng, pronunciations)):
        is_usable = (
            one != word
            and answer not in one
            and one not in sentence.lower()
            and len(one) <= _longest(answer, lang)
            and spelling_distance(one, answer) >= MINIMUM_SPELLING_DISTANCE
            and measure(one, answer).distance == 0
            and (lang != "es" or set(dialect(one, answer).split()) <= mergers | {"general"})
        )
        if is_usable:
            found.append(one)
        if len(found) == RESPELLINGS:
            break
    return found


def replaceable_words(sentence: str, lang: str, pronunciations: Pronunciations | None = None) -> list[str]:
    """Return the content words of a sentence that can be an item's answer, in order.

    They are in lower case (to exclude names), have at least four letters and no apostrophe, and occur nowhere
    else in the sentence, not even inside another word. English words must be in the dictionary and have only
    one pronunciation.
    """
    lowered = sentence.lower()
    function_words = builtin_words().function[lang]
    heteronyms = " ".join(sound_tables()["heteronyms"]).split()
    return [
        word
        for word in words_of(sentence)
        if word.isalpha()
        and word.islower()
        and len(word) >= SHORTEST_ANSWER
        and word not in function_words
        and lowered.count(word) == 1
        and (lang != "en" or (word in (pronunciations or {}) and word not in heteronyms))
    ]


def generate_items(
    sentences: Sequence[str], lang: str, *, n: int, seed: int, pronunciations: Pronunciations | None = None
) -> list[GeneratedItem]:
    """Generate ``n`` items from sentences, the same for the same arguments.

    Every sentence gives one item before any sentence gives a second one, with another word. No two items have
    the same answer or the same made-up word.

    :param lang: ``en`` (needs ``pronunciations``, word -> ARPAbet tuples) or ``es``.
    :raises UsageError: (a ValueError) if the sentences give fewer than ``n`` items.
    """
    if lang not in THRESHOLDS:
        raise UsageError(f"no respelling rules for language {lang!r}: use one of {', '.join(THRESHOLDS)}")
    if n < 1:
        raise UsageError(f"cannot generate {n} items: request at least 1")
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
                sentence_words = {word.lower() for word in words_of(sentence)}
                respelling = respell(
                    answer,
                    lang,
                    rng=rng,
                    measure=measure,
                    pronunciations=pronunciations,
                    avoid=sentence_words | used,
                )
                if respelling is not None:
                    used |= {answer, respelling.word}
                    changed = re.sub(rf"(?<!\w){re.escape(answer)}(?!\w)", respelling.word, sentence)
                    items.append(GeneratedItem(changed, respelling.word, answer))
                    break
        waiting = [(sentence, words) for sentence, words in waiting if words]
    if len(items) < n:
        raise UsageError(
            f"only {len(items)} of {n} homophone items ({lang}) can be generated from {len(pool)} sentences: "
            "give more sentences with content words of four letters or more, or request fewer items"
        )
    return items
