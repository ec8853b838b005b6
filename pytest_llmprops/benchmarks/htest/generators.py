"""H-TEST items: one pure generator a task (Lee & Lim, section 3, table 1, appendix G).

Nothing but the rule separates the groups. Where a rule is about a place (starts with, ends with), both groups
hold the same kinds of words and only their order differs. Where it is about a form (capital, hyphen, spelled
number), both groups draw the same content and only its form differs. ``palindrome`` and ``rhyme`` match
lengths, outer letters, words and the overlap of spelling. This is stricter than the published items, whose
group B of "end ly", for example, ends in shorter words.

A row is what the published files hold plus an id:
``{"id": "0017", "centerpiece": str, "options": ["A", "B"], "correct_options": [0 or 1]}``.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TypedDict

from pytest_llmprops.benchmarks.htest import vocabulary as words
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.seeds import generator

Lexicon = Mapping[str, tuple[tuple[str, ...], ...]]
"""Word -> its pronunciations as ARPAbet phones; see ``pytest_llmprops.data.pronunciation``."""

_ATTEMPTS = 200  # draws for one item before the vocabulary counts as used up
_PUNCTUATION = (".", "!", "?", "...")


class Row(TypedDict):
    """One line of an H-TEST file."""

    id: str
    centerpiece: str
    options: list[str]
    correct_options: list[int]


def item_key(task: str, text: str) -> str:
    """What two texts share when they are the same item: case, punctuation and the order of a pair are left out.

    Used for duplicates and for keeping training items apart from test items.
    """
    tokens = re.findall(r"\w+", text.casefold())
    return " ".join(sorted(tokens) if task == "rhyme" else tokens)


def _capital(word: str) -> str:
    return word[0].upper() + word[1:]


def _start_vowel(rng: random.Random, in_a: bool) -> str:
    # Both nouns are in both groups; only their order differs.
    vowel, consonant = rng.choice(words.VOWEL_NOUNS), rng.choice(words.CONSONANT_NOUNS)
    first, second = (vowel, consonant) if in_a else (consonant, vowel)
    return (
        f"{_capital(first)} {rng.choice(words.TRANSITIVE_VERBS)} {second}"
        f" {rng.choice(words.PLACES)} {rng.choice(words.ADVERBS_LY)}."
    )


def _end_ly(rng: random.Random, in_a: bool) -> str:
    # Both adverbs are in both groups; only their order differs.
    ly, plain = rng.choice(words.ADVERBS_LY), rng.choice(words.ADVERBS_PLAIN)
    inner, last = (plain, ly) if in_a else (ly, plain)
    subject, verb = rng.choice(words.NOUNS), rng.choice(words.INTRANSITIVE_VERBS)
    return f"{_capital(subject)} {verb} {inner} {rng.choice(words.PLACES)} {last}."


def _end_punctuation(rng: random.Random, in_a: bool) -> str:
    # The mark hangs on a word in both groups (published B items set it apart, which adds a token).
    tokens = [
        _capital(rng.choice(words.NOUNS)),
        *rng.choice(words.PLACES).split(),
        _capital(rng.choice(words.NOUNS)),
    ]
    place = len(tokens) - 1 if in_a else rng.randrange(len(tokens) - 1)
    tokens[place] += rng.choice(_PUNCTUATION)
    return " ".join(tokens)


def _uppercase(rng: random.Random, in_a: bool) -> str:
    # A: exactly one capital, at any letter, the first included; B: none.
    text = (
        f"{rng.choice(words.NOUNS)} {rng.choice(words.INTRANSITIVE_VERBS)}"
        f" {rng.choice(words.PLACES)} {rng.choice(words.ADVERBS_LY)}."
    )
    if not in_a:
        return text
    place = rng.choice([index for index, character in enumerate(text) if character.isalpha()])
    return text[:place] + text[place].upper() + text[place + 1 :]


def _hyphenated_word(rng: random.Random, in_a: bool) -> str:
    # B holds the same compounds in open form, so that only the hyphen differs.
    compound = rng.choice(words.COMPOUNDS)
    if not in_a:
        compound = compound.replace("-", " ")
    place = rng.choice(words.PLACES)
    if rng.random() < 0.5:
        return f"The {compound} {rng.choice(words.INTRANSITIVE_VERBS)} {place} {rng.choice(words.ADVERBS_LY)}."
    return f"The {rng.choice(words.NOUNS)} {rng.choice(words.TRANSITIVE_VERBS)} the {compound} {place}."


def _spelled_number(rng: random.Random, in_a: bool) -> str:
    # The same numbers in both groups; places of very different lengths drown the length of the number.
    word = rng.choice(list(words.NUMBERS))
    number = word if in_a else str(words.NUMBERS[word])
    adverb = f" {rng.choice(words.ADVERBS_LY)}" if rng.random() < 0.5 else ""
    return (
        f"{_capital(rng.choice(words.NOUNS))} {rng.choice(words.TRANSITIVE_VERBS)} {number}"
        f" {rng.choice(words.PLURALS)} {rng.choice(words.PLACES)}{adverb}."
    )


def _spelled_math(rng: random.Random, in_a: bool) -> str:
    # Operators are one token in either form.
    word = rng.choice(list(words.MATH_OPERATORS))
    operator = word if in_a else words.MATH_OPERATORS[word]
    return (
        f"The {rng.choice(words.MATH_QUANTITIES)} {operator} {rng.randrange(2, 100)}"
        f" {rng.choice(words.MATH_CONTEXTS)}."
    )


def _repeated_word(rng: random.Random, in_a: bool) -> str:
    # Five words either way. In B the word's neighbour is another one of its kind and length, never the same.
    kinds: list[Sequence[str]] = [
        words.NOUNS,
        words.INTRANSITIVE_VERBS,
        words.ADVERBS_LY + words.ADVERBS_PLAIN,
        words.PLURALS,
    ]
    rng.shuffle(kinds)
    tokens = [rng.choice(kind) for kind in kinds]
    place = rng.randrange(len(tokens))
    word = tokens[place]
    others = [other for other in kinds[place] if len(other) == len(word) and other != word]
    if not others:  # a length that only one word has: in neither group may it be the doubled one
        return _repeated_word(rng, in_a)
    tokens.insert(place + 1, word if in_a else rng.choice(others))
    return " ".join(tokens) + "."


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


def _palindrome(rng: random.Random, half: int, lexicon: Lexicon, used: set[str]) -> tuple[list[str], list[str]]:
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
        for _attempt in range(_ATTEMPTS):
            shape = rng.choices(shapes, _SHAPE_WEIGHTS)[0]
            palindrome = _made_up_palindrome(rng, shape)
            other = _made_up_other(rng, shape, palindrome[0])
            if not {palindrome, other} & used and palindrome not in lexicon and other not in lexicon:
                take(in_a, palindrome)
                take(in_b, other)
                break
        else:
            raise _used_up("palindrome", 2 * len(in_a))
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


def _rhyme(rng: random.Random, half: int, lexicon: Lexicon, used: set[str]) -> tuple[list[str], list[str]]:
    """Pairs of words with at most two last letters in common.

    A: perfect rhymes (the same sounds from the last stressed vowel on, other sounds before it). B: the words
    of A pairs, paired anew so that they do not rhyme; every B pair copies both lengths and the number of shared
    last letters of an A pair. Words are therefore about as frequent in both groups, and endings overlap as often.
    Words with several pronunciations count only where all of them end alike.
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
        raise _used_up("rhyme", 2 * len(free))
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
        for _attempt in range(_ATTEMPTS):
            first, model = rng.sample(rng.choice(by_shared[shared]), 2)
            second = partner(first, model, shared)
            if second is not None:
                candidate = " ".join(rng.sample((first, second), 2))
                used.add(item_key("rhyme", candidate))
                in_b.append(candidate)
                break
        else:
            raise _used_up("rhyme", 2 * len(in_b))
    return in_a, in_b


_SENTENCES: dict[str, Callable[[random.Random, bool], str]] = {
    "end_ly": _end_ly,
    "end_punctuation": _end_punctuation,
    "hyphenated_word": _hyphenated_word,
    "repeated_word": _repeated_word,
    "spelled_math": _spelled_math,
    "spelled_number": _spelled_number,
    "start_vowel": _start_vowel,
    "uppercase": _uppercase,
}
_PAIRED: dict[
    str, Callable[[random.Random, int, Lexicon, set[str]], tuple[list[str], list[str]]]
] = {"palindrome": _palindrome, "rhyme": _rhyme}

TASKS = tuple(sorted([*_SENTENCES, *_PAIRED]))
"""The ten tasks, named as the published files are."""


def _used_up(task: str, made: int) -> UsageError:
    return UsageError(
        f"htest/{task}: the vocabulary has only {made} items that are not used yet; ask for n of at most {made}"
    )


def _sentences(task: str, rng: random.Random, n: int, used: set[str]) -> Iterator[str]:
    for index in range(n):
        for _attempt in range(_ATTEMPTS):
            text = _SENTENCES[task](rng, index % 2 == 0)
            key = item_key(task, text)
            if key not in used:
                used.add(key)
                yield text
                break
        else:
            raise _used_up(task, index - index % 2)


def generate(task: str, *, n: int, seed: int, lexicon: Lexicon, exclude: Collection[str] = ()) -> list[Row]:
    """``n`` rows of ``task``: A, B, A, B ..., without duplicates, the same in every process.

    :param n: an even number of at least 2.
    :param lexicon: decides rhymes, and keeps real words out of the made-up ones.
    :param exclude: texts of items that must not come again, compared by :func:`item_key`.
    :raises UsageError: for an unknown task, an odd or too small ``n``, or more than the vocabulary can give.
    """
    if task not in TASKS:
        raise UsageError(f"unknown H-TEST task '{task}'; the tasks are: {', '.join(TASKS)}")
    if n < 2 or n % 2:
        raise UsageError(f"htest/{task}: n is {n}; ask for an even number of at least 2 (half A, half B)")
    rng = generator(seed, "htest", task)
    used = {item_key(task, text) for text in exclude}
    if task in _PAIRED:
        in_a, in_b = _PAIRED[task](rng, n // 2, lexicon, used)
        texts = [text for pair in zip(in_a, in_b, strict=True) for text in pair]
    else:
        texts = list(_sentences(task, rng, n, used))
    return number_rows(texts)


def number_rows(texts: Sequence[str]) -> list[Row]:
    """Rows with the ids 0000, 0001 ...; texts at even places are group A."""
    return [
        {"id": f"{index:04d}", "centerpiece": text, "options": ["A", "B"], "correct_options": [index % 2]}
        for index, text in enumerate(texts)
    ]
