"""The choice of concepts: counted links, entropies worked out by hand, word senses and written forms."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.dtails.tools.mining.concepts import (
    Concept,
    Counting,
    Thresholds,
    Word,
    counted_links,
    entropy,
    expression_parts,
    find_concepts,
    key,
    surface_forms,
    without_minority_senses,
)
from pytest_llmprops.core.errors import UsageError


def find(counts: dict[str, dict[str, int]], **thresholds: object) -> dict[str, float]:
    """Return the concepts among nouns with their entropies."""
    table = {(lemma, "NOUN"): linked for lemma, linked in counts.items()}
    totals = {lexeme: sum(linked.values()) for lexeme, linked in table.items()}
    concepts = find_concepts(table, totals, Thresholds(**thresholds))  # type: ignore[arg-type]
    return {concept.lemma: concept.entropy for concept in concepts}


@pytest.mark.parametrize(
    ("counts", "total", "nats"),
    [
        ([50, 50], None, 0.693147),  # ln 2
        ([60, 60, 60], None, 1.098612),  # ln 3
        ([75, 25], None, 0.562335),  # 0.75 * 0.287682 + 0.25 * 1.386294
        ([100, 0], None, 0.0),
        ([], None, 0.0),
        ([50, 25], 100, 0.693147),  # 0.5 * 0.693147 + 0.25 * 1.386294
    ],
)
def test_entropy_in_nats(counts: list[int], total: int | None, nats: float) -> None:
    """Conditional entropies in natural logarithms match the values worked out by hand."""
    assert entropy(counts, total) == pytest.approx(nats, abs=1e-6)


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=8))
def test_entropy_is_at_most_that_of_a_uniform_distribution(counts: list[int]) -> None:
    """Entropy lies between 0 and ln k and does not depend on the order."""
    value = entropy(counts)
    assert -1e-12 <= value <= math.log(len(counts)) + 1e-9
    assert value == pytest.approx(entropy(sorted(counts)))


def test_thresholds_of_the_paper() -> None:
    """Two variations of at least 50 and 0.69 nats are required: 46 to 54% passes, 45 to 55% does not."""
    entropies = find(
        {
            "even": {"a": 50, "b": 50},
            "few": {"a": 50, "b": 49},
            "close": {"a": 54, "b": 63},  # 0.69019
            "uneven": {"a": 110, "b": 90},  # 0.68814
            "three": {"a": 200, "b": 60, "c": 50, "d": 49},
        }
    )
    assert sorted(entropies) == ["close", "even", "three"]
    assert entropies["close"] == pytest.approx(0.356857 + 0.333329, abs=1e-5)
    # 200, 60 and 50 of 310; d is too rare to be a variation
    assert entropies["three"] == pytest.approx(0.282745 + 0.317850 + 0.294282, abs=1e-5)


def test_entropy_over_all_translations() -> None:
    """Over all translations rarer ones count too, except those below 5, and shares are of all links."""
    counts = {"word": {"a": 60, "b": 30, "c": 10, "noise": 4}}
    # -(60/104 ln 60/104 + 30/104 ln 30/104 + 10/104 ln 10/104)
    value = 0.317334 + 0.358614 + 0.225174
    assert find(counts, min_count=20, entropy_over="all")["word"] == pytest.approx(value, abs=1e-5)
    assert find(counts, min_count=20, min_entropy=0.7) == {}


def test_one_variation_is_not_a_concept() -> None:
    """Without a second frequent variation there is no concept, even with a minimum entropy of zero."""
    counts = {"one": {"a": 60, "b": 40, "c": 40}, "two": {"a": 60, "b": 50}}
    assert list(find(counts, min_entropy=0.0)) == ["two"]
    assert list(find(counts, min_entropy=0.5, entropy_over="all")) == ["two"]


def test_order_of_concepts() -> None:
    """Concepts are sorted by frequency and then by name, whatever the order of the counts."""
    counts = {"b": {"x": 50, "y": 50}, "c": {"x": 70, "y": 70}, "a": {"x": 50, "y": 50}}
    backwards = dict(reversed(counts.items()))
    assert list(find(counts)) == list(find(backwards)) == ["c", "a", "b"]


def sentence(*words: tuple[str, str] | str) -> list[Word]:
    return [Word(w, w, "NOUN", 0, "root") if isinstance(w, str) else Word(w[0], w[0], w[1]) for w in words]


def test_links_of_content_words_count() -> None:
    """A link counts if its word has a chosen tag and only one partner and both sides are real words."""
    source = sentence("dog", ("the", "DET"), "cat", "12", "bird")
    target = sentence("hond", "die", "kat", "12", "!", "voël")
    links = {(0, 0), (1, 1), (2, 1), (2, 2), (3, 3), (4, 4), (4, 5)}
    assert counted_links(source, target, links, Counting()) == [(0, 0), (4, 5)]
    assert counted_links(source, target, links, Counting(links="all")) == [(0, 0), (2, 1), (2, 2), (4, 5)]
    assert counted_links(source, target, links, Counting(tags=("DET",))) == [(1, 1)]


def test_parts_of_expressions_do_not_count() -> None:
    """Verbs with particles and noun compounds do not count, with the labels of Stanza and of spaCy."""
    source = [
        Word("look", "look", "VERB", 0, "root"),
        Word("up", "up", "ADP", 1, "compound:prt"),
        Word("school", "school", "NOUN", 4, "compound"),
        Word("bus", "bus", "NOUN", 1, "obj"),
        Word("turn", "turn", "VERB", 0, "ROOT"),
        Word("off", "off", "ADP", 5, "prt"),
        Word("tree", "tree", "NOUN", 1, "obj"),
    ]
    assert expression_parts(source) == {0, 1, 2, 3, 4, 5}
    links = {(i, i) for i in range(7)}
    target = sentence(*"abcdefg")
    assert counted_links(source, target, links, Counting()) == [(6, 6)]
    kept = counted_links(source, target, links, Counting(compounds="keep"))
    assert kept == [(0, 0), (2, 2), (3, 3), (4, 4), (6, 6)]


def test_words_are_folded_for_comparison() -> None:
    """Case, Unicode composition and joiners do not distinguish words; a word with a separator has no key."""
    assert key(Word("Sê")) == key(Word("X", "se\u0302")) == key(Word("SÊ")) == "sê"
    assert key(Word("می\u200cروم")) == "میروم"
    assert [key(Word(text)) for text in ("a/b", "a;b", "a,b", "...", "7", "")] == [""] * 6


@pytest.mark.parametrize("tags", [("NN",), ()])
def test_unknown_tags_are_refused(tags: tuple[str, ...]) -> None:
    """At least one tag is required, and all tags must be universal ones."""
    with pytest.raises(UsageError, match=r"universal part of speech|no parts of speech"):
        Counting(tags=tags)


@pytest.mark.parametrize(
    ("name", "value"), [("min_count", 0), ("min_entropy", -0.1), ("min_entropy", math.nan)]
)
def test_thresholds_are_checked(name: str, value: float) -> None:
    """A count below 1 and an invalid entropy are refused."""
    with pytest.raises(UsageError, match="least"):
        Thresholds(**{name: value})  # type: ignore[arg-type]


PLANE = Concept("plane", "NOUN", {"avión": 100, "aeroplano": 60, "plano": 90}, 1.07)


def test_variations_of_minority_senses_are_dropped() -> None:
    """In the paper's example, plano is a geometric plane and the other two variations are aircraft."""
    senses = {
        "avión": {"plane.n.01": 90, "plane.n.02": 10},
        "aeroplano": {"plane.n.01": 31, "plane.n.02": 29},
        "plano": {"plane.n.01": 20, "plane.n.02": 70},
    }
    left, dropped = without_minority_senses(PLANE, senses)
    assert left is not None
    assert (dict(left.counts), left.entropy, dropped) == ({"avión": 100, "aeroplano": 60}, 1.07, ("plano",))


def test_concept_without_two_variations_of_a_sense_is_dropped() -> None:
    """Two variations of different senses leave no concept."""
    concept = Concept("plane", "NOUN", {"avión": 100, "plano": 90}, 0.69)
    senses = {"avión": {"one": 100}, "plano": {"two": 90}}
    assert without_minority_senses(concept, senses) == (None, ("plano",))


def test_unknown_senses_drop_nothing() -> None:
    """Without senses, on a tie, or if a variation's senses are unknown, the variation is kept."""
    assert without_minority_senses(PLANE, {}) == (PLANE, ())
    senses = {"avión": {"one": 5}, "aeroplano": {"one": 2, "two": 2}, "plano": {}}
    assert without_minority_senses(PLANE, senses) == (PLANE, ())


def test_variations_are_written_as_lemma_and_forms() -> None:
    """The lemma comes first in its most frequent spelling; a form of two variations belongs to one."""
    lemmas = {"sien": {"sien": 9}, "kyk": {"kyk": 7}}
    words = {
        "sien": {"Sien": 2, "sien": 6, "gesien": 4, "kyk": 1, "siende": 1, "a/b": 9, "sag": 2},
        "kyk": {"kyk": 5, "gekyk": 2, "sag": 3},
    }
    assert surface_forms(lemmas, words, most=3) == {
        "sien": ("sien", "gesien", "siende"),
        "kyk": ("kyk", "sag", "gekyk"),
    }
    assert surface_forms(lemmas, words, most=1) == {"sien": ("sien",), "kyk": ("kyk",)}


def test_lemma_belongs_to_its_own_variation_only() -> None:
    """A form that is the lemma of one variation is never a form of another, even if it was counted there."""
    words = {"sien": {"sien": 2, "kyk": 9}, "kyk": {"kyk": 1}}
    written = surface_forms({"sien": {"sien": 11}, "kyk": {"kyk": 1}}, words, most=6)
    assert written == {"sien": ("sien",), "kyk": ("kyk",)}


def test_lemma_without_occurrences_is_listed() -> None:
    """A lemma is part of the variation even if only inflected forms occur, and it keeps its joiner."""
    written = surface_forms({"میروم": {"می\u200cروم": 3}}, {"میروم": {"رفت": 3}}, most=6)
    assert written == {"میروم": ("می\u200cروم", "رفت")}
