"""Edits of ERAS pairs: other slot words leave the site and its right segmentation as they are."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmark_registry import find_registration
from pytest_llmprops.benchmarks.eras.benchmark import Eras
from pytest_llmprops.benchmarks.eras.edits import ErasEdits
from pytest_llmprops.benchmarks.eras.items import EXPLICIT
from pytest_llmprops.benchmarks.eras.sentences import SentencePair
from pytest_llmprops.core.benchmark import Loaded
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.protocols import Protocol, resolve
from pytest_llmprops.core.requests import Kind, Reply, Request, Segment
from pytest_llmprops.core.searches import drawn
from pytest_llmprops.data.files import DataFolder

E = Eras()


class Segmenter:
    """The ``ask`` of a benchmark: it cuts a pair's site rightly, and everything else into two characters.

    :param own: cut the site wrongly in sentences without this word.
    """

    kinds: frozenset[Kind] = frozenset({"segment"})
    roles: frozenset[str] = frozenset()

    def __init__(self, pair: SentencePair, own: str = "") -> None:
        self._paradigm, self._own, self.asked = pair.paradigm, own, list[str]()

    async def __call__(self, request: Request, role: str = "subject") -> Reply:
        assert isinstance(request, Segment)
        self.asked.append(request.text)
        site = self._paradigm.site
        before, found, after = request.text.partition(site)
        if not found:
            return Reply(value=self._cut(request.text))
        is_left = (self._paradigm.branching == "left") == (self._own in request.text)
        words = [
            *self._cut(before),
            *((site[:2], site[2]) if is_left else (site[0], site[1:])),
            *self._cut(after),
        ]
        return Reply("", value=[word for word in words if word])

    def _cut(self, text: str) -> list[str]:
        return [text[start : start + 2] for start in range(0, len(text), 2)]


def protocol(**settings: str) -> Protocol[Any]:
    return resolve("eras", E.protocols, "quick", settings, 0)


def explicit(part: Loaded) -> list[Item]:
    return [item for item in part.items if item.task == EXPLICIT]


def edits_of(item: Item, part: Loaded, model: Segmenter) -> ErasEdits:
    edits = asyncio.run(E.edits(item, part.context, model, protocol()))
    assert isinstance(edits, ErasEdits)
    return edits


def check(part: Loaded, step: int) -> None:
    """A segmenter that cuts the sites as their paradigms say is right about every variant."""
    rng = random.Random(0)
    for item in explicit(part)[::step]:
        model = Segmenter(item["pair"])
        edits = edits_of(item, part, model)
        for _ in range(3):
            variant = drawn(edits, rng)
            assert variant is not None
            assert variant.content != item["pair"].words
            verdict = asyncio.run(edits.judge(variant, model))
            assert verdict.status == "correct", (item.id, variant)
            # The site is where the template has it, once.
            assert model.asked[-1].count(item["pair"].paradigm.site) == 1


def test_slot_words_keep_the_segmentation(part: Loaded) -> None:
    """The expected cut is right in every built-in paradigm, whatever words are in the slots."""
    check(part, 4)


def test_slot_words_keep_the_segmentation_of_published_templates(published: Path) -> None:
    """The same holds for the authors' templates."""
    check(E.load(DataFolder(published, "published", find_registration("eras").tools)), 10)


def test_words_are_exchanged_one_by_one(part: Loaded) -> None:
    """A point is the word of each slot; the edit names both words, and a word is never there twice."""
    item = explicit(part)[0]
    pair: SentencePair = item["pair"]
    edits = edits_of(item, part, Segmenter(pair))
    assert len(edits.size) == len(pair.words)
    assert edits.original.content == pair.words
    variant = edits.variant((1, *(0 for _ in pair.words[1:])))
    assert variant is not None
    [edit] = variant.edits
    assert edit == f"{variant.content[0]} for {pair.words[0]}"
    assert variant.content[1:] == pair.words[1:]
    shown = variant.shown["test"]
    assert isinstance(shown, str)
    assert shown.startswith(variant.content[0])


def test_edits_are_measured_with_a_segmenter(part: Loaded) -> None:
    """A segmenter that knows the pair's own first word only is right about the pair and wrong about the variant."""
    item = explicit(part)[0]
    model = Segmenter(item["pair"], own=item["pair"].words[0])
    verdict = asyncio.run(E.evaluate(item, part.context, model, protocol(edits="true")))
    assert (verdict.status, verdict.values["edit_read"]) == ("correct", 1)
    assert len(model.asked) == 3
    shown = verdict.evidence["edited"]
    assert isinstance(shown, dict)
    assert model.asked[2] == shown["test"]
    assert verdict.values["edit_right"] == float(item["pair"].words[0] in model.asked[2])
    # All items at once have no edits, so each is measured alone.
    assert E.evaluate_all([item], part.context, lambda requests: [], protocol(edits="true")) is None


def test_generated_sets_have_no_edits(part: Loaded) -> None:
    """A generated set does not keep the lists of its slot words."""
    item, context = explicit(part)[0], replace(part.context, slot_words={})
    edits = asyncio.run(E.edits(item, context, Segmenter(item["pair"]), protocol()))
    assert edits == "a generated set has no lists of slot words"


@pytest.mark.parametrize("task", ["implicit", "explicit"])
def test_only_segmentations_are_searched(part: Loaded, task: str) -> None:
    """The sentiment of a sentence may depend on its slot words."""
    item = next(item for item in part.items if item.task == task)
    assert E.searches(item, protocol(search="correct").settings, "") == (task == EXPLICIT)
