"""Alignments that must cover both sentences, on hand-made trees, and the minimal edits that they must not prove."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.oracle.alignment import Alignments, NodeMapping, PhrasePair, align
from pytest_llmprops.benchmarks.oracle.covering import MIN_SIMILARITY, Argument, align_covering, arguments
from pytest_llmprops.benchmarks.oracle.edits import minimal_edits
from pytest_llmprops.benchmarks.oracle.trees import Parsed, Tree
from tests.support.paraphrase_oracles import parsed, vectors

CHASE = "(S (NP (DT The) (NN dog)) (VP (VBD chased) (NP (DT a) (NN cat))) (. .))"
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
    """A subject of one word is covered by a path of one node, which Algorithm 1 does not map."""
    means = "but he sleep well ."
    assert not align(parsed(HE), parsed(HE), vectors(means), vectors(means)).rho.phi_or
    alignments = covering(HE, HE, means, means)
    assert alignments.rho.phi_and
    assert alignments.strength == pytest.approx(1)
    assert alignments.leftovers == ((), ())
    assert alignments.pairs() == tuple(PhrasePair(text, text) for text in ("But", "he", "slept well"))


def test_what_only_one_sentence_says_is_left_over() -> None:
    """One direction covers the shorter sentence, which is enough for Algorithm 1, but not both sentences."""
    said = "(S (NP (DT the) (NN man)) (VP (VBD said) (S (NP (DT the) (NN dog)) (VP (VBD slept) (RB well)))))"
    slept = "(S (NP (DT the) (NN dog)) (VP (VBD slept) (RB well)))"
    words = "the man say the2 dog sleep well", "the2 dog sleep well"
    assert align(parsed(said), parsed(slept), *map(vectors, words)).rho.phi_and
    alignments = covering(said, slept, *words)
    assert alignments.rho.backward
    assert not alignments.rho.backward_star
    assert not alignments.rho.phi_or
    assert alignments.strength == 0
    assert alignments.leftovers == (("the man",), ())


def test_a_whole_sentence_is_barred() -> None:
    """With ``bar``, no phrase is mapped to the whole other sentence, neither by Algorithm 1."""
    said = "(S (NP (DT the) (NN man)) (VP (VBD said) (S (NP (DT the) (NN dog)) (VP (VBD slept) (RB well)))))"
    slept = "(S (NP (DT the) (NN dog)) (VP (VBD slept) (RB well)))"
    values = vectors("the man say the2 dog sleep well"), vectors("the2 dog sleep well")
    allowed = align(parsed(said), parsed(slept), *values, whole="allow")
    barred = align(parsed(said), parsed(slept), *values, whole="bar")
    assert NodeMapping((3, 7), (0, 4)) in allowed.forward
    assert all(mapping.target != (0, 4) for mapping in barred.forward)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("(NP (CD 12) (NNS days))", "(NP (CD 13) (NNS days))"),
        ("(NP (CD three) (NNS days))", "(NP (CD four) (NNS days))"),
        ("(NP (RB not) (NNS days))", "(NP (RB just) (NNS days))"),
        ("(NP (DT no) (NNS days))", "(NP (DT some) (NNS days))"),
    ],
)
def test_numbers_and_negations_must_agree(first: str, second: str) -> None:
    """Phrases that differ in a number or a negation are not mapped, however similar their vectors are."""
    clause = "(S (NP (DT the) (NN talk)) (VP (VBD took) {}))"
    means = "the talk take n day"
    same = covering(clause.format(first), clause.format(first), means, means)
    other = covering(clause.format(first), clause.format(second), means, means)
    assert same.rho.phi_and
    assert not other.rho.phi_or
    assert align(
        parsed(clause.format(first)), parsed(clause.format(second)), *[vectors(means)] * 2
    ).rho.phi_or


def test_the_same_number_in_words_and_digits_agrees() -> None:
    """``three`` is 3, and separators of thousands do not count."""
    clause = "(S (NP (DT the) (NN talk)) (VP (VBD took) (NP (CD {}) (NNS days))))"
    for one, two in (("three", "3"), ("1,200", "1200")):
        assert covering(clause.format(one), clause.format(two), *["the talk take n day"] * 2).rho.phi_and


def test_who_does_something_to_whom_must_agree() -> None:
    """Swapped subject and object are not mapped to each other; the passive has the same roles."""
    dog, cat = "the dog chase a cat .", "a cat chase the dog ."
    assert not covering(CHASE, SWAPPED, dog, cat).rho.phi_or
    assert covering(CHASE, PASSIVE, dog, "a cat chase chase by the dog .").rho.phi_or


def test_arguments_of_active_and_passive_verbs() -> None:
    """Subjects, objects and agents are read from the tree; a phrase of time is not a JSON object."""
    active = (Argument((0, 2), "agent", 2), Argument((3, 5), "patient", 2))
    assert arguments(Tree.from_brackets(CHASE)) == active
    assert arguments(Tree.from_brackets(PASSIVE)) == (
        Argument((0, 2), "patient", 3),
        Argument((5, 7), "agent", 3),
    )
    week = "(S (NP (NNP Ann)) (VP (VBD left) (NP (JJ last) (NN week))))"
    assert arguments(Tree.from_brackets(week)) == (Argument((0, 1), "agent", 1),)


def test_dissimilar_phrases_are_not_mapped() -> None:
    """Without similar words, the most similar phrase is still not a mapping."""
    one = "(S (NP (DT the) (NN dog)) (VP (VBD slept) (RB well)))"
    assert covering(one, one, "a b c d", "e f g h").forward == ()


def test_only_the_largest_phrases_are_asked_about() -> None:
    """A mapping inside another one is left out, and so is punctuation by itself."""
    found = covering(CHASE, CHASE, *["the dog chase a cat ."] * 2).forward
    assert found == (NodeMapping((0, 2), (0, 2)), NodeMapping((2, 5), (2, 5)))


MEANINGS = st.lists(st.sampled_from("abcdef"), min_size=6, max_size=6)


@given(MEANINGS, MEANINGS)
def test_covering_does_not_depend_on_the_order(first: list[str], second: list[str]) -> None:
    """The two sentences can be swapped, and a strength above 0 is the same as an alignment."""
    one, two = parsed(CHASE), parsed(SWAPPED)
    a, b = vectors(" ".join(first)), vectors(" ".join(second))
    there, back = align_covering(one, two, a, b), align_covering(two, one, b, a)
    assert (there.forward, there.backward) == (back.backward, back.forward)
    assert there.rho.phi_or == back.rho.phi_or == (there.strength > 0)
    assert all(m.similarity >= MIN_SIMILARITY for m in there.forward)


# ---- minimal edits


def sentence(brackets: str, text: str) -> Parsed:
    """Return a sentence with its tree."""
    return Parsed.of(text, brackets)


def test_minimal_edits_change_one_thing() -> None:
    """Numbers change by one, subject and object are swapped, and an auxiliary verb is negated."""
    text = "The old dog has chased 12 cats."
    brackets = (
        "(S (NP (DT The) (JJ old) (NN dog)) (VP (VBZ has) (VP (VBN chased) (NP (CD 12) (NNS cats)))) (. .))"
    )
    assert minimal_edits(sentence(brackets, text)) == {
        "numbers": "The old dog has chased 13 cats.",
        "negation": "The old dog has not chased 12 cats.",
    }
    assert minimal_edits(sentence(CHASE, "The dog chased a cat.")) == {"roles": "A cat chased the dog."}


def test_no_edit_without_a_place_for_it() -> None:
    """A symmetric verb, a pronoun and a main verb ``had`` are left alone."""
    for brackets in (
        "(S (NP (NNP Ann)) (VP (VBD met) (NP (NNP Bob))))",
        "(S (NP (PRP She)) (VP (VBD saw) (NP (NNP Bob))))",
        "(S (NP (NNP Ann)) (VP (VBD had) (ADVP (RB once))))",
    ):
        assert "roles" not in minimal_edits(parsed(brackets))
    had = "(S (NP (NNP Ann)) (VP (VBD had) (NP (NNP Bob))))"
    assert "negation" not in minimal_edits(parsed(had))


def test_no_edit_is_proved() -> None:
    """No edit has a covering alignment with its sentence, even if all its words are as similar as can be."""
    negated = "(S (NP (DT The) (NN dog)) (VP (VBD did) (RB not) (VP (VB chase) (NP (DT a) (NN cat)))))"
    for edit in (SWAPPED, negated):
        one, two = Tree.from_brackets(CHASE), Tree.from_brackets(edit)
        same = np.ones((len(one.tokens), 2)), np.ones((len(two.tokens), 2))
        assert not align_covering(parsed(CHASE), parsed(edit), *same).rho.phi_or
