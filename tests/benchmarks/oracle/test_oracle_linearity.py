"""The linearity checker on extractors of known behaviour."""

from __future__ import annotations

import asyncio
import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from pytest_llmprops.benchmarks.oracle.extraction import contains_words, normalised
from pytest_llmprops.benchmarks.oracle.linear_tests import Answers, linear_at
from pytest_llmprops.benchmarks.oracle.linearity import LinearityChecker, Sentence
from pytest_llmprops.benchmarks.oracle.linearity_evidence import SentenceEvidence
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Oracle
from pytest_llmprops.benchmarks.oracle.settings import LINEARITY_QUICK, PAPER, LinearitySettings, bound_of
from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.linearity import (
    complement,
    failure_bound,
    rejection_bound,
)
from pytest_llmprops.core.requests import PLANNED, Chat, Reply
from tests.support.linear_functions import distance_to_homomorphisms, failure_rate
from tests.support.oracle_fakes import (
    ENTITIES,
    POOL,
    RULES,
    SENTENCE,
    SMALL_POOL,
    Fake,
    check,
    listed,
    names_of,
    present,
    sentence_in,
)

RULES_OF_DECISION = ("any", "majority", "single")


def a_rate(acceptance: Acceptance) -> float:
    """Return the share of passing combinations."""
    return acceptance.values["combinations_passed"] / acceptance.values["combinations"]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(0, 10_000), st.sampled_from(RULES_OF_DECISION))
def test_ideal_extractor_is_always_accepted(m: int, seed: int, rule: str) -> None:
    """An ideal extractor passes every test in every combination and is always faithful."""
    acceptance = check(Fake(lambda x, _: present(x, m), m), seed, rule=rule, samples=3)
    values = acceptance.values
    assert acceptance.accepted
    assert acceptance.outcome == "accepted"
    assert acceptance.why.startswith("5 of 5 tests passed")
    assert values["tests_passed"] == values["tests"] == 5
    assert values["combinations"] == 5 * 27
    assert a_rate(acceptance) == 1
    assert values["identity"] == values["sentences"]
    assert values["linear_not_faithful"] == (values["changed"] == 0)
    assert values["lost"] == values["both"] == values["extra"] == 0
    assert values["entities"] == values["tested"] == values["named"] == m
    assert values["con_o"] == values["con_rs"] == 3
    assert values["unread"] == 0


#: tables f(x) of three entities with f(0) = 111, by their distance from every homomorphism
FAR: dict[float, list[int]] = {}
for flips in ({1: 0b101}, {1: 0b101, 6: 0b101}, {1: 0b001, 6: 0b010, 3: 0b111}):
    table = [complement(x, 3) ^ flips.get(x, 0) for x in range(8)]
    FAR[len(flips) / 8] = table


@pytest.mark.simulation
@pytest.mark.parametrize("epsilon", sorted(FAR))
def test_far_extractors_fail_as_often_as_the_theorem_says(epsilon: float) -> None:
    """Extractors at a verified distance fail tests and measurements at the expected rate."""
    table = FAR[epsilon]
    assert distance_to_homomorphisms(table, 3) == epsilon
    # 1,000 tests: a rate 7 points off is found with probability 0.9
    n = 200
    results = [
        check(Fake(lambda x, _: names_of(table[x], 3)), seed, rule="single", samples=1) for seed in range(n)
    ]
    failed = sum(5 - int(result.values["tests_passed"]) for result in results)
    assert binomtest(failed, 5 * n, failure_bound(epsilon), alternative="less").pvalue > 0.001
    assert binomtest(failed, 5 * n, failure_rate(table, 3)).pvalue > 0.001
    rejected = sum(not result.accepted for result in results)
    assert binomtest(rejected, n, rejection_bound(epsilon, 5), alternative="less").pvalue > 0.001
    assert binomtest(rejected, n, 1 - (1 - failure_rate(table, 3)) ** 5).pvalue > 0.001


@pytest.mark.simulation
@pytest.mark.parametrize("rule", RULES_OF_DECISION)
def test_rules_agree_on_a_deterministic_extractor(rule: str) -> None:
    """If all samples are equal, every rule decides a sentence the same way, for any f."""
    table = FAR[0.375]
    for seed in range(20):
        first = check(Fake(lambda x, _: names_of(table[x], 3)), seed, rule="single", samples=1)
        other = check(Fake(lambda x, _: names_of(table[x], 3)), seed, rule=rule, samples=4)
        assert other.accepted == first.accepted
        assert a_rate(other) == a_rate(first)


@pytest.mark.simulation
def test_inseparable_entities_are_rejected_and_named() -> None:
    """Two entities extracted only together fail as often as expected and are the only culprits."""

    def together(x: int, sample: int) -> list[str]:
        names = present(x)
        return names if (x & 1) == (x >> 1 & 1) else names[2:]

    u = [complement(x, 3) | (0 if (x & 1) == (x >> 1 & 1) else 0b011) for x in range(8)]
    n = 200
    results = [check(Fake(together), seed) for seed in range(n)]
    rejected = [result for result in results if not result.accepted]
    assert binomtest(len(rejected), n, 1 - (1 - failure_rate(u, 3)) ** 5).pvalue > 0.001
    for result in rejected:
        assert result.values["linear_not_faithful"] == 0 < result.values["identity"]
        assert '"Adriana"' in result.why
        assert '"Lisbon"' in result.why
        assert '"Kenya"' not in result.why
    culprits = [SentenceEvidence.from_json(result.evidence).culprits for result in rejected]
    kinds = [{kind for culprit in some for kind in culprit.kinds} for some in culprits]
    assert sum("assumed knowledge" in some for some in kinds) > 0.9 * len(kinds)


@pytest.mark.simulation
@pytest.mark.parametrize("p", [0.1, 0.35])
def test_a_rate_follows_the_dropping_probability(p: float) -> None:
    """If an extractor drops one entity with probability p, A_rate has the expectation derived from p.

    f's bit of the entity is wrong only in a sentence with its synonym. Therefore two of the three
    sentences of a test must agree on it, or none has the synonym (one test in four). Two sentences agree
    with probability q = p^2 + (1 - p)^2, equal sentences too, because each is asked about afresh.
    """
    n = 200
    q = p * p + (1 - p) ** 2
    expected = 1 / 4 + 3 / 4 * q
    rates = []
    for seed in range(n):
        rng = random.Random(-1 - seed)

        def dropping(x: int, sample: int, rng: random.Random = rng) -> list[str]:
            return present(x)[1:] if x and rng.random() < p else present(x)

        rates.append(a_rate(check(Fake(dropping), seed, samples=6)))
    mean = math.fsum(rates) / n
    error = math.sqrt(math.fsum((r - mean) ** 2 for r in rates) / (n - 1) / n)
    assert error < 0.01
    assert abs(mean - expected) < 3.5 * error


def nothing_after_first() -> Any:
    """Extract everything from the original sentence and nothing from any other."""
    return lambda x, _: present(0) if x == 0 else []


def always_the_same() -> Any:
    """Extract the original's entities from any sentence."""
    return lambda x, _: present(0)


def swapping() -> Any:
    """Swap the first two entities: return the synonym of one if the other is replaced."""
    return lambda x, _: present(x & 4 | (x & 1) << 1 | x >> 1 & 1)


@pytest.mark.simulation
@pytest.mark.parametrize("rule", RULES_OF_DECISION)
@pytest.mark.parametrize("make", [nothing_after_first, always_the_same, swapping])
def test_linear_but_not_faithful(make: Any, rule: str) -> None:
    """Maps that are linear but not faithful are accepted by the rule and labelled as unfaithful."""
    labelled = 0
    for seed in range(30):
        acceptance = check(Fake(make()), seed, rule=rule, samples=3)
        assert acceptance.accepted
        assert a_rate(acceptance) == 1
        faithful = acceptance.values["identity"] == acceptance.values["sentences"]
        assert acceptance.values["linear_not_faithful"] == (not faithful)
        assert ("linear, not faithful" in acceptance.why) == (not faithful)
        labelled += not faithful
    # It is rare to draw vectors on which such a map is the complement.
    assert labelled >= 28


def test_lost_duplicate_and_extra_entities_are_counted() -> None:
    """Lost entities, entities in both forms and extra names are counted over the askings of changed sentences."""
    fake = Fake(nothing_after_first())
    empty = check(fake, 3)
    vectors = [fake.vector(text) for text, _ in fake.asked[::11]]
    other = len(vectors) - vectors.count(0)
    assert 0 < other < 15
    assert empty.values["lost"] == 3 * other
    assert empty.values["both"] == 0
    twice = check(Fake(lambda x, _: present(x) if x == 0 else [*present(x), "Adriana", "Ghost", "Echo"]), 3)
    assert twice.values["extra"] == 2 * other
    assert twice.values["both"] == sum(x & 1 for x in vectors)


@pytest.mark.simulation
def test_extractor_that_changes_its_answer() -> None:
    """If every other reply to a changed sentence is empty, ``any`` accepts without a bound.

    Half of the combinations pass or fail as counted; ``single`` and ``majority`` use only the replies that
    decide for them.
    """

    def wavering(x: int, sample: int) -> list[str]:
        return present(x) if x == 0 or sample % 2 == 0 else []

    def random_mind(x: int, sample: int) -> list[str]:
        return present(x) if x == 0 or rng.random() < 0.5 else present(x)[:1]

    acceptance = check(Fake(wavering), 5)
    assert acceptance.accepted
    assert acceptance.values["linear_not_faithful"] == 0
    assert acceptance.bound is not None
    assert acceptance.bound.probability is None
    assert acceptance.values["con_o"] == 11
    assert acceptance.values["con_rs"] == 6
    assert 0.3 < a_rate(acceptance) < 0.9
    rng = random.Random(11)
    results = {
        rule: [check(Fake(random_mind), seed, rule=rule, samples=5) for seed in range(40)]
        for rule in RULES_OF_DECISION
    }
    share = {rule: sum(map(bool, acceptance)) / 40 for rule, acceptance in results.items()}
    assert share["any"] > 0.8 > 0.5 > share["single"]
    assert share["any"] > share["majority"]


def test_paper_protocol_makes_165_requests() -> None:
    """The original and each of fifteen transformed sentences get eleven requests each, and none is repeated."""
    for seed in range(6):
        fake = Fake(lambda x, _: present(x, 5), 5)
        check(fake, seed)
        assert len(fake.asked) == len(set(fake.asked)) == 11 + 165


def test_all_requests_of_the_tests_are_sent_at_once() -> None:
    """All requests about transformed sentences are sent before the first answer is read."""

    async def run() -> Acceptance:
        most = flying = 0

        async def ask(chat: Chat) -> Reply:
            text = sentence_in(chat)
            if text != SENTENCE:
                nonlocal most, flying
                flying += 1
                most = max(most, flying)
                await asyncio.sleep(0.01)
                flying -= 1
            return Reply(listed(present(fake.vector(text))))

        fake = Fake(lambda x, _: present(x))
        checker = LinearityChecker(PAPER, RULES, SMALL_POOL)
        acceptance = await checker.check(SENTENCE, Oracle(ask), random.Random(1))
        # number of distinct sentences, without the original if some vector is 0
        assert most % 11 == 0
        assert most >= 11 * (acceptance.values["sentences"] - 1)
        return acceptance

    assert asyncio.run(run()).accepted


def test_same_seed_same_measurement() -> None:
    """A measurement depends only on the seed and the replies, and the tests do not depend on the entities."""
    one, two = Fake(lambda x, _: present(x)), Fake(lambda x, _: present(x))
    assert check(one, 9) == check(two, 9)
    assert one.asked == two.asked
    assert check(Fake(lambda x, _: present(x)), 10) != check(one, 9)


def test_empty_answers_are_accepted_and_counted_separately() -> None:
    """An empty answer is accepted without tests or a bound, and counted separately."""
    acceptance = check(Fake(lambda x, _: []))
    assert acceptance.accepted
    assert acceptance.outcome == "accepted"
    assert "no entities" in acceptance.why
    assert acceptance.values["no_entities"] == 1
    assert acceptance.values["entities"] == 0
    assert acceptance.bound is None
    assert "tests" not in acceptance.values


def test_more_than_twelve_entities_are_unmeasurable() -> None:
    """Thirteen entities are refused with their number before any test or synonym request; twelve
    are tested.
    """
    sentence = "alder birch cedar dogwood elm fir ginkgo hazel ivy juniper larch maple nutmeg"
    words = sentence.split()
    prompts: list[str] = []

    def extractor(count: int) -> Any:
        async def ask(chat: Chat) -> Reply:
            prompts.append(chat.prompt)
            if "list synonyms" in chat.prompt:
                return Reply("1. " + chat.prompt.split('"')[1][::-1])
            text = sentence_in(chat)
            return Reply(
                "\n".join(f"- {w}" for w in words[:count] for w in (w, w[::-1]) if w in text.split())
            )

        return ask

    acceptance = check(extractor(13), sentence=sentence)
    assert acceptance.outcome == "unmeasurable"
    assert not acceptance.accepted
    assert acceptance.why == "13 entities, and at most 12 can be tested"
    assert acceptance.values["unmeasurable"] == 1
    assert acceptance.values["entities"] == 13
    assert acceptance.values["no_synonym"] == 0
    assert len(prompts) == 11
    twelve = check(extractor(12), sentence=sentence)
    assert twelve.accepted
    assert twelve.values["tested"] == 12
    assert twelve.values["named"] == 0


def test_entities_that_are_not_in_the_sentence_are_left_out() -> None:
    """Entities not in the sentence are counted, not tested; without others it is unmeasurable."""
    acceptance = check(Fake(lambda x, _: [*present(x), "Twilight"]))
    assert acceptance.accepted
    assert acceptance.values["entities"] == 4
    assert acceptance.values["tested"] == 3
    assert acceptance.values["not_literal"] == 1
    assert acceptance.values["extra"] == 0
    entities = SentenceEvidence.from_json(acceptance.evidence).entities
    assert ("Twilight", "not in the sentence") in [(e["name"], e.get("left_out")) for e in entities]
    none = check(Fake(lambda x, _: ["Twilight", "Moby Dick"]))
    assert none.outcome == "unmeasurable"
    assert "none of 2 entities is in the sentence" in none.why


def test_contained_entities_are_left_out() -> None:
    """An entity that occurs only inside another has no bit in the vectors."""
    acceptance = check(Fake(lambda x, _: [*present(x, 5), "Season"], 5))
    assert acceptance.accepted
    assert acceptance.values["contained"] == 1
    assert acceptance.values["extra"] == 0
    assert acceptance.values["entities"] == 6
    assert acceptance.values["tested"] == 5
    entities = SentenceEvidence.from_json(acceptance.evidence).entities
    assert ("Season", "inside 'rain season'") in [(e["name"], e.get("left_out")) for e in entities]


@pytest.mark.parametrize(
    ("reply", "outcome", "why"),
    [
        (Reply("I cannot help with that."), "unparsed", "not a list"),
        (Reply(""), "unparsed", "empty"),
        (Reply("1. person: Adriana\n2. ci", finish_reason="length"), "unparsed", "cut off"),
        (Reply("", finish_reason="content_filter"), "refused", "content filter"),
    ],
)
def test_no_readable_reply(reply: Reply, outcome: str, why: str) -> None:
    """A sentence without a readable reply is neither accepted nor rejected."""

    async def ask(chat: Chat) -> Reply:
        return reply

    acceptance = check(ask)
    assert (acceptance.accepted, acceptance.outcome) == (False, outcome)
    assert why in acceptance.why
    assert acceptance.values["unread"] == 11
    assert acceptance.bound is None


@pytest.mark.parametrize("rule", RULES_OF_DECISION)
def test_content_filter_on_changed_sentences(rule: str) -> None:
    """If a content filter withholds every changed sentence, the sentence is refused and counts in no rate.

    If some failed tests are unfiltered, the sentence stays rejected.
    """

    def extractor(withheld: Any) -> Any:
        async def ask(chat: Chat) -> Reply:
            text = sentence_in(chat)
            if withheld(text):
                return Reply("", finish_reason="content_filter")
            alone = "Nairobi" in text and "Norway" not in text
            return Reply(listed(present(0) if text == SENTENCE else ["Nairobi"] if alone else []))

        return ask

    acceptance = check(extractor(lambda text: text != SENTENCE), 2, rule=rule)
    assert (acceptance.accepted, acceptance.outcome) == (False, "refused")
    assert "content filter refused" in acceptance.why
    assert "tests" not in acceptance.values
    assert acceptance.values["unread"] > 11
    some = check(extractor(lambda text: "Tobias" in text), 2, rule=rule, tests=60)
    assert some.outcome == "rejected"
    assert some.values["tests"] == 60


def test_unread_replies_never_pass() -> None:
    """A changed sentence without a readable reply fails its tests under every rule and counts in A_rate."""

    async def ask(chat: Chat) -> Reply:
        text = sentence_in(chat)
        return Reply(listed(present(0)) if text == SENTENCE else "Sorry.")

    for rule in RULES_OF_DECISION:
        acceptance = check(ask, 2, rule=rule)
        assert acceptance.outcome == "rejected"
        assert "could not be read" in acceptance.why
        assert acceptance.values["con_rs"] == 0
        assert acceptance.values["unread"] > 0
        assert acceptance.values["combinations"] == 5 * 11**3
        assert (
            acceptance.values["identity"]
            == acceptance.values["sentences"]
            == 0
            < acceptance.values["changed"]
        )


def test_unread_replies_are_counted_once() -> None:
    """Unread replies about the original sentence count once, even if several drawn vectors are 0."""

    async def ask(chat: Chat) -> Reply:
        text = sentence_in(chat)
        names = present(sum((s in text) << i for i, (_, _, s) in enumerate(ENTITIES[:1])), 1)
        return Reply("Sorry." if text == SENTENCE and chat.sample < 3 else listed(names))

    for seed in range(5):
        acceptance = check(ask, seed)
        assert acceptance.accepted
        assert acceptance.values["unread"] == 3
        assert acceptance.values["con_o"] == 8


def test_errors_of_a_call_pass_through() -> None:
    """A call error in any stage reaches the caller."""
    for stage in ("original", "changed"):

        async def ask(chat: Chat, stage: str = stage) -> Reply:
            text = sentence_in(chat)
            if (text == SENTENCE) == (stage == "original") and chat.sample == 2:
                raise BackendError("status 500")
            return Reply(listed(present(sum((s in text) << i for i, (_, _, s) in enumerate(ENTITIES[:3])))))

        with pytest.raises(BackendError, match="500"):
            check(ask)


TRICKY = (
    (
        "Mohammed's family met Mohammed, an Oslo baker, in Oslo in 1987.",
        ("Mohammed", "Oslo", "1987", "Mohammed's family"),
    ),
    (
        "“Aaron Hill” (born 14 March 1931) led the U.S. team; Hill left it in 1960.",
        ("Aaron Hill", "Hill", "14 March 1931", "U.S.", "1960"),
    ),
    (
        "New York City Hall in New York, like Jean-Luc's house, is a New York house.",
        ("New York City Hall", "New York", "Jean-Luc"),
    ),
)


@pytest.mark.parametrize(("text", "names"), TRICKY)
def test_each_vector_has_its_own_names(text: str, names: tuple[str, ...]) -> None:
    """For every x, R(x) has the correct form of each tested entity, and the ideal extractor is faithful."""
    kinds = {"1987": "date", "14 March 1931": "date", "1960": "date"}

    async def ask(chat: Chat) -> Reply:
        if "normal entity" in chat.prompt:
            return Reply("[[named entity]]")
        here = normalised(sentence_in(chat))
        lines = [
            f"- {kinds.get(name, 'person')}: {name}"
            for name in (pool_names if here != normalised(text) else names)
        ]
        return Reply(
            "\n".join(line for line in lines if contains_words(here, normalised(line.partition(": ")[2])))
        )

    pool_names: list[str] = []
    checker = LinearityChecker(LinearitySettings(samples=1, rule="single"), RULES, POOL)
    for seed in range(4):
        prepared = asyncio.run(checker.prepare(text, Oracle(ask), random.Random(seed).getrandbits(64)))
        subject = prepared.subject
        assert prepared.stopped is None
        assert subject.m >= 3
        for x in range(2**subject.m):
            here = normalised(subject.transformed(x).text)
            assert all(contains_words(here, subject.expected_name(i, x)) for i in range(subject.m))
        pool_names[:] = [name for s in subject.synonyms for name in (s.text, s.entity.name)]
        acceptance = asyncio.run(checker.check(text, Oracle(ask), random.Random(seed)))
        assert acceptance.accepted
        assert acceptance.values["linear_not_faithful"] == acceptance.values["lost"] == 0


def test_groups_of_equal_answers() -> None:
    """The answer is that of the largest group; the other sizes are kept in descending order."""
    groups = [4, 6, 1]
    lists = [present(0)[:1], present(0), present(0)[:2]]
    replies = [names for size, names in zip(groups, lists, strict=True) for _ in range(size)]
    values = check(Fake(lambda x, sample: replies[sample % 11] if x == 0 else present(x))).values
    assert [values["con_o"], values["con_o_2"], values["con_o_3"]] == [6, 4, 1]
    assert values["entities"] == 3
    assert "con_o_4" not in values


def test_labels_are_matched_by_normalised_name() -> None:
    """Labels match the answer by normalised name, and unlabelled sentences have no such values."""
    sentence = Sentence(SENTENCE, ("adriana's", "The Lisbon", "Berlin"))
    acceptance = check(Fake(lambda x, _: present(x)), sentence=sentence)
    assert acceptance.values["labelled"] == 3
    assert acceptance.values["labelled_extracted"] == 2
    assert "labelled" not in check(Fake(lambda x, _: present(x))).values


def test_paraphrase_as_replacement() -> None:
    """With paraphrases, each R(x) keeps the entities' words; if no paraphrase does, R(x) itself is used."""

    def asking(keeps: bool) -> Any:
        seen: list[str] = []

        async def ask(chat: Chat) -> Reply:
            if "paraphrase" in chat.prompt:
                start = chat.prompt.index('"') + 1
                text = chat.prompt[start : chat.prompt.index('"\n', start)]
                return Reply(f"It is said: {text}" if keeps else "It is said.")
            text = sentence_in(chat)
            seen.append(text)
            return Reply(listed(present(Fake(lambda x, _: []).vector(text))))

        return ask, seen

    ask, seen = asking(True)
    acceptance = check(ask, 4, paraphrase=True)
    assert acceptance.accepted
    assert acceptance.values["paraphrase_missed"] == 0
    assert all(text.startswith("It is said: ") for text in seen if text != SENTENCE)
    assert len(set(seen)) > 5
    ask, seen = asking(False)
    missed = check(ask, 4, paraphrase=True)
    # R(0) is paraphrased as well, and each vector only once.
    vectors = {Fake(lambda x, _: []).vector(text) for text in seen[11:]}
    assert missed.values["paraphrase_missed"] == len(vectors)
    assert missed.values["changed"] == missed.values["sentences"] > 3
    assert not any("said" in text for text in seen)


def test_plan_counts_requests_of_a_typical_sentence() -> None:
    """A plan counts requests for the original, one entity's synonyms and the tested sentences."""
    prompts: list[str] = []

    async def ask(chat: Chat) -> Reply:
        prompts.append(chat.prompt)
        return Reply(key=PLANNED)

    check(ask)
    assert prompts.count(prompts[0]) == 11
    assert sum("list synonyms" in prompt for prompt in prompts) == 7
    rest = [p for p in prompts[11:] if "list synonyms" not in p]
    assert len(rest) == 165
    assert len(set(rest)) > 5


def test_wording_of_the_bounds() -> None:
    """The printed bound uses the run's n and samples, and ``any`` has no number."""
    paper = bound_of(PAPER)
    assert paper.text == "no bound: best of 1,331 combinations; the rule any has no power against noise"
    assert paper.epsilon is None
    assert paper.probability is None
    ten = bound_of(LinearitySettings(tests=10, rule="single"))
    assert ten.text == (
        "an extractor 0.1-far from linear would have been rejected with probability at least 0.936; "
        "an extractor 0.05-far from linear would have been rejected with probability at least 0.765"
    )
    assert (ten.epsilon, round(ten.probability or 0, 3)) == (0.1, 0.936)
    assert "0.746" in bound_of(LinearitySettings(rule="majority")).text
    assert "0.561" in bound_of(LINEARITY_QUICK).text


@pytest.mark.parametrize(
    "wrong", [{"samples": 0}, {"tests": 101}, {"rule": "all"}, {"max_tokens": 0}, {"named_votes": -1}]
)
def test_settings_are_checked(wrong: dict[str, Any]) -> None:
    """An error about an invalid setting names it."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        LinearitySettings(**wrong)


def test_linear_at_is_shared_by_measurement_and_search() -> None:
    """The property accepts any f, and a violation by a custom function is found only at its x and y."""
    table = {x: complement(x, 2) for x in range(4)} | {3: 0b10}

    async def f(x: int) -> Answers:
        return Answers({table[x]: 1}, 1)

    async def all_tests() -> list[bool]:
        return [(await linear_at(x, y, f, 2)).passed for x in range(4) for y in range(4)]

    passed = asyncio.run(all_tests())
    assert passed == [table[x ^ y] == complement(table[x] ^ table[y], 2) for x in range(4) for y in range(4)]
    assert 0 < passed.count(False) < 16
