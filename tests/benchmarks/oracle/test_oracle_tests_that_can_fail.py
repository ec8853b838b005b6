"""Tests of linearity that no extractor fails, and fresh askings under the rule ``any``."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from scipy.stats import binomtest, chisquare, spearmanr

from pytest_llmprops.benchmarks.oracle.settings import LINEARITY_QUICK
from pytest_llmprops.core.linearity import (
    complement,
    draws,
    failure_bound,
    informative_draws,
    is_informative,
)
from tests.support.linear_functions import distance_to_homomorphisms, failure_rate
from tests.support.oracle_fakes import SENTENCE, Fake, check, names_of, present


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


@pytest.mark.simulation
@pytest.mark.parametrize("flips", [{1: 0b101}, {1: 0b101, 6: 0b101}, {1: 0b001, 6: 0b010, 3: 0b111}])
def test_bound_holds_for_informative_draws(flips: dict[int, int]) -> None:
    """With f(0) = 111, informative tests fail more often than uniform ones, so the bound stays valid."""
    table = [complement(x, 3) ^ flips.get(x, 0) for x in range(8)]
    epsilon = distance_to_homomorphisms(table, 3)
    n = 400
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
        assert acceptance.values["informative_tests"] == 0
        assert acceptance.values["no_informative_test"] == 1
        assert acceptance.why.startswith("5 of 5 tests passed, 0 of which could fail")


def test_one_entity_is_unmeasurable_with_informative_draws() -> None:
    """``quick`` does not accept what it cannot test, and asks nothing about changed sentences."""
    assert LINEARITY_QUICK.draw == "informative"
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
        if not acceptance.values["changed"]:
            unchanged += 1
            assert acceptance.accepted
            assert acceptance.values["linear_not_faithful"] == 1
            assert acceptance.why.endswith("no sentence was changed")
        else:
            assert acceptance.values["linear_not_faithful"] == 0
    assert unchanged > 3


@pytest.mark.parametrize("m", [1, 2, 3, 5])
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


@pytest.mark.simulation
def test_consistency_does_not_depend_on_the_number_of_entities() -> None:
    """For an extractor without dependence, Con_rs is not correlated with #E (it was when replies were reused).

    Every reply is complete with probability 0.7, whatever the number of entities.
    """
    sizes, con_rs = [], []
    for seed in range(400):
        m = 1 + seed % 5
        rng = random.Random(seed)

        def noisy(x: int, _: int, rng: random.Random = rng, m: int = m) -> list[str]:
            return present(x, m) if rng.random() < 0.7 else [*present(x, m), "Ghost"]

        sizes.append(m)
        con_rs.append(check(Fake(noisy, m), seed, tests=3).values["con_rs"])
    correlation = spearmanr(sizes, con_rs)
    assert abs(correlation.statistic) < 0.1
    assert correlation.pvalue > 0.05


@pytest.mark.simulation
def test_any_has_no_power_against_noise_and_says_so() -> None:
    """An extractor that drops 30% is accepted under ``any``, with that remark, and rarely under ``majority``."""
    accepted = {"any": 0, "majority": 0}
    for seed in range(60):
        for rule in accepted:
            acceptance = check(Fake(dropping(seed, 4, 0.3), 4), seed, rule=rule, draw="informative")
            accepted[rule] += acceptance.accepted
            no_power = "the rule any has no power against noise"
            assert (no_power in acceptance.why) == (rule == "any" and acceptance.accepted)
    assert accepted["any"] == 60
    assert accepted["majority"] < 45
