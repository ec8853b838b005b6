"""The paraphrase checker on oracles of known behaviour: decisions, number of requests, records and
bad input.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping as Table
from collections.abc import Sequence
from typing import Any

import pytest
from scipy.stats import binomtest

from pytest_llmprops.benchmarks.oracle import pair_evidence
from pytest_llmprops.benchmarks.oracle.alignment import Alignments
from pytest_llmprops.benchmarks.oracle.items import random_pairs
from pytest_llmprops.benchmarks.oracle.nulls import own_paraphrase, random_checker, self_consistency
from pytest_llmprops.benchmarks.oracle.pair_evidence import Pair, PairEvidence, TrustTestEvidence
from pytest_llmprops.benchmarks.oracle.paraphrase import ParaphraseChecker
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Oracle
from pytest_llmprops.benchmarks.oracle.settings import PARAPHRASE_QUICK, ParaphraseSettings
from pytest_llmprops.core.errors import BackendError
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
    World,
    answer,
    four_words,
    perfect,
)

PAPER = ParaphraseSettings()


def _fake(
    sentences: Any = perfect, paraphrases: Table[str, Sequence[str]] = PARAPHRASES, **more: Any
) -> FakeOracle:
    return FakeOracle(sentences=sentences, paraphrases=lambda s: list(paraphrases[s]), **more)


def _check(
    fake: FakeOracle, align: Any = None, pair: Pair = PAIR, seed: int = 0, **settings: Any
) -> Acceptance:
    checker = ParaphraseChecker(ParaphraseSettings(**settings), align or Stub())
    return asyncio.run(checker.check(pair, fake.oracle, generator(seed)))


def test_a_proved_yes_is_accepted() -> None:
    """An aligned "yes" with confirmed phrases is accepted, with the phrase pairs as evidence."""
    fake = _fake(lambda first, second: True)
    acceptance = _check(fake, Stub({(DOG, CAT): "and"}))
    assert acceptance.accepted
    assert acceptance.outcome == "accepted-yes"
    assert "2 phrase pairs" in acceptance.why
    proof = PairEvidence.from_json(acceptance.evidence).proof
    assert proof is not None
    assert [(p.first, p.second) for p in proof.confirmed] == [
        ("the dog", "the cat"),
        ("slept quietly", "ran away"),
    ]
    assert acceptance.bound is None
    assert (
        acceptance.values["said_yes"]
        == acceptance.values["accepted"]
        == acceptance.values["accepted_paper"]
        == 1
    )
    assert fake.asked("paraphrases") == []


def test_an_unaligned_yes_is_rejected() -> None:
    """An unaligned "yes" is rejected with its leftover words and without further requests."""
    fake = _fake(lambda first, second: True)
    acceptance = _check(fake)
    assert not acceptance.accepted
    assert acceptance.outcome == "rejected"
    assert "s1: { the dog slept quietly }, s2: { the cat ran away }" in acceptance.why
    assert fake.log == [("sentences", (DOG, CAT))]
    assert acceptance.values["said_yes"] == 1
    assert not any(name.startswith("trust") for name in acceptance.values)


def test_a_yes_whose_phrases_are_refused_is_rejected() -> None:
    """A "yes" whose proof needs a phrase pair that the oracle refuses is rejected, and the pair is shown."""
    fake = _fake(lambda first, second: True, phrases=lambda first, second: first == "the dog")
    acceptance = _check(fake, Stub({(DOG, CAT): "and"}))
    assert acceptance.outcome == "rejected"
    assert "1 of 2 phrase pairs refused" in acceptance.why
    proof = PairEvidence.from_json(acceptance.evidence).proof
    assert proof is not None
    assert [(p.first, p.second) for p in proof.refused] == [("slept quietly", "ran away")]
    assert acceptance.values["potential_or"] == 1
    assert acceptance.values["phi_or"] == 0


@pytest.mark.parametrize(("phi", "accepted"), [("or", True), ("and", False)])
def test_the_kind_of_alignment_decides(phi: str, accepted: bool) -> None:
    """A one-way alignment is a proof under phi_or only, and both kinds are recorded."""
    acceptance = _check(_fake(lambda first, second: True), Stub({(DOG, CAT): "or"}), phi=phi)
    assert acceptance.accepted is accepted
    assert acceptance.values["phi_or"] == 1
    assert acceptance.values["phi_and"] == 0


def test_no_of_aperfect_judge_is_accepted() -> None:
    """A "no" that passes every test is accepted with the bound, whichever paraphrases are
    indifferentiable.
    """
    of_dog, of_cat = {(OF_DOG[0], CAT): "and"}, {(OF_CAT[1], DOG): "or"}
    # If only one sentence has an indifferentiable paraphrase, the coin has no choice.
    tables: list[tuple[dict[tuple[str, str], str], float | None]] = [
        ({}, 0.125),
        (of_dog, None),
        (of_cat, None),
        (of_dog | of_cat, 0.125),
    ]
    for table, probability in tables:
        for seed in range(10):
            acceptance = _check(_fake(), Stub(table), seed=seed, tests=3)
            assert acceptance.accepted, acceptance.why
            assert acceptance.outcome == "accepted-no", acceptance.why
            assert acceptance.bound is not None
            assert acceptance.bound.probability == probability


def test_triangular_evidence() -> None:
    """A "no" with a paraphrase equivalent to both is rejected under both rules, with all three texts."""
    fake = _fake(lambda first, second: (first, second) != (DOG, CAT))
    acceptance = _check(fake, Stub({(OF_DOG[0], CAT): "and"}))
    assert acceptance.outcome == "rejected"
    assert "triangular evidence" in acceptance.why
    assert acceptance.bound is None
    assert acceptance.values["trust_or"] == 2
    assert acceptance.values["accepted_paper"] == 0
    shown = PairEvidence.from_json(acceptance.evidence)
    assert (shown.first, shown.second, shown.answer, shown.trust) == (DOG, CAT, "no", "triangular")
    assert shown.tests == (TrustTestEvidence("triangular", 1, OF_DOG[0], "yes", "yes"),)


@pytest.mark.parametrize(("phi", "category"), [("or", "ĀI"), ("and", "ĀĪ")])
def test_evidence_comes_from_the_deciding_alignment(phi: str, category: str) -> None:
    """Category, outcome and tests in the evidence are those of the kind of alignment that decides the run."""
    fake = _fake(lambda first, second: (first, second) != (DOG, CAT))
    acceptance = _check(fake, Stub({(OF_DOG[0], CAT): "or"}), phi=phi, tests=3)
    shown = PairEvidence.from_json(acceptance.evidence)
    assert (shown.category, shown.trust, len(shown.tests)) == (category, "triangular", 3)
    assert {test.paraphrase for test in shown.tests} <= {*(OF_DOG[:1] if phi == "or" else (*OF_DOG, *OF_CAT))}
    assert shown.paraphrases == (OF_DOG, OF_CAT)


def test_constant_no() -> None:
    """A constant "no" denies its own paraphrases and is rejected, but the paper's rule accepts it."""
    acceptance = _check(_fake(lambda first, second: False))
    assert acceptance.outcome == "rejected"
    assert "self-inconsistent" in acceptance.why
    assert acceptance.values["trust_or"] == 3
    assert acceptance.values["accepted_paper"] == 1


@pytest.mark.parametrize(("kind", "outcome"), [("and", "accepted-yes"), ("none", "rejected")])
def test_constant_yes(kind: str, outcome: str) -> None:
    """An oracle that always says "yes" is accepted if and only if the trees align."""
    assert _check(_fake(lambda *_: True), Stub({(DOG, CAT): kind})).outcome == outcome


@pytest.mark.simulation
def test_a_fair_coin_is_rarely_accepted() -> None:
    """Random "no" answers pass a test with probability 1/4, and a random "yes" on unaligned sentences never
    does.
    """
    rng, trials = generator("coin"), 2_000
    checker = ParaphraseChecker(ParaphraseSettings(indifferentiable="random", reference=False), Stub())

    async def run() -> int:
        accepted = 0
        for trial in range(trials):
            fake = _fake(lambda first, second: rng.random() < 0.5)
            accepted += bool(await checker.check(PAIR, fake.oracle, generator(trial)))
        return accepted

    assert binomtest(asyncio.run(run()), trials, 1 / 8).pvalue > 0.001


CATEGORIES = [
    ({(DOG, CAT): "and", (OF_DOG[0], CAT): "and"}, 1, 1),
    ({(DOG, CAT): "or", (OF_DOG[0], CAT): "and"}, 1, 2),
    ({(OF_CAT[0], DOG): "or"}, 2, 4),
    ({(DOG, CAT): "and"}, 3, 3),
    ({(DOG, CAT): "or", (OF_DOG[0], CAT): "or"}, 1, 4),
    ({}, 4, 4),
]


@pytest.mark.parametrize(("table", "by_or", "by_and"), CATEGORIES)
@pytest.mark.parametrize("how", ["asked", "potential"])
def test_categories(table: dict[tuple[str, str], str], by_or: int, by_and: int, how: str) -> None:
    """The categories of table 5 are determined separately for both kinds of alignment."""
    acceptance = _check(_fake(), Stub(table), indifferentiable=how)
    assert (acceptance.values["category_or"], acceptance.values["category_and"]) == (by_or, by_and)


def test_indifferentiable_paraphrases_are_preferred() -> None:
    """If each sentence has one aligned paraphrase, the coin draws only these two, and the bound holds."""
    seen = set()
    for seed in range(20):
        fake = _fake()
        acceptance = _check(fake, Stub({(OF_DOG[1], CAT): "and", (OF_CAT[0], DOG): "and"}), seed=seed)
        seen |= {first for first, _ in fake.asked("sentences")[1:]}
        assert acceptance.values["fair_coin_or"] == 1
        assert acceptance.values["indifferentiable_or"] == 2
    assert seen == {OF_DOG[1], OF_CAT[0]}


def test_any_paraphrase_is_drawn_if_none_is_indifferentiable() -> None:
    """In categories without an indifferentiable paraphrase, a random one of all paraphrases is drawn."""
    seen = set()
    for seed in range(40):
        fake = _fake()
        _check(fake, seed=seed)
        seen |= {first for first, _ in fake.asked("sentences")[1:]}
    assert seen == {*OF_DOG, *OF_CAT}


def test_no_bound_with_one_indifferentiable_paraphrase() -> None:
    """If only one sentence has an indifferentiable paraphrase, it is drawn and no bound is claimed."""
    acceptance = _check(_fake(), Stub({(OF_DOG[1], CAT): "and"}))
    assert acceptance.accepted
    assert acceptance.bound is not None
    assert acceptance.bound.probability is None
    assert acceptance.values["fair_coin_or"] == 0


def test_a_refused_phrase_makes_a_paraphrase_differentiable() -> None:
    """An alignment with "asked" needs the oracle to confirm its phrases; one with "potential" does not."""
    table = {(OF_DOG[0], CAT): "and"}
    counts = {}
    for how in ("asked", "potential"):
        fake = _fake(phrases=lambda first, second: False)
        acceptance = _check(fake, Stub(table), indifferentiable=how, reference=False)
        counts[how] = (acceptance.values["indifferentiable_or"], len(fake.asked("phrases")))
    assert counts == {"asked": (0, 2), "potential": (1, 0)}


def test_both_kinds_share_tests_on_the_same_paraphrases() -> None:
    """phi_or and phi_and share a series of tests if and only if their paraphrases are the same."""
    fake = _fake()
    same = _check(fake, Stub({(OF_DOG[1], CAT): "and", (OF_CAT[0], DOG): "and"}), tests=2)
    assert len(fake.asked("sentences")) == 1 + 4
    assert same.values["tests_or"] == same.values["tests_and"] == 2
    fake = _fake()
    _check(fake, Stub({(OF_DOG[1], CAT): "and", (OF_CAT[0], DOG): "or"}), tests=2)
    assert len(fake.asked("sentences")) == 1 + 8


def test_both_kinds_are_judged_separately() -> None:
    """A case can be accepted with one kind of indifferentiable paraphrase and rejected with the other."""
    table = {(OF_DOG[0], CAT): "or", (OF_DOG[1], CAT): "and"}
    paraphrases = {DOG: OF_DOG, CAT: ()}
    judge = lambda first, second: perfect(first, second) or first == OF_DOG[1]  # noqa: E731
    for seed in range(20):
        acceptance = {
            phi: _check(_fake(judge, paraphrases), Stub(table), seed=seed, phi=phi) for phi in ("or", "and")
        }
        assert (acceptance["or"].values["phi"], acceptance["and"].values["phi"]) == (0, 1)
        assert acceptance["and"].values == {
            **acceptance["or"].values,
            "phi": 1.0,
            "accepted": acceptance["and"].values["accepted"],
            "accepted_paper": acceptance["and"].values["accepted_paper"],
        }
        assert acceptance["and"].values["trust_and"] == 2
        assert not acceptance["and"].accepted
        if acceptance["or"].accepted:
            return
    raise AssertionError("the differentiable paraphrase was never drawn")


def test_random_paraphrases_need_no_alignment() -> None:
    """With ``random`` only the pair itself is aligned, as a reference."""
    align = Stub({(DOG, CAT): "and"})
    acceptance = _check(_fake(), align, indifferentiable="random", reference=False)
    assert align.asked == []
    assert acceptance.accepted
    assert acceptance.values["category_or"] == 0
    assert "phi_or" not in acceptance.values
    acceptance = _check(_fake(), align, indifferentiable="random")
    assert align.asked == [frozenset((DOG, CAT))]
    assert acceptance.values["phi_and"] == 1


def test_reference_alignments() -> None:
    """A "no" is also aligned for table 3's reference columns; without them, only free results are
    recorded.
    """
    table = {(DOG, CAT): "and"}
    fake = _fake()
    with_it = _check(fake, Stub(table), indifferentiable="potential")
    assert with_it.values["phi_or"] == 1
    assert len(fake.asked("phrases")) == 2
    refused = _check(
        _fake(phrases=lambda *_: False), Stub(table), indifferentiable="potential", reference=True
    )
    assert refused.values["phi_or"] == 0
    assert refused.values["category_or"] == 3
    fake = _fake()
    without = _check(fake, Stub(table), indifferentiable="potential", reference=False)
    assert "phi_or" not in without.values
    assert without.values["potential_or"] == 1
    assert fake.asked("phrases") == []
    assert without.values["category_or"] == 3


def test_requests_of_a_no() -> None:
    """A "no" takes prompt 5, two of prompt 7, one paraphrase's phrases, one test and five alignments."""
    fake, align = _fake(), Stub({(OF_DOG[0], CAT): "and"})
    _check(fake, align)
    assert [kind for kind, _ in fake.log].count("paraphrases") == 2
    assert len(fake.asked("sentences")) == 3
    assert len(fake.asked("phrases")) == 2
    assert sorted(map(sorted, align.asked)) == sorted(
        map(sorted, [(DOG, CAT), *((x, CAT) for x in OF_DOG), *((y, DOG) for y in OF_CAT)])
    )


@pytest.mark.parametrize("reference", [True, False])
def test_an_unreadable_answer(reference: bool) -> None:
    """An answer that stays unreadable after repair is an outcome in itself, and is neither proved
    nor tested.
    """
    fake = _fake(lambda first, second: "Perhaps.")
    acceptance = _check(fake, Stub({(DOG, CAT): "and"}), reference=reference)
    assert not acceptance.accepted
    assert acceptance.outcome == "unreadable"
    assert "after one repair" in acceptance.why
    assert acceptance.values["said_yes"] == -1
    assert acceptance.values["repaired"] == 1
    assert ("phi_or" in acceptance.values) is reference
    assert fake.asked("paraphrases") == []
    assert acceptance.evidence["answer"] == "unreadable"


def test_a_refusal_of_a_content_filter() -> None:
    """A filtered answer is refused and not repaired."""
    chats: list[Chat] = []

    async def reply(chat: Chat) -> Reply:
        chats.append(chat)
        return Reply("", finish_reason="content_filter")

    checker = ParaphraseChecker(PARAPHRASE_QUICK, Stub())
    acceptance = asyncio.run(checker.check(PAIR, Oracle(reply), generator(0)))
    assert acceptance.outcome == "refused"
    assert len(chats) == 1


def test_fenced_and_repaired_answers_are_counted() -> None:
    """The record says whether the answer to prompt 5 was fenced or repaired."""
    acceptance = _check(_fake(lambda first, second: f"```json\n{answer(True)}\n```"))
    assert (acceptance.values["fenced"], acceptance.values["repaired"], acceptance.values["said_yes"]) == (
        1,
        0,
        1,
    )


def test_paraphrases_equal_to_their_source() -> None:
    """A paraphrase equal to its source is not drawn; if no other is left, nothing is tested or accepted."""
    paraphrases = {DOG: ["The dog slept quietly!", OF_DOG[0], OF_DOG[0]], CAT: OF_CAT}
    acceptance = _check(_fake(paraphrases=paraphrases))
    assert acceptance.values["paraphrases_1"] == 1
    assert acceptance.values["left_out_1"] == 2
    assert acceptance.values["left_out_2"] == 0
    nothing = _check(_fake(paraphrases={DOG: [DOG], CAT: [CAT]}))
    assert nothing.outcome == "untested"
    assert "no paraphrase is left" in nothing.why
    assert nothing.values["trust_or"] == nothing.values["trust_and"] == 5
    assert nothing.values["accepted_paper"] == 0


def test_unreadable_paraphrases_of_one_sentence() -> None:
    """If one sentence's paraphrases are unreadable, the other's are used, the problem is shown and no bound
    is claimed.
    """
    fake = FakeOracle(perfect, paraphrases=lambda s: "Sure!" if s == DOG else list(OF_CAT))
    acceptance = _check(fake)
    assert acceptance.accepted
    assert acceptance.values["paraphrases_1"] == 0
    assert acceptance.values["fair_coin_or"] == 0
    first, second = PairEvidence.from_json(acceptance.evidence).problems
    assert "not JSON" in first
    assert second == ""


def test_at_most_five_paraphrases() -> None:
    """Paraphrases beyond the requested number are ignored."""
    paraphrases = {DOG: [f"a dog slept {n}" for n in range(9)], CAT: OF_CAT}
    values = _check(_fake(lambda *_: False, paraphrases)).values
    assert values["paraphrases_1"] == 5
    assert values["left_out_1"] == 0
    assert _check(_fake(lambda *_: False, paraphrases), paraphrases=2).values["paraphrases_1"] == 2


def test_sentences_without_a_tree() -> None:
    """Without a tree, a "yes" is untested with that reason and a "no" is tested with a random paraphrase."""
    world = World({})
    yes = _check(_fake(lambda *_: True), world.align)
    assert yes.outcome == "untested"
    assert "the parser gave no tree" in yes.why
    assert yes.values["trees_missing"] == 1
    no = _check(_fake(), world.align)
    assert no.accepted
    assert no.values["category_or"] == 4
    assert no.values["trees_missing"] == 1


def test_one_word_sentences() -> None:
    """A one-word sentence has no phrase, but a phrase can be mapped onto it if it has a full stop."""
    said = (
        "(S (NP (PRP he)) (VP (VBD said) (SBAR (IN that) (S (NP (DT no) (NN one)) (VP (VBD came))))) (. .))"
    )
    world = World(
        {
            "Rain": ("(NP (NN Rain))", "rain"),
            "Drizzle": ("(NP (NN Drizzle))", "rain"),
            "No": ("(INTJ (UH No))", "no"),
            "No .": ("(S (INTJ (UH No)) (. .))", "no one"),
            "he said that no one came .": (said, "he say that no one come stop"),
        }
    )
    acceptance = _check(_fake(lambda *_: True), world.align, Pair("Rain", "Drizzle"))
    assert acceptance.outcome == "rejected"
    assert "s1: { Rain }, s2: { Drizzle }" in acceptance.why
    assert acceptance.values["label"] == -1
    no_match = _check(_fake(lambda *_: True), world.align, Pair("No", "he said that no one came ."))
    assert no_match.outcome == "rejected"
    assert no_match.values["potential_or"] == 0
    assert "s1: { No }" in no_match.why
    stopped = _check(_fake(lambda *_: True), world.align, Pair("No .", "he said that no one came ."))
    # Algorithm 1 excludes the root of the source sentence, but not that of the other one.
    assert stopped.outcome == "accepted-yes"
    proof = PairEvidence.from_json(stopped.evidence).proof
    assert proof is not None
    assert ("No .", "no one") in [(p.first, p.second) for p in proof.phrases if p.equivalent]
    assert (stopped.values["phi_or"], stopped.values["phi_and"]) == (1, 0)


def test_trees_and_vectors_of_a_world() -> None:
    """Trees and token vectors lead to an accepted "yes" without a table of alignments."""
    world = World(
        {
            DOG: (four_words(DOG), "the dog sleep quiet"),
            OF_DOG[0]: (four_words(OF_DOG[0]), "the dog sleep quiet"),
            CAT: (four_words(CAT), "the2 cat run away"),
        }
    )
    assert _check(_fake(), world.align, Pair(DOG, OF_DOG[0])).outcome == "accepted-yes"
    # All similarities to the cat are 0, so all are ties, and no parent is the match of a parent.
    assert _check(_fake(lambda *_: True), world.align).outcome == "rejected"


def test_backend_error_is_passed_through() -> None:
    """A BackendError is passed through and makes the case an error."""

    async def fails(first: str, second: str) -> Alignments:
        raise BackendError("parser down")

    with pytest.raises(BackendError, match="parser down"):
        _check(_fake(), fails)


def test_the_same_generator_gives_the_same_decision() -> None:
    """With the same oracle, the generator determines all decisions."""
    judge = lambda first, second: first == OF_DOG[0]  # noqa: E731
    first, second = (_check(_fake(judge), seed=3, tests=4) for _ in range(2))
    assert first == second


def test_values_are_flat_numbers() -> None:
    """All values are floats, and each one is in the table of paraphrase_record."""
    for judge in (perfect, lambda *_: True, lambda *_: "?"):
        values = _check(_fake(judge), Stub({(OF_DOG[0], CAT): "and"})).values
        assert all(type(value) is float for value in values.values())
        assert [name for name in values if f"``{name}``" not in (pair_evidence.__doc__ or "")] == []


@pytest.mark.parametrize(("name", "settings"), [("tests", {"tests": 0}), ("paraphrases", {"paraphrases": 0})])
def test_settings_need_a_test_and_a_paraphrase(name: str, settings: dict[str, Any]) -> None:
    """At least one test and one paraphrase are required."""
    with pytest.raises(ValueError, match=f"{name} must be at least 1"):
        ParaphraseSettings(**settings)


def test_quick_settings_make_fewer_requests() -> None:
    """The quick settings ask about no phrases of a "no"."""
    table = {(DOG, CAT): "and", **{(x, CAT): "and" for x in OF_DOG}}
    fakes = {}
    for name, settings in (("paper", PAPER), ("quick", PARAPHRASE_QUICK)):
        fakes[name] = _fake()
        asyncio.run(ParaphraseChecker(settings, Stub(table)).check(PAIR, fakes[name].oracle, generator(0)))
    assert len(fakes["paper"].asked("phrases")) == 6
    assert fakes["quick"].asked("phrases") == []


def test_self_consistency() -> None:
    """In the first sanity check five repeated answers, each its own sample, must agree and be readable."""
    fake = _fake()
    acceptance = asyncio.run(self_consistency(PAIR, fake.oracle))
    assert acceptance.accepted
    assert acceptance.outcome == "consistent"
    assert acceptance.why == "0 yes, 5 no in 5 askings"
    assert [chat.sample for chat in fake.chats] == [0, 1, 2, 3, 4]
    said = iter([True, True, False, True, True])
    acceptance = asyncio.run(self_consistency(PAIR, _fake(lambda *_: next(said)).oracle))
    assert acceptance.outcome == "inconsistent"
    assert acceptance.values["answers_yes"] == 4
    assert not asyncio.run(self_consistency(PAIR, _fake(lambda *_: "?").oracle)).accepted


def test_own_paraphrases() -> None:
    """The second sanity check asks about the first distinct paraphrase five times and proves it (table 4)."""
    fake = _fake(paraphrases={DOG: [DOG, *OF_DOG]})
    checker = ParaphraseChecker(PAPER, Stub({(DOG, OF_DOG[0]): "or"}))
    acceptance = asyncio.run(own_paraphrase(DOG, fake.oracle, checker))
    assert acceptance.accepted
    assert acceptance.evidence["paraphrase"] == OF_DOG[0]
    assert acceptance.evidence["answers"] == ["yes"] * 5
    assert fake.asked("sentences") == [(DOG, OF_DOG[0])] * 5
    assert acceptance.values["said_yes"] == acceptance.values["phi_or"] == 1
    assert acceptance.values["phi_and"] == 0
    nothing = asyncio.run(own_paraphrase(DOG, _fake(paraphrases={DOG: [DOG]}).oracle, checker))
    assert nothing.outcome == "untested"
    assert not nothing.accepted


@pytest.mark.parametrize(
    ("answers", "outcome", "consistent"),
    [
        ([False] * 5, "denied", 1),
        ([True] * 5, "consistent", 1),
        ([True] * 4 + [False], "inconsistent", 0),
        ([False] * 4 + [True], "inconsistent", 0),
        ([False, "eh", "eh", False, False, False], "unreadable", 0),
        ([False, "eh", "eh", False, True, False], "inconsistent", 0),
        (["eh"] * 10, "unreadable", 0),
    ],
)
def test_a_denied_paraphrase_is_not_accepted(
    answers: list[bool | str], outcome: str, consistent: int
) -> None:
    """Only five "yes" answers are accepted: five "no" answers are consistent, but deny the own paraphrase."""
    said = iter(answers)
    checker = ParaphraseChecker(PAPER, Stub())
    acceptance = asyncio.run(own_paraphrase(DOG, _fake(lambda *_: next(said)).oracle, checker))
    assert (acceptance.outcome, acceptance.accepted) == (outcome, outcome == "consistent")
    assert acceptance.values["consistent"] == consistent
    assert ("denies its own paraphrase" in acceptance.why) == (outcome == "denied")


def test_random_pairs() -> None:
    """The third sanity check aligns and tests different sentences, labelled not equivalent."""
    sentences = [*PARAPHRASES, *PARAPHRASES]
    pairs = random_pairs(sentences, generator(0), 20)
    assert len(pairs) == 20
    assert set(pairs) == {(DOG, CAT), (CAT, DOG)}
    checker = random_checker(PAPER, Stub())
    acceptance = asyncio.run(checker.check(Pair(*pairs[0], label=False), _fake().oracle, generator(0)))
    assert acceptance.accepted
    assert acceptance.values["phi_or"] == 0
    assert acceptance.values["asked_phrases"] == 0
    assert acceptance.values["category_or"] == 0
    with pytest.raises(ValueError, match="two different sentences"):
        random_pairs([DOG, DOG], generator(0), 1)
