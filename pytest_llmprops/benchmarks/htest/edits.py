"""Edits of an H-TEST item that keep its label: words that carry no cue change places, and so do the examples.

The label of a text follows from the rule of its task (section 3, table 1). Why each edit keeps it:

===================  ===================================================================================================
``uppercase``        Whole words change places, so the text keeps its letters.
``hyphenated_word``  The same: a hyphen stays inside its word.
``start_vowel``      All words up to the first one with a letter stay.
``end_ly``           The last word and what follows it stay.
``end_punctuation``  What is after the last space stays.
``spelled_number``   The number stays, and so do all other words for numbers.
``spelled_math``     Operators, operands and the short words that an operator may consist of stay.
``repeated_word``    Words that occur more than once stay, so no two neighbours become equal, or cease to be.
``rhyme``            The two words change places: a rhyme has no direction.
``palindrome``       The letters are reversed, which gives a palindrome if and only if they are one.
every task           The examples change places, each with its label.
===================  ===================================================================================================

The text of an edited item need not be a sentence. No rule is about grammar or meaning.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property

from pytest_llmprops.core.benchmark import Ask
from pytest_llmprops.core.searches import Edits, Point, Variant, exchange_sizes, exchanged
from pytest_llmprops.core.strict_json import JSON
from pytest_llmprops.core.verdicts import Verdict

#: exchanges that are listed one by one
_LISTED = 3
#: (text, label) pairs
Examples = tuple[tuple[str, str], ...]
#: asks about a text after its examples, and judges the reply
AskAbout = Callable[[str, Examples, Ask], Awaitable[Verdict]]

_NUMBER = re.compile(
    r"\d|zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|teen|twenty|thirty|forty|fifty|sixty|seventy"
    r"|eighty|ninety|hundred|thousand|million|billion|dozen",
    re.IGNORECASE,
)
#: Words of at least four letters that are no operator. Shorter ones may be a part of one: "to the power of".
_NO_OPERATOR = re.compile(
    r"(?!(?:plus|minus|times|over|modulo|equals?|exceeds|below|above|less|more|than|greater|divided|multiplied|added"
    r"|raised|squared|cubed|root|power|approximately|about|percent)\b)[^\W\d_]{4,}[.!?]*\Z",
    re.IGNORECASE,
)


def movable(task: str, words: Sequence[str]) -> tuple[int, ...]:
    """Return the places of the words that carry no cue, as the module describes.

    :param words: what is between the spaces of a text.
    """
    places = range(len(words))
    if task == "palindrome" or (task == "rhyme" and len(words) != 2):
        return ()
    if task == "start_vowel":
        first = next((n for n in places if any(map(str.isalpha, words[n]))), len(words))
        return tuple(places[first + 1 :])
    if task == "end_ly":
        last = next((n for n in reversed(places) if re.search(r"\w", words[n])), 0)
        return tuple(places[:last])
    if task == "end_punctuation":
        return tuple(places[:-1])
    if task == "spelled_number":
        return tuple(n for n in places if not _NUMBER.search(words[n]))
    if task == "spelled_math":
        return tuple(n for n in places if _NO_OPERATOR.match(words[n]))
    if task == "repeated_word":
        parts = [re.findall(r"[\w'-]+", word.casefold()) for word in words]
        counts = Counter(part for word in parts for part in word)
        # A word of several parts, or of none, may have a neighbour that is not next to it in the text.
        return tuple(n for n in places if len(parts[n]) == 1 and counts[parts[n][0]] == 1)
    return tuple(places)


class HTestEdits(Edits):
    """A point: the order of the words without a cue, or whether the text is reversed; then the order of the examples.

    :param examples: in the order of the measurement. :param ask_about: asks the question of the measurement.
    """

    def __init__(self, task: str, text: str, examples: Examples, ask_about: AskAbout) -> None:
        self._task, self._text, self._examples, self._ask_about = task, text, examples, ask_about
        self._words = text.split(" ")
        self._movable = movable(task, self._words)

    @cached_property
    def _text_sizes(self) -> Point:
        return (2,) if self._task == "palindrome" else exchange_sizes(len(self._movable))

    @property
    def size(self) -> Point:
        return *self._text_sizes, *exchange_sizes(len(self._examples))

    def variant(self, point: Point) -> Variant:
        count = len(self._text_sizes)
        text, edits, size = self._edited(point[:count])
        order, pairs = exchanged(range(1, len(self._examples) + 1), point[count:])
        if len(pairs) > _LISTED:
            edits.append(f"the {len(order)} examples in another order")
        else:
            edits += [f"examples {one} and {other} exchanged" for one, other in pairs]
        examples = tuple(self._examples[number - 1] for number in order)
        shown: dict[str, JSON] = {"text": text}
        if pairs:
            shown["examples"] = order
        return Variant((text, examples), tuple(edits), size + len(pairs), shown)

    async def judge(self, variant: Variant, ask: Ask) -> Verdict:
        text, examples = variant.content
        return await self._ask_about(text, examples, ask)

    def _edited(self, numbers: Sequence[int]) -> tuple[str, list[str], int]:
        """Return the text with the edits of a point, the edits in words, and their number."""
        if self._task == "palindrome":
            return (self._text[::-1], ["text reversed"], 1) if any(numbers) else (self._text, [], 0)
        places, pairs = exchanged(self._movable, numbers)
        words = list(self._words)
        for place, source in zip(self._movable, places, strict=True):
            words[place] = self._words[source]
        if len(pairs) > _LISTED:
            edits = ["words without a cue in another order"]
        else:
            names = ((self._words[one], self._words[other]) for one, other in pairs)
            edits = [f'"{one}" and "{other}" exchanged' for one, other in names]
        return " ".join(words), edits, len(pairs)
