"""The proof strategy: the phrase pairs it asks about, and the effect of refusals."""

from __future__ import annotations

import asyncio

import pytest

from pytest_llmprops.benchmarks.oracle.alignment import Alignments, NodeMapping, PhrasePair
from pytest_llmprops.benchmarks.oracle.pair_evidence import PhraseEvidence, ProofEvidence
from pytest_llmprops.benchmarks.oracle.paraphrase import Proof, prove
from tests.support.paraphrase_oracles import FakeOracle, aligned, parsed

FIRST = """(ROOT (S (NP (NP (DT The) (NN dog)) (PP (IN in) (NP (DT the) (NN yard))))
    (VP (VBD slept) (ADVP (RB quietly))) (. .)))"""
SECOND = """(ROOT (S (NP (NP (DT The) (NN hound)) (PP (IN in) (NP (DT the) (NN garden))))
    (VP (ADVP (RB softly)) (VBD rested)) (. .)))"""
NOUNS = ("The dog in the yard", "The hound in the garden")
VERBS = ("slept quietly", "softly rested")


def _alignments() -> Alignments:
    return aligned(FIRST, SECOND, "the dog in the2 yard sleep quiet .", "the dog in the2 yard quiet sleep .")


def _proof(alignments: Alignments, fake: FakeOracle, **settings: bool) -> Proof:
    return asyncio.run(prove(alignments, fake.oracle, **settings))


def test_a_confirmed_proof() -> None:
    """Each distinct pair is asked once, the first sentence's phrase first, and the proof lists its pairs."""
    fake = FakeOracle()
    proof = _proof(_alignments(), fake)
    assert fake.asked("phrases") == [NOUNS, VERBS]
    assert proof.rho.phi_or
    assert proof.rho.phi_and
    assert proof.refused == ()
    assert proof.evidence == ProofEvidence(
        tuple(PhraseEvidence(first, second, True) for first, second in (NOUNS, VERBS)), ((), ())
    )


def test_a_refused_pair_breaks_the_proof() -> None:
    """Coverage is recomputed without the refused pair, and the failed proof shows the leftover words."""
    fake = FakeOracle(phrases=lambda first, second: first != "slept quietly")
    proof = _proof(_alignments(), fake)
    assert proof.potential.rho.phi_and
    assert not proof.rho.phi_or
    assert proof.refused == (PhrasePair(*VERBS),)
    assert (
        proof.failure
        == "left over: s1: { slept quietly }, s2: { softly rested }; 1 of 2 phrase pairs refused"
    )
    assert proof.evidence.refused == (PhraseEvidence(*VERBS, False, "as it is"),)
    assert proof.evidence.leftovers == (("slept quietly",), ("softly rested",))


def test_refused_pair_covered_by_others_is_not_needed() -> None:
    """A refused pair inside another is not needed, and the sentence is still covered."""
    first = second = parsed("(S (NP (DT a) (NN b)) (VP (V c) (N d)))")
    mappings = (NodeMapping((0, 2), (0, 2)), NodeMapping((2, 4), (2, 4)), NodeMapping((1, 3), (1, 3)))
    fake = FakeOracle(phrases=lambda one, two: one != "b c")
    proof = _proof(Alignments(first, second, mappings, ()), fake)
    assert len(fake.log) == 3
    assert proof.rho.forward
    assert not proof.rho.phi_and
    assert [p.first for p in proof.evidence.confirmed] == ["a b", "c d"]


def test_nothing_is_asked_without_a_potential_alignment() -> None:
    """If words are left over before any request, the proof fails without one (439 of 500 random
    pairs did).
    """
    fake = FakeOracle()
    proof = _proof(_alignments().without([PhrasePair(*VERBS)]), fake)
    assert fake.log == []
    assert not proof.rho.phi_or
    assert proof.failure == "left over: s1: { slept quietly }, s2: { softly rested }"


def test_pairs_of_an_uncovered_direction_are_not_asked() -> None:
    """No pair is asked for a direction that is not covered."""
    first = second = parsed("(S (NP (DT a) (NN b)) (VP (V c) (N d)))")
    forward = (NodeMapping((0, 2), (0, 2)), NodeMapping((2, 4), (2, 4)))
    fake = FakeOracle()
    proof = _proof(Alignments(first, second, forward, (NodeMapping((1, 3), (1, 3)),)), fake)
    assert fake.asked("phrases") == [("a b", "a b"), ("c d", "c d")]
    assert proof.rho.phi_or
    assert not proof.rho.phi_and
    assert proof.values["phrase_pairs"] == 3
    assert proof.values["asked_phrases"] == 2


def test_identical_phrases_can_be_skipped() -> None:
    """With ``ask_identical`` off, only phrases that differ are asked about."""
    first = parsed("(S (NP (DT a) (NN b)) (VP (V c) (N d)))")
    second = parsed("(S (NP (DT A) (NN b)) (VP (V e) (N f)))")
    pairs = (NodeMapping((0, 2), (0, 2)), NodeMapping((2, 4), (2, 4)))
    fake = FakeOracle()
    assert _proof(Alignments(first, second, pairs, pairs), fake, ask_identical=False).rho.phi_and
    assert fake.asked("phrases") == [("c d", "e f")]
    proof = _proof(Alignments(first, second, pairs, pairs), FakeOracle(), ask_identical=False)
    assert [(p.first, p.asked) for p in proof.evidence.phrases] == [("c d", True), ("a b", False)]


def test_an_unreadable_answer_confirms_nothing() -> None:
    """A reply that is not JSON even after repair counts as refused and as unreadable."""
    fake = FakeOracle(phrases=lambda first, second: "well, yes")
    proof = _proof(_alignments(), fake)
    assert len(fake.asked("phrases")) == 4
    assert not proof.rho.phi_or
    assert proof.values["refused_phrases"] == proof.values["unreadable_phrases"] == 2
    assert all(p.equivalent is None and "it is not JSON" in p.why for p in proof.evidence.refused)


def test_without_trees() -> None:
    """A sentence that the parser fails on cannot be proved; the reason is shown and no request is sent."""
    fake = FakeOracle()
    proof = _proof(Alignments.without_trees("the parser gave no tree for s1"), fake)
    assert fake.log == []
    assert not proof.rho.phi_or
    assert proof.evidence == ProofEvidence(missing="the parser gave no tree for s1")
    assert proof.failure == "the parser gave no tree for s1"
    assert proof.values["trees_missing"] == 1
    assert proof.values["potential_or"] == 0


def test_constant_yes_does_not_prove_an_unaligned_pair() -> None:
    """A constant "yes" does not prove a passive whose verb matches nothing, because the trees do
    not align.
    """
    alignments = aligned(
        "(S (NP (DT the) (NN dog)) (VP (VBD chased) (NP (DT a) (NN cat))))",
        "(S (NP (DT a) (NN dog)) (VP (VBD admired) (NP (DT the) (NN moon))))",
        "the dog chase a cat",
        "a2 dog admire the2 moon",
    )
    fake = FakeOracle(phrases=lambda first, second: True)
    assert not _proof(alignments, fake).rho.phi_or
    assert fake.log == []


@pytest.mark.parametrize("said", [True, False])
def test_values(said: bool) -> None:
    """All values are floats, and potential and confirmed values are separate."""
    values = _proof(_alignments(), FakeOracle(phrases=lambda first, second: said)).values
    assert all(isinstance(value, float) for value in values.values())
    assert values["potential_or"] == values["potential_and"] == 1
    assert values["phrase_pairs"] == 2
    for name in ("phi_or", "phi_and", "rho_12", "rho_star_12", "rho_21", "rho_star_21"):
        assert values[name] == float(said)
    assert values["leftover_1"] == values["leftover_2"] == float(not said)
