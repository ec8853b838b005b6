"""The H-TEST tasks whose groups are made together: ``palindrome`` and ``rhyme``.

Both have no sentence around them, so group B copies from group A what the rule is not about: lengths, outer
letters, words, the overlap of spelling.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Mapping
from itertools import combinations

from pytest_llmprops.benchmarks.htest.tools import vocabulary as words
from pytest_llmprops.core.errors import UsageError

Lexicon = Mapping[str, tuple[tuple[str, ...], ...]]
"""Word -> its pronunciations as ARPAbet phones; see ``pytest_llmprops.data.pronunciation``."""

_ATTEMPTS = 200  # draws for the partner of one word in a pair that does not rhyme


def item_key(task: str, text: str) -> str:
    """What two texts share when they are the same item: case, punctuation and the order of
    a pair are left out.

    Used for duplicates and for keeping training items apart from test items.
    """
    tokens = re.findall(r"\w+", text.casefold())
    return " ".join(sorted(tokens) if task == "rhyme" else tokens)


def limit(used: Collection[str]) -> int:
    """Draws for one item before the vocabulary counts as used up.

    Grows with what is used: the seed that made the excluded items draws all of them again first.
    """
    return 200 + 2 * len(used)


def used_up(task: str, made: int) -> UsageError:
    """The error for a request that the vocabulary cannot fill."""
    return UsageError(
        f"htest/{task}: the vocabulary gives only {made} more items (example items included);"
        " ask for a smaller n"
    )


# Made-up words: shape -> (pairs of mirrored positions, positions that B may change). Letters whose
# combinations read badly are left out.
_CONSONANTS = "bdklmnprstvz"
_VOWELS = "aeiou"
_SHAPES: dict[str, tuple[int, ...]] = {
    "cvcvc": (1, 3),
    "vcvcv": (1, 3),
    "cvccvc": (1, 4),
    "vcvvcv": (1, 4),
    "cvcvcvc": (1, 2, 4, 5),
}
_SHAPE_WEIGHTS = (6, 2, 4, 1, 7)
_REAL_SHARE = 0.4


def _made_up_palindrome(rng: random.Random, shape: str, outer: str = "") -> str:
    half = [rng.choice(_CONSONANTS if kind == "c" else _VOWELS) for kind in shape[: (len(shape) + 1) // 2]]
    if outer:
        half[0] = outer
    return "".join(half + half[: len(shape) // 2][::-1])


def _made_up_other(rng: random.Random, shape: str, outer: str) -> str:
    """A made-up palindrome with one inner letter changed: same outer letters, no longer a palindrome."""
    word = _made_up_palindrome(rng, shape, outer)
    place = rng.choice(_SHAPES[shape])
    letters = _CONSONANTS if shape[place] == "c" else _VOWELS
    other = rng.choice([letter for letter in letters if letter != word[place]])
    return word[:place] + other + word[place + 1 :]


def palindromes(
    rng: random.Random, half: int, lexicon: Lexicon, used: set[str]
) -> tuple[list[str], list[str]]:
    """Real and made-up words in the same proportion in both groups, with the same lengths and outer letters.

    In B, too, every word begins and ends with the same letter, so that the outer letters decide nothing.
    Three-letter palindromes are left out: for them the outer letters are the rule.
    """
    in_a: list[str] = []
    in_b: list[str] = []

    def take(group: list[str], word: str) -> None:
        used.add(word)
        group.append(word)

    reals = [word for word in words.PALINDROMES if word not in used]
    rng.shuffle(reals)
    for real in reals:
        if len(in_a) >= round(half * _REAL_SHARE):
            break
        partners = [
            word
            for word in words.NEAR_PALINDROMES
            if len(word) == len(real) and word[0] == real[0] and word not in used
        ]
        if partners:
            take(in_a, real)
            take(in_b, rng.choice(partners))
    shapes = list(_SHAPES)
    for _ in range(half - len(in_a)):
        for _attempt in range(limit(used)):
            shape = rng.choices(shapes, _SHAPE_WEIGHTS)[0]
            palindrome = _made_up_palindrome(rng, shape)
            other = _made_up_other(rng, shape, palindrome[0])
            if not {palindrome, other} & used and palindrome not in lexicon and other not in lexicon:
                take(in_a, palindrome)
                take(in_b, other)
                break
        else:
            raise used_up("palindrome", 2 * len(in_a))
    rng.shuffle(in_a)
    rng.shuffle(in_b)
    return in_a, in_b


def _rhyming_end(phones: tuple[str, ...]) -> tuple[str, ...]:
    end: list[str] = []
    for phone in reversed(phones):
        end.append(phone.rstrip("012"))
        if phone[-1] in "12":
            break
    return tuple(end)


def _shared_ending(first: str, second: str) -> int:
    """How many last letters two words share."""
    shared = 0
    while shared < min(len(first), len(second)) and first[-1 - shared] == second[-1 - shared]:
        shared += 1
    return shared


def rhymes(rng: random.Random, half: int, lexicon: Lexicon, used: set[str]) -> tuple[list[str], list[str]]:
    """Pairs of words with at most two last letters in common.

    A: perfect rhymes (the same sounds from the last stressed vowel on, other sounds before it). B: the words
    of A pairs, paired anew so that they do not rhyme; every B pair copies both lengths and the number of
    shared last letters of an A pair. Words are therefore about as frequent in both groups, and
    endings overlap as often. Words with several pronunciations count only where all of them end alike.
    """
    ends: dict[str, tuple[str, ...]] = {}
    for word in words.RHYME_WORDS:
        found = {_rhyming_end(phones) for phones in lexicon.get(word, ())}
        if len(found) == 1:
            ends[word] = found.pop()
    families: dict[tuple[str, ...], list[str]] = {}
    for word, end in ends.items():
        families.setdefault(end, []).append(word)
    pairs = [
        pair
        for family in families.values()
        for pair in combinations(family, 2)
        if _shared_ending(*pair) <= 2 and not set(lexicon[pair[0]]) & set(lexicon[pair[1]])
    ]
    rng.shuffle(pairs)
    free = [pair for pair in pairs if item_key("rhyme", " ".join(pair)) not in used]
    if len(free) < half:
        raise used_up("rhyme", 2 * len(free))
    in_a = [" ".join(rng.sample(pair, 2)) for pair in free[:half]]

    by_ending: dict[str, list[str]] = {}
    for pair in pairs:
        for word in pair:
            for letters in range(3):
                by_ending.setdefault(word[len(word) - letters :], []).append(word)

    def partner(first: str, model: str, shared: int) -> str | None:
        """A word in the place of ``model``: as long, as alike to ``first`` in spelling, but no rhyme."""
        candidates = by_ending[first[len(first) - shared :]]
        for _attempt in range(_ATTEMPTS):
            second = rng.choice(candidates)
            alike = len(second) == len(model) and _shared_ending(first, second) == shared
            if alike and ends[first] != ends[second] and item_key("rhyme", f"{first} {second}") not in used:
                return second
        return None

    by_shared = [[pair for pair in pairs if _shared_ending(*pair) == shared] for shared in range(3)]
    in_b: list[str] = []
    for _ in range(half):
        shared = _shared_ending(*rng.choice(pairs))
        for _attempt in range(limit(used)):
            first, model = rng.sample(rng.choice(by_shared[shared]), 2)
            second = partner(first, model, shared)
            if second is not None:
                candidate = " ".join(rng.sample((first, second), 2))
                used.add(item_key("rhyme", candidate))
                in_b.append(candidate)
                break
        else:
            raise used_up("rhyme", 2 * len(in_b))
    return in_a, in_b
