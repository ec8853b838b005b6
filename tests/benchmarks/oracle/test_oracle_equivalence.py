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
    Proof,
    own_paraphrase,
    prove,
    self_consistency,
)
from pytest_llmprops.benchmarks.oracle.items import random_pairs
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, verdict_of
from pytest_llmprops.benchmarks.oracle.settings import OracleSettings
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.core.requests import Reply
from tests.support.paraphrase_oracles import (
    CAT,
    DOG,
    OF_CAT,
    OF_DOG,
    PAIR,
    PARAPHRASES,
    FakeOracle,
    Stub,
    between,
    parsed,
    perfect,
)

PROVABLE = {(DOG, CAT): "and"}
PAPER, COVERING = OracleSettings(), OracleSettings(alignment="covering", phrases="needed")


def _fake(
    sentences: Any = perfect, paraphrases: Table[str, Sequence[str]] = PARAPHRASES, **more: Any
) -> FakeOracle:
    return FakeOracle(sentences=sentences, paraphrases=lambda s: list(paraphrases[s]), **more)


def _yes(*_: str) -> bool:
    return True


def _check(
    fake: FakeOracle,
    align: Any = None,
    seed: int = 0,
    settings: OracleSettings = PAPER,
    **more: Any,
) -> Acceptance:
    """Return the decision on a pair; ``align`` is a function, or a table for :class:`Stub`."""
    align = align if callable(align) else Stub(align)
    checker = EquivalenceChecker(settings, align, **more)
    return asyncio.run(checker.check(PAIR, fake.oracle, generator(seed)))


#: the mappings of the two phrases of a four-word sentence, and of the words between
HALVES, MIDDLE = (between((0, 2), (0, 2)), between((2, 4), (2, 4))), between((1, 3), (1, 3))
ABCD = parsed("(S (NP (DT a) (NN b)) (VP (V c) (N d)))")


def _prove(alignments: Alignments, fake: FakeOracle, **settings: bool) -> Proof:
    return asyncio.run(prove(alignments, fake.oracle, **settings))


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
    proof = _prove(Alignments(ABCD, ABCD, HALVES, HALVES).without([PhrasePair("c d", "c d")]), fake)
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
    """An aligned "yes" with confirmed phrases is accepted; each pair is asked once, and one direction is enough."""
    fake = _fake(_yes)
    acceptance = _check(fake, {(DOG, CAT): kind})
    assert (acceptance.accepted, acceptance.outcome, acceptance.bound) == (True, "accepted-yes", None)
    assert "2 phrase pairs" in acceptance.why
    phrases = [("the dog", "the cat"), ("slept quietly", "ran away")]
    confirmed = [{"first": first, "second": second, "equivalent": True} for first, second in phrases]
    leftovers = {} if kind == "and" else {"leftovers": [[], ["the cat ran away"]]}
    assert acceptance.evidence["proof"] == {"phrases": confirmed, **leftovers}
    assert (fake.asked("phrases"), fake.asked("paraphrases")) == (phrases, [])
    expected = dict.fromkeys(("said_yes", "accepted", "accepted_paper", "potential_or", "phi_or"), 1.0)
    expected |= {
        "phi_and": kind == "and",
        "potential_and": kind == "and",
        "repaired": 0,
        "refused_phrases": 0,
    }
    assert expected.items() <= acceptance.values.items()


def test_an_unproved_yes_is_rejected() -> None:
    """A "yes" without an alignment, or whose proof needs a refused phrase pair, is rejected with what is left over."""
    nothing = _check(_fake(_yes))
    assert nothing.why.endswith(
        "finds no alignment: left over: s1: { the dog slept quietly }, s2: { the cat ran away }"
    )
    refused = _check(_fake(_yes, phrases=lambda first, second: first == "the dog"), PROVABLE)
    assert refused.why.endswith(
        "left over: s1: { slept quietly }, s2: { ran away }; 1 of 2 phrase pairs refused"
    )
    proof: Any = refused.evidence["proof"]
    assert proof["leftovers"] == [["slept quietly"], ["ran away"]]
    pair = {"first": "slept quietly", "second": "ran away", "equivalent": False, "why": "because"}
    assert proof["phrases"][1] == pair
    for acceptance, potential in ((nothing, 0), (refused, 1)):
        assert (acceptance.accepted, acceptance.outcome) == (False, "rejected")
        names = ("potential_or", "potential_and", "refused_phrases", "phi_or")
        assert [acceptance.values[name] for name in names] == [potential] * 3 + [0]
        assert not any(name.startswith("trust") for name in acceptance.values)


def test_yes_that_depends_on_an_unreadable_reply() -> None:
    """A "yes" is undecided if an unreadable reply about phrases could prove it, and rejected otherwise."""
    replies: tuple[dict[str, Any], ...] = ({"the dog": "hm"}, {"the dog": "hm", "slept quietly": False})
    for phrase in replies:
        fake = _fake(_yes, phrases=lambda first, _, phrase=phrase: phrase.get(first, True))
        acceptance = _check(fake, {(DOG, CAT): "or"})
        is_open = False not in phrase.values()
        assert (acceptance.outcome, acceptance.accepted) == ("unreadable" if is_open else "rejected", False)
        assert {"undecided_or": is_open, "unreadable_phrases": 1}.items() <= acceptance.values.items()


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
        "sentence_1": DOG, "sentence_2": CAT, "answer": "no", "explanation": "because", "read_by": "JSON",
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
        _check(fake, {(OF_DOG[1], CAT): "and", (OF_CAT[0], DOG): kind})
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


WITHHELD = Reply("", finish_reason="content_filter")


@pytest.mark.parametrize(("reply", "outcome"), [("hm", "unreadable"), (WITHHELD, "refused")])
def test_replies_that_would_decide(reply: str | Reply, outcome: str) -> None:
    """Without the replies that would decide, an answer is undecided: refused if a content filter withheld them."""
    yes = _check(_fake(_yes, phrases=lambda *_: reply), PROVABLE, settings=COVERING)
    no = _check(_fake(lambda *texts: False if texts == (DOG, CAT) else reply), settings=COVERING)
    status = "unparsed" if outcome == "unreadable" else "refused"
    for acceptance, what in ((yes, "2 of 2 answers about phrases"), (no, "an answer of the test")):
        assert (acceptance.outcome, verdict_of(acceptance).status) == (outcome, status)
        assert f"{what} cannot be read" in acceptance.why


def test_no_without_a_paraphrase() -> None:
    """A "no" is untested with the reason if no paraphrase can be used, and refused if all are withheld."""
    silent = _check(FakeOracle(lambda *_: False, paraphrases=lambda _: "Sure!"))
    withheld = _check(FakeOracle(lambda *_: False, paraphrases=lambda _: WITHHELD))
    for acceptance, outcome in ((silent, "untested"), (withheld, "refused")):
        assert acceptance.outcome == verdict_of(acceptance).status == outcome
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
    assert acceptance.bound
    assert acceptance.bound.probability is None
    problems: Any = acceptance.evidence["paraphrase_problems"]
    assert ("no JSON and no list" in problems[0], problems[1]) == (True, "")


def test_values_are_flat_numbers() -> None:
    """All values are floats in the table of the module, and the generator determines all decisions."""
    shown = "".join((equivalence.__doc__ or "").replace("…", phi) for phi in ("or", "and"))
    for judge in (perfect, _yes, lambda *_: "?"):
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


def test_repeated_answers_must_agree() -> None:
    """In the first two sanity checks all answers must be readable and the same; an own paraphrase must get "yes"."""
    cases: tuple[tuple[Sequence[bool | str], str, str], ...] = (
        ([True] * 5, "consistent", "5 yes, 0 no in 5 askings"),
        ([False] * 5, "denied", "0 yes, 5 no in 5 askings"),
        ([True] * 4 + [False], "inconsistent", "4 yes, 1 no in 5 askings"),
        ([False, "eh", "eh", False, False, False], "unreadable", "0 yes, 4 no, 1 unreadable in 5 askings"),
        ([False, "eh", "eh", False, True, False], "inconsistent", "1 yes, 3 no, 1 unreadable in 5 askings"),
    )
    for answers, outcome, why in cases:
        fake = _saying(*answers)
        alone, own = asyncio.run(self_consistency(PAIR, fake.oracle, 5)), _own(_saying(*answers))
        assert {chat.sample for chat in fake.chats} == {*range(5)}
        denied = outcome == "denied"
        assert (alone.outcome, alone.why) == ("consistent" if denied else outcome, why)
        assert own.outcome == outcome
        assert own.why == why + ": it denies its own paraphrase" * denied
        assert alone.accepted == alone.values["consistent"] == own.values["consistent"]
        assert own.accepted == (outcome == "consistent") == (alone.accepted and not denied)
        assert alone.values["answers_yes"] == answers.count(True)


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
    assert (acceptance.evidence["trust"], acceptance.evidence["explanation"]) == ("triangular", "because")
    tested = {
        "said_yes": 0, "phi_and": 1, "trust_or": 2, "trust_paper_or": 0, "category_or": 1, "category_and": 3,
    }  # fmt: skip
    assert tested.items() <= acceptance.values.items()
    assert "accepted" not in acceptance.values
