"""Algorithm 1 on hand-aligned trees, and alignments that cover every word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.oracle.alignment import (
    Alignments,
    Parsed,
    PhrasePair,
    Rho,
    Tree,
    align,
    cosines,
    matching_path,
    most_similar,
    node_vectors,
    token_vectors,
)
from pytest_llmprops.benchmarks.oracle.covering import align_covering
from pytest_llmprops.core.errors import DataError
from tests.support.paraphrase_oracles import aligned, between, parsed, vectors

# As in figure 5: three phrases onto three phrases, one of them (mu 3 and mu 4 within their clause) moved.
DOG = """(ROOT (S (NP (NP (DT The) (NN dog)) (PP (IN in) (NP (DT the) (NN yard))))
    (VP (VBD slept) (ADVP (RB quietly))) (. .)))"""
DOG_MEANS = "the dog in the2 yard sleep quiet ."
HOUND = """(ROOT (S (NP (NP (DT The) (NN hound)) (PP (IN in) (NP (DT the) (NN garden))))
    (VP (ADVP (RB softly)) (VBD rested)) (. .)))"""
HOUND_MEANS = "the dog in the2 yard quiet sleep ."

#: a sentence whose clause says all of the other one
SAID = "(S (NP (DT the) (NN man)) (VP (VBD said) (S (NP (DT the) (NN dog)) (VP (VBD slept) (RB well)))))"
SLEPT = "(S (NP (DT the) (NN dog)) (VP (VBD slept) (RB well)))"
SAID_MEANS = "the man say the2 dog sleep well", "the2 dog sleep well"


def test_reordered_phrases_align_both_ways() -> None:
    """All four alignments hold, and the phrase at the top of several paths is listed once."""
    alignments = aligned(DOG, HOUND, DOG_MEANS, HOUND_MEANS)
    assert alignments.forward == (between((0, 5), (0, 5)), between((5, 7), (5, 7)))
    assert alignments.backward == alignments.forward
    assert alignments.rho == Rho(True, True)
    assert alignments.pairs == (
        PhrasePair("The dog in the yard", "The hound in the garden"),
        PhrasePair("slept quietly", "softly rested"),
    )
    assert alignments.leftovers == ((), ())


def test_one_direction_covers_the_other_sentence() -> None:
    """A clause of s1 says all of s2, so the star alignment covers s2: only the root of s2 may be matched."""
    alignments = aligned(SAID, SLEPT, *SAID_MEANS)
    assert alignments.forward == (between((3, 7), (0, 4)),)
    assert alignments.backward == (between((3, 5), (0, 2)), between((5, 7), (2, 4)))
    assert alignments.rho == Rho(forward=True, backward=True)
    assert alignments.leftovers == (("the man said",), ())


def test_ties_choose_the_smaller_then_the_leftmost_node() -> None:
    """Of equally similar nodes, the smaller one is chosen, then the leftmost."""
    target = parsed("(S (NP (RB very) (RB very)) (VP (V ran) (NP (DT the) (NN dog)) (NP (DT the) (NN dog))))")
    source = parsed("(S (RB very) (NP (DT the) (NN dog)))")
    similarity = cosines(
        node_vectors(source.tree, vectors("very the dog")),
        node_vectors(target.tree, vectors("very very run the dog the dog")),
    )
    edges = most_similar(similarity, target.tree)
    spans = [(target.tree.nodes[place].start, target.tree.nodes[place].end) for place in edges]
    # The root {very, the, dog} is most similar to the phrase of the two verbs' objects: 4 / sqrt(3 * 9).
    assert spans[1:] == [(0, 1), (3, 5), (3, 4), (4, 5)]


def test_nearly_equal_similarities_are_ties() -> None:
    """Cosines that differ in their last bits are a tie; a larger difference decides."""
    tree = Tree.from_brackets("(S (A a) (B b))")
    for similarity, chosen in (
        ([0.5, 0.9 + 1e-9, 0.9], 1), ([0.5, 0.9, 0.9 + 1e-9], 1), ([0.5, 0.9, 0.9 + 1e-4], 2), ([0.9, 0.9, 0.8], 1),
    ):  # fmt: skip
        assert most_similar(np.array([similarity]), tree) == [chosen]


def test_nodes_without_a_vector_match_nothing() -> None:
    """A token cut off by the encoder has no edge and no match, and does not change its phrase's mean."""
    tree = Tree.from_brackets("(S (NP (A a) (B b)) (VP (C c) (D d)))")
    values = vectors("a b c d")
    values[1] = values[2] = values[3] = 0.0
    nodes = node_vectors(tree, values)
    assert np.array_equal(nodes[1], values[0])
    assert not nodes[4].any()
    edges = most_similar(cosines(nodes, nodes), tree)
    assert edges == [2, 2, 2, -1, -1, -1, -1]
    assert matching_path(tree, tree, edges, tree.leaves[1]) == ()
    whole = Parsed("a b c d", tree, ((0, 1), (2, 3), (4, 5), (6, 7)))
    nothing = align(whole, whole, np.zeros((4, 3)), np.zeros((4, 3)))
    assert nothing.forward == nothing.backward == ()
    assert nothing.leftovers == (("a b c d",),) * 2


def test_word_vectors_from_pieces() -> None:
    """A word's vector is the mean over the pieces that overlap it; a word without pieces is zeros."""
    pieces = [(0, 2), (2, 6), (7, 9), (9, 9)]
    values = np.array([[2.0, 0.0], [0.0, 4.0], [6.0, 6.0], [9.0, 9.0]], dtype=np.float32)
    result = token_vectors([(0, 6), (7, 8), (8, 9), (10, 12)], pieces, values)
    assert result.tolist() == [[1.0, 2.0], [6.0, 6.0], [6.0, 6.0], [0.0, 0.0]]


def test_vectors_that_do_not_fit() -> None:
    """An encoder reply without tokens, or with missing or misshapen vectors, gives one error line."""
    replies: tuple[tuple[list[Any], Any, str], ...] = (
        ([], np.zeros((0, 2)), "returned no tokens"),
        ([(0, 1), (2, 3)], np.ones((1, 2)), r"vectors of shape \(1, 2\)"),
        ([(0, 1)], np.ones(2), r"vectors of shape \(2,\)"),
        ([(0, 1)], np.ones((1, 0)), r"vectors of shape \(1, 0\)"),
        ([(0, 1, 2)], np.ones((1, 2)), r"spans of shape \(1, 3\)"),
        ([(0, 1), (2, 3)], [[1.0], [1.0, 2.0]], "not all of the same size"),
        ([(0, 1)], [["a"]], "are not numbers"),
    )
    for pieces, values, problem in replies:
        with pytest.raises(DataError, match=problem) as error:
            token_vectors([(0, 1), (2, 3)], pieces, values)
        assert "\n" not in str(error.value)


def test_one_word_sentences() -> None:
    """A one-word sentence is only a root, so its word is left over, with or without a full stop."""
    stopped = "(S (NP (NN Rain)) (. .))"
    for brackets, means in (("(NP (NN Rain))", "rain"), (stopped, "rain .")):
        alignments = aligned(brackets, brackets, means, means)
        assert alignments.forward == ()
        assert alignments.rho == Rho()
        assert alignments.leftovers == (("Rain",), ("Rain",))
    # Of the other sentence a phrase may be mapped onto it: its root, unlike that of the sentence mapped, is allowed.
    other = aligned(
        "(S (NP (A heavy) (NN rain)) (VP (VB fell) (RB today)))", stopped, ". rain fall day", "rain ."
    )
    assert other.forward == (between((0, 2), (0, 2)),)
    assert other.rho == Rho(forward=True)


BARE = "(S (NP (DT The) (NN dog)) (VP (VBD chased) (NP (DT a) (NN cat))) (. .))"
SWAPPED = "(S (NP (DT A) (NN cat)) (VP (VBD chased) (NP (DT the) (NN dog))) (. .))"
PASSIVE = (
    "(S (NP (DT A) (NN cat)) (VP (VBD was) (VP (VBN chased) (PP (IN by) (NP (DT the) (NN dog))))) (. .))"
)
HE = "(ROOT (S (CC But) (NP (PRP he)) (VP (VBD slept) (ADVP (RB well))) (. .)))"


def covering(first: str, second: str, first_means: str, second_means: str) -> Alignments:
    """Return the covering alignments of two bracketed trees whose tokens have these meanings."""
    values = vectors(first_means), vectors(second_means)
    return align_covering(parsed(first), parsed(second), *values)


def test_a_sentence_is_aligned_with_itself() -> None:
    """The same words need no question; Algorithm 1 leaves a pronoun over."""
    means = "but he sleep well ."
    assert not align(parsed(HE), parsed(HE), vectors(means), vectors(means)).rho.phi_or
    alignments = covering(HE, HE, means, means)
    assert alignments.rho.phi_and
    assert alignments.leftovers == ((), ())
    assert alignments.pairs == (PhrasePair("But he slept well", "But he slept well"),)


def test_what_only_one_sentence_says_is_asked_about() -> None:
    """A direction that covers the shorter sentence is enough for Algorithm 1; here, every word is in a phrase.

    What remains of a sentence may have a gap, which is written as an ellipsis.
    """
    assert aligned(SAID, SLEPT, *SAID_MEANS).rho.phi_and
    alignments = covering(SAID, SLEPT, *SAID_MEANS)
    assert alignments.pairs == (
        PhrasePair("the man said … slept well", "slept well"), PhrasePair("the dog", "the dog")
    )  # fmt: skip
    assert alignments.leftovers == ((), ())


def test_phrases_may_have_another_order() -> None:
    """An adjunct at the other end of the sentence is a phrase of its own, and what remains is another one."""
    first = "(S (NP (NNP Ann)) (VP (VBD left) (PP (IN in) (NP (DT the) (NN rain)))))"
    second = "(S (PP (IN in) (NP (DT the) (NN rain))) (NP (NNP Ann)) (VP (VBD went) (ADVP (RB away))))"
    found = covering(first, second, "Ann leave in the rain", "in the rain Ann leave leave")
    assert found.pairs == (
        PhrasePair("Ann left", "Ann went away"),
        PhrasePair("in the rain", "in the rain"),
    )


def test_numbers_and_negations_must_agree() -> None:
    """Phrases that differ in a number or a negation are not mapped, however similar their vectors are.

    ``three`` is 3, and separators of thousands do not count.
    """
    clause = "(S (NP (DT the) (NN talk)) (VP (VBD took) (NP ({}) (NNS days))))"
    means = ["the talk take n day"] * 2
    for one, two, agrees in (
        ("CD 12", "CD 13", False),
        ("CD three", "CD four", False),
        ("RB not", "RB just", False),
        ("DT no", "DT some", False),
        ("CD 12", "CD 12", True),
        ("CD three", "CD 3", True),
        ("CD 1,200", "CD 1200", True),
    ):
        first, second = clause.format(one), clause.format(two)
        assert covering(first, second, *means).rho.phi_or is agrees, (one, two)
        assert aligned(first, second, *means).rho.phi_or


def test_who_does_something_to_whom_must_agree() -> None:
    """Swapped subject and object are not mapped to each other; the passive has the same roles."""
    dog, cat = "the dog chase a cat .", "a cat chase the dog ."
    assert not covering(BARE, SWAPPED, dog, cat).rho.phi_or
    assert covering(BARE, PASSIVE, dog, "a cat chase chase by the dog .").rho.phi_or


def test_dissimilar_phrases_are_not_mapped() -> None:
    """Without similar words, the most similar phrase is still not a mapping."""
    assert covering(SLEPT, SLEPT, "a b c d", "e f g h").forward == ()


@pytest.mark.parametrize(
    ("first", "second", "means"),
    [
        ("VBD saw) (NP (DT a) (JJ big) (NN ship)", "VBD saw) (NP (DT the) (JJ huge) (NN boat)", "see a b c"),
        ("VBD saw) (PP (IN before) (NNP May)", "VBD saw) (PP (IN after) (NNP May)", "see before May"),
        ("MD may) (VP (VB leave) (NNP Oslo)", "MD will) (VP (VB leave) (NNP Oslo)", "may leave Oslo"),
    ],
)  # fmt: skip
def test_function_words_are_asked_about_in_their_phrase(first: str, second: str, means: str) -> None:
    """Nothing is asked about a function word or a single word alone, only about the phrase that has it."""
    clause = "(S (NP (DT the) (NN crew)) (VP ({})))"
    found = covering(clause.format(first), clause.format(second), *[f"the crew {means}"] * 2)
    assert found.rho.phi_and
    asked = [pair for pair in found.pairs if pair.first.casefold() != pair.second.casefold()]
    assert asked == [PhrasePair(*(parsed(f"(VP ({phrase}))").text for phrase in (first, second)))]


GAVE = "(S (NP (DT the) (NN king)) (VP (VBD gave) (NP (DT the) (NN {})) (NP (DT the) (NN {}))))"
OWNS = (
    "(S (S (NP (NNP Ann)) (VP (VBZ owns) (NP (DT the) (NN {})))) (CC and)"
    " (S (NP (NNP Bob)) (VP (VBZ rents) (NP (DT the) (NN {})))))"
)


@pytest.mark.parametrize(
    ("clause", "means"),
    [(GAVE, "the king give {} {}"), (OWNS, "Ann own {} and Bob rent {}")],
    ids=["two objects of a verb", "objects of two verbs"],
)
def test_the_order_of_objects_must_agree(clause: str, means: str) -> None:
    """The same words are not a proof if their order decides who gets what, or which verb has which object."""
    one, two = clause.format("boy", "dog"), clause.format("dog", "boy")
    found = covering(one, two, means.format("the boy", "the2 dog"), means.format("the2 dog", "the boy"))
    asked = [pair for pair in found.pairs if pair.first.casefold() != pair.second.casefold()]
    assert asked or not found.rho.phi_or


MEANINGS = st.lists(st.sampled_from("abcdef"), min_size=6, max_size=6)


@given(MEANINGS, MEANINGS)
def test_covering_does_not_depend_on_the_order(first: list[str], second: list[str]) -> None:
    """The two sentences can be swapped."""
    one, two = parsed(BARE), parsed(SWAPPED)
    a, b = vectors(" ".join(first)), vectors(" ".join(second))
    there, back = align_covering(one, two, a, b), align_covering(two, one, b, a)
    assert {*there.forward} == {m.turned for m in back.forward}
    assert there.rho == back.rho
