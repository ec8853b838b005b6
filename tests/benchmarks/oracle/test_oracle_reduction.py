"""Shorter versions of sentences, with and without a tree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.oracle.reduction import MOST, Reducible
from pytest_llmprops.benchmarks.oracle.trees import Parsed

FACTORY = "The factory in Tilburg, which makes bicycles, was fined on Friday."
TREES = {
    FACTORY: (
        "(ROOT (S (NP (NP (DT The) (NN factory)) (PP (IN in) (NP (NNP Tilburg))) (, ,) (SBAR (WHNP (WDT which)) (S (VP"
        " (VBZ makes) (NP (NNS bicycles))))) (, ,)) (VP (VBD was) (VP (VBN fined) (PP (IN on) (NP (NNP Friday)))))"
        " (. .)))"
    ),
    "In May, an old man sang and danced.": (
        "(S (PP (IN In) (NP (NNP May))) (, ,) (NP (DT an) (JJ old) (NN man)) (VP (VP (VBD sang)) (CC and) (VP (VBD"
        " danced))) (. .))"
    ),
    "Both cats and dogs slept.": "(S (NP (CC Both) (NNS cats) (CC and) (NNS dogs)) (VP (VBD slept)) (. .))",
    "It closed, which hurt.": (
        "(S (NP (PRP It)) (VP (VBD closed) (, ,) (SBAR (WHNP (WDT which)) (S (VP (VBD hurt))))) (. .))"
    ),
    "He was in the yard.": "(S (NP (PRP He)) (VP (VBD was) (PP (IN in) (NP (DT the) (NN yard)))) (. .))",
    "He said that it rained.": (
        "(S (NP (PRP He)) (VP (VBD said) (SBAR (IN that) (S (NP (PRP it)) (VP (VBD rained))))) (. .))"
    ),
    "He did not sing loudly.": (
        "(S (NP (PRP He)) (VP (VBD did) (ADVP (RB not)) (VP (VB sing) (ADVP (RB loudly)))) (. .))"
    ),
}


def sentence(text: str) -> Reducible:
    """Return a sentence with its tree."""
    return Reducible(text, Parsed.of(text, TREES[text]))


def shorter(text: str) -> list[str]:
    """Return the sentence without each of its parts, the longest part first."""
    whole = sentence(text)
    return [whole.without([part]).text for part in whole.parts]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            FACTORY,
            [
                "The factory in Tilburg was fined on Friday.",
                "The factory, which makes bicycles, was fined on Friday.",
                "The factory in Tilburg, which makes bicycles, was fined.",
            ],
        ),
        (
            "In May, an old man sang and danced.",
            ["An old man sang and danced.", "In May, an old man sang."],
        ),
        ("Both cats and dogs slept.", []),
        ("He was in the yard.", []),
        ("It closed, which hurt.", ["It closed."]),
        ("He said that it rained.", []),
        ("He did not sing loudly.", ["He did not sing."]),
    ],
)
def test_parts_of_a_tree(text: str, expected: list[str]) -> None:
    """Modifiers and second conjuncts can be left out, with their commas; heads, complements and negations cannot."""
    assert shorter(text) == expected


def test_several_parts() -> None:
    """Without all parts, a sentence remains; its tree has the same words."""
    whole = sentence(FACTORY)
    rest = whole.without(whole.parts)
    assert rest.text == "The factory was fined."
    assert rest.parsed is not None
    assert rest.parsed.tree.tokens == ("The", "factory", "was", "fined", ".")
    assert [rest.parsed.phrase((t, t + 1)) for t in range(5)] == [*rest.parsed.tree.tokens]
    assert rest.parts == ()
    assert whole.without(()) is whole


@given(st.sampled_from(list(TREES)), st.data())
def test_a_shorter_sentence_has_a_valid_tree(text: str, data: st.DataObject) -> None:
    """Whatever is left out, the tokens of the tree are the words of the text."""
    whole = sentence(text)
    dropped = data.draw(st.sets(st.sampled_from(whole.parts))) if whole.parts else set()
    rest = whole.without(dropped)
    assert rest.parsed is not None
    assert rest.parsed == Parsed(rest.text, rest.parsed.tree, rest.parsed.spans)
    assert [rest.parsed.phrase((t, t + 1)) for t in range(len(rest.parsed.tree.tokens))] == [
        *rest.parsed.tree.tokens
    ]
    assert len(rest.text) <= len(text)
    assert rest.text[0].isupper()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "On Friday, it was fined, which hurt; it closed.",
            [
                "It was fined, which hurt; it closed.",
                "On Friday, it was fined; it closed.",
                "On Friday, it was fined, which hurt.",
            ],
        ),
        ("Unless both parties agree to it, it fails.", ["It fails."]),
        ("The mine will close, and all of its workers will go.", ["The mine will close."]),
        ("It rained — hard.", ["It rained."]),
        ("It rained.", []),
    ],
)
def test_parts_without_a_tree(text: str, expected: list[str]) -> None:
    """Without a tree, the texts between commas and dashes can be left out, except one that can be the main clause."""
    whole = Reducible(text)
    assert sorted(whole.without([part]).text for part in whole.parts) == sorted(expected)
    assert all(whole.without([part]).parsed is None for part in whole.parts)


def test_parts_are_limited() -> None:
    """A long sentence has only its longest parts."""
    text = "It rained, " + ", ".join("and " + "so " * n + "on" for n in range(1, 20)) + "."
    assert len(Reducible(text).parts) == MOST
