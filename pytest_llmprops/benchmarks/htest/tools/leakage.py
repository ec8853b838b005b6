"""What a shallow reader may see of an H-TEST item, and what belongs to each task's rule.

A task is sound when its groups cannot be told apart without the rule. The check: turn every item into
surface features (length, word count, first and last letter, punctuation counts, word unigrams), hide what the
rule itself is about, and try to predict the label. :data:`OWN_FEATURES` is the table of what is hidden. The
classifiers live in the tests, so that the package needs no scikit-learn.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from pytest_llmprops.core.errors import UsageError

Features = dict[str, float | str]

_PUNCTUATION = re.compile(r"[^\w\s]")


@dataclass(frozen=True, slots=True)
class OwnFeatures:
    """What the rule of a task is about, and is therefore hidden from the classifiers.

    :param rule: the rule in words.
    :param hides: what is hidden, in words.
    :param mask: text -> the text without the rule's tokens or forms; never looks at the label.
    :param drop: names of features that are left out.
    """

    rule: str
    hides: str
    mask: Callable[[str], str] = str
    drop: frozenset[str] = frozenset()


def _mask_numbers(text: str) -> str:
    numbers = (
        "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|twenty|thirty|forty|fifty|sixty"
        "|eighty|ninety"
    )
    return re.sub(rf"\b({numbers}|\d+)\b", "NUMBER", text)


def _mask_operators(text: str) -> str:
    return re.sub(r" (plus|minus|times|over|modulo|equals|exceeds|below|[-+*/%=<>]) ", " OPERATOR ", text)


def _mask_hyphens(text: str) -> str:
    return text.replace("-", " ")


OWN_FEATURES: dict[str, OwnFeatures] = {
    "end_ly": OwnFeatures(
        "the last word ends with 'ly'", "the last letter", drop=frozenset({"last_letter"})
    ),
    "end_punctuation": OwnFeatures(
        "the last character is punctuation", "the last character", drop=frozenset({"last_character"})
    ),
    "hyphenated_word": OwnFeatures(
        "a hyphen joins words", "hyphens, read as spaces (length stays)", mask=_mask_hyphens
    ),
    "palindrome": OwnFeatures(
        "the word reads the same backwards", "nothing: the features do not show the order of letters"
    ),
    "repeated_word": OwnFeatures(
        "two neighbouring words are the same", "nothing: items of both groups have five words, counted each"
    ),
    "rhyme": OwnFeatures("the two words rhyme", "nothing: the features do not show sounds or pairs"),
    "spelled_math": OwnFeatures(
        "an operator is a word", "the operator, as word or symbol", mask=_mask_operators
    ),
    "spelled_number": OwnFeatures(
        "a number is a word", "the number, as word or digits", mask=_mask_numbers
    ),
    "start_vowel": OwnFeatures(
        "the first letter is a vowel", "the first letter, and the capital that shows which noun is first",
        mask=str.casefold, drop=frozenset({"first_letter", "first_character"}),
    ),
    "uppercase": OwnFeatures("one letter is a capital", "case", mask=str.casefold),
}  # fmt: skip


def features(task: str, text: str, *, masked: bool = True) -> Features:
    """The surface features of one item.

    ``length`` (characters), ``words`` (tokens between spaces), ``first_letter``, ``last_letter``,
    ``first_character``, ``last_character``, ``punctuation:x`` counts and ``word:x`` counts (tokens without
    their punctuation, case kept).

    :param masked: hide the rule's own features; False shows everything.
    :raises UsageError: for an unknown task.
    """
    if task not in OWN_FEATURES:
        raise UsageError(f"unknown H-TEST task '{task}'; the tasks are: {', '.join(OWN_FEATURES)}")
    own = OWN_FEATURES[task]
    if masked:
        text = own.mask(text)
    letters = [character.casefold() for character in text if character.isalpha()]
    found: Features = {
        "length": len(text),
        "words": len(text.split()),
        "first_letter": letters[0] if letters else "",
        "last_letter": letters[-1] if letters else "",
        "first_character": text[:1],
        "last_character": text[-1:],
    }
    for mark, count in Counter(_PUNCTUATION.findall(text)).items():
        found[f"punctuation:{mark}"] = count
    for word, count in Counter(re.findall(r"[^\W_]+", text)).items():
        found[f"word:{word}"] = count
    if masked:
        found = {name: value for name, value in found.items() if name not in own.drop}
    return found
