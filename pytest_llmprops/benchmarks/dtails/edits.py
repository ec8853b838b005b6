"""Edits of a DTAiLS choice that keep the right variation: another order of the list, a neutral edit of the sentence.

- **Order.** The list has the same variations in any order, and the question is about the best of them.
- **Sentence.** A neutral edit (:mod:`~pytest_llmprops.core.neutral_edits`) keeps what the English sentence says, so it
  keeps the translation of a word in it. Edits that change the concept itself, or a verb that may be a form of it, are
  left out: the question names the concept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

from pytest_llmprops.core.benchmark import Ask
from pytest_llmprops.core.neutral_edits import edited, neutral_edits
from pytest_llmprops.core.searches import Edits, Point, Variant, exchange_sizes, exchanged
from pytest_llmprops.core.texts import unicode_words
from pytest_llmprops.core.verdicts import Verdict

#: asks for a choice in a sentence, with the variations in an order, and judges it
AskAbout = Callable[[str, tuple[int, ...], Ask], Awaitable[Verdict]]
#: concepts whose forms a contraction may change
_AUXILIARIES = frozenset({"be", "can", "could", "do", "have", "should", "will", "would"})
#: letters that a form of the concept shares with it
_STEM = 3


def sentence_edits(sentence: str, concept: str) -> tuple[str, ...]:
    """Return the names of the neutral edits of a sentence that leave the concept alone."""
    stems = [word[:_STEM] for word in unicode_words(concept)]
    words = Counter(unicode_words(sentence))
    names = []
    for name, text in neutral_edits(sentence).items():
        other = Counter(unicode_words(text))
        changed = (words - other) | (other - words)
        is_form = any(word.startswith(stem) for word in changed for stem in stems)
        if not is_form and not (name == "contraction" and concept.casefold() in _AUXILIARIES):
            names.append(name)
    return tuple(names)


class DtailsEdits(Edits):
    """A point: the order of the list, then whether each neutral edit is made; zeros are the first run's question.

    :param variations: their names, in the item's own order. :param order: the order of the first run, as indexes.
    :param ask_about: asks the question of the first run and judges the reply.
    """

    def __init__(
        self,
        sentence: str,
        concept: str,
        variations: tuple[str, ...],
        order: tuple[int, ...],
        ask_about: AskAbout,
    ) -> None:
        self._sentence, self._variations, self._order = sentence, variations, order
        self._ask_about = ask_about
        self._names = sentence_edits(sentence, concept)

    @property
    def size(self) -> Point:
        return *exchange_sizes(len(self._order)), *(2 for _ in self._names)

    def variant(self, point: Point) -> Variant:
        count = len(self._order) - 1
        order, pairs = exchanged(self._order, point[:count])
        names = [name for name, choice in zip(self._names, point[count:], strict=True) if choice]
        sentence = edited(self._sentence, names)
        shown = [self._variations[index] for index in order]
        edits = [f"listed as {', '.join(shown)}"] if pairs else []
        edits += [f"neutral edit: {name}" for name in names]
        return Variant(
            (sentence, tuple(order)),
            tuple(edits),
            len(pairs) + len(names),
            {"sentence": sentence, "variations": shown},
        )

    async def judge(self, variant: Variant, ask: Ask) -> Verdict:
        sentence, order = variant.content
        return await self._ask_about(sentence, order, ask)
