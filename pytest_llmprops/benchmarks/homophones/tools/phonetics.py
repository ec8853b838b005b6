"""Measure how similar two words sound: phoneme sequences, letter-to-sound lattices and a normalised distance.

The paper (Liu & Ross, section 6.2) wants a word that sounds as similar as possible to the answer and is
spelled as differently as possible. This module measures the sound; ``reading.spelling_distance`` measures the
spelling.

English phonemes are ARPAbet symbols without stress ("F R IH JH"); Spanish phonemes are lower-case IPA-like
symbols ("k a ʝ e"). Stress is ignored. A made-up word has no known pronunciation, only the readings that
letter-to-sound rules allow. It sounds like the answer if *one* of its readings does. The distance is therefore
the cheapest path through the lattice of all readings.

Costs (set by hand, not learned):

* vowel for vowel: 0.15 per step of height (0 low .. 3 high), 0.15 per step of backness (0 front .. 2 back),
  0.10 for rounding, 0.25 for a different off-glide or r-colour; at most 0.3 if one is the weak vowel AH;
* consonant for consonant: 0.25 for voicing, 0.2 per step of place (at most 0.4), 0.4 for manner;
* a glide for its vowel (Y/IY, W/UW, R/ER): 0.3; any other vowel for a consonant: 1;
* an extra or missing phoneme: 1; 0.5 for the weak ones (AH, HH, Y, and Spanish glide i);
* the cost in a reading's rule, plus 0.1 each time a shorter grapheme is read although a longer one matches
  ("th" as T + HH).

The distance is the lowest total cost divided by the length of the longer sequence, clipped to [0, 1].
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from pytest_llmprops.data.files import DataFolder, builtin_data

_ACCENTS = str.maketrans("áéíóúàèìòù", "aeiouaeiou")


@cache
def sound_tables() -> Mapping[str, tuple[str, ...]]:
    r"""Return the tables of ``data/homophones/sounds.txt``: the lines below each ``# name``.

    ``english_rules`` and ``spanish_rules`` say how a reader may pronounce an unknown word. A line is
    ``regex = reading | reading:cost``. The regular expression matches a grapheme (``^`` and ``$`` are the word's ends,
    look-around is context). A reading consists of phonemes; ``-`` means silent. The cost says how unusual the reading
    is (0 = ordinary, 0.1 = known from common words, 0.2 = rare). Readings that are not listed are impossible.
    English, with its dictionary, is General American. Spanish is that of most of America: seseo (c before e and i, s
    and z are one sound), yeísmo (ll = y), b = v, silent h. Readings of k, w, ph, and q without u are for spellings
    that Spanish does not use but its readers understand. Accents are removed first, because stress is not compared.

    ``english_spellings`` has lines ``phonemes = spelling spelling …``. Marks on a spelling restrict its position in a
    word: ``^kn`` only first, ``-ck`` not first, ``gu-`` not last, ``ce$`` only last. ``spanish_spellings`` has lines
    ``regex = spelling spelling …``. The regular expression matches letters of the written word, so accents keep their
    place; ``-`` leaves the letters out. ``\g<0>`` is the matched text. A candidate from these tables is only a
    proposal: it is used if the letter-to-sound rules, and in English the readers of ``english_reader.py``, read it as
    the answer. Spanish spellings longer than the original are drawn less often, because additional silent letters make
    a word ugly, not harder.

    ``unreadable`` has letter patterns that people would not read aloud as intended; candidates with one are dropped.
    ``heteronyms`` are English words with two pronunciations; the dictionary does not say which one a sentence means.
    """
    text = DataFolder(builtin_data(), "builtin").text("homophones/sounds.txt")
    _, *parts = re.split(r"^# (\w+)\n", text, flags=re.MULTILINE)
    return {
        name: tuple(filter(None, lines.split("\n")))
        for name, lines in zip(parts[::2], parts[1::2], strict=True)
    }


def strip_accents(text: str) -> str:
    """Remove the acute and grave accents of vowels; ñ and ü are separate letters and stay."""
    return text.translate(_ACCENTS)


def dialect(word: str, answer: str) -> str:
    """Return the mergers that make two Spanish spellings sound alike: ``seseo``, ``yeísmo``, both, or ``general``.

    With seseo, z and soft c sound like s; with yeísmo, ll sounds like y. In a made-up word, x between vowels is j.
    """
    mergers = []
    if _sibilants(word, jota=True) != _sibilants(answer, jota=False):
        mergers.append("seseo")
    if _palatals(word) != _palatals(answer):
        mergers.append("yeísmo")
    return " ".join(mergers) or "general"


def _sibilants(text: str, *, jota: bool) -> list[bool]:
    """Return which of the sounds written s, z, soft c and x are not s."""
    plain = strip_accents(text.casefold()).replace("ch", "")
    x = r"x(?![aeiou]|$)" if jota else "x"
    return [spelling[0] in "zc" for spelling in re.findall(rf"z+|c(?=[eiy])|s+|{x}", plain)]


def _palatals(text: str) -> list[bool]:
    """Return which of the consonants written ll, y and initial hie are ll."""
    plain = strip_accents(text.casefold())
    return [spelling == "ll" for spelling in re.findall(r"ll|(?:(?<=[aeiou])|^)y(?=[aeiou])|^hi(?=e)", plain)]


Phonemes = tuple[str, ...]
Pronunciations = Mapping[str, tuple[Phonemes, ...]]

SHORTER_GRAPHEME = 0.1
"""Cost of reading a shorter grapheme although a longer one matches."""

THRESHOLDS: Mapping[str, float] = MappingProxyType({"en": 0.10, "es": 0.06})
"""Largest phoneme distance at which a word counts as sounding like its answer, by language."""

# height, backness, rounding, off-glide
_VOWELS: Mapping[str, tuple[float, float, int, str]] = MappingProxyType({
    "IY": (3, 0, 0, ""), "IH": (2.5, 0.5, 0, ""), "EH": (1.5, 0, 0, ""), "AE": (0.5, 0, 0, ""),
    "AA": (0, 2, 0, ""), "AO": (0.5, 2, 1, ""), "UH": (2.5, 1.5, 1, ""), "UW": (3, 2, 1, ""),
    "AH": (1.5, 1, 0, ""), "ER": (1.5, 1, 0, "r"), "EY": (2, 0, 0, "i"), "AY": (0, 1, 0, "i"),
    "OY": (1, 2, 1, "i"), "AW": (0, 1, 0, "u"), "OW": (2, 2, 1, "u"),
    "a": (0, 1, 0, ""), "e": (1.5, 0, 0, ""), "i": (3, 0, 0, ""), "o": (1.5, 2, 1, ""), "u": (3, 2, 1, ""),
})  # fmt: skip

# voiced, place (lips 0 .. glottis 5), manner
_CONSONANTS: Mapping[str, tuple[int, float, str]] = MappingProxyType({
    "P": (0, 0, "stop"), "B": (1, 0, "stop"), "T": (0, 1.5, "stop"), "D": (1, 1.5, "stop"),
    "K": (0, 4, "stop"), "G": (1, 4, "stop"), "CH": (0, 2.5, "affricate"), "JH": (1, 2.5, "affricate"),
    "F": (0, 0.5, "fricative"), "V": (1, 0.5, "fricative"), "TH": (0, 1, "fricative"),
    "DH": (1, 1, "fricative"), "S": (0, 1.5, "fricative"), "Z": (1, 1.5, "fricative"),
    "SH": (0, 2.5, "fricative"), "ZH": (1, 2.5, "fricative"), "HH": (0, 5, "fricative"),
    "M": (1, 0, "nasal"), "N": (1, 1.5, "nasal"), "NG": (1, 4, "nasal"),
    "L": (1, 1.5, "lateral"), "R": (1, 2, "approximant"), "Y": (1, 3, "approximant"),
    "W": (1, 0, "approximant"),
    "p": (0, 0, "stop"), "b": (1, 0, "stop"), "t": (0, 1.5, "stop"), "d": (1, 1.5, "stop"),
    "k": (0, 4, "stop"), "g": (1, 4, "stop"), "tʃ": (0, 2.5, "affricate"), "f": (0, 0.5, "fricative"),
    "s": (0, 1.5, "fricative"), "x": (0, 4, "fricative"), "m": (1, 0, "nasal"), "n": (1, 1.5, "nasal"),
    "ɲ": (1, 3, "nasal"), "l": (1, 1.5, "lateral"), "ʝ": (1, 3, "approximant"), "r": (1, 2, "tap"),
    "rr": (1, 2, "trill"),
})  # fmt: skip

_GLIDES = frozenset({("Y", "IY"), ("Y", "IH"), ("W", "UW"), ("W", "UH"), ("R", "ER"), ("ʝ", "i")})
_WEAK = frozenset({"AH", "HH", "Y", "i"})


@cache
def substitution_cost(a: str, b: str) -> float:
    """Return the cost in [0, 1] of hearing phoneme ``b`` for ``a`` (symmetric).

    :raises ValueError: for an unknown symbol.
    """
    for phoneme in (a, b):
        if phoneme not in _VOWELS and phoneme not in _CONSONANTS:
            raise ValueError(
                f"unknown phoneme {phoneme!r}: use ARPAbet without stress digits, or the Spanish symbols"
            )
    if a == b:
        return 0.0
    if a in _VOWELS and b in _VOWELS:
        va, vb = _VOWELS[a], _VOWELS[b]
        tongue = abs(va[0] - vb[0]) + abs(va[1] - vb[1])
        cost = 0.15 * tongue + 0.1 * (va[2] != vb[2]) + 0.25 * (va[3] != vb[3])
        return min(cost, 0.3) if "AH" in (a, b) else min(cost, 1.0)
    if a in _CONSONANTS and b in _CONSONANTS:
        ca, cb = _CONSONANTS[a], _CONSONANTS[b]
        place = min(0.2 * abs(ca[1] - cb[1]), 0.4)
        return min(0.25 * (ca[0] != cb[0]) + place + 0.4 * (ca[2] != cb[2]), 1.0)
    return 0.3 if (a, b) in _GLIDES or (b, a) in _GLIDES else 1.0


def indel_cost(phoneme: str) -> float:
    """Return the cost of an extra or a missing phoneme."""
    return 0.5 if phoneme in _WEAK else 1.0


def phoneme_distance(a: Sequence[str], b: Sequence[str]) -> float:
    """Return the feature-weighted edit distance of two phoneme sequences, divided by the longer length, in [0, 1]."""
    if not a and not b:
        return 0.0
    row = [0.0]
    for phoneme in b:
        row.append(row[-1] + indel_cost(phoneme))
    for x in a:
        previous, row = row, [row[0] + indel_cost(x)]
        for j, y in enumerate(b):
            row.append(min(
                previous[j] + substitution_cost(x, y), previous[j + 1] + indel_cost(x), row[j] + indel_cost(y)
            ))  # fmt: skip
    return min(1.0, row[-1] / max(len(a), len(b)))


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read a spelling: its phonemes, and their distance in [0, 1] from the target phonemes."""

    phonemes: Phonemes
    distance: float


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    readings: tuple[tuple[Phonemes, float], ...]


def _compile(lines: Iterable[str]) -> Mapping[str, tuple[_Rule, ...]]:
    """Parse "regex = reading | reading:cost" lines into rules, grouped by the first letter they match."""
    rules: dict[str, list[_Rule]] = {}
    for line in lines:
        pattern, _, right = line.partition(" = ")
        readings = []
        for alternative in right.split("|"):
            phonemes, _, cost = alternative.partition(":")
            readings.append((tuple(p for p in phonemes.split() if p != "-"), float(cost or 0)))
        first = re.sub(r"^(\(\?<?[=!][^)]*\)|\^)*", "", pattern)[0]
        rules.setdefault(first, []).append(_Rule(re.compile(pattern), tuple(readings)))
    return MappingProxyType({first: tuple(group) for first, group in rules.items()})


@cache
def _rules(lang: str) -> Mapping[str, tuple[_Rule, ...]]:
    names = {"en": "english_rules", "es": "spanish_rules"}
    if lang not in names:
        raise ValueError(f"no letter-to-sound rules for language {lang!r}: use one of {sorted(names)}")
    return _compile(sound_tables()[names[lang]])


def _edges(word: str, lang: str) -> list[list[tuple[int, Phonemes, float]]]:
    """Return for each letter position the readings that start there: (next position, phonemes, cost)."""
    rules = _rules(lang)
    edges: list[list[tuple[int, Phonemes, float]]] = []
    for start, letter in enumerate(word):
        attempts = ((rule.pattern.match(word, start), rule) for rule in rules.get(letter, ()))
        matches = [(match.end(), rule) for match, rule in attempts if match]
        longest = max((end for end, _ in matches), default=start)
        edges.append([
            (end, phonemes, cost + SHORTER_GRAPHEME * (end < longest))
            for end, rule in matches for phonemes, cost in rule.readings
        ])  # fmt: skip
    return edges


def closest_reading(spelling: str, target: Sequence[str], lang: str) -> Reading:
    """Return the reading of ``spelling`` by the rules of ``lang`` that sounds most like ``target``.

    This is a lattice search. A table of (letter position, target position) stores the lowest cost and its
    reading, and every rule extends it. A spelling that the rules cannot read (a digit, another script) has
    distance 1.
    """
    word = strip_accents(spelling.lower()) if lang == "es" else spelling.lower()
    width = len(target)
    best: list[list[tuple[float, Phonemes]] | None] = [None] * (len(word) + 1)
    first: list[tuple[float, Phonemes]] = [(0.0, ())]
    for phoneme in target:
        first.append((first[-1][0] + indel_cost(phoneme), ()))
    best[0] = first
    for start, options in enumerate(_edges(word, lang)):
        row = best[start]
        if row is None:
            continue
        for end, phonemes, cost in options:
            moved = [(value + cost, read) for value, read in row]
            for phoneme in phonemes:
                moved = _advance(moved, phoneme, target)
            current = best[end]
            best[end] = moved if current is None else [min(pair) for pair in zip(current, moved, strict=True)]
    final = best[-1]
    if final is None or not word:
        return Reading((), 1.0 if width or word else 0.0)
    value, read = final[width]
    return Reading(read, min(1.0, value / max(width, len(read), 1)))


def _advance(
    row: list[tuple[float, Phonemes]], phoneme: str, target: Sequence[str]
) -> list[tuple[float, Phonemes]]:
    """Return the next edit-distance row, after ``phoneme`` is appended to the reading."""
    insertion = indel_cost(phoneme)
    next_row = [(row[0][0] + insertion, (*row[0][1], phoneme))]
    for j, target_phoneme in enumerate(target):
        diagonal = row[j][0] + substitution_cost(phoneme, target_phoneme)
        above = row[j + 1][0] + insertion
        left_cost, left_read = next_row[j]
        left = left_cost + indel_cost(target_phoneme)
        if diagonal <= above and diagonal <= left:
            next_row.append((diagonal, (*row[j][1], phoneme)))
        elif above <= left:
            next_row.append((above, (*row[j + 1][1], phoneme)))
        else:
            next_row.append((left, left_read))
    return next_row


def spanish_phonemes(word: str) -> Phonemes:
    """Return the cheapest reading of a Spanish spelling (seseo, yeísmo, silent h); the first rule wins ties."""
    text = strip_accents(word.lower())
    edges = _edges(text, "es")
    cheapest: list[tuple[float, int, Phonemes] | None] = [None] * (len(text) + 1)
    cheapest[0] = (0.0, 0, ())
    for start, options in enumerate(edges):
        prefix = cheapest[start]
        if prefix is None:
            continue
        for order, (end, phonemes, cost) in enumerate(options):
            candidate = (prefix[0] + cost, prefix[1] + order, prefix[2] + phonemes)
            current = cheapest[end]
            if current is None or candidate[:2] < current[:2]:
                cheapest[end] = candidate
    final = cheapest[-1]
    if final is None:
        raise ValueError(f"cannot read {word!r} as Spanish: use letters of the Spanish alphabet only")
    return final[2]


def plain_phones(phones: Iterable[str]) -> Phonemes:
    """Return ARPAbet phones without stress digits."""
    return tuple(phone.rstrip("012") for phone in phones)


def english_pronunciations(word: str, pronunciations: Pronunciations) -> tuple[Phonemes, ...]:
    """Return a word's dictionary pronunciations without stress digits; ``KeyError`` if the word is missing."""
    try:
        entries = pronunciations[word.lower()]
    except KeyError:
        raise KeyError(
            f"{word!r} is not in the pronunciation dictionary: choose a more common answer"
        ) from None
    return tuple(dict.fromkeys(map(plain_phones, entries)))


SoundDistance = Callable[[str, str], Reading]


def sound_distance(lang: str, pronunciations: Pronunciations | None = None) -> SoundDistance:
    """Return a function (word, answer) -> :class:`Reading` of the word that is closest to the answer.

    English needs ``pronunciations`` (word -> ARPAbet tuples): words in the dictionary are pronounced as it
    says, other words are read by the letter-to-sound rules. Spanish spelling determines the sound, so the
    rules are used for both words.
    """
    if lang == "es":
        return lambda word, answer: closest_reading(word, spanish_phonemes(answer), "es")
    if lang != "en":
        raise ValueError(f"no phoneme distance for language {lang!r}: use 'en' or 'es'")
    if pronunciations is None:
        raise ValueError("English needs a pronunciation dictionary: pass pronunciations=load_cmudict()")
    known = pronunciations

    def measure(word: str, answer: str) -> Reading:
        targets = english_pronunciations(answer, known)
        if word.lower() in known:
            sounds = english_pronunciations(word, known)
            return min(
                (Reading(p, phoneme_distance(p, t)) for p in sounds for t in targets), key=_by_distance
            )
        return min((closest_reading(word, target, "en") for target in targets), key=_by_distance)

    return measure


def _by_distance(reading: Reading) -> float:
    return reading.distance
