"""Edits of H-TEST items: the rule of the task gives every edited text the label of the item."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.htest.benchmark import TASKS, HTest
from pytest_llmprops.benchmarks.htest.edits import HTestEdits, movable
from pytest_llmprops.core.benchmark import Ask, Loaded
from pytest_llmprops.core.protocols import resolve
from pytest_llmprops.core.requests import Chat, Kind, Reply, Request
from pytest_llmprops.core.searches import drawn
from pytest_llmprops.core.verdicts import Verdict
from pytest_llmprops.data.files import DataFolder, builtin_data
from pytest_llmprops.data.pronunciation import load_cmudict
from tests.support.htest_rules import decide

H = HTest()
EXAMPLES = (("Tall tree", "A"), ("small tree", "B"), ("Red house", "A"), ("red house", "B"))


async def unused(text: str, examples: object, ask: Ask) -> Verdict:
    raise AssertionError


def edits_of(task: str, text: str) -> HTestEdits:
    return HTestEdits(task, text, EXAMPLES, unused)


def check(loaded: Loaded, task: str) -> int:
    """Compare the labels of edited texts with those of the texts, by rules that know no edits; return their number."""
    rng, lexicon, count = random.Random(task), load_cmudict(), 0
    for item in loaded.items:
        if item.task != task:
            continue
        label = decide(task, item["text"], lexicon)
        edits = edits_of(task, item["text"])
        texts = {variant.content[0] for _ in range(6) if (variant := drawn(edits, rng)) is not None}
        for text in texts - {item["text"]}:
            count += 1
            assert decide(task, text, lexicon) == label, (item.id, item["text"], text)
    return count


@pytest.mark.parametrize("task", TASKS)
def test_edits_keep_the_label(task: str) -> None:
    """Each built-in text has the same label after six random edits."""
    # A palindrome has no other text.
    assert check(H.load(DataFolder(builtin_data(), "builtin")), task) >= (90 if task == "palindrome" else 150)


def test_edits_keep_the_label_of_published_items(published: Path) -> None:
    """The same holds for the authors' texts. Their labels may contradict the rule, with and without the edit."""
    loaded = H.load(DataFolder(published, "published"))
    for task in sorted({item.task for item in loaded.items} & {*TASKS}):
        assert check(loaded, task) >= 90


@pytest.mark.parametrize(
    ("task", "text", "words"),
    [
        ("start_vowel", "Oven hums by noon softly.", ["hums", "by", "noon", "softly."]),
        ("start_vowel", '" An oven hums.', ["oven", "hums."]),
        ("end_ly", "Fox hums indoors gladly .", ["Fox", "hums", "indoors"]),
        ("end_punctuation", "Dog in the. hall ! Cat", ["Dog", "in", "the.", "hall", "!"]),
        ("uppercase", "fox huMs.", ["fox", "huMs."]),
        ("hyphenated_word", "The well-read fox", ["The", "well-read", "fox"]),
        ("spelled_number", "Fox eats twenty-one figs up north.", ["Fox", "eats", "figs", "up", "north."]),
        ("spelled_math", "The average divided by 7 in winter.", ["average", "winter."]),
        ("repeated_word", "fox hums hums, gladly fox.", ["gladly"]),
        ("rhyme", "sea tea", ["sea", "tea"]),
        ("palindrome", "level", []),
    ],
)
def test_words_with_a_cue_stay(task: str, text: str, words: list[str]) -> None:
    """Only words without a cue change places."""
    parts = text.split(" ")
    assert [parts[place] for place in movable(task, parts)] == words


def test_edits_are_named_and_counted() -> None:
    """One exchange is the smallest edit; the examples keep their labels, and many exchanges are named together."""
    edits = edits_of("start_vowel", "Oven hums by noon.")
    assert edits.size == (3, 2, 4, 3, 2)
    assert edits.original.content == ("Oven hums by noon.", EXAMPLES)
    words, examples = edits.variant((2, 0, 0, 0, 0)), edits.variant((0, 0, 3, 0, 0))
    assert words.content == ("Oven noon. by hums", EXAMPLES)
    assert (words.edits, words.cost) == (('"hums" and "noon." exchanged',), 1)
    assert examples.content == ("Oven hums by noon.", (EXAMPLES[3], *EXAMPLES[1:3], EXAMPLES[0]))
    assert examples.edits == ("examples 1 and 4 exchanged",)
    assert examples.shown == {"text": "Oven hums by noon.", "examples": [4, 2, 3, 1]}
    both = edits.variant((1, 1, 1, 1, 1))
    assert both.cost == 5
    assert len(both.edits) == 5
    assert edits_of("palindrome", "leveled").variant((1, 0, 0, 0)).content[0] == "delevel"


class Scripted:
    """The ``ask`` of a benchmark: the model that answers by the first word of the text."""

    roles: frozenset[str] = frozenset()

    def __init__(self, kind: Kind = "chat") -> None:
        self.kinds: frozenset[Kind] = frozenset({kind})
        self.asked: list[Any] = []

    async def __call__(self, request: Request, role: str = "subject") -> Reply:
        assert isinstance(request, Chat)
        self.asked.append(request)
        text = request.messages[-1].content.rpartition('Input: "')[2]
        return Reply("A" if text[0].isupper() else "B")


def test_edited_items_are_asked_about_as_in_the_measurement() -> None:
    """A variant has the wording, sampling and number of examples of the item; the point of zeros is the item."""
    loaded = H.load(DataFolder(builtin_data(), "builtin"))
    item = next(i for i in loaded.items if i.task == "uppercase" and i["text"][0].isupper())
    protocol = resolve("htest", H.protocols, "paper", {"edits": "true"}, 0)
    model = Scripted()
    verdict = asyncio.run(H.evaluate(item, loaded.context, model, protocol))
    one, other = model.asked
    assert verdict.values["edit_read"] == 1
    assert one.messages != other.messages
    assert (one.temperature, one.max_tokens) == (other.temperature, other.max_tokens)
    counts = [chat.messages[-1].content.count("Label:") for chat in (one, other)]
    assert counts == [51, 51]

    async def zeros() -> None:
        edits = await H.edits(item, loaded.context, model, protocol)
        await edits.judge(edits.original, model)

    asyncio.run(zeros())
    assert model.asked[2] == one
