"""The linearity checker on extractors of known behaviour."""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, chisquare

from pytest_llmprops.benchmarks.oracle.entities import locate
from pytest_llmprops.benchmarks.oracle.extraction import Extracted, contains_words, normalised
from pytest_llmprops.benchmarks.oracle.items import RULES as DECISIONS
from pytest_llmprops.benchmarks.oracle.items import Rule
from pytest_llmprops.benchmarks.oracle.linear_tests import Subject
from pytest_llmprops.benchmarks.oracle.linearity import (
    NAMES,
    LinearityChecker,
    Sentence,
    extraction_null_values,
)
from pytest_llmprops.benchmarks.oracle.linearity_evidence import SentenceEvidence
from pytest_llmprops.benchmarks.oracle.metrics import metric_rows
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Oracle
from pytest_llmprops.benchmarks.oracle.sentence_metrics import null_remarks
from pytest_llmprops.benchmarks.oracle.settings import PAPER, QUICK, OracleSettings, bound_of
from pytest_llmprops.benchmarks.oracle.synonyms import Synonym
from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.linearity import (
    complement,
    draws,
    failure_bound,
    informative_draws,
    is_informative,
    rejection_bound,
)
from pytest_llmprops.core.requests import PLANNED, Chat, Reply
from tests.support.linear_functions import distance_to_homomorphisms, failure_rate
from tests.support.oracle_fakes import (
    POOL,
    RULES,
    SENTENCE,
    Fake,
    check,
    listed,
    names_of,
    present,
    sentence_in,
)
from tests.support.oracle_runs import Subject as Model
from tests.support.oracle_runs import sentence, verdict_on
from tests.support.records import verdict as record


def a_rate(acceptance: Acceptance) -> float:
    """Return the share of passing combinations."""
    return acceptance.values["combinations_passed"] / acceptance.values["combinations"]


@settings(max_examples=40)
@given(st.integers(1, 5), st.integers(0, 10_000), st.sampled_from(DECISIONS))
def test_ideal_extractor_is_always_accepted(m: int, seed: int, rule: str) -> None:
    """An ideal extractor passes every test in every combination and is always faithful."""
    acceptance = check(Fake(lambda x, _: present(x, m), m), seed, rule=rule, samples=3)
    values = acceptance.values
    assert (acceptance.accepted, acceptance.outcome) == (True, "accepted")
    assert acceptance.why.startswith("5 of 5 tests passed")
    expected = {"tests": 5, "tests_passed": 5, "combinations": 5 * 27, "combinations_passed": 5 * 27}
    expected |= {"lost": 0, "both": 0, "extra": 0, "unread": 0, "con_o": 3, "con_rs": 3}
    expected |= {"entities": m, "tested": m, "named": m}
    assert expected.items() <= values.items()
    assert values["identity"] == values["sentences"]
    assert values["linear_not_faithful"] == (values["changed"] == 0)


FLIPS = ({1: 0b101}, {1: 0b101, 6: 0b101}, {1: 0b001, 6: 0b010, 3: 0b111})
#: tables f(x) of three entities with f(0) = 111, by their distance from every homomorphism
FAR = {len(flips) / 8: [complement(x, 3) ^ flips.get(x, 0) for x in range(8)] for flips in FLIPS}


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


def test_inseparable_entities_are_rejected_and_named() -> None:
    """Two entities extracted only together fail as often as expected and are the only culprits."""

    def together(x: int, sample: int) -> list[str]:
        names = present(x)
        return names if (x & 1) == (x >> 1 & 1) else names[2:]

    u = [complement(x, 3) | (0 if (x & 1) == (x >> 1 & 1) else 0b011) for x in range(8)]
    n = 200
    # The extractor is a function, so one sample is enough.
    outcomes = Counter(check(Fake(together), seed, samples=1).outcome for seed in range(n))
    assert binomtest(outcomes["rejected"], n, 1 - (1 - failure_rate(u, 3)) ** 5).pvalue > 0.001
    rejected = [result for seed in range(20) if not (result := check(Fake(together), seed)).accepted]
    for result in rejected:
        assert result.values["linear_not_faithful"] == 0 < result.values["identity"]
        assert '"Adriana"' in result.why
        assert '"Lisbon"' in result.why
        assert '"Kenya"' not in result.why
    culprits = [c for r in rejected for c in SentenceEvidence.from_json(r.evidence).culprits]
    # With three entities, no relation with them is rarer than 5% among all assignments.
    varying = sum(c.cause == "varies between sentences, too few of them to tell why" for c in culprits)
    assert varying > 0.9 * len(culprits)


def test_a_rate_follows_the_dropping_probability() -> None:
    """If an extractor drops one entity with probability p, A_rate has the expectation derived from p.

    f's bit of the entity is wrong only in a sentence with its synonym. Therefore two of the three
    sentences of a test must agree on it, or none has the synonym (one test in four). Two sentences agree
    with probability q = p^2 + (1 - p)^2, equal sentences too, because each is asked about afresh.
    """
    n, p = 200, 0.35
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


#: extractors that are linear, but not faithful
UNFAITHFUL: dict[str, Any] = {
    "nothing from a changed sentence": lambda x, _: present(0) if x == 0 else [],
    "always the same": lambda x, _: present(0),
    "the synonym of one entity for another": lambda x, _: present(x & 4 | (x & 1) << 1 | x >> 1 & 1),
}


@pytest.mark.parametrize("rule", DECISIONS)
@pytest.mark.parametrize("name", UNFAITHFUL)
def test_linear_but_not_faithful(name: str, rule: str) -> None:
    """Maps that are linear but not faithful are accepted by the rule and labelled as unfaithful."""
    labelled = 0
    for seed in range(10):
        acceptance = check(Fake(UNFAITHFUL[name]), seed, rule=rule, samples=3)
        assert acceptance.accepted
        assert a_rate(acceptance) == 1
        faithful = acceptance.values["identity"] == acceptance.values["sentences"]
        assert acceptance.values["linear_not_faithful"] == (not faithful)
        assert ("linear, not faithful" in acceptance.why) == (not faithful)
        labelled += not faithful
    # It is rare to draw vectors on which such a map is the complement.
    assert labelled >= 9


def test_lost_duplicate_and_extra_entities_are_counted() -> None:
    """Lost entities, entities in both forms and extra names are counted over the askings of changed sentences."""
    fake = Fake(UNFAITHFUL["nothing from a changed sentence"])
    empty = check(fake, 3)
    vectors = [fake.vector(text) for text, _ in fake.asked[::11]]
    other = len(vectors) - vectors.count(0)
    assert 0 < other < 15
    assert (empty.values["lost"], empty.values["both"]) == (3 * other, 0)
    twice = check(Fake(lambda x, _: present(x) if x == 0 else [*present(x), "Adriana", "Ghost", "Echo"]), 3)
    assert (twice.values["extra"], twice.values["both"]) == (2 * other, sum(x & 1 for x in vectors))


def test_any_accepts_an_extractor_that_changes_its_answer() -> None:
    """If every other reply to a changed sentence is empty, ``any`` accepts without a bound."""
    acceptance = check(Fake(lambda x, sample: present(x) if x == 0 or sample % 2 == 0 else []), 5)
    assert acceptance.accepted
    assert {"linear_not_faithful": 0, "con_o": 11, "con_rs": 6}.items() <= acceptance.values.items()
    assert acceptance.bound is not None
    assert acceptance.bound.probability is None
    assert 0.3 < a_rate(acceptance) < 0.9


def test_all_requests_of_the_tests_are_sent_at_once() -> None:
    """All requests about transformed sentences are sent before the first answer is read."""
    most = flying = 0
    fake = Fake(lambda x, _: present(x))

    async def ask(chat: Chat) -> Reply:
        nonlocal most, flying
        changed = sentence_in(chat) != SENTENCE
        flying += changed
        most = max(most, flying)
        await asyncio.sleep(0.01)
        flying -= changed
        return await fake(chat)

    acceptance = check(ask, 1)
    assert acceptance.accepted
    # number of distinct sentences, without the original if some vector is 0
    assert most % 11 == 0
    assert most >= 11 * (acceptance.values["sentences"] - 1)


def test_same_seed_same_measurement() -> None:
    """A measurement depends only on the seed and the replies, and the tests do not depend on the entities."""
    one, two = Fake(lambda x, _: present(x)), Fake(lambda x, _: present(x))
    assert check(one, 9) == check(two, 9)
    assert one.asked == two.asked
    assert check(Fake(lambda x, _: present(x)), 10) != check(one, 9)


UNNAMED = "Nobody could say who had painted the door green."


@pytest.mark.parametrize(
    ("sentence", "outcome", "why"),
    [
        (Sentence(UNNAMED, ()), "accepted", "no entities, as labelled"),
        (Sentence(SENTENCE, ()), "accepted", "no entities, as labelled"),
        (Sentence(UNNAMED, ("door",)), "rejected", 'no entities, but labelled: "door"'),
        (Sentence(UNNAMED), "untested", "no entities, and no labels to tell if that is right"),
        (
            Sentence(SENTENCE),
            "rejected",
            'no entities, but the sentence has "Adriana", "Lisbon", "Kenya" and 3 more',
        ),
    ],
)
def test_no_entities_is_judged(sentence: Sentence, outcome: str, why: str) -> None:
    """The answer "no entities" is right or wrong by the labels, or by names in the sentence; otherwise untested."""
    acceptance = check(Fake(lambda x, _: []), sentence=sentence)
    assert (acceptance.outcome, acceptance.why, acceptance.bound) == (outcome, why, None)
    assert {"no_entities": 1, "entities": 0}.items() <= acceptance.values.items()
    assert acceptance.values["accepted"] == (outcome == "accepted")
    assert acceptance.values.get("null_nothing") == {"accepted": 1, "rejected": 0}.get(outcome)
    assert "tests" not in acceptance.values


def test_more_than_twelve_entities_are_unmeasurable() -> None:
    """Thirteen entities are refused with their number before any test or synonym request; twelve are tested."""
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
    assert (acceptance.accepted, acceptance.outcome) == (False, "unmeasurable")
    assert acceptance.why == "13 entities, and at most 12 can be tested"
    assert {"unmeasurable": 1, "entities": 13, "no_synonym": 0}.items() <= acceptance.values.items()
    assert len(prompts) == 11
    twelve = check(extractor(12), sentence=sentence, samples=1)
    assert twelve.accepted
    assert {"tested": 12, "named": 0}.items() <= twelve.values.items()


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [("Twilight", "not_literal", "not in the sentence"), ("Season", "contained", "inside 'rain season'")],
)
def test_entities_that_cannot_be_replaced_are_left_out(name: str, value: str, why: str) -> None:
    """An entity that is not in the sentence, or only inside another one, is counted, but has no bit in the vectors."""
    acceptance = check(Fake(lambda x, _: [*present(x, 5), name], 5))
    assert acceptance.accepted
    assert {"entities": 6, "tested": 5, value: 1, "extra": 0}.items() <= acceptance.values.items()
    entities = SentenceEvidence.from_json(acceptance.evidence).entities
    assert (name, why) in [(e["name"], e.get("left_out")) for e in entities]


def test_no_entity_is_in_the_sentence() -> None:
    """A sentence is unmeasurable if none of its entities is in it."""
    none = check(Fake(lambda x, _: ["Twilight", "Moby Dick"]))
    assert none.outcome == "unmeasurable"
    assert "none of 2 entities is in the sentence" in none.why


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


@pytest.mark.parametrize("rule", DECISIONS)
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

    for rule in DECISIONS:
        acceptance = check(ask, 2, rule=rule)
        values = acceptance.values
        assert acceptance.outcome == "rejected"
        assert "could not be read" in acceptance.why
        assert {
            "con_rs": 0, "combinations": 5 * 11**3, "identity": 0, "sentences": 0,
        }.items() <= values.items()  # fmt: skip
        assert min(values["unread"], values["changed"]) > 0


def test_unread_replies_are_counted_once() -> None:
    """Unread replies about the original sentence count once, even if several drawn vectors are 0."""

    fake = Fake(lambda x, _: present(x, 1), 1)

    async def ask(chat: Chat) -> Reply:
        return Reply("Sorry.") if sentence_in(chat) == SENTENCE and chat.sample < 3 else await fake(chat)

    for seed in range(5):
        acceptance = check(ask, seed)
        assert acceptance.accepted
        assert {"unread": 3, "con_o": 8}.items() <= acceptance.values.items()


@pytest.mark.parametrize("original", [True, False])
def test_errors_of_a_call_pass_through(original: bool) -> None:
    """A call error in any stage reaches the caller."""
    fake = Fake(lambda x, _: present(x))

    async def ask(chat: Chat) -> Reply:
        if (sentence_in(chat) == SENTENCE) == original and chat.sample == 2:
            raise BackendError("status 500")
        return await fake(chat)

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
    checker = LinearityChecker(OracleSettings(samples=1, rule="single"), RULES, POOL)
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
    replies = [present(0)[:1]] * 4 + [present(0)] * 6 + [present(0)[:2]]
    values = check(Fake(lambda x, sample: replies[sample % 11] if x == 0 else present(x))).values
    assert {"con_o": 6, "con_o_2": 4, "con_o_3": 1, "entities": 3}.items() <= values.items()
    assert "con_o_4" not in values


@pytest.mark.parametrize(
    ("settings", "text", "bound"),
    [
        (
            PAPER,
            "no bound: best of 1,331 combinations; the rule any has no power against noise",
            (None, None),
        ),
        (
            OracleSettings(tests=10, rule="single"),
            "; ".join(
                f"an extractor {far}-far from linear would have been rejected with probability at least {p}"
                for far, p in ((0.1, 0.936), (0.05, 0.765))
            ),
            (0.1, 0.936),
        ),
        (OracleSettings(rule="majority"), "0.746", (0.1, 0.746)),
        (QUICK, "0.900", (0.1, 0.9)),
    ],
)
def test_wording_of_the_bounds(settings: OracleSettings, text: str, bound: tuple[float | None, ...]) -> None:
    """The printed bound uses the run's n and samples, and ``any`` has no number."""
    said = bound_of(settings)
    assert (said.text == text) if len(text) > 10 else (text in said.text)
    assert (said.epsilon, said.probability and round(said.probability, 3)) == bound


def test_labels_are_matched_by_normalised_name() -> None:
    """Labels match the answer by normalised name, and unlabelled sentences have no such values."""
    sentence = Sentence(SENTENCE, ("adriana's", "The Lisbon", "Berlin"))
    acceptance = check(Fake(lambda x, _: present(x)), sentence=sentence)
    assert {"labelled": 3, "labelled_extracted": 2}.items() <= acceptance.values.items()
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


# ---- tests that no extractor fails


def erratic(seed: int, m: int) -> Callable[[int, int], list[str]]:
    """Extract anything from a changed sentence."""
    rng = random.Random(seed)
    return lambda x, _: present(0, m) if x == 0 else names_of(rng.getrandbits(m), m)


def dropping(seed: int, m: int, p: float) -> Callable[[int, int], list[str]]:
    """Drop each entity of a changed sentence with probability ``p``, whatever the others are."""
    rng = random.Random(seed)
    return lambda x, _: [name for name in present(x, m) if not x or rng.random() >= p]


@pytest.mark.parametrize(("m", "share"), [(1, 1.0), (2, 10 / 16), (3, 22 / 64), (5, 94 / 1024)])
def test_share_of_uniform_draws_that_cannot_fail(m: int, share: float) -> None:
    """The shares are exact over all pairs; uniform draws have them, and informative draws have none."""
    every = [(x, y) for x in range(2**m) for y in range(2**m)]
    assert sum(not is_informative(x, y) for x, y in every) / len(every) == share
    vacuous = sum(not is_informative(x, y) for x, y in draws(random.Random(1), m, 4000))
    assert binomtest(vacuous, 4000, share).pvalue > 0.001
    pairs = informative_draws(random.Random(1), m, 4000)
    assert len(pairs) == (4000 if m > 1 else 0)
    assert all(is_informative(x, y) for x, y in pairs)


def test_informative_draws_are_uniform() -> None:
    """Every informative pair is equally likely, also with repetitions."""
    times = Counter(informative_draws(random.Random(2), 3, 8400))
    assert len(times) == 42
    assert chisquare(list(times.values())).pvalue > 0.001


def test_bound_holds_for_informative_draws() -> None:
    """With f(0) = 111, informative tests fail more often than uniform ones, so the bound stays valid."""
    # 1,000 tests, as for uniform draws
    epsilon, n = 0.25, 200
    table = FAR[epsilon]
    settings: dict[str, Any] = {"rule": "single", "samples": 1, "draw": "informative"}
    results = [check(Fake(lambda x, _: names_of(table[x], 3)), seed, **settings) for seed in range(n)]
    failed = sum(5 - int(result.values["tests_passed"]) for result in results)
    assert binomtest(failed, 5 * n, failure_rate(table, 3) / (42 / 64)).pvalue > 0.001
    assert binomtest(failed, 5 * n, failure_bound(epsilon), alternative="less").pvalue > 0.001
    assert all(result.values["informative_tests"] == 5 for result in results)


def test_one_entity_cannot_fail_in_the_papers_protocol() -> None:
    """With one entity, the paper's draw accepts any extractor; the acceptance says that no test could fail."""
    for seed in range(20):
        acceptance = check(Fake(erratic(seed, 1), 1), seed)
        assert acceptance.accepted
        assert {"informative_tests": 0, "no_informative_test": 1}.items() <= acceptance.values.items()
        assert acceptance.why.startswith("5 of 5 tests passed, 0 of which could fail")


def test_one_entity_is_unmeasurable_with_informative_draws() -> None:
    """``quick`` does not accept what it cannot test, and asks nothing about changed sentences."""
    assert QUICK.draw == "informative"
    fake = Fake(erratic(0, 1), 1)
    acceptance = check(fake, draw="informative", rule="majority", samples=3)
    assert (acceptance.accepted, acceptance.outcome) == (False, "unmeasurable")
    assert acceptance.why == "one entity can be tested, and a test that can fail needs two"
    assert acceptance.values["unmeasurable"] == acceptance.values["no_informative_test"] == 1
    assert "tests" not in acceptance.values
    assert {text for text, _ in fake.asked} == {SENTENCE}


def test_sentence_without_a_changed_sentence_is_not_faithful() -> None:
    """If every drawn vector is 0, nothing is known about replacements, even of an ideal extractor."""
    unchanged = 0
    for seed in range(40):
        acceptance = check(Fake(lambda x, _: present(x, 1), 1), seed, tests=1)
        is_unchanged = not acceptance.values["changed"]
        unchanged += is_unchanged
        assert acceptance.accepted
        assert acceptance.values["linear_not_faithful"] == is_unchanged
        assert acceptance.why.endswith("no sentence was changed") == is_unchanged
    assert unchanged > 3


@pytest.mark.parametrize("m", [1, 3])
def test_any_asks_about_every_sentence_afresh(m: int) -> None:
    """The paper's protocol sends 165 requests about transformed sentences, equal ones and R(0) included."""
    for seed in range(6):
        fake = Fake(lambda x, _: present(x, m), m)
        check(fake, seed)
        assert len(fake.asked) == len(set(fake.asked)) == 11 + 165
        times = Counter(text for text, _ in fake.asked)
        assert all(count % 11 == 0 for count in times.values())
        for text, count in times.items():
            assert sorted(sample for sent, sample in fake.asked if sent == text) == list(range(count))


@pytest.mark.parametrize("rule", ["majority", "single"])
def test_rules_that_need_a_function_ask_about_equal_vectors_once(rule: str) -> None:
    """f has one value per vector, and that of R(0) is the answer itself."""
    for seed in range(6):
        fake = Fake(lambda x, _: present(x, 2), 2)
        check(fake, seed, rule=rule)
        times = Counter(text for text, _ in fake.asked)
        assert set(times.values()) == {11}
        assert len(times) <= 4


def test_any_has_no_power_against_noise_and_says_so() -> None:
    """An extractor that drops 30% is accepted under ``any``, with that remark, and rarely under ``majority``."""
    accepted = {"any": 0, "majority": 0}
    for seed in range(20):
        for rule in accepted:
            acceptance = check(Fake(dropping(seed, 4, 0.3), 4), seed, rule=rule, draw="informative")
            accepted[rule] += acceptance.accepted
            no_power = "the rule any has no power against noise"
            assert (no_power in acceptance.why) == (rule == "any" and acceptance.accepted)
    assert accepted["any"] == 20
    assert accepted["majority"] < 15


# ---- null extractors


TEXT = "Then Oslo wrote to Lima about Quito and Cairo."


def played(rule: Rule, samples: int, times: int = 1) -> dict[str, float]:
    """Return the mean values of the null extractors on a sentence with four entities."""
    answer = locate([Extracted(name) for name in ("Oslo", "Lima", "Quito", "Cairo")], TEXT)
    texts = ("Paris", "Rome", "Bonn", "Bern")
    subject = Subject(
        TEXT, answer, tuple(Synonym(e, t, "pool", "") for e, t in zip(answer, texts, strict=True))
    )
    settings = OracleSettings(samples=samples, tests=5, rule=rule)
    pairs = [(1, 2), (3, 5), (7, 8), (15, 1), (6, 9)]
    rng = random.Random(0)
    runs = [asyncio.run(extraction_null_values(subject, settings, pairs, rng)) for _ in range(times)]
    return {name: sum(run[name] for run in runs) / times for name in runs[0]}


@pytest.mark.parametrize("rule", DECISIONS)
def test_the_same_list_is_linear_but_not_faithful(rule: Rule) -> None:
    """An empty and a constant list pass all tests and are never faithful."""
    values = played(rule, 3)
    assert values["null_empty"] == values["null_list"] == 1
    assert values["null_empty_faithful"] == values["null_list_faithful"] == 0


def test_noise_is_rejected_except_under_any() -> None:
    """Dropping 30% fails a single-sample test, and passes the best of 1,331 combinations."""
    assert played("single", 1, 40)["null_drop30"] < 0.1
    assert played("any", 11)["null_drop30"] == 1
    majority = played("majority", 11, 20)
    assert majority["null_drop10"] > majority["null_drop30"] >= majority["null_coin"]


def test_null_extractors_are_recorded_and_shown() -> None:
    """A verdict has their values without a call of the model, and the metrics have their rates."""
    item = sentence("Then Oslo wrote to Lima about Quito.", 1)
    verdict = verdict_on(item, Model())
    assert {name for name in NAMES if name in verdict.values} == set(NAMES)
    rows = list(metric_rows([record("linearity", 1, benchmark="oracle", values=dict(verdict.values))]))
    shown = {(m.name, m.group): m.value for m in rows}
    assert shown["null_acceptance_rate", "constant list"] == 1
    assert shown["null_faithful_rate", "constant list"] == 0
    [remark] = null_remarks([verdict.values])
    assert remark.startswith(
        "sentences: 100.0% accepted (100.0% also faithful); of null extractors on the same 1"
    )
    assert "constant list 100.0% (0.0%)" in remark
