"""The synonym generator and its data: named or not, pool and prompts, votes and guards."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pytest_llmprops.benchmarks.oracle.extraction import Entity, Extracted, locate
from pytest_llmprops.benchmarks.oracle.scheme import Oracle
from pytest_llmprops.benchmarks.oracle.synonyms import (
    Generator,
    Pool,
    Synonym,
    cleaned,
    counted,
    fits,
    form,
    pool_of,
    read_named,
    read_pool,
)
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.requests import Chat, Reply
from tests.support.oracle_fakes import POOL, RULES

Answer = Callable[[Chat], str]


def synonyms(
    sentence: str,
    entities: list[tuple[str, str]],
    answer: Answer = lambda chat: "",
    *,
    seed: int = 1,
    pool: Pool = POOL,
) -> tuple[list[Synonym], list[Chat]]:
    """Return the generator's choices and its requests."""
    asked: list[Chat] = []

    async def ask(chat: Chat) -> Reply:
        asked.append(chat)
        return Reply(answer(chat))

    result = locate([Extracted(*entity) for entity in entities], sentence)
    generator = Generator(sentence, Oracle(ask), RULES, pool, seed)
    return list(asyncio.run(generator.synonyms(result))), asked


def test_rules_on_names() -> None:
    """Appendix A.2's rules use capitals, digits and class; a capital at the start is weak evidence."""
    for name, kind, at_start, named in (
        ("my teacher", "person", False, False), ("Aaron", "person", True, True), ("Teachers", "people", True, None),
        ("Vigra Church", "church", True, True), ("Dogs", "animal", True, None),
        ("solar fraction", "concept", False, False), ("1872", "date", False, True),
        ("yesterday", "date", False, False), ("January", "month", False, True),
        ("US$ 1.826 billion", "money", False, True), ("RV32E", "instruction set", False, None),
        ("Control Status Register", "register", False, True), ("Émile", "person", False, True),
        ("Wallonia", "Belgian regions", False, True), ("北京", "city", False, None),
        ("mstatus", "component", False, True), ("x5", "register", False, True), ("rd", "field", False, True),
        ("rd", "road", False, False), ("registers", "register", False, False), ("MPP", "CSR field", True, True),
        ("M-mode", "privilege mode", False, True), ("Zba", "ISA extension", False, True),
        ("FENCE.I", "instructions", True, True), ("Halt", "instruction", True, None),
    ):  # fmt: skip
        decided, rule = RULES.named(name, kind, at_start=at_start)
        assert decided is named, name
        assert bool(rule) == (named is not None)


def test_reading_prompt_2() -> None:
    """The last double brackets decide; without brackets, a reply that names only one of the two does."""
    named = {
        "A [[x]] is ... [[named entity]]": True, "[[Normal Entity]]": False, "[[non-named entity]]": False,
        "[[not a named entity]]": False, "[[named entity]] or not: [[normal entity]]": False,
        "It is a normal entity.": False, "A named entity, no normal entity": None, "[[]]": None,
    }  # fmt: skip
    assert {text: read_named(Reply(text)) for text in named} == named


def test_named_by_vote() -> None:
    """If no rule applies, prompt 2 is sent 11 times, and more than half of the readable replies decide."""
    sentence = "The RV32E core has few registers."

    def answer(chat: Chat) -> str:
        if "normal entity" in chat.prompt:
            return "[[named entity]]" if chat.sample < 6 else "[[normal entity]]" if chat.sample < 10 else "?"
        return "1. RV64I\n2. RV128E"

    result, asked = synonyms(sentence, [("RV32E", "instruction set")], answer)
    assert (result[0].entity.named, result[0].decided_by) == (True, "vote: 6 of 10 say named")
    assert (result[0].text, result[0].how, result[0].votes) == ("RV64I", "replace", 7)
    assert result[0].is_voted
    assert not synonyms("Bella left.", [("Bella", "person")], answer)[0][0].is_voted
    questions = [chat.prompt for chat in asked]
    assert len(asked) == 18
    assert sorted(chat.sample for chat in asked[:11]) == list(range(11))
    assert questions[0].startswith(f'Is the entity "RV32E" in the sentence "{sentence}" a "named entity"')
    assert '(type: "instruction set") that could replace "RV32E"' in questions[-1]


def test_pool_names() -> None:
    """Named entities of pool classes need no request and get different names, drawn by the seed."""
    sentence = "Aaron Hill and Bella saw Kraków and Lyon in France in May 2011."
    kinds = {"Aaron Hill": "actor", "Bella": "person", "Kraków": "city", "Lyon": "city", "France": "country",
             "May 2011": "date"}  # fmt: skip
    names = set()
    for seed in range(20):
        result, asked = synonyms(sentence, [*kinds.items()], seed=seed)
        assert not asked
        assert {(synonym.how, synonym.votes) for synonym in result} == {("pool", 0)}
        texts = tuple(synonym.text for synonym in result)
        assert len({*texts, *kinds}) == 12
        for text, (name, kind) in zip(texts, kinds.items(), strict=True):
            assert text in POOL["person" if kind == "actor" else kind]
            assert len(text.split()) == len(name.split())
        names.add(texts)
        alone, _ = synonyms(sentence, [*kinds.items()][1:3], seed=seed)
        assert [s.text for s in alone] == [*texts[1:3]]
    assert len(names) == 20


def test_names_keep_their_form() -> None:
    """Without requests, a date is replaced by one in the same format, and an instruction by one written like it."""
    for name, kind, shaped in (
        ("14 March 1931", "date", "9 X 9999"), ("March 3, 1931", "date", "X 9, 9999"), ("1960s", "date", "9999x"),
        ("x5", "register", "x9"), ("mstatus", "CSR", "x"), ("ADD", "instruction", "X"), ("LR.W", "opcode", "X.X"),
    ):  # fmt: skip
        assert form(name) == shaped
        for seed in range(5):
            (result,), asked = synonyms(f"Here {name} is used.", [(name, kind)], seed=seed)
            assert not asked
            assert form(result.text) == shaped
            assert result.text != name


def test_non_named_ask_for_synonyms() -> None:
    """Prompt 4 is sent seven times, and the most frequent valid candidate is used, in the sentence's form."""
    lists = [
        "1. Building\n2. Works", "1. Building\n2. Assembly", "1. Edifice\n2. Building",
        "1. the funds\n2. Edifice", "Assembly, Edifice, Erection", "I don't know", "1. Award",
    ]  # fmt: skip
    sentence = "The award, along with funds for the construction of it, was large."
    (result,), asked = synonyms(sentence, [("construction", "activity")], lambda chat: lists[chat.sample])
    assert (result.text, result.how, result.votes) == ("building", "synonyms", 3)
    assert len(asked) == 7
    assert asked[0].prompt.startswith(
        f'Please list synonyms for "construction" in the sentence "{sentence}".'
    )
    assert "[[" not in asked[0].prompt


def test_no_valid_synonym() -> None:
    """If prompt 4 gives nothing valid, prompt 3 is used; if it fails too, there is no synonym.

    Two entities never get the same replacement, nor replacements that contain each other.
    """
    entities = [("cat", "animal"), ("dog", "animal")]
    (result,), asked = synonyms(
        "A cat sat on the mat.", entities[:1],
        lambda chat: "1. dogs\n2. the cat" if "synonyms for" in chat.prompt else "1. cat\n2. the mat",
    )  # fmt: skip
    assert (result.text, result.how, len(asked)) == ("", "none", 14)
    both, _ = synonyms("A cat saw a dog.", entities, lambda chat: "1. beast\n2. big beast\n3. brute")
    assert [synonym.text for synonym in both] == ["beast", "brute"]


SENTENCE = "Crupet is a village in Wallonia, Belgium, a short distance south of the old road, with US$ 1.826 billion."


def test_guards() -> None:
    """Each guard of appendix A.3, type 3, refuses a candidate that no other guard refuses.

    A sum of money is not replaced by a word (the paper's third example).
    """
    names = ("Crupet", "Wallonia", "Belgium", "old road", "village", "US$ 1.826 billion")
    entities = {e.name: e for e in locate([Extracted(name) for name in names], SENTENCE)}
    for name, kind, named, candidate, why in (
        ("Wallonia", "region", True, "Flanders", ""),
        ("Wallonia", "region", True, "Liege, Belgium", "contains or is contained"),
        ("Wallonia", "region", True, "South Wallonia", "contains or is contained"),
        ("old road", "thing", False, "road", "contains or is contained"),
        ("Wallonia", "region", True, "Distance", "already in the sentence"),
        ("Wallonia", "region", True, "short distance south Flanders", "repeats the sentence"),
        ("Crupet", "village", True, "Vigra Church is located a few hundred metres to the north", "too long"),
        ("Wallonia", "region", True, "…", "empty"),
        ("Wallonia", "region", True, "Old Namur", "clashes"),
        ("village", "place", False, "hamlets", "grammatical number"),
        ("village", "place", False, "hamlet", ""),
        ("village", "place", False, "2 hamlet", "number for a word"),
        ("village", "place", False, "dozen hamlet", "number for a word"),
        ("Wallonia", "region", True, "Region 51", ""),
        ("US$ 1.826 billion", "money", True, "grant", "no number"),
        ("US$ 1.826 billion", "money", False, "grant", "no number"),
        ("US$ 1.826 billion", "money", True, "US$ 2.1 million", ""),
        ("US$ 1.826 billion", "money", False, "US$ 2.1 million", ""),
    ):
        entity = replace(entities[name], kind=kind, named=named)
        is_fit = fits(candidate, entity, SENTENCE, [*entities.values()], ["namur"], RULES)
        assert is_fit == (not why), (candidate, why)


def test_plurals() -> None:
    """The head of the phrase decides whether it is plural."""
    plurals = ("members of parliament", "general-purpose registers", "children")
    assert all(map(RULES.is_plural, plurals))
    assert not any(map(RULES.is_plural, ("list of registers", "address", "analysis")))


def test_cleaned_candidates() -> None:
    """Labels, remarks, marks, indefinite articles and unneeded capitals are removed."""
    for candidate, name, named, clean in (
        ('"Hound"', "dog", False, "hound"), ("Synonym1: Hound (a dog)", "dog", False, "hound"),
        ("A hound.", "dog", False, "hound"), ("Hound - a hunter", "dog", False, "hound"),
        ("CPU", "processor", False, "CPU"), ("The Salt Road", "Rain Season", True, "The Salt Road"),
        ("U.S.", "France", True, "U.S."), ("*Oslo*,", "Bern", True, "Oslo"),
    ):  # fmt: skip
        assert cleaned(candidate, Entity(name, "", named)) == clean


def test_candidates_are_counted_once_per_reply() -> None:
    """Each reply has one vote per candidate, and the higher place in the lists wins a tie."""
    replies = [Reply("1. a\n2. b\n3. A"), Reply("1. c\n2. b"), Reply("1. c"), Reply("")]
    assert counted(replies, Entity("x"), False) == [("c", 2), ("b", 2), ("a", 1)]
    for line in ("Sure: a, b, c", "a, b, c"):
        assert counted([Reply(line)], Entity("x"), False) == [("a", 1), ("b", 1), ("c", 1)]


def test_data_of_this_project() -> None:
    """The pool has at least 40 names per class for the classes in the rules, and several dates per format."""
    classes = {"person", "location", "city", "country", "organization", "date", "film", "book"}
    assert classes <= {*RULES.pool_classes}
    assert all(len(POOL[cls]) >= 40 for cls in RULES.pool_classes)
    forms = Counter(form(name) for name in POOL["date"])
    assert min(forms.values()) >= 6
    assert {"9999", "X 9999", "9 X 9999", "X 9, 9999"} <= set(forms)
    for cls in RULES.pool_classes:
        for name in random.Random(0).sample(POOL[cls], 10):
            decided, _ = RULES.named(name.removeprefix("The "), cls, at_start=False)
            assert decided, name


def test_the_pool_has_the_entities_of_the_run() -> None:
    """A class with three named entities in the run is replaced by these, any other one by the written names."""
    cities = [("Oslo", "city"), ("Lima", "town"), ("Quito", "city"), ("Lima", "city"), ("my town", "city")]
    pool = pool_of([*cities, ("Peru", "country"), ("Chad", "country")], POOL, RULES)
    assert pool["city"] == ("Oslo", "Lima", "Quito")
    assert {cls: names for cls, names in pool.items() if cls != "city"} == {
        cls: names for cls, names in POOL.items() if cls != "city"
    }


def test_a_damaged_pool() -> None:
    """A damaged pool file gives one line with the file and a fix."""
    documents: tuple[Any, ...] = (
        [],
        {"classes": []},
        {"classes": {"city": "Oslo"}},
        {"classes": {"city": [1]}},
    )
    for document in documents:
        with pytest.raises(DataError, match=r"^oracle/pool\.json: not lists of names by class; write"):
            read_pool(document)
