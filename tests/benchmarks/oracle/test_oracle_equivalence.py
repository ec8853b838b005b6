"""The checker of pairs on oracles of known behaviour: proofs, answers of yes and no, and the sanity checks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping as Table
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_llmprops.benchmarks.oracle import equivalence
from pytest_llmprops.benchmarks.oracle.alignment import Alignments, PhrasePair
from pytest_llmprops.benchmarks.oracle.equivalence import (
    EquivalenceChecker,
    Pair,
    Proof,
    left_over,
    own_paraphrase,
    prove,
    self_consistency,
)
from pytest_llmprops.benchmarks.oracle.items import random_pairs
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Oracle, verdict_of
from pytest_llmprops.benchmarks.oracle.settings import OracleSettings
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.core.requests import Chat, Reply
from tests.support.paraphrase_oracles import (
    CAT,
    DOG,
    OF_CAT,
    OF_DOG,
    PAIR,
    PARAPHRASES,
    FakeOracle,
    Stub,
    aligned,
    between,
    parsed,
    perfect,
)

PROVABLE = {(DOG, CAT): "and"}
#: one aligned paraphrase of the first sentence
ONE_SIDED = {(OF_DOG[1], CAT): "and"}
PAPER, COVERING = OracleSettings(), OracleSettings(alignment="covering", phrases="needed")


def _fake(
    sentences: Any = perfect, paraphrases: Table[str, Sequence[str]] = PARAPHRASES, **more: Any
) -> FakeOracle:
    return FakeOracle(sentences=sentences, paraphrases=lambda s: list(paraphrases[s]), **more)


def _yes(*_: str) -> bool:
    return True


def _check(
    fake: FakeOracle | Oracle,
    align: Any = None,
    pair: Pair = PAIR,
    seed: int = 0,
    settings: OracleSettings = PAPER,
    **more: Any,
) -> Acceptance:
    """Return the decision on a pair; ``align`` is a function, or a table for :class:`Stub`."""
    align = align if callable(align) else Stub(align)
    oracle = fake.oracle if isinstance(fake, FakeOracle) else fake
    checker = EquivalenceChecker(settings, align, **more)
    return asyncio.run(checker.check(pair, oracle, generator(seed)))


def _phrases(acceptance: Acceptance, *, equivalent: bool) -> list[tuple[str, str]]:
    """Return the recorded phrase pairs with an answer."""
    proof: Any = acceptance.evidence["proof"]
    return [(p["first"], p["second"]) for p in proof["phrases"] if bool(p["equivalent"]) == equivalent]


FIRST = """(ROOT (S (NP (NP (DT The) (NN dog)) (PP (IN in) (NP (DT the) (NN yard))))
    (VP (VBD slept) (ADVP (RB quietly))) (. .)))"""
SECOND = """(ROOT (S (NP (NP (DT The) (NN hound)) (PP (IN in) (NP (DT the) (NN garden))))
    (VP (ADVP (RB softly)) (VBD rested)) (. .)))"""
NOUNS = ("The dog in the yard", "The hound in the garden")
VERBS = ("slept quietly", "softly rested")
#: the mappings of the two phrases of a four-word sentence, and of the words between
HALVES, MIDDLE = (between((0, 2), (0, 2)), between((2, 4), (2, 4))), between((1, 3), (1, 3))
ABCD = parsed("(S (NP (DT a) (NN b)) (VP (V c) (N d)))")


def _alignments() -> Alignments:
    return aligned(FIRST, SECOND, "the dog in the2 yard sleep quiet .", "the dog in the2 yard quiet sleep .")


def _prove(alignments: Alignments, fake: FakeOracle, **settings: bool) -> Proof:
    return asyncio.run(prove(alignments, fake.oracle, **settings))


def test_a_confirmed_proof() -> None:
    """Each distinct pair is asked once, the first sentence's phrase first, and the proof lists its pairs."""
    fake = FakeOracle()
    proof = _prove(_alignments(), fake)
    assert fake.asked("phrases") == [NOUNS, VERBS]
    assert proof.confirmed.rho.phi_and
    assert proof.evidence == {
        "phrases": [
            {"first": first, "second": second, "equivalent": True} for first, second in (NOUNS, VERBS)
        ]
    }
    expected = {"potential_or": 1, "phi_or": 1, "phi_and": 1, "refused_phrases": 0}
    assert expected.items() <= proof.values.items()


def test_a_refused_pair_breaks_the_proof() -> None:
    """Coverage is recomputed without the refused pair, and the failed proof shows the leftover words."""
    proof = _prove(_alignments(), FakeOracle(phrases=lambda first, second: first != "slept quietly"))
    assert {"potential_and": 1, "phi_or": 0, "refused_phrases": 1}.items() <= proof.values.items()
    assert left_over(proof.evidence) == "s1: { slept quietly }, s2: { softly rested }"
    refused = {"first": VERBS[0], "second": VERBS[1], "equivalent": False, "why": "as it is"}
    assert refused in proof.evidence["phrases"]  # type: ignore[operator]
    assert proof.evidence["leftovers"] == [["slept quietly"], ["softly rested"]]


def test_larger_phrases_are_asked_about_once_after_a_refusal() -> None:
    """The phrase around a refused one can prove the pair; if it is refused, too, nothing more is asked."""
    words = parsed("(S (NP (NN v) (NN w)) (VP (VBD x) (NN y)) (ADVP (RB z)))")
    spans = (0, 2), (2, 4), (4, 5), (0, 4), (2, 5)
    *pairs, around, elsewhere = (between(span, span) for span in spans)
    found = Alignments(words, words, tuple(pairs), tuple(pairs), around=(around, elsewhere))
    fake = FakeOracle(phrases=lambda one, two: one != "v w")
    assert _prove(found, fake).confirmed.rho.phi_and
    assert [first for first, _ in fake.asked("phrases")] == ["v w", "x y", "z", "v w x y"]
    fake = FakeOracle(phrases=lambda one, two: "v w" not in one)
    proof = _prove(found, fake)
    assert len(fake.log) == 4
    assert proof.confirmed.forward == (pairs[-1],)
    assert not proof.confirmed.rho.phi_or


def test_only_directions_that_cover_a_sentence_are_asked_about() -> None:
    """If words are left over before any request, nothing is asked; one direction can be enough.

    A refused pair inside another is not needed.
    """
    fake = FakeOracle()
    proof = _prove(_alignments().without([PhrasePair(*VERBS)]), fake)
    assert (fake.log, proof.confirmed.rho.phi_or) == ([], False)
    proof = _prove(Alignments(ABCD, ABCD, HALVES, (MIDDLE,)), fake)
    assert fake.asked("phrases") == [("a b", "a b"), ("c d", "c d")]
    assert (proof.confirmed.rho.phi_or, proof.confirmed.rho.phi_and) == (True, False)
    fake = FakeOracle(phrases=lambda one, two: one != "b c")
    proof = _prove(Alignments(ABCD, ABCD, (*HALVES, MIDDLE), ()), fake)
    assert (len(fake.log), proof.confirmed.rho.forward) == (3, True)


def test_identical_phrases_can_be_skipped() -> None:
    """With ``ask_identical`` off, only phrases that differ are asked about; both kinds prove the pair."""
    second, fake = parsed("(S (NP (DT A) (NN b)) (VP (V e) (N f)))"), FakeOracle()
    proof = _prove(Alignments(ABCD, second, HALVES, HALVES), fake, ask_identical=False)
    assert proof.confirmed.rho.phi_and
    assert fake.asked("phrases") == [("c d", "e f")]
    phrases: Any = proof.evidence["phrases"]
    assert [(p["first"], p.get("asked")) for p in phrases] == [("c d", None), ("a b", False)]


@pytest.mark.parametrize("kind", ["and", "or"])
def test_a_proved_yes_is_accepted(kind: str) -> None:
    """An aligned "yes" with confirmed phrases is accepted, with the phrase pairs as evidence; one way is enough."""
    fake = _fake(_yes)
    acceptance = _check(fake, {(DOG, CAT): kind})
    assert (acceptance.accepted, acceptance.outcome, acceptance.bound) == (True, "accepted-yes", None)
    assert "2 phrase pairs" in acceptance.why
    phrases = [("the dog", "the cat"), ("slept quietly", "ran away")]
    assert _phrases(acceptance, equivalent=True) == phrases
    expected = {"said_yes": 1, "accepted": 1, "accepted_paper": 1, "repaired": 0, "phi_or": 1}
    assert (expected | {"phi_and": float(kind == "and")}).items() <= acceptance.values.items()
    assert fake.asked("paraphrases") == []


def test_an_unproved_yes_is_rejected() -> None:
    """A "yes" without an alignment, or whose proof needs a refused phrase pair, is rejected with what is left over."""
    tables: tuple[tuple[dict[tuple[str, str], str], list[tuple[str, str]], str], ...] = (
        ({}, [], "finds no alignment: left over: s1: { the dog slept quietly }, s2: { the cat ran away }"),
        (PROVABLE, [("slept quietly", "ran away")], "1 of 2 phrase pairs refused"),
    )
    for table, refused, why in tables:
        acceptance = _check(_fake(_yes, phrases=lambda first, second: first == "the dog"), table)
        assert (acceptance.accepted, acceptance.outcome) == (False, "rejected")
        assert why in acceptance.why
        assert not refused or _phrases(acceptance, equivalent=False) == refused
        assert (acceptance.values["potential_or"], acceptance.values["phi_or"]) == (float(bool(table)), 0)
        assert not any(name.startswith("trust") for name in acceptance.values)


def test_yes_that_depends_on_an_unreadable_reply() -> None:
    """A "yes" is undecided if an unreadable reply about phrases could prove it, and rejected otherwise."""
    replies: tuple[dict[str, Any], ...] = (
        {"the dog": "hm"}, {"the dog": "hm", "slept quietly": "hm"}, {"the dog": "hm", "slept quietly": False},
    )  # fmt: skip
    for phrase in replies:
        acceptance = _check(
            _fake(_yes, phrases=lambda first, _, phrase=phrase: phrase.get(first, True)), {(DOG, CAT): "or"}
        )
        is_open = False not in phrase.values()
        unread = [*phrase.values()].count("hm")
        assert (acceptance.outcome, acceptance.accepted) == ("unreadable" if is_open else "rejected", False)
        assert (acceptance.values["undecided_or"], acceptance.values["unreadable_phrases"]) == (
            is_open,
            unread,
        )
        assert verdict_of(acceptance).status == ("unparsed" if is_open else "wrong")
        assert ("answers about phrases cannot be read" in acceptance.why) == is_open


def test_no_of_a_perfect_judge_is_accepted() -> None:
    """A passed test is accepted; as printed, the coin has no choice if only one sentence has an aligned paraphrase."""
    tables: tuple[dict[tuple[str, str], str], ...] = (
        {}, {(OF_DOG[0], CAT): "and"}, {(OF_CAT[1], DOG): "or"}, {(OF_DOG[0], CAT): "and", (OF_CAT[1], DOG): "or"},
    )  # fmt: skip
    for table in tables:
        acceptance = _check(_fake(), table)
        assert (acceptance.outcome, acceptance.values["fair_coin_or"]) == ("accepted-no", len(table) != 1)
        assert acceptance.bound == equivalence.AS_PRINTED
        even = _check(_fake(), table, settings=COVERING)
        assert (even.outcome, even.values["fair_coin_or"]) == ("accepted-no", 1)
        assert even.bound is not None
        assert even.bound.probability == 0.5


@pytest.mark.parametrize("settings", [PAPER, COVERING])
def test_triangular_evidence(settings: OracleSettings) -> None:
    """A "no" with a paraphrase equivalent to both is rejected under both rules, with all three texts."""
    fake = _fake(lambda first, second: (first, second) != (DOG, CAT), {DOG: OF_DOG, CAT: [CAT]})
    acceptance = _check(fake, {(OF_DOG[0], CAT): "and"}, settings=settings)
    assert (acceptance.outcome, acceptance.bound) == ("rejected", None)
    assert "triangular evidence" in acceptance.why
    assert {"trust_or": 2, "accepted_paper": 0, "category_or": 2}.items() <= acceptance.values.items()
    test = {"outcome": "triangular", "source": 1, "paraphrase": OF_DOG[0], "other": "yes", "own": "yes"}
    shown = {
        "sentence_1": DOG, "sentence_2": CAT, "answer": "no", "explanation": "as it is", "read_by": "JSON",
        "paraphrases": [list(OF_DOG), []], "category": "ĀI", "trust": "triangular", "tests": [test],
    }  # fmt: skip
    assert acceptance.evidence == shown


def test_constant_no() -> None:
    """A constant "no" denies its own paraphrases and is rejected; as printed, it is accepted, but without a bound."""
    constant = _fake(lambda first, second: False)
    acceptance = _check(constant, settings=COVERING)
    assert acceptance.outcome == "rejected"
    assert "self-inconsistent" in acceptance.why
    assert {"trust_or": 3, "accepted_paper": 1, "accepted": 0}.items() <= acceptance.values.items()
    printed = _check(constant)
    assert (printed.outcome, printed.accepted) == ("accepted-no", True)
    assert printed.why.startswith("no, and no triangular evidence, although its test failed")
    assert printed.bound is not None
    assert printed.bound.probability is None
    assert {"trust_or": 3, "accepted_paper": 1, "accepted": 1}.items() <= printed.values.items()


def test_categories() -> None:
    """The categories of table 5 are determined separately for both kinds of alignment."""
    tables: tuple[tuple[dict[tuple[str, str], str], int, int], ...] = (
        ({(DOG, CAT): "and", (OF_DOG[0], CAT): "and"}, 1, 1),
        ({(DOG, CAT): "or", (OF_DOG[0], CAT): "and"}, 1, 2),
        ({(OF_CAT[0], DOG): "or"}, 2, 4),
        ({(DOG, CAT): "and"}, 3, 3),
        ({}, 4, 4),
    )
    for table, by_or, by_and in tables:
        values = _check(_fake(), table).values
        assert (values["category_or"], values["category_and"]) == (by_or, by_and)


def test_the_phrases_of_a_no_are_asked_about_as_printed() -> None:
    """As printed, the oracle must confirm phrases for A and I of table 5, and refuses them; otherwise none is asked."""
    for settings, category, phrases in ((PAPER, 4, 4), (COVERING, 1, 0)):
        fake = _fake(paraphrases={DOG: OF_DOG[:1], CAT: ()}, phrases=lambda first, second: False)
        values = _check(fake, PROVABLE | {(OF_DOG[0], CAT): "and"}, settings=settings).values
        assert (values["potential_or"], values["category_or"]) == (1, category)
        assert values.get("phi_or") == (0 if settings is PAPER else None)
        assert len(fake.asked("phrases")) == phrases


def test_both_kinds_share_a_test_on_the_same_paraphrases() -> None:
    """phi_or and phi_and share a test if and only if their paraphrases are the same."""
    for kind, asked in (("and", 2), ("or", 4)):
        fake = _fake()
        _check(fake, {**ONE_SIDED, (OF_CAT[0], DOG): kind})
        assert len(fake.asked("sentences")) == 1 + asked


def test_random_pairs() -> None:
    """In the third sanity check any paraphrase of different sentences is drawn, and the pair itself is aligned."""
    pairs = random_pairs([*PARAPHRASES, *PARAPHRASES], generator(0), 20)
    assert len(pairs) == 20
    assert set(pairs) == {(DOG, CAT), (CAT, DOG)}
    align = Stub(PROVABLE)
    acceptance = _check(_fake(), align, settings=COVERING, is_random=True)
    assert align.asked == [frozenset((DOG, CAT))]
    assert acceptance.accepted
    assert {"phi_and": 1, "category_or": 0}.items() <= acceptance.values.items()
    assert "category" not in acceptance.evidence
    with pytest.raises(ValueError, match="two different sentences"):
        random_pairs([DOG, DOG], generator(0), 1)


@pytest.mark.parametrize("settings", [PAPER, COVERING])
def test_an_unreadable_answer(settings: OracleSettings) -> None:
    """An answer that stays unreadable after repair is an outcome in itself; as printed, a proof is tried."""
    fake = _fake(lambda first, second: "Perhaps.")
    acceptance = _check(fake, PROVABLE, settings=settings)
    assert (acceptance.accepted, acceptance.outcome) == (False, "unreadable")
    assert "after one repair" in acceptance.why
    assert (acceptance.values["said_yes"], acceptance.values["repaired"]) == (-1, 1)
    assert ("phi_or" in acceptance.values) is ("proof" in acceptance.evidence) is (settings is PAPER)
    assert fake.asked("paraphrases") == []
    assert acceptance.evidence["answer"] == "unreadable"
    assert acceptance.evidence["read_by"] == "it has no JSON object and no clear yes or no after a repair"


def test_no_that_cannot_be_tested() -> None:
    """A "no" is undecided if its test cannot be read, and untested with the reason if no paraphrase can be used."""
    unread = _check(_fake(lambda first, second: False if (first, second) == (DOG, CAT) else "hm"))
    assert (unread.outcome, verdict_of(unread).status) == ("unreadable", "unparsed")
    assert "an answer of the test cannot be read" in unread.why
    silent = _check(FakeOracle(lambda *_: False, paraphrases=lambda _: "Sure!"))
    assert (silent.outcome, verdict_of(silent).status) == ("untested", "untested")
    assert "no JSON and no list" in silent.why
    same = _check(_fake(paraphrases={DOG: [DOG], CAT: [f"{CAT}!"]}))
    assert same.outcome == "untested"
    assert "no paraphrase differs enough" in same.why
    expected = {"trust_or": 5, "trust_and": 5, "accepted_paper": 0, "left_out_1": 1, "left_out_2": 1}
    assert expected.items() <= same.values.items()


def test_unreadable_paraphrases_of_one_sentence() -> None:
    """If one sentence's paraphrases are unreadable, the other's are used, the problem is shown, without a bound."""
    fake = FakeOracle(perfect, paraphrases=lambda s: "Sure!" if s == DOG else list(OF_CAT))
    acceptance = _check(fake, settings=COVERING)
    assert (acceptance.accepted, acceptance.values["fair_coin_or"]) == (True, 0)
    assert acceptance.bound is not None
    assert acceptance.bound.probability is None
    problems: Any = acceptance.evidence["paraphrase_problems"]
    assert "no JSON and no list" in problems[0]
    assert problems[1] == ""


@pytest.mark.parametrize("stage", ["phrases", "test", "paraphrases"])
def test_withheld_replies_are_refused(stage: str) -> None:
    """If a content filter withholds the replies that would decide, the answer is refused, not unparsed or wrong."""
    fake = _fake(lambda first, _: stage == "phrases" or first != DOG)

    async def ask(chat: Chat) -> Reply:
        system, human = chat.messages[0].content, chat.messages[1].content
        kinds = {"paraphrases": "paraphrases generator", "phrases": "texts"}
        kind = next((kind for kind, mark in kinds.items() if mark in system), "test")
        if kind == stage and f"1. '{DOG}'" not in human:
            return Reply("", finish_reason="content_filter")
        return await fake.oracle(chat.messages, sample=chat.sample)

    acceptance = _check(Oracle(ask), PROVABLE if stage == "phrases" else None, settings=COVERING)
    assert acceptance.outcome == verdict_of(acceptance).status == "refused"


def test_sentences_without_a_tree() -> None:
    """Without a tree, a "yes" is untested with that reason and a "no" is tested with a random paraphrase."""

    missing = Alignments(None, None, missing="the parser gave no tree")
    with pytest.raises(ValueError, match="the parser gave no tree"):
        missing.pair_of(MIDDLE)

    async def align(first: str, second: str) -> Alignments:
        return missing

    yes, no = (_check(_fake(judge), align) for judge in (_yes, perfect))
    assert (yes.outcome, yes.why) == ("untested", "yes, but not tested: the parser gave no tree")
    assert yes.evidence["proof"] == {"missing": "the parser gave no tree"}
    assert no.accepted
    assert no.values["category_or"] == 4
    assert yes.values["trees_missing"] == no.values["trees_missing"] == 1


def test_values_are_flat_numbers() -> None:
    """All values are floats in the table of the module, and the generator determines all decisions."""
    shown = "".join((equivalence.__doc__ or "").replace("…", phi) for phi in ("or", "and"))
    judges: tuple[Any, ...] = (perfect, _yes, lambda *_: "?")
    for judge in judges:
        first, second = (_check(_fake(judge), {(OF_DOG[0], CAT): "and"}, seed=3) for _ in range(2))
        assert first == second
        assert all(type(value) is float for value in first.values.values())
        assert [name for name in first.values if f"``{name}``" not in shown] == []


def _saying(*answers: bool | str) -> FakeOracle:
    """Return an oracle that gives these answers in turn, then no."""
    said = iter(answers)
    return FakeOracle(lambda *_: next(said, False), paraphrases=lambda _: OF_DOG)


def _own(fake: FakeOracle, table: Any = None) -> Acceptance:
    """Return the decision on the oracle's own paraphrase."""
    return asyncio.run(own_paraphrase(DOG, fake.oracle, EquivalenceChecker(PAPER, Stub(table)), generator(0)))


def test_self_consistency() -> None:
    """In the first sanity check repeated answers, each its own sample, must agree and be readable."""
    fake = _saying(*[False] * 5)
    acceptance = asyncio.run(self_consistency(PAIR, fake.oracle, 5))
    assert (acceptance.accepted, acceptance.outcome) == (True, "consistent")
    assert acceptance.why == "0 yes, 5 no in 5 askings"
    assert [chat.sample for chat in fake.chats] == [0, 1, 2, 3, 4]
    acceptance = asyncio.run(self_consistency(PAIR, _saying(True, True, False, True, True).oracle, 5))
    assert (acceptance.outcome, acceptance.values["answers_yes"]) == ("inconsistent", 4)
    acceptance = asyncio.run(self_consistency(PAIR, _saying(*["?"] * 10).oracle, 5))
    assert (acceptance.accepted, acceptance.outcome) == (False, "unreadable")


def test_own_paraphrases() -> None:
    """The second sanity check asks about the first distinct paraphrase five times and proves it (table 4)."""
    fake = FakeOracle(perfect, paraphrases=lambda _: [DOG, *OF_DOG])
    acceptance = _own(fake, {(DOG, OF_DOG[0]): "or"})
    assert acceptance.accepted
    assert acceptance.evidence["paraphrase"] == OF_DOG[0]
    assert acceptance.evidence["answers"] == ["yes"] * 5
    assert fake.asked("sentences") == [(DOG, OF_DOG[0])] * 5
    assert {"said_yes": 1, "phi_or": 1, "phi_and": 0}.items() <= acceptance.values.items()
    assert "trust_or" not in acceptance.values
    nothing = _own(FakeOracle(perfect, paraphrases=lambda _: [DOG]))
    assert (nothing.outcome, nothing.accepted) == ("untested", False)


def test_a_denied_paraphrase_is_not_accepted() -> None:
    """Only five "yes" answers are accepted: five "no" answers are consistent, but deny the own paraphrase."""
    cases: tuple[tuple[Sequence[bool | str], str, int], ...] = (
        ([False] * 5, "denied", 1),
        ([True] * 5, "consistent", 1),
        ([True] * 4 + [False], "inconsistent", 0),
        ([False, "eh", "eh", False, False, False], "unreadable", 0),
        ([False, "eh", "eh", False, True, False], "inconsistent", 0),
    )
    for answers, outcome, consistent in cases:
        acceptance = _own(_saying(*answers))
        assert (acceptance.outcome, acceptance.accepted) == (outcome, outcome == "consistent")
        assert acceptance.values["consistent"] == consistent
        assert ("denies its own paraphrase" in acceptance.why) == (outcome == "denied")


def test_a_no_about_an_own_paraphrase_is_tested() -> None:
    """The answer of no is tested like that on any pair, with another paraphrase (appendix B.3.3)."""
    denied, other = OF_DOG
    fake = FakeOracle(lambda one, two: {one, two} != {DOG, denied}, paraphrases=lambda _: OF_DOG)
    acceptance = _own(fake, {(DOG, denied): "and", (other, denied): "or"})
    assert acceptance.outcome == "denied"
    asked = fake.asked("sentences")
    assert asked[:7] == [(DOG, denied)] * 5 + [(other, denied), (other, DOG)]
    assert (denied, denied) not in asked, "the paraphrase is not compared with itself"
    assert acceptance.evidence["tests"] == [
        {"outcome": "triangular", "source": 1, "paraphrase": other, "other": "yes", "own": "yes"}
    ]
    assert (acceptance.evidence["trust"], acceptance.evidence["explanation"]) == ("triangular", "as it is")
    tested = {
        "said_yes": 0, "phi_and": 1, "trust_or": 2, "trust_paper_or": 0, "category_or": 1, "category_and": 3,
    }  # fmt: skip
    assert tested.items() <= acceptance.values.items()
    assert "accepted" not in acceptance.values
