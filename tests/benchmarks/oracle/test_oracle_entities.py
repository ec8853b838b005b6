"""Entities located in their sentence: mentions, overlaps, and entities that cannot be replaced."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.oracle.entities import Entity, locate
from pytest_llmprops.benchmarks.oracle.extraction import Extracted, normalised


def entities_of(sentence: str, *names: str) -> dict[str, Entity]:
    """Return the entities by the name the model gave."""
    by_key = {e.key: e for e in locate([Extracted(name, "k") for name in names], sentence)}
    return {name: by_key[normalised(name)] for name in names}


def texts(sentence: str, entity: Entity) -> list[str]:
    """Return the texts of an entity's mentions."""
    return [sentence[start:end] for start, end in entity.spans]


def test_all_mentions_as_words() -> None:
    """All whole-word mentions count, and articles and possessives are outside them."""
    sentence = "The Rhine's bank: Rhinestone, Rhine, and the Rhine."
    entity = entities_of(sentence, "the Rhine")["the Rhine"]
    assert entity.spans == ((4, 9), (30, 35), (45, 50))
    assert entity.name == "Rhine"
    assert entity.state == "tested"
    assert entity.literal
    assert entity.named is None


def test_own_case_is_preferred() -> None:
    """A name found in its own case does not match other cases; otherwise any case matches."""
    sentence = "May may come in May to us in the US."
    both = entities_of(sentence, "May", "US", "IN THE us")
    assert texts(sentence, both["May"]) == ["May", "May"]
    assert texts(sentence, both["US"]) == []
    sentence = "May may come to us in the US."
    assert texts(sentence, entities_of(sentence, "US")["US"]) == ["US"]
    assert texts(sentence, entities_of(sentence, "TO Us")["TO Us"]) == ["to us"]


@pytest.mark.parametrize("name", ["dogs", "Dogs"])
def test_the_sentences_first_letter(name: str) -> None:
    """Case is ignored for a mention at the start of the sentence, and distinguishes names elsewhere."""
    [result] = locate([Extracted(name)], '"Dogs bark at dogs," he said.')
    assert result.spans == ((1, 5), (14, 18))
    [signal] = locate([Extracted("mode")], "In mode 1 the Mode bit is set.")
    assert signal.spans == ((3, 7),)
    [twice] = locate([Extracted("Rose")], "Rose gave Rose a rose.")
    assert twice.spans == ((0, 4), (10, 14))


def test_longest_first() -> None:
    """If mentions overlap, the longer name gets the span, and the shorter keeps its other mentions."""
    sentence = "Mohammed's family met Mohammed in New York City Hall."
    entities = entities_of(sentence, "Mohammed", "Mohammed's family", "City Hall", "New York City", "York")
    assert texts(sentence, entities["Mohammed's family"]) == ["Mohammed's family"]
    assert entities["Mohammed"].spans == ((22, 30),)
    assert entities["City Hall"].state == "contained"
    assert entities["City Hall"].inside == "new york city"
    assert entities["York"].state == "contained"
    assert entities["York"].literal


def test_not_in_the_sentence() -> None:
    """A name that is not in the sentence has no mentions and keeps the model's spelling."""
    entity = entities_of("Bella loves Edward.", "Twilight saga")["Twilight saga"]
    assert entity == Entity("Twilight saga", "k")
    assert entity.state == "not_literal"
    assert not entity.literal


def test_order_is_that_of_the_sentence() -> None:
    """Entities are ordered by first mention; those without mentions come last, in list order."""
    sentence = "Ada met Bob and Cleo."
    order = locate([Extracted(n) for n in ("Zoe", "Cleo", "Yan", "Bob", "Ada")], sentence)
    assert [e.name for e in order] == ["Ada", "Bob", "Cleo", "Zoe", "Yan"]


@pytest.mark.parametrize(
    ("sentence", "name", "mention"),
    [
        ("He saw O’Neill there.", "O'Neill", "O’Neill"),
        ("I met Mohammed's dog.", "Mohammed's", "Mohammed"),
        ("Jean–Luc left.", "Jean-Luc", "Jean–Luc"),
        ("He writes C++ and C.", "C++", "C++"),
        ("It cost US$ 1.8 billion.", "US$ 1.8 billion", "US$ 1.8 billion"),
        ("A two-line\n name here.", "two-line name", "two-line\n name"),
        ("The U.S. won.", "the U.S.", "U.S."),
        ("Acme Inc. said so.", "Acme Inc.", "Acme Inc."),
        ("It was Acme Inc.", "Acme Inc.", "Acme Inc"),
        ("He left “Rain.”", "Rain.", "Rain"),
        ("x0–x15 are registers.", "x0-x15", "x0–x15"),
        ("Registers (x0) exist.", "(x0)", "x0"),
    ],
)
def test_marks_and_spaces(sentence: str, name: str, mention: str) -> None:
    """Any apostrophe, dash or space matches, and the full stop of an abbreviation is part of the name."""
    assert texts(sentence, entities_of(sentence, name)[name]) == [mention]


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
