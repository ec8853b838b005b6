"""R(x): replaced mentions, articles, capitals and positions, and paraphrases that keep the entities."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.oracle.entities import (
    Entity,
    locate,
    paraphrase_prompt,
    read_paraphrase,
    replaced,
    sounds_like_vowel,
)
from pytest_llmprops.benchmarks.oracle.extraction import Extracted

SENTENCE = 'Aaron met an actor, a dog and an eel; Aaron saw the Eiffel Tower. "A hotel," he said.'
NAMES = ("Aaron", "actor", "dog", "eel", "Eiffel Tower", "hotel")
SYNONYMS = ("Tobias", "performer", "animal", "European hake", "The Old Bridge", "inn")
ENTITIES = locate([Extracted(name) for name in NAMES], SENTENCE)


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0, SENTENCE),
        (0b000001, 'Tobias met an actor, a dog and an eel; Tobias saw the Eiffel Tower. "A hotel," he said.'),
        (
            0b000010,
            'Aaron met a performer, a dog and an eel; Aaron saw the Eiffel Tower. "A hotel," he said.',
        ),
        (
            0b000100,
            'Aaron met an actor, an animal and an eel; Aaron saw the Eiffel Tower. "A hotel," he said.',
        ),
        (
            0b001000,
            'Aaron met an actor, a dog and a European hake; Aaron saw the Eiffel Tower. "A hotel," he said.',
        ),
        (0b110000, 'Aaron met an actor, a dog and an eel; Aaron saw the Old Bridge. "An inn," he said.'),
        (
            0b111111,
            'Tobias met a performer, an animal and a European hake; Tobias saw the Old Bridge. "An inn," he said.',
        ),
    ],
)
def test_each_vector_gives_its_sentence(x: int, text: str) -> None:
    """All mentions of the replaced entities change, with the right articles, and nothing else does."""
    assert replaced(SENTENCE, ENTITIES, SYNONYMS, x).text == text


def test_capital_at_the_start() -> None:
    """A synonym is capitalised at the start of the sentence, also after a quotation mark, and
    nowhere else.
    """
    for sentence in ("Dogs bark at dogs.", '"Dogs bark," he said of dogs.'):
        spans = tuple(result.span() for result in re.finditer("[Dd]ogs", sentence))
        expected = sentence.replace("Dogs", "Hounds").replace("dogs", "hounds")
        assert replaced(sentence, [Entity("dogs", spans=spans)], ["hounds"], 1).text == expected
    assert replaced("x0 is zero.", locate([Extracted("x0")], "x0 is zero."), ["x9"], 1).text == "x9 is zero."


@given(st.integers(0, 63))
def test_positions(x: int) -> None:
    """Positions list the text of each mention in order: the synonym if the bit is 1, otherwise the entity."""
    replacement = replaced(SENTENCE, ENTITIES, SYNONYMS, x)
    assert len(replacement.mentions) == 7
    assert [m.start for m in replacement.mentions] == sorted(m.start for m in replacement.mentions)
    for mention in replacement.mentions:
        text = replacement.text[mention.start : mention.end]
        assert mention.replaced == bool(x >> mention.entity & 1)
        wanted = SYNONYMS[mention.entity] if mention.replaced else ENTITIES[mention.entity].name
        assert text == wanted.removeprefix("The ")


def test_title_drops_its_article_only_after_an_article() -> None:
    """A title's "The" is dropped only after an article."""
    sentence = "He saw Rain Season and the Rain Season crew."
    entities = locate([Extracted("Rain Season")], sentence)
    assert (
        replaced(sentence, entities, ["The Salt Road"], 1).text
        == "He saw The Salt Road and the Salt Road crew."
    )


VOWELS = "hour heir honest 8 11th 18 FBI MRI X uninvited umbrella onion actor unimportant"
CONSONANTS = "unit user European one-off unicorn UN 7 110 house utility ewe once"


def test_a_or_an() -> None:
    """The article follows the sound, with the common exceptions."""
    assert [word for word in VOWELS.split() if not sounds_like_vowel(word)] == []
    assert [word for word in CONSONANTS.split() if sounds_like_vowel(word)] == []


def test_upper_case_article() -> None:
    """A replaced article keeps its upper case."""
    sentence = "A cat. AN owl. An owl."
    entities = [Entity("cat", spans=((2, 5),)), Entity("owl", spans=((10, 13), (18, 21)))]
    assert replaced(sentence, entities, ["eel", "cow"], 3).text == "An eel. A cow. A cow."


def test_paraphrases_must_keep_the_entities() -> None:
    """A paraphrase is accepted if it has all words of the entities unchanged and differs from the
    sentence.
    """
    replacement = replaced(SENTENCE, ENTITIES, SYNONYMS, 1)
    prompt = paraphrase_prompt("Say {text} otherwise; keep {entities}.", replacement)
    assert prompt.startswith(f'Say {replacement.text} otherwise; keep "Tobias", "actor"')
    assert prompt.count('Tobias"') == 1
    good = "Tobias, who met an eel, a dog and an actor, saw the Eiffel Tower and said: a hotel."
    assert read_paraphrase(f'"{good}"\n', replacement) == good
    for bad in (
        "",
        replacement.text,
        good.replace("dog", "hound"),
        good.replace("eel", "eels"),
        good + "\nor this",
    ):
        assert read_paraphrase(bad, replacement) is None
