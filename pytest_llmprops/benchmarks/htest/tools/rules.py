"""The rule of each H-TEST task, decided from the text of an item alone.

These rules share nothing with the generators: no word list, no frame. They say what separates group A from
group B in the paper "Language Models Don't Learn the Physical Manifestation of Language" (section 3, table 1
and the exemplars of appendix G). Where the two disagree the exemplars, which the published files follow, win:
table 1 says that group A of spelled math has no spelled-out notation, the exemplars have it in group A.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from itertools import pairwise

from pytest_llmprops.core.errors import UsageError

Pronunciations = Mapping[str, tuple[tuple[str, ...], ...]]

_NUMBER_WORD = re.compile(
    r"\b(zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(thir|four|fif|six|seven|eigh|nine)teen"
    r"|(twen|thir|for|fif|six|seven|eigh|nine)ty|hundred|thousand|million|billion|dozen)\b",
    re.IGNORECASE,
)
_MATH_WORD = re.compile(
    r"\b(plus|minus|times|over|modulo|equals?|exceeds|below|divided by|multiplied by|(greater|less) than"
    r"|to the power of|approximately|percent)\b",
    re.IGNORECASE,
)
_MATH_SYMBOL = re.compile(r"(?:^|\s)[-+*/%^<>=≈≤≥≠×÷]+(?=\s|$)")


def _words(text: str) -> list[str]:
    return [word for word in re.sub(r"[^\w'-]", " ", text.casefold()).split() if word]


def starts_with_vowel(text: str) -> bool:
    """The first letter is a, e, i, o or u."""
    first = next((character for character in text if character.isalpha()), "")
    return first.casefold() in set("aeiou")


def has_uppercase(text: str) -> bool:
    """At least one letter is a capital."""
    return any(character.isupper() for character in text)


def ends_with_punctuation(text: str) -> bool:
    """The last visible character is punctuation."""
    stripped = text.rstrip()
    return bool(stripped) and unicodedata.category(stripped[-1]).startswith("P")


def ends_with_ly(text: str) -> bool:
    """The last word ends with the letters "ly"."""
    words = _words(text)
    return bool(words) and words[-1].endswith("ly")


def is_palindrome(text: str) -> bool:
    """The letters read the same in both directions, capitals or not."""
    letters = [character for character in text.casefold() if character.isalnum()]
    return bool(letters) and letters == letters[::-1]


def has_repeated_word(text: str) -> bool:
    """Two neighbouring words are the same word."""
    words = _words(text)
    return any(left == right for left, right in pairwise(words))


def has_hyphenated_word(text: str) -> bool:
    """A hyphen joins two letters."""
    return re.search(r"[^\W\d_]-[^\W\d_]", text) is not None


def has_spelled_number(text: str) -> bool:
    """A number is written as a word."""
    return _NUMBER_WORD.search(text) is not None


def has_spelled_math(text: str) -> bool:
    """An operator is written as a word, and none as a symbol."""
    return _MATH_WORD.search(text) is not None and _MATH_SYMBOL.search(text) is None


def rhyme_part(phones: tuple[str, ...]) -> tuple[str, ...]:
    """The phones from the last stressed vowel on, without their stress digits.

    Primary and secondary stress both count; a word without any ("the") rhymes from its last vowel on.
    """
    vowels = [index for index, phone in enumerate(phones) if phone[-1].isdigit()]
    stressed = [index for index in vowels if phones[index][-1] in "12"]
    start = (stressed or vowels or [0])[-1]
    return tuple(phone.rstrip("012") for phone in phones[start:])


def words_rhyme(first: str, second: str, pronunciations: Pronunciations) -> bool:
    """Two different words rhyme perfectly in at least one of their pronunciations.

    A word that the dictionary lacks rhymes with nothing.
    """
    if first.casefold() == second.casefold():
        return False
    parts = [
        {rhyme_part(phones) for phones in pronunciations.get(word.casefold(), ())} for word in (first, second)
    ]
    return bool(parts[0] & parts[1])


def _is_rhyme(text: str, pronunciations: Pronunciations) -> bool:
    words = text.split()
    return len(words) == 2 and words_rhyme(words[0], words[1], pronunciations)


_RULES: dict[str, Callable[[str], bool]] = {
    "end_ly": ends_with_ly,
    "end_punctuation": ends_with_punctuation,
    "hyphenated_word": has_hyphenated_word,
    "palindrome": is_palindrome,
    "repeated_word": has_repeated_word,
    "spelled_math": has_spelled_math,
    "spelled_number": has_spelled_number,
    "start_vowel": starts_with_vowel,
    "uppercase": has_uppercase,
}

RULE_TASKS = tuple(sorted([*_RULES, "rhyme"]))


def decide(task: str, text: str, pronunciations: Pronunciations | None = None) -> str:
    """The group of ``text``: ``"A"`` when the task's rule holds, else ``"B"``.

    :param pronunciations: word -> ARPAbet pronunciations; only ``rhyme`` needs it.
    :raises UsageError: for an unknown task, or ``rhyme`` without a dictionary.
    """
    if task == "rhyme":
        if pronunciations is None:
            raise UsageError("the rule of 'rhyme' needs a pronunciation dictionary: pass pronunciations=")
        return "A" if _is_rhyme(text, pronunciations) else "B"
    if task not in _RULES:
        raise UsageError(f"unknown H-TEST task '{task}'; the tasks are: {', '.join(RULE_TASKS)}")
    return "A" if _RULES[task](text) else "B"
