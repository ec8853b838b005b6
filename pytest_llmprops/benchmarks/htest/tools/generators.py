"""Generators of H-TEST items: one pure function per task (Lee & Lim, section 3, table 1, appendix G).

The groups differ only in the rule. If a rule is about a position (starts with, ends with), the rest of the text is
independent of the label: with that position hidden, nothing tells the groups apart. If it is about a form (capital,
hyphen, spelled number), both groups have the same content in a different form. ``palindrome`` and ``rhyme`` match
lengths, outer letters, words and the overlap of spelling. This is stricter than the published items: for example,
their group B of "end ly" ends in shorter words.

A row is a row of the published files plus an id:
``{"id": "0017", "centerpiece": str, "options": ["A", "B"], "correct_options": [0 or 1]}``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypedDict

from pytest_llmprops.benchmarks.htest.tools import vocabulary as words
from pytest_llmprops.benchmarks.htest.tools.matched_words import (
    Lexicon,
    exhausted,
    item_key,
    max_attempts,
    palindromes,
    rhymes,
)
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.protocols import generator

_PUNCTUATION = (".", "!", "?", "...")


class Row(TypedDict):
    """One line of an H-TEST file."""

    id: str
    centerpiece: str
    options: list[str]
    correct_options: list[int]


def _capital(word: str) -> str:
    return word[0].upper() + word[1:]


def _same_length(rng: random.Random, first: Sequence[str], second: Sequence[str]) -> tuple[str, str]:
    """Return a word of each list, both of the same length, so that the length of either does not show its list."""
    while True:
        words_drawn = rng.choice(first), rng.choice(second)
        if len(words_drawn[0]) == len(words_drawn[1]):
            return words_drawn


def _start_vowel(rng: random.Random, in_a: bool) -> str:
    vowel, consonant = _same_length(rng, words.VOWEL_NOUNS, words.CONSONANT_NOUNS)
    # The object may begin with either. If it depended on the first noun, it would give the label away.
    obj = rng.choice([noun for noun in words.NOUNS if noun not in (vowel, consonant)])
    return (
        f"{_capital(vowel if in_a else consonant)} {rng.choice(words.TRANSITIVE_VERBS)} {obj}"
        f" {rng.choice(words.PLACES)} {rng.choice(words.ADVERBS_LY)}."
    )


def _end_ly(rng: random.Random, in_a: bool) -> str:
    ly, plain = _same_length(rng, words.ADVERBS_LY, words.ADVERBS_PLAIN)
    # The other adverb is of either kind. If it depended on the last one, it would give the label away.
    kind = rng.choice((words.ADVERBS_LY, words.ADVERBS_PLAIN))
    inner = rng.choice([adverb for adverb in kind if adverb not in (ly, plain)])
    subject, verb = rng.choice(words.NOUNS), rng.choice(words.INTRANSITIVE_VERBS)
    return f"{_capital(subject)} {verb} {inner} {rng.choice(words.PLACES)} {ly if in_a else plain}."


def _end_punctuation(rng: random.Random, in_a: bool) -> str:
    # Marks follow a word in both groups (in published B items the mark is separate, which adds a token).
    tokens = [
        _capital(rng.choice(words.NOUNS)),
        *rng.choice(words.PLACES).split(),
        _capital(rng.choice(words.NOUNS)),
    ]
    # Both groups have up to two marks inside. If only B had one, it would give the label away.
    for place in rng.sample(range(len(tokens) - 1), rng.randrange(3)):
        tokens[place] += rng.choice(_PUNCTUATION)
    if in_a:
        tokens[-1] += rng.choice(_PUNCTUATION)
    return " ".join(tokens)


def _uppercase(rng: random.Random, in_a: bool) -> str:
    # A: exactly one capital, at any letter including the first; B: none.
    text = (
        f"{rng.choice(words.NOUNS)} {rng.choice(words.INTRANSITIVE_VERBS)}"
        f" {rng.choice(words.PLACES)} {rng.choice(words.ADVERBS_LY)}."
    )
    if not in_a:
        return text
    place = rng.choice([index for index, character in enumerate(text) if character.isalpha()])
    return text[:place] + text[place].upper() + text[place + 1 :]


def _hyphenated_word(rng: random.Random, in_a: bool) -> str:
    # B has the same compounds without hyphen, so only the hyphen differs.
    compound = rng.choice(words.COMPOUNDS)
    if not in_a:
        compound = compound.replace("-", " ")
    place = rng.choice(words.PLACES)
    if rng.random() < 0.5:
        verb, adverb = rng.choice(words.INTRANSITIVE_VERBS), rng.choice(words.ADVERBS_LY)
        return f"The {compound} {verb} {place} {adverb}."
    return f"The {rng.choice(words.NOUNS)} {rng.choice(words.TRANSITIVE_VERBS)} the {compound} {place}."


def _spelled_number(rng: random.Random, in_a: bool) -> str:
    # Both groups use the same numbers. Places vary in length, which hides the number's length.
    word = rng.choice(list(words.NUMBERS))
    number = word if in_a else str(words.NUMBERS[word])
    adverb = f" {rng.choice(words.ADVERBS_LY)}" if rng.random() < 0.5 else ""
    return (
        f"{_capital(rng.choice(words.NOUNS))} {rng.choice(words.TRANSITIVE_VERBS)} {number}"
        f" {rng.choice(words.PLURALS)} {rng.choice(words.PLACES)}{adverb}."
    )


def _spelled_math(rng: random.Random, in_a: bool) -> str:
    # Operators are one token in both forms.
    word = rng.choice(list(words.MATH_OPERATORS))
    operator = word if in_a else words.MATH_OPERATORS[word]
    return (
        f"The {rng.choice(words.MATH_QUANTITIES)} {operator} {rng.randrange(2, 100)}"
        f" {rng.choice(words.MATH_CONTEXTS)}."
    )


def _repeated_word(rng: random.Random, in_a: bool) -> str:
    # Both groups have five words. In B the word's neighbour is a different word of the same kind and length.
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
    if not others:  # No other word has this length, so B could not have a matching item.
        return _repeated_word(rng, in_a)
    tokens.insert(place + 1, word if in_a else rng.choice(others))
    return " ".join(tokens) + "."


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
_PAIRED: dict[str, Callable[[random.Random, int, Lexicon, set[str]], tuple[list[str], list[str]]]] = {
    "palindrome": palindromes,
    "rhyme": rhymes,
}

TASKS = tuple(sorted([*_SENTENCES, *_PAIRED]))
"""The ten tasks, with the names of the published files."""


def _sentences(task: str, rng: random.Random, n: int, used: set[str]) -> Iterator[str]:
    for index in range(n):
        for _attempt in range(max_attempts(used)):
            text = _SENTENCES[task](rng, index % 2 == 0)
            key = item_key(task, text)
            if key not in used:
                used.add(key)
                yield text
                break
        else:
            raise exhausted(task, index - index % 2)


def generate(task: str, *, n: int, seed: int, lexicon: Lexicon, exclude: Collection[str] = ()) -> list[Row]:
    """Return ``n`` rows of ``task``: A, B, A, B …, without duplicates, the same in every process.

    :param n: An even number of at least 2.
    :param lexicon: Determines rhymes, and excludes real words from the made-up ones.
    :param exclude: Texts of items to exclude, compared by :func:`item_key`.
    :raises UsageError: for an unknown task, an odd or too small ``n``, or an ``n`` too large for the vocabulary.
    """
    if task not in TASKS:
        raise UsageError(f"unknown H-TEST task '{task}'; the tasks are: {', '.join(TASKS)}")
    if n < 2 or n % 2:
        raise UsageError(f"htest/{task}: n is {n}; choose an even number of at least 2 (half A, half B)")
    rng = generator(seed, "htest", task)
    used = {item_key(task, text) for text in exclude}
    if task in _PAIRED:
        in_a, in_b = _PAIRED[task](rng, n // 2, lexicon, used)
        texts = [text for pair in zip(in_a, in_b, strict=True) for text in pair]
    else:
        texts = list(_sentences(task, rng, n, used))
    return number_rows(texts)


def number_rows(texts: Sequence[str], first: int = 0) -> list[Row]:
    """Return rows with the ids 0000, 0001, …; texts at even positions are group A.

    :param first: the number in the first id, even.
    """
    return [
        {"id": f"{number:04d}", "centerpiece": text, "options": ["A", "B"], "correct_options": [number % 2]}
        for number, text in enumerate(texts, first)
    ]
