"""The paraphrase checker and its proofs on oracles of known behaviour: decisions, requests, records and bad input."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping as Table
from collections.abc import Sequence
from typing import Any

import pytest
from scipy.stats import binomtest

from fixtures import known_oracles
from pytest_llmprops.benchmarks.oracle import pair_evidence
from pytest_llmprops.benchmarks.oracle.alignment import Alignments, PhrasePair
from pytest_llmprops.benchmarks.oracle.checker_benchmark import verdict_of
from pytest_llmprops.benchmarks.oracle.evaluation import Aligner
from pytest_llmprops.benchmarks.oracle.pair_evidence import (
    Pair,
    PairEvidence,
    PhraseEvidence,
    ProofEvidence,
    TrustTestEvidence,
)
from pytest_llmprops.benchmarks.oracle.paraphrase import ParaphraseChecker, Proof, prove
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Oracle
from pytest_llmprops.benchmarks.oracle.settings import QUICK, OracleSettings
from pytest_llmprops.benchmarks.oracle.tools.sentences import Helpers
from pytest_llmprops.core.errors import UsageError
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
    aligned,
    answer,
    between,
    parsed,
    perfect,
)

PROVABLE = {(DOG, CAT): "and"}
#: one aligned paraphrase of the first sentence
ONE_SIDED = {(OF_DOG[1], CAT): "and"}


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
    settings: OracleSettings | None = None,
    **more: Any,
) -> Acceptance:
    """Return the decision on a pair; ``align`` is a function, or a table for :class:`Stub`."""
    align = align if callable(align) else Stub(align)
    oracle = fake.oracle if isinstance(fake, FakeOracle) else fake
    checker = ParaphraseChecker(settings or OracleSettings(**more), align)
    return asyncio.run(checker.check(pair, oracle, generator(seed)))


def _proof_in(acceptance: Acceptance) -> ProofEvidence:
    proof = PairEvidence.from_json(acceptance.evidence).proof
    assert proof is not None
    return proof


# ---- proofs

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
    assert proof.rho.phi_and
    assert proof.refused == ()
    confirmed = tuple(PhraseEvidence(first, second, True) for first, second in (NOUNS, VERBS))
    assert proof.evidence == ProofEvidence(confirmed, ((), ()))


def test_a_refused_pair_breaks_the_proof() -> None:
    """Coverage is recomputed without the refused pair, and the failed proof shows the leftover words."""
    proof = _prove(_alignments(), FakeOracle(phrases=lambda first, second: first != "slept quietly"))
    assert proof.potential.rho.phi_and
    assert not proof.rho.phi_or
    assert proof.refused == (PhrasePair(*VERBS),)
    left = "left over: s1: { slept quietly }, s2: { softly rested }"
    assert proof.failure == f"{left}; 1 of 2 phrase pairs refused"
    assert proof.evidence.refused == (PhraseEvidence(*VERBS, False, "as it is"),)
    assert proof.evidence.leftovers == (("slept quietly",), ("softly rested",))


def test_larger_phrases_are_asked_about_once_after_a_refusal() -> None:
    """The phrase around a refused one can prove the pair; if it is refused, too, nothing more is asked."""
    words = parsed("(S (NP (NN v) (NN w)) (VP (VBD x) (NN y)) (ADVP (RB z)))")
    small, other, last, around = (between(span, span) for span in ((0, 2), (2, 4), (4, 5), (0, 4)))
    pairs = small, other, last
    found = Alignments(words, words, pairs, pairs, both=True, around=(around,))
    fake = FakeOracle(phrases=lambda one, two: one != "v w")
    assert _prove(found, fake).rho.phi_and
    assert [first for first, _ in fake.asked("phrases")] == ["v w", "x y", "z", "v w x y"]
    fake = FakeOracle(phrases=lambda one, two: "v w" not in one)
    proof = _prove(found, fake)
    assert not proof.rho.phi_or
    assert len(fake.log) == 4
    assert proof.confirmed.forward == (last,)


def test_every_question_about_builtin_pairs_has_a_label() -> None:
    """The labelled phrases are those that the default helpers ask about, whatever the answers are, and no others."""
    try:
        helpers = Helpers({"parse": None, "embed": None})
    except UsageError as missing:
        pytest.skip(str(missing))
    align = Aligner(helpers)

    async def questions(first: str, second: str) -> set[tuple[str, str]]:
        found = await align(first, second)
        asked = [*found.pairs(), *(found.pair_of(m, backward=False) for m in found.around)]
        return {(p.first, p.second) for p in asked if p.first.casefold() != p.second.casefold()}

    try:
        for item in known_oracles.pairs_of():
            labelled = {*known_oracles.phrases().get(item.id.rpartition("/")[2], ())}
            assert asyncio.run(questions(item["first"], item["second"])) == labelled, item.id
    finally:
        helpers.close()


def test_refused_pair_covered_by_others_is_not_needed() -> None:
    """A refused pair inside another is not needed, and the sentence is still covered."""
    fake = FakeOracle(phrases=lambda one, two: one != "b c")
    proof = _prove(Alignments(ABCD, ABCD, (*HALVES, MIDDLE), ()), fake)
    assert len(fake.log) == 3
    assert proof.rho.forward
    assert not proof.rho.phi_and
    assert [p.first for p in proof.evidence.confirmed] == ["a b", "c d"]


def test_nothing_is_asked_without_a_potential_alignment() -> None:
    """If words are left over before any request, the proof fails without one (439 of 500 random pairs did)."""
    fake = FakeOracle()
    proof = _prove(_alignments().without([PhrasePair(*VERBS)]), fake)
    assert fake.log == []
    assert not proof.rho.phi_or
    assert proof.failure == "left over: s1: { slept quietly }, s2: { softly rested }"


def test_pairs_of_an_uncovered_direction_are_not_asked() -> None:
    """No pair is asked for a direction that is not covered."""
    fake = FakeOracle()
    proof = _prove(Alignments(ABCD, ABCD, HALVES, (MIDDLE,)), fake)
    assert fake.asked("phrases") == [("a b", "a b"), ("c d", "c d")]
    assert proof.rho.phi_or
    assert not proof.rho.phi_and
    assert (proof.values["phrase_pairs"], proof.values["asked_phrases"]) == (3, 2)


def test_identical_phrases_can_be_skipped() -> None:
    """With ``ask_identical`` off, only phrases that differ are asked about."""
    second, fake = parsed("(S (NP (DT A) (NN b)) (VP (V e) (N f)))"), FakeOracle()
    proof = _prove(Alignments(ABCD, second, HALVES, HALVES), fake, ask_identical=False)
    assert proof.rho.phi_and
    assert fake.asked("phrases") == [("c d", "e f")]
    assert [(p.first, p.asked) for p in proof.evidence.phrases] == [("c d", True), ("a b", False)]


def test_an_unreadable_answer_confirms_nothing() -> None:
    """A reply without an answer even after repair counts as refused and as unreadable."""
    fake = FakeOracle(phrases=lambda first, second: "well, perhaps")
    proof = _prove(_alignments(), fake)
    assert len(fake.asked("phrases")) == 4
    assert not proof.rho.phi_or
    assert proof.values["refused_phrases"] == proof.values["unreadable_phrases"] == 2
    assert all(p.equivalent is None and "no JSON object" in p.why for p in proof.evidence.refused)


@pytest.mark.parametrize("said", [True, False])
def test_values_of_a_proof(said: bool) -> None:
    """All values are floats, and potential and confirmed values are separate."""
    values = _prove(_alignments(), FakeOracle(phrases=lambda first, second: said)).values
    assert all(isinstance(value, float) for value in values.values())
    assert values["potential_or"] == values["potential_and"] == 1
    assert values["phrase_pairs"] == 2
    for name in ("phi_or", "phi_and"):
        assert values[name] == float(said)
    assert values["leftover_1"] == values["leftover_2"] == float(not said)


# ---- answers of yes


def test_a_proved_yes_is_accepted() -> None:
    """An aligned "yes" with confirmed phrases is accepted, with the phrase pairs as evidence."""
    fake = _fake(_yes)
    acceptance = _check(fake, PROVABLE)
    assert (acceptance.accepted, acceptance.outcome, acceptance.bound) == (True, "accepted-yes", None)
    assert "2 phrase pairs" in acceptance.why
    phrases = [("the dog", "the cat"), ("slept quietly", "ran away")]
    assert [(p.first, p.second) for p in _proof_in(acceptance).confirmed] == phrases
    assert {"said_yes": 1, "accepted": 1, "accepted_paper": 1}.items() <= acceptance.values.items()
    assert fake.asked("paraphrases") == []


def test_an_unaligned_yes_is_rejected() -> None:
    """An unaligned "yes" is rejected with its leftover words and without further requests."""
    fake = _fake(_yes)
    acceptance = _check(fake)
    assert (acceptance.accepted, acceptance.outcome) == (False, "rejected")
    assert "s1: { the dog slept quietly }, s2: { the cat ran away }" in acceptance.why
    assert fake.log == [("sentences", (DOG, CAT))]
    assert acceptance.values["said_yes"] == 1
    assert not any(name.startswith("trust") for name in acceptance.values)


def test_a_yes_whose_phrases_are_refused_is_rejected() -> None:
    """A "yes" whose proof needs a phrase pair that the oracle refuses is rejected, and the pair is shown."""
    acceptance = _check(_fake(_yes, phrases=lambda first, second: first == "the dog"), PROVABLE)
    assert acceptance.outcome == "rejected"
    assert "1 of 2 phrase pairs refused" in acceptance.why
    assert [(p.first, p.second) for p in _proof_in(acceptance).refused] == [("slept quietly", "ran away")]
    assert (acceptance.values["potential_or"], acceptance.values["phi_or"]) == (1, 0)


@pytest.mark.parametrize(
    ("phrase", "outcome"),
    [
        ({"the dog": "hm"}, "unreadable"),
        ({"the dog": "hm", "slept quietly": "hm"}, "unreadable"),
        ({"the dog": "hm", "slept quietly": False}, "rejected"),
        ({"the dog": False, "slept quietly": False}, "rejected"),
    ],
)
def test_yes_that_depends_on_an_unreadable_reply(phrase: dict[str, Any], outcome: str) -> None:
    """A "yes" is undecided if an unreadable reply about phrases could prove it, and rejected otherwise."""
    acceptance = _check(_fake(_yes, phrases=lambda first, _: phrase.get(first, True)), {(DOG, CAT): "or"})
    is_open = outcome == "unreadable"
    assert (acceptance.outcome, acceptance.accepted) == (outcome, False)
    assert acceptance.values["undecided_or"] == is_open
    assert verdict_of(acceptance).status == ("unparsed" if is_open else "wrong")
    assert ("answers about phrases cannot be read" in acceptance.why) == is_open


# ---- answers of no


@pytest.mark.parametrize(
    ("table", "probability"),
    [
        ({}, 0.5),
        ({(OF_DOG[0], CAT): "and", (OF_CAT[1], DOG): "or"}, 0.5),
    ],
)
def test_no_of_a_perfect_judge_is_accepted(
    table: dict[tuple[str, str], str], probability: float | None
) -> None:
    """A "no" that passes every test is accepted with the bound, unless the coin has no choice between sentences."""
    for seed in range(10):
        acceptance = _check(_fake(), table, seed=seed, alignment="covering")
        assert (acceptance.accepted, acceptance.outcome) == (True, "accepted-no"), acceptance.why
        assert acceptance.bound is not None
        assert acceptance.bound.probability == probability
        assert acceptance.values["fair_coin_or"] == (probability is not None)


def test_triangular_evidence() -> None:
    """A "no" with a paraphrase equivalent to both is rejected under both rules, with all three texts."""
    fake = _fake(lambda first, second: (first, second) != (DOG, CAT))
    acceptance = _check(fake, {(OF_DOG[0], CAT): "and"})
    assert (acceptance.outcome, acceptance.bound) == ("rejected", None)
    assert "triangular evidence" in acceptance.why
    assert {"trust_or": 2, "accepted_paper": 0}.items() <= acceptance.values.items()
    shown = PairEvidence.from_json(acceptance.evidence)
    assert (shown.first, shown.second, shown.answer, shown.trust) == (DOG, CAT, "no", "triangular")
    assert shown.tests == (TrustTestEvidence("triangular", 1, OF_DOG[0], "yes", "yes"),)


def test_constant_no() -> None:
    """A constant "no" denies its own paraphrases and is rejected; as printed, it is accepted, but without a bound."""
    constant = _fake(lambda first, second: False)
    acceptance = _check(constant, alignment="covering")
    assert acceptance.outcome == "rejected"
    assert "self-inconsistent" in acceptance.why
    assert {"trust_or": 3, "accepted_paper": 1, "accepted": 0}.items() <= acceptance.values.items()
    printed = _check(constant, alignment="printed")
    assert (printed.outcome, printed.accepted) == ("accepted-no", True)
    assert printed.why.startswith("no, and passed 0 of 1 tests")
    assert printed.why.endswith("; no triangular evidence")
    assert printed.bound is not None
    assert printed.bound.probability is None
    assert {"trust_or": 3, "accepted_paper": 1, "accepted": 1}.items() <= printed.values.items()


def test_a_fair_coin_is_rarely_accepted() -> None:
    """Random "no" answers pass a test with probability 1/4, and a random "yes" on unaligned sentences never does."""
    rng, trials = generator("coin"), 800
    checker = ParaphraseChecker(QUICK, Stub(), is_random=True)

    async def run() -> int:
        fake = _fake(lambda first, second: rng.random() < 0.5)
        return sum([bool(await checker.check(PAIR, fake.oracle, generator(n))) for n in range(trials)])

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
@pytest.mark.parametrize("phrases", ["all", "needed"])
def test_categories(table: dict[tuple[str, str], str], by_or: int, by_and: int, phrases: str) -> None:
    """The categories of table 5 are determined separately for both kinds of alignment."""
    acceptance = _check(_fake(), table, phrases=phrases)
    assert (acceptance.values["category_or"], acceptance.values["category_and"]) == (by_or, by_and)


@pytest.mark.parametrize(
    ("table", "drawn"),
    [({**ONE_SIDED, (OF_CAT[0], DOG): "and"}, {OF_DOG[1], OF_CAT[0]}), ({}, {*OF_DOG, *OF_CAT})],
)
def test_indifferentiable_paraphrases_are_preferred(
    table: dict[tuple[str, str], str], drawn: set[str]
) -> None:
    """Only aligned paraphrases are drawn; if there is none, any paraphrase."""
    seen = set()
    for seed in range(40):
        fake = _fake()
        acceptance = _check(fake, table, seed=seed)
        seen |= {first for first, _ in fake.asked("sentences")[1:]}
        assert acceptance.values["fair_coin_or"] == 1
        assert acceptance.values["indifferentiable_or"] == len(table)
    assert seen == drawn


@pytest.mark.parametrize(("phrases", "counts"), [("all", (0, 2)), ("needed", (1, 0))])
def test_a_refused_phrase_makes_a_paraphrase_differentiable(phrases: str, counts: tuple[int, int]) -> None:
    """With ``all``, the oracle confirms the phrases of a paraphrase's alignment; with ``needed``, nothing is asked."""
    fake = _fake(phrases=lambda first, second: False)
    acceptance = _check(fake, {(OF_DOG[0], CAT): "and"}, phrases=phrases)
    assert (acceptance.values["indifferentiable_or"], len(fake.asked("phrases"))) == counts


@pytest.mark.parametrize(("kind", "asked"), [("and", 2), ("or", 4)])
def test_both_kinds_share_tests_on_the_same_paraphrases(kind: str, asked: int) -> None:
    """phi_or and phi_and share a series of tests if and only if their paraphrases are the same."""
    fake = _fake()
    acceptance = _check(fake, {**ONE_SIDED, (OF_CAT[0], DOG): kind})
    assert len(fake.asked("sentences")) == 1 + asked
    assert acceptance.values["tests_or"] == acceptance.values["tests_and"] == 1


def test_random_paraphrases_need_no_alignment() -> None:
    """For random pairs, only the pair itself is aligned, as a reference."""
    align = Stub(PROVABLE)
    checker = ParaphraseChecker(QUICK, align, is_random=True)
    acceptance = asyncio.run(checker.check(PAIR, _fake().oracle, generator(0)))
    assert align.asked == [frozenset((DOG, CAT))]
    assert acceptance.accepted
    assert acceptance.values["category_or"] == 0
    assert acceptance.values["phi_and"] == 1


@pytest.mark.parametrize(
    ("confirms", "phrases", "phi", "asked", "category"),
    [(True, "all", 1, 2, 3), (False, "all", 0, 2, 4), (True, "needed", None, 0, 3)],
)
def test_reference_alignments(
    confirms: bool, phrases: str, phi: int | None, asked: int, category: int
) -> None:
    """A "no" is also aligned for table 3's reference columns; without them, only free results are recorded."""
    fake = _fake(phrases=lambda *_: confirms)
    values = _check(fake, PROVABLE, phrases=phrases).values
    assert values.get("phi_or") == phi
    assert (values["potential_or"], values["category_or"]) == (1, category)
    assert len(fake.asked("phrases")) == asked


def test_requests_of_a_no() -> None:
    """A "no" takes prompt 5, two of prompt 7, one paraphrase's phrases, one test and five alignments."""
    fake, align = _fake(), Stub({(OF_DOG[0], CAT): "and"})
    _check(fake, align)
    assert Counter(kind for kind, _ in fake.log) == {"paraphrases": 2, "sentences": 3, "phrases": 2}
    asked = {(DOG, CAT), *((x, CAT) for x in OF_DOG), *((y, DOG) for y in OF_CAT)}
    assert Counter(align.asked) == Counter(map(frozenset, asked))


# ---- replies that cannot be read


@pytest.mark.parametrize("phrases", ["all", "needed"])
def test_an_unreadable_answer(phrases: str) -> None:
    """An answer that stays unreadable after repair is an outcome in itself, and is neither proved nor tested."""
    fake = _fake(lambda first, second: "Perhaps.")
    acceptance = _check(fake, PROVABLE, phrases=phrases)
    assert (acceptance.accepted, acceptance.outcome) == (False, "unreadable")
    assert "after one repair" in acceptance.why
    assert (acceptance.values["said_yes"], acceptance.values["repaired"]) == (-1, 1)
    assert ("phi_or" in acceptance.values) is (phrases == "all")
    assert fake.asked("paraphrases") == []
    assert acceptance.evidence["answer"] == "unreadable"
    assert acceptance.evidence["read_by"] == "it has no JSON object and no clear yes or no after a repair"


def test_repaired_answers_are_counted() -> None:
    """The record says whether the answer to prompt 5 was repaired."""
    acceptance = _check(_fake(lambda first, second: f"```json\n{answer(True)}\n```"))
    assert {"repaired": 0, "said_yes": 1}.items() <= acceptance.values.items()


def test_no_with_an_unreadable_test() -> None:
    """A "no" whose test cannot be read is undecided, not rejected."""
    acceptance = _check(_fake(lambda first, second: False if (first, second) == (DOG, CAT) else "hm"))
    assert acceptance.outcome == "unreadable"
    assert "an answer of the test cannot be read" in acceptance.why
    assert verdict_of(acceptance).status == "unparsed"


def test_no_without_paraphrases_gives_the_reason() -> None:
    """If no paraphrases can be read, the "no" is untested, and the reason is not that they repeat the sentence."""
    acceptance = _check(FakeOracle(lambda *_: False, paraphrases=lambda _: "Sure!"))
    assert acceptance.outcome == "untested"
    assert "no JSON and no list" in acceptance.why
    assert verdict_of(acceptance).status == "untested"


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

    table = PROVABLE if stage == "phrases" else None
    acceptance = _check(Oracle(ask), table, phrases="needed")
    assert acceptance.outcome == verdict_of(acceptance).status == "refused"


@pytest.mark.parametrize("equivalent", [True, False])
def test_unreadable_replies_never_make_a_perfect_judge_wrong(equivalent: bool) -> None:
    """With 30% unreadable replies, a perfect judge loses decisions, but none of its answers is wrong."""
    statuses: Counter[str] = Counter()
    for seed in range(60):
        rng, fake = random.Random(seed), _fake(lambda a, b: equivalent or perfect(a, b))

        async def ask(chat: Chat, rng: random.Random = rng, oracle: Oracle = fake.oracle) -> Reply:
            reply = await oracle(chat.messages, sample=chat.sample)
            return Reply('{"answer": "yes or no"}', reply.finish_reason) if rng.random() < 0.3 else reply

        acceptance = _check(Oracle(ask), PROVABLE if equivalent else None, seed=seed)
        statuses[verdict_of(acceptance).status] += 1
    assert set(statuses) == {"correct", "unparsed"}
    assert statuses["unparsed"] > 8


# ---- the source of a test


def test_even_source_is_drawn_from_both_sentences() -> None:
    """If only one sentence has an indifferentiable paraphrase, the coin is still fair, and the bound holds."""
    drawn: Counter[str] = Counter()
    for seed in range(120):
        fake = _fake()
        acceptance = _check(fake, ONE_SIDED, seed=seed, alignment="covering")
        assert acceptance.accepted
        assert acceptance.values["fair_coin_or"] == 1
        assert acceptance.bound is not None
        assert acceptance.bound.probability == 0.5
        paraphrase = fake.asked("sentences")[1][0]
        drawn[paraphrase] += 1
        # I of table 5: the paraphrase that is asked about is indifferentiable.
        assert acceptance.values["category_or"] == (2 if paraphrase == OF_DOG[1] else 4)
    assert set(drawn) == {OF_DOG[1], *OF_CAT}
    assert binomtest(drawn[OF_DOG[1]], 120, 0.5).pvalue > 0.001


# ---- paraphrases


def test_paraphrases_equal_to_their_source() -> None:
    """A paraphrase equal to its source is not drawn; if no other is left, nothing is tested or accepted."""
    paraphrases = {DOG: ["The dog slept quietly!", OF_DOG[0], OF_DOG[0]], CAT: OF_CAT}
    values = _check(_fake(paraphrases=paraphrases)).values
    assert {"paraphrases_1": 1, "left_out_1": 2, "left_out_2": 0}.items() <= values.items()
    nothing = _check(_fake(paraphrases={DOG: [DOG], CAT: [CAT]}))
    assert nothing.outcome == "untested"
    assert "no paraphrase differs enough" in nothing.why
    assert {"trust_or": 5, "trust_and": 5, "accepted_paper": 0}.items() <= nothing.values.items()


def test_unreadable_paraphrases_of_one_sentence() -> None:
    """If one sentence's paraphrases are unreadable, the other's are used, the problem is shown, without a bound."""
    acceptance = _check(FakeOracle(perfect, paraphrases=lambda s: "Sure!" if s == DOG else list(OF_CAT)))
    assert acceptance.accepted
    assert {"paraphrases_1": 0, "fair_coin_or": 0}.items() <= acceptance.values.items()
    first, second = PairEvidence.from_json(acceptance.evidence).problems
    assert "no JSON and no list" in first
    assert second == ""


def test_at_most_five_paraphrases() -> None:
    """Paraphrases beyond the requested number are ignored."""
    fake = _fake(lambda *_: False, {DOG: [f"a dog slept {n}" for n in range(9)], CAT: OF_CAT})
    assert {"paraphrases_1": 5, "left_out_1": 0}.items() <= _check(fake).values.items()


# ---- trees


def test_sentences_without_a_tree() -> None:
    """Without a tree, a "yes" is untested with that reason and a "no" is tested with a random paraphrase."""
    yes, no = (_check(_fake(judge), World({}).align) for judge in (_yes, perfect))
    assert yes.outcome == "untested"
    assert "the parser gave no tree" in yes.why
    assert no.accepted
    assert no.values["category_or"] == 4
    assert yes.values["trees_missing"] == no.values["trees_missing"] == 1


def test_one_word_sentences() -> None:
    """A one-word sentence has no phrase, but a phrase can be mapped onto it if it has a full stop."""
    said = "he said that no one came ."
    world = World(
        {
            "Rain": ("(NP (NN Rain))", "rain"),
            "Drizzle": ("(NP (NN Drizzle))", "rain"),
            "No": ("(INTJ (UH No))", "no"),
            "No .": ("(S (INTJ (UH No)) (. .))", "no one"),
            said: (
                "(S (NP (PRP he)) (VP (VBD said) (SBAR (IN that) (S (NP (DT no) (NN one)) (VP (VBD came))))) (. .))",
                "he say that no one come stop",
            ),
        }
    )
    rain, no, stopped = (
        _check(_fake(_yes), world.align, Pair(*pair))
        for pair in (("Rain", "Drizzle"), ("No", said), ("No .", said))
    )
    assert rain.outcome == no.outcome == "rejected"
    assert "s1: { Rain }, s2: { Drizzle }" in rain.why
    assert rain.values["label"] == -1
    assert no.values["potential_or"] == 0
    assert "s1: { No }" in no.why
    # Algorithm 1 excludes the root of the source sentence, but not that of the other one.
    assert stopped.outcome == "accepted-yes"
    assert ("No .", "no one") in [(p.first, p.second) for p in _proof_in(stopped).phrases if p.equivalent]
    assert (stopped.values["phi_or"], stopped.values["phi_and"]) == (1, 0)


# ---- settings and values


def test_the_same_generator_gives_the_same_decision() -> None:
    """With the same oracle, the generator determines all decisions."""
    judge = lambda first, second: first == OF_DOG[0]  # noqa: E731
    first, second = (_check(_fake(judge), seed=3) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("judge", [perfect, _yes, lambda *_: "?"], ids=["perfect", "yes", "unreadable"])
def test_values_are_flat_numbers(judge: Any) -> None:
    """All values are floats, and each one is in the table of ``pair_evidence``."""
    values = _check(_fake(judge), {(OF_DOG[0], CAT): "and"}).values
    assert all(type(value) is float for value in values.values())
    assert [name for name in values if f"``{name}``" not in (pair_evidence.__doc__ or "")] == []
