"""The H-TEST tasks whose groups are generated together: ``palindrome`` and ``rhyme``.

Their items are words without a sentence. Group B therefore copies everything from group A that the rule is not
about: lengths, outer letters, words, and the overlap of spelling.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Mapping
from itertools import combinations, product

from pytest_llmprops.benchmarks.htest.tools import vocabulary as words
from pytest_llmprops.core.errors import UsageError

Lexicon = Mapping[str, tuple[tuple[str, ...], ...]]
"""Word -> its pronunciations as ARPAbet phones; see ``pytest_llmprops.data.pronunciation``."""

_ATTEMPTS = 200  # Maximum draws for the partner of a word in a pair that does not rhyme.


def item_key(task: str, text: str) -> str:
    """Return a key that is equal for texts of the same item; it ignores case, punctuation and a pair's order.

    It is used to detect duplicates and to exclude test items from training items.
    """
    tokens = re.findall(r"\w+", text.casefold())
    return " ".join(sorted(tokens) if task == "rhyme" else tokens)


def max_attempts(used: Collection[str]) -> int:
    """Return the maximum number of draws for one item, after which the vocabulary counts as exhausted.

    It grows with the used items, because the seed of the excluded items first draws all of them again.
    """
    return 200 + 2 * len(used)


def exhausted(task: str, count: int) -> UsageError:
    """Return the error for a request that is too large for the vocabulary."""
    return UsageError(
        f"htest/{task}: the vocabulary gives only {count} more items (including example items);"
        " choose a smaller n"
    )


# Made-up words: shape -> positions that B may change. Letters whose
# combinations are hard to read are left out.
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
    """Return a made-up palindrome with one inner letter changed: not a palindrome, with the same outer letters."""
    word = _made_up_palindrome(rng, shape, outer)
    place = rng.choice(_SHAPES[shape])
    letters = _CONSONANTS if shape[place] == "c" else _VOWELS
    other = rng.choice([letter for letter in letters if letter != word[place]])
    return word[:place] + other + word[place + 1 :]


def all_palindromes(lexicon: Lexicon) -> tuple[set[str], set[str]]:
    """Return all palindromes that :func:`palindromes` can draw: real words with a partner in B, and made-up words."""
    shapes_of_b = {(len(word), word[0]) for word in words.NEAR_PALINDROMES}
    real = {word for word in words.PALINDROMES if (len(word), word[0]) in shapes_of_b}
    halves = (
        (
            shape,
            product(*(_CONSONANTS if kind == "c" else _VOWELS for kind in shape[: (len(shape) + 1) // 2])),
        )
        for shape in _SHAPES
    )
    made_up = {
        "".join((*half, *half[: len(shape) // 2][::-1])) for shape, letters in halves for half in letters
    }
    return real, made_up - lexicon.keys() - real


def palindromes(
    rng: random.Random, half: int, lexicon: Lexicon, used: set[str]
) -> tuple[list[str], list[str]]:
    """Return both groups, with equal proportions of real and made-up words, lengths and outer letters.

    In B, too, every word begins and ends with the same letter, so the outer letters do not give the label away.
    Three-letter palindromes are excluded, because for them the outer letters are the rule.
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
        for _attempt in range(max_attempts(used)):
            shape = rng.choices(shapes, _SHAPE_WEIGHTS)[0]
            palindrome = _made_up_palindrome(rng, shape)
            other = _made_up_other(rng, shape, palindrome[0])
            if not {palindrome, other} & used and palindrome not in lexicon and other not in lexicon:
                take(in_a, palindrome)
                take(in_b, other)
                break
        else:
            raise exhausted("palindrome", 2 * len(in_a))
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
    """Return the number of last letters that two words share."""
    shared = 0
    while shared < min(len(first), len(second)) and first[-1 - shared] == second[-1 - shared]:
        shared += 1
    return shared


def rhymes(rng: random.Random, half: int, lexicon: Lexicon, used: set[str]) -> tuple[list[str], list[str]]:
    """Return both groups: pairs of words with at most two last letters in common.

    A: perfect rhymes (the same sounds from the last stressed vowel on, different sounds before it). B: words of
    A pairs in new pairs that do not rhyme. Every B pair copies both lengths and the number of shared last
    letters from an A pair. Both groups therefore have similar word frequencies and equally similar endings. Words
    with several pronunciations are used only if all of them end with the same sounds.
    """
    ends: dict[str, tuple[str, ...]] = {}
    for word in words.RHYME_WORDS:
        sounds = {_rhyming_end(phones) for phones in lexicon.get(word, ())}
        if len(sounds) == 1:
            ends[word] = sounds.pop()
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
        raise exhausted("rhyme", 2 * len(free))
    in_a = [" ".join(rng.sample(pair, 2)) for pair in free[:half]]

    by_ending: dict[str, list[str]] = {}
    for pair in pairs:
        for word in pair:
            for letters in range(3):
                by_ending.setdefault(word[len(word) - letters :], []).append(word)

    def partner(first: str, model: str, shared: int) -> str | None:
        """Return a replacement for ``model``: equal length and spelling overlap with ``first``, but no rhyme."""
        candidates = by_ending[first[len(first) - shared :]]
        for _attempt in range(_ATTEMPTS):
            second = rng.choice(candidates)
            matches = len(second) == len(model) and _shared_ending(first, second) == shared
            if matches and ends[first] != ends[second] and item_key("rhyme", f"{first} {second}") not in used:
                return second
        return None

    by_shared = [[pair for pair in pairs if _shared_ending(*pair) == shared] for shared in range(3)]
    in_b: list[str] = []
    for _ in range(half):
        shared = _shared_ending(*rng.choice(pairs))
        for _attempt in range(max_attempts(used)):
            first, model = rng.sample(rng.choice(by_shared[shared]), 2)
            second = partner(first, model, shared)
            if second is not None:
                candidate = " ".join(rng.sample((first, second), 2))
                used.add(item_key("rhyme", candidate))
                in_b.append(candidate)
                break
        else:
            raise exhausted("rhyme", 2 * len(in_b))
    return in_a, in_b
