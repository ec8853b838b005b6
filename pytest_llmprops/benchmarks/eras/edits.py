"""Edits of an ERAS pair that keep the right segmentation of its site: other slot words of its paradigm.

A paradigm is a template whose slots take any word of their list (section 2.3). The frame has the three characters of
the site and decides how they are cut, whichever words are in the slots. ``make_pair`` checks that the site occurs
nowhere else in the sentence.
"""

from __future__ import annotations

from pytest_llmprops.benchmarks.eras.items import Context
from pytest_llmprops.benchmarks.eras.judging import judge_test_sentence
from pytest_llmprops.benchmarks.eras.sentences import SentencePair, make_pair
from pytest_llmprops.benchmarks.eras.settings import ErasSettings
from pytest_llmprops.core.benchmark import Ask
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.searches import Edits, Point, Variant
from pytest_llmprops.core.verdicts import Verdict


class ErasEdits(Edits):
    """A point: the word of each slot; 0 is the pair's own. Only the test sentence is asked about."""

    def __init__(self, pair: SentencePair, context: Context, settings: ErasSettings) -> None:
        self._pair, self._context, self._settings = pair, context, settings
        lists = (context.slot_words[slot] for slot in pair.paradigm.slots)
        self._choices = tuple(
            (own, *(word for word in words if word != own))
            for own, words in zip(pair.words, lists, strict=True)
        )

    @property
    def size(self) -> Point:
        return tuple(map(len, self._choices))

    def variant(self, point: Point) -> Variant | None:
        words = tuple(choices[number] for choices, number in zip(self._choices, point, strict=True))
        if len(set(words)) < len(words):
            return None
        try:
            pair = make_pair(self._pair.paradigm, self._pair.number, words)
        except DataError:
            # These words and the frame have the site twice.
            return None
        changed = zip(self._pair.words, words, strict=True)
        edits = tuple(f"{new} for {own}" for own, new in changed if own != new)
        return Variant(pair.words, edits, shown={"test": pair.test, "words": list(words)})

    async def judge(self, variant: Variant, ask: Ask) -> Verdict:
        pair = make_pair(self._pair.paradigm, self._pair.number, variant.content)
        return await judge_test_sentence(pair, self._context, ask, self._settings)
