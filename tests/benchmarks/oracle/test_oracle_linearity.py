"""The linearity test: its algebra, Theorem 3.1 on functions of known distance, and extractors of known behaviour."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, chisquare

from pytest_llmprops.benchmarks.oracle.linearity import (
    FAR,
    Sentence,
    bound_of,
    complement,
    draws,
    failing_bits,
    failure_bound,
    informative_draws,
    passing_combinations,
    rejection_bound,
    xnor,
)
from pytest_llmprops.benchmarks.oracle.settings import PAPER, QUICK
from pytest_llmprops.benchmarks.oracle.settings import RULES as DECISIONS
from pytest_llmprops.core.requests import PLANNED, Chat, Reply
from pytest_llmprops.core.verdicts import objects_in
from tests.support.oracle_fakes import SENTENCE, Fake, check, present
from tests.support.oracle_runs import sentence_in


def is_linear_test(fx: int, fy: int, fxy: int, m: int) -> bool:
    """Return True if one test passes: f(x XOR y) = f(x) XNOR f(y), from the three values."""
    return fxy == xnor(fx, fy, m)


def failure_rate(table: Sequence[int], m: int) -> float:
    """Return the probability that a test of f(x) = ``table[x]`` with uniform x and y fails, over all 4^m pairs."""
    pairs = itertools.product(range(1 << m), repeat=2)
    failed = sum(not is_linear_test(table[x], table[y], table[x ^ y], m) for x, y in pairs)
    return failed / (1 << 2 * m)


def distance_to_homomorphisms(table: Sequence[int], m: int) -> float:
    """Return the share of x on which f differs from the nearest of all 2^(m*m) homomorphisms. Use a small m only."""
    least = len(table)
    for columns in itertools.product(range(1 << m), repeat=m):
        linear = [0]
        # A (x + bit j) = A x + column j: each column doubles the table.
        for column in columns:
            linear += [value ^ column for value in linear]
        least = min(least, sum(f != complement(value, m) for f, value in zip(table, linear, strict=True)))
    return least / len(table)


@given(st.integers(1, 12), st.data())
def test_failing_bits_are_what_makes_a_test_fail(m: int, data: st.DataObject) -> None:
    """Flipping bits of f(x XOR y) in a passing test makes exactly those bits fail."""
    u, v, flip = (data.draw(st.integers(0, 2**m - 1)) for _ in range(3))
    # The complement is the ideal extractor's answer.
    assert failing_bits(complement(u, m), complement(v, m), complement(u ^ v, m), m) == 0
    assert failing_bits(u, v, xnor(u, v, m) ^ flip, m) == flip


@given(st.integers(1, 4), st.data())
def test_combinations_are_counted_as_by_enumeration(m: int, data: st.DataObject) -> None:
    """Counting by different vectors gives the same result as enumerating all combinations."""
    one, two, three = (data.draw(st.lists(st.integers(0, 2**m - 1), max_size=11)) for _ in range(3))
    passing = passing_combinations(Counter(one), Counter(two), Counter(three), m)
    assert passing == sum(is_linear_test(*values, m) for values in itertools.product(one, two, three))


@pytest.mark.parametrize(("drawn", "m", "pairs"), [(draws, 2, 16), (informative_draws, 3, 42)])
def test_draws_are_uniform_with_replacement(drawn: Any, m: int, pairs: int) -> None:
    """Pairs repeat, are uniform over all pairs of vectors, or all informative ones, and are the same for a seed."""
    found = drawn(random.Random(1), m, 200 * pairs)
    assert len(set(found)) == pairs
    assert chisquare(list(Counter(found).values())).pvalue > 0.001
    assert found == drawn(random.Random(1), m, 200 * pairs)
    assert draws(random.Random(1), 0, 2) == [(0, 0), (0, 0)]


@settings(max_examples=40)
@given(st.integers(1, 5), st.integers(0, 10_000), st.sampled_from(DECISIONS))
def test_ideal_extractor_is_always_accepted(m: int, seed: int, rule: str) -> None:
    """An ideal extractor passes every test in every combination and is always faithful."""
    acceptance = check(Fake(lambda x, _: present(x, m), m), seed, rule=rule, samples=3)
    values = {"changed": 0.0, **acceptance.values}
    if rule == "majority" and m == 1:
        assert acceptance.outcome == "unmeasurable"
        return
    changed = values["changed"] > 0
    assert acceptance.outcome == ("accepted" if changed else "unmeasurable")
    if not changed:
        return
    assert acceptance.why.startswith("5 of 5 tests passed, and every replaced name was found")
    expected = {"tests": 5, "tests_passed": 5, "combinations": 5 * 27, "combinations_passed": 5 * 27}
    expected |= {"accepted": 1, "faithful": 1, "unread": 0, "con_o": 3, "con_rs": 3}
    expected |= {"entities": m, "tested": m, "named": m}
    assert expected.items() <= values.items()
    assert values["identity"] == values["changed"]


FLIPS = ({1: 0b101}, {1: 0b101, 6: 0b101}, {1: 0b001, 6: 0b010, 3: 0b111})
#: tables f(x) of three entities with f(0) = 111, by their distance from every homomorphism
TABLES = {len(flips) / 8: [complement(x, 3) ^ flips.get(x, 0) for x in range(8)] for flips in FLIPS}


@pytest.mark.parametrize(("epsilon", "rule"), [*((far, "any") for far in sorted(TABLES)), (0.25, "majority")])
def test_far_extractors_fail_as_often_as_the_theorem_says(epsilon: float, rule: str) -> None:
    """Extractors at a verified distance fail tests and measurements at the expected rate.

    With f(0) = 111, the informative tests of ``majority`` fail more often than uniform ones, so the bound stays valid.
    """
    table = TABLES[epsilon]
    assert distance_to_homomorphisms(table, 3) == epsilon
    rate = failure_rate(table, 3) / (42 / 64 if rule == "majority" else 1)
    # 1,000 tests: a rate 7 points off is found with probability 0.9
    n = 200
    # The answer whose vector is f(x): the synonym if the bit is 0, otherwise the entity.
    fake = Fake(lambda x, _: present(complement(table[x], 3)))
    results = [check(fake, seed, samples=1, rule=rule) for seed in range(n)]
    failed = sum(5 - int(result.values["tests_passed"]) for result in results)
    rejected = sum(not result.values["accepted"] for result in results)
    for count, total, least, exact in (
        (failed, 5 * n, failure_bound(epsilon), rate),
        (rejected, n, rejection_bound(epsilon, 5), 1 - (1 - rate) ** 5),
    ):
        assert binomtest(count, total, least, alternative="less").pvalue > 0.001
        assert binomtest(count, total, exact).pvalue > 0.001


#: extractors that are linear, but not faithful
UNFAITHFUL: dict[str, Any] = {
    "nothing from a changed sentence": lambda x, _: present(0) if x == 0 else [],
    "always the same": lambda x, _: present(0),
    "the synonym of one entity for another": lambda x, _: present(x & 4 | (x & 1) << 1 | x >> 1 & 1),
}


@pytest.mark.parametrize("name", UNFAITHFUL)
def test_linear_but_not_faithful(name: str) -> None:
    """Maps that are linear but not faithful pass the paper's tests, and are not accepted."""
    for rule, seed in itertools.product(DECISIONS, range(10)):
        acceptance = check(Fake(UNFAITHFUL[name]), seed, rule=rule, samples=3)
        values = acceptance.values
        assert values["accepted"] == values["combinations_passed"] / values["combinations"] == 1
        assert acceptance.accepted == values["faithful"]
        if not acceptance.accepted:
            assert acceptance.outcome == "unfaithful"
            assert acceptance.why.startswith("linear, but not faithful; ")
            assert "replaced by" in acceptance.why
        # It is rare to draw vectors on which such a map is the complement.
        assert not acceptance.accepted or seed


UNNAMED = "Nobody could say who had painted the door green."


def test_no_entities_is_judged() -> None:
    """The answer "no entities" is right or wrong by the labels, or by names in the sentence; otherwise untested."""
    for sentence, outcome, why in (
        (Sentence(SENTENCE, ()), "accepted", "no entities, as labelled"),
        (Sentence(UNNAMED, ("door",)), "rejected", 'no entities, but labelled: "door"'),
        (Sentence(UNNAMED), "untested", "no entities, and no labels to tell if that is right"),
        (
            Sentence(SENTENCE), "rejected",
            'no entities, but the sentence has "Adriana", "Lisbon", "Kenya" and 3 more',
        ),
    ):  # fmt: skip
        acceptance = check(Fake(lambda x, _: []), sentence=sentence)
        assert (acceptance.outcome, acceptance.why, acceptance.bound) == (outcome, why, None)
        assert {"no_entities": 1, "entities": 0}.items() <= acceptance.values.items()
        assert acceptance.values["accepted"] == (outcome == "accepted")
        assert "tests" not in acceptance.values


def test_of_more_than_twelve_entities_twelve_are_tested() -> None:
    """Thirteen entities do not make a sentence unmeasurable, which would let a model avoid the tests."""
    sentence = "alder birch cedar dogwood elm fir ginkgo hazel ivy juniper larch maple nutmeg"
    words = sentence.split()

    async def ask(chat: Chat) -> Reply:
        if "list synonyms" in chat.prompt:
            return Reply("1. " + chat.prompt.split('"')[1][::-1])
        text = sentence_in(chat).split()
        return Reply("\n".join(f"- {w}" for one in words for w in (one, one[::-1]) if w in text))

    acceptance = check(ask, sentence=sentence, samples=1)
    assert acceptance.accepted
    assert {"entities": 13, "tested": 12, "named": 0}.items() <= acceptance.values.items()


def test_too_few_entities_are_unmeasurable_unless_more_are_labelled() -> None:
    """A model cannot avoid the tests with one entity, or with names that are not in the sentence."""
    one = Fake(lambda x, _: present(x, 1), 1)
    for fake, labels, outcome in (
        (one, None, "unmeasurable"),
        (one, ("Adriana",), "unmeasurable"),
        (one, ("Adriana", "Lisbon"), "rejected"),
        (Fake(lambda x, _: ["Twilight", "Moby Dick"]), None, "unmeasurable"),
        (Fake(lambda x, _: ["Twilight", "Moby Dick"]), ("Adriana",), "rejected"),
    ):
        acceptance = check(fake, sentence=Sentence(SENTENCE, labels), rule="majority", samples=3)
        assert (acceptance.accepted, acceptance.outcome) == (False, outcome)
        assert ("labelled: " in acceptance.why) == (outcome == "rejected")
        assert acceptance.values.get("unmeasurable", 0) == (outcome == "unmeasurable")
        assert "tests" not in acceptance.values
    assert {text for text, _ in one.asked} == {SENTENCE}


WITHHELD, SORRY = Reply("", finish_reason="content_filter"), Reply("Sorry.")


def test_no_readable_reply() -> None:
    """A sentence without a readable reply is neither accepted nor rejected."""
    for reply, outcome, why in (
        (SORRY, "unparsed", "not a list"),
        (Reply("1. person: Adriana\n2. ci", finish_reason="length"), "unparsed", "cut off"),
        (WITHHELD, "refused", "content filter"),
    ):
        acceptance = check(Fake(lambda x, _, reply=reply: reply))  # type: ignore[misc]
        assert (acceptance.accepted, acceptance.outcome, acceptance.bound) == (False, outcome, None)
        assert why in acceptance.why
        assert acceptance.values["unread"] == 11


@pytest.mark.parametrize("rule", DECISIONS)
def test_unread_replies_never_pass(rule: str) -> None:
    """A changed sentence without a readable reply fails its tests and counts in A_rate.

    If a content filter withholds every changed sentence, the sentence is refused and counts in no rate. If some failed
    tests are unfiltered, it stays rejected.
    """
    unread = check(Fake(lambda x, _: SORRY if x else present(0)), 2, rule=rule)
    assert unread.outcome == "rejected"
    assert "could not be read" in unread.why
    assert {"con_rs": 0, "combinations": 5 * 11**3, "identity": 0}.items() <= unread.values.items()
    assert min(unread.values["unread"], unread.values["changed"]) > 0
    refused = check(Fake(lambda x, _: WITHHELD if x else present(0)), 2, rule=rule)
    assert (refused.accepted, refused.outcome) == (False, "refused")
    assert "content filter refused" in refused.why
    assert "tests" not in refused.values
    assert refused.values["unread"] > 11
    some = Fake(lambda x, _: WITHHELD if x & 1 else ["Nairobi"] if x == 2 else present(0) if x == 0 else [])
    rejected = check(some, 2, rule=rule, tests=60)
    assert (rejected.outcome, rejected.values["tests"]) == ("rejected", 60)


def test_unread_replies_are_counted_once() -> None:
    """Unread replies about the original sentence count once, even if several drawn vectors are 0."""
    for seed in range(5):
        acceptance = check(Fake(lambda x, n: SORRY if x == 0 and n < 3 else present(x, 2), 2), seed)
        assert acceptance.accepted
        assert {"unread": 3, "con_o": 8}.items() <= acceptance.values.items()


def test_groups_of_equal_answers() -> None:
    """The answer is that of the largest group; the other sizes are kept in descending order.

    Labels match the answer by normalised name, and unlabelled sentences have no such values.
    """
    replies = [present(0)[:1]] * 4 + [present(0)] * 6 + [present(0)[:2]]
    fake = Fake(lambda x, sample: replies[sample % 11] if x == 0 else present(x))
    labelled = Sentence(SENTENCE, ("adriana's", "The Lisbon", "Berlin"))
    values, more = check(fake).values, check(fake, sentence=labelled).values
    assert {"con_o": 6, "con_o_2": 4, "con_o_3": 1, "entities": 3}.items() <= values.items()
    assert not {"con_o_4", "labelled"} & {*values}
    assert {"labelled": 3, "labelled_extracted": 2}.items() <= more.items()


def test_bounds() -> None:
    """They are the figures of section 3 (.936, .765) and of five tests (.746), and ``any`` has no number."""
    printed = bound_of("any", PAPER.samples, PAPER.tests)
    assert printed.text == "no bound: best of 1,331 combinations; the rule any has no power against noise"
    assert (printed.epsilon, printed.probability) == (None, None)
    ten = bound_of("majority", 11, 10)
    assert ten.text == "; ".join(
        f"an extractor {far}-far from linear would have been rejected with probability at least {p}"
        for far, p in ((0.1, 0.936), (0.05, 0.765))
    )
    for bound, p in ((ten, 0.936), (bound_of(QUICK.rule, QUICK.samples, QUICK.tests), 0.746)):
        assert (bound.epsilon, round(bound.probability or 0, 3)) == (0.1, p)
    assert (failure_bound(FAR), failure_bound(0.26)) == (0.375, 2 / 9)
    assert rejection_bound(0.1, 0) == 0 == rejection_bound(0, 7)


def test_plan_counts_requests_of_a_typical_sentence() -> None:
    """A plan counts requests for the original, one entity's synonyms and the tested sentences."""
    prompts: list[str] = []

    async def ask(chat: Chat) -> Reply:
        prompts.append(chat.prompt)
        return Reply(key=PLANNED)

    check(ask)
    synonyms = sum("list synonyms" in prompt for prompt in prompts)
    assert (prompts.count(prompts[0]), synonyms, len(prompts)) == (11, 7, 11 + 7 + 165)
    assert len(set(prompts)) > 7


def test_sentence_without_a_changed_sentence_is_unmeasurable() -> None:
    """If every drawn vector is 0, nothing is known about replacements, even of an ideal extractor."""
    outcomes = Counter(
        check(Fake(lambda x, _: present(x, 1), 1), seed, tests=1).outcome for seed in range(40)
    )
    assert outcomes.keys() == {"accepted", "unmeasurable"}
    assert outcomes["unmeasurable"] > 3


def test_any_asks_about_every_sentence_afresh() -> None:
    """The paper's protocol sends 165 requests about transformed sentences at once, equal ones and R(0) included."""
    for seed, m in itertools.product(range(6), (1, 3)):
        fake = Fake(lambda x, _, m=m: present(x, m), m)  # type: ignore[misc]
        check(fake, seed)
        assert len(fake.asked) == len(set(fake.asked)) == 11 + 165 == 11 + fake.most
        for text, count in Counter(text for text, _ in fake.asked).items():
            assert count % 11 == 0
            assert sorted(sample for sent, sample in fake.asked if sent == text) == list(range(count))


def test_majority_asks_about_equal_vectors_once() -> None:
    """f has one value per vector, and that of R(0) is the answer itself."""
    for seed in range(6):
        fake = Fake(lambda x, _: present(x, 2), 2)
        check(fake, seed, rule="majority")
        times = Counter(text for text, _ in fake.asked)
        assert set(times.values()) == {11}
        assert len(times) <= 4


def test_counts_name_what_was_replaced() -> None:
    """An entity at fault has the counts of appendix A.3: found, its replacement found, by what was replaced."""
    cases: tuple[tuple[Callable[[str, int], Any], list[str], str], ...] = (
        # The replacement of Lisbon is only found where Adriana is replaced, too.
        (lambda n, x: n != "Nairobi" or x & 1, ["Lisbon"], 'with "Adriana" replaced, one of them in 4'),
        # Lisbon itself is lost where Adriana is replaced, and its replacement is always lost with Kenya's.
        (
            lambda n, x: not ((n == "Lisbon" and x & 1) or (n == "Nairobi" and x & 4)), ["Lisbon"],
            'with "Adriana" replaced, one of them in 1',
        ),
        # Both are found or none.
        (
            lambda n, x: n in ("Kenya", "Norway") or (x & 1) == (x >> 1 & 1), ["Adriana", "Lisbon"],
            "found in 22 of 44 replies; its replacement in 22 of 44",
        ),
        # Linear, but not faithful.
        (lambda n, x: n != "Nairobi", ["Lisbon"], "its replacement in 0 of "),
        # The name is longer.
        (lambda n, x: n + " office" * (n == "Norway"), ["Kenya"], 'as "norway office" in '),
    )  # fmt: skip
    for found, names, counts in cases:

        def extract(x: int, sample: int, found: Callable[[str, int], Any] = found) -> list[str]:
            names = [(name, found(name, x)) for name in present(x)]
            return [is_found if isinstance(is_found, str) else name for name, is_found in names if is_found]

        result = check(Fake(extract), 1, rule="majority", tests=20)
        culprits = objects_in(result.evidence, "culprits")
        assert sorted(str(culprit["name"]) for culprit in culprits) == names
        for culprit in culprits:
            assert counts in str(culprit["why"])
            assert len(names) == 1 or culprit["why"] == counts, "no other entity is a cause"
            assert str(culprit["why"]) in result.why
