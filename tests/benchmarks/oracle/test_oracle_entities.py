"""Entities located in their sentence: mentions, overlaps, and entities that cannot be replaced."""

from __future__ import annotations

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.oracle.extraction import (
    Entity,
    Extracted,
    locate,
    normalised,
    replaced,
    written_names,
)
from pytest_llmprops.benchmarks.oracle.items import items
from pytest_llmprops.data.files import DataFolder, builtin_data


def entities_of(sentence: str, *names: str) -> dict[str, Entity]:
    """Return the entities by the name the model gave."""
    by_key = {e.key: e for e in locate([Extracted(name, "k") for name in names], sentence)}
    return {name: by_key[normalised(name)] for name in names}


def texts(sentence: str, entity: Entity) -> list[str]:
    """Return the texts of an entity's mentions."""
    return [sentence[start:end] for start, end in entity.spans]


def test_longest_first() -> None:
    """If mentions overlap, the longer name gets the span, and the shorter keeps its other mentions."""
    sentence = "Mohammed's family met Mohammed in New York City Hall."
    entities = entities_of(sentence, "Mohammed", "Mohammed's family", "City Hall", "New York City", "York")
    assert texts(sentence, entities["Mohammed's family"]) == ["Mohammed's family"]
    assert entities["Mohammed"].spans == ((22, 30),)
    assert entities["City Hall"].inside == entities["York"].inside == "new york city"
    both = entities_of("May may come in May to us in the US.", "May", "US", "IN THE us")
    assert [len(both[name].spans) for name in ("May", "US", "IN THE us")] == [2, 0, 1]


def test_mentions() -> None:
    """All whole words count, without articles and possessives, with any apostrophe, dash or space.

    A name found in its own case does not match other cases; otherwise any case matches. Case is ignored at the start
    of the sentence. The full stop of an abbreviation is part of the name.
    """
    for name, sentence, mentions in (
        ("the Rhine", "The Rhine's bank: Rhinestone, Rhine, and the Rhine.", ["Rhine", "Rhine", "Rhine"]),
        ("US", "May may come to us in the US.", ["US"]),
        ("TO Us", "May may come to us in the US.", ["to us"]),
        ("dogs", '"Dogs bark at dogs," he said.', ["Dogs", "dogs"]),
        ("Dogs", '"Dogs bark at dogs," he said.', ["Dogs", "dogs"]),
        ("mode", "In mode 1 the Mode bit is set.", ["mode"]),
        ("Rose", "Rose gave Rose a rose.", ["Rose", "Rose"]),
        ("O'Neill", "He saw O’Neill there.", ["O’Neill"]),
        ("Mohammed's", "I met Mohammed's dog.", ["Mohammed"]),
        ("C++", "He writes C++ and C.", ["C++"]),
        ("two-line name", "A two-line\n name here.", ["two-line\n name"]),
        ("the U.S.", "The U.S. won.", ["U.S."]),
        ("Acme Inc.", "It was Acme Inc.", ["Acme Inc"]),
        ("Rain.", "He left “Rain.”", ["Rain"]),
        ("x0-x15", "x0–x15 are registers.", ["x0–x15"]),
        ("(x0)", "Registers (x0) exist.", ["x0"]),
    ):
        assert texts(sentence, entities_of(sentence, name)[name]) == mentions


def test_order_is_that_of_the_sentence() -> None:
    """Entities are ordered by first mention; those without mentions are last, as the model wrote them."""
    sentence = "Ada met Bob and Cleo."
    order = locate([Extracted(n, "k") for n in ("Zoe", "Cleo", "Yan ten", "Bob", "Ada")], sentence)
    assert [e.name for e in order] == ["Ada", "Bob", "Cleo", "Zoe", "Yan ten"]
    assert order[-1] == Entity("Yan ten", "k")


@given(st.text("ab -'.A", max_size=30), st.lists(st.text("ab -'.A", min_size=1, max_size=8), max_size=6))
def test_spans_never_overlap(sentence: str, names: list[str]) -> None:
    """For any extraction, mentions are inside the sentence, do not overlap, and equal the entity's name."""
    unique = {normalised(name): Extracted(name) for name in names if normalised(name)}
    entities = locate(list(unique.values()), sentence)
    spans = sorted(span for entity in entities for span in entity.spans)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    assert len(entities) == len(unique)
    for entity in entities:
        assert all(normalised(text) == entity.key for text in texts(sentence, entity))


SENTENCE = 'Aaron met an actor, a dog and an eel; Aaron saw the Eiffel Tower. "A hotel," he said.'
#: entity, its replacement, and the text before and after
CHANGES = (
    ("Aaron", "Tobias", "Aaron", "Tobias"), ("actor", "performer", "an actor", "a performer"),
    ("dog", "animal", "a dog", "an animal"), ("eel", "European hake", "an eel", "a European hake"),
    ("Eiffel Tower", "The Old Bridge", "Eiffel Tower", "Old Bridge"), ("hotel", "inn", "A hotel", "An inn"),
)  # fmt: skip


def test_each_vector_gives_its_sentence() -> None:
    """All mentions of the replaced entities change, with the right articles, and nothing else does."""
    names, synonyms, before, after = zip(*CHANGES, strict=True)
    entities = locate([Extracted(name) for name in names], SENTENCE)
    for x in range(2 ** len(CHANGES)):
        text = SENTENCE
        for place, change in enumerate(zip(before, after, strict=True)):
            text = text.replace(*change) if x >> place & 1 else text
        assert replaced(SENTENCE, entities, synonyms, x) == text


def test_capital_at_the_start() -> None:
    """A synonym is capitalised at the start of the sentence, also after a quotation mark, and nowhere else."""
    for sentence in ("Dogs bark at dogs.", '"Dogs bark," he said of dogs.'):
        spans = tuple(result.span() for result in re.finditer("[Dd]ogs", sentence))
        expected = sentence.replace("Dogs", "Hounds").replace("dogs", "hounds")
        assert replaced(sentence, [Entity("dogs", spans=spans)], ["hounds"], 1) == expected
    assert replaced("x0 is zero.", locate([Extracted("x0")], "x0 is zero."), ["x9"], 1) == "x9 is zero."


VOWELS = "hour heir honest 8 18 uninvited umbrella onion actor unimportant"
CONSONANTS = "unit user European one-off unicorn 7 110 house ewe"


def test_articles_follow_the_replacement() -> None:
    """ "A" or "an" follows the sound, with the common exceptions; a title's "The" is dropped only after an article."""
    sentence = "A cat saw Rain Season and the Rain Season crew."
    entities = locate([Extracted("cat"), Extracted("Rain Season")], sentence)
    for words, article in ((VOWELS, "An"), (CONSONANTS, "A")):
        for word in words.split():
            said = f"{article} {word} saw The Salt Road and the Salt Road crew."
            assert replaced(sentence, entities, [word, "The Salt Road"], 3) == said


def test_names_by_how_they_are_written() -> None:
    """Capitals where no sentence begins, numbers and identifiers are names; those of a heading tell nothing."""
    names = {
        "Last year Adriana left Lisbon.": ("Adriana", "Lisbon"),
        "Nobody ate 3 apples, and I'm sure that I left.": ("3",),
        "He said: “Never again.” Then (We) they left": (),
        "The readAll call returns MAX_SIZE and x86 pages.": ("readAll", "MAX_SIZE", "x86"),
        "Dogs Bark at Night": (),
        "THE BOARD MET IN 2019.": ("2019",),
        "- The item – Then the rest": (),
    }
    assert {text: written_names(text) for text in names} == names


def test_written_names_are_labelled() -> None:
    """In the built-in data, each sentence with such words has one that is in a label, or contains one."""
    known = 0
    for item in items(DataFolder(builtin_data(), "builtin")):
        if item.task == "linearity" and (names := written_names(item["text"])):
            labels = [label for label, _ in item["entities"]]
            assert any(name in label or label in name for name in names for label in labels), item["text"]
            known += 1
    assert known > 150
