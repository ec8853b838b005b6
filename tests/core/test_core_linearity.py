"""The algebra of the linearity test: laws, counting, and Theorem 3.1 on functions of known distance."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from pytest_llmprops.core.linearity import (
    FAR,
    Passed,
    all_pass,
    complement,
    different_draws,
    different_tests,
    draws,
    every_test,
    expected_vectors,
    failing_bits,
    failure_bound,
    fewest_failing,
    needed_tests,
    passing_combinations,
    pooled_bound,
    rejection_bound,
    vectors_away,
    xnor,
)
from tests.support.linear_functions import homomorphisms, is_linear_test


@st.composite
def vectors(draw: st.DrawFn, count: int) -> tuple[int, ...]:
    """(m, count vectors of m bits); shrinks to m = 1 and zeros."""
    m = draw(st.integers(1, 12))
    return (m, *(draw(st.integers(0, 2**m - 1)) for _ in range(count)))


@given(vectors(3))
def test_xnor_is_a_group(case: tuple[int, ...]) -> None:
    """XNOR is associative and commutative. Ones are its neutral element, and every element is its own inverse."""
    m, u, v, w = case
    ones = 2**m - 1
    assert xnor(u, xnor(v, w, m), m) == xnor(xnor(u, v, m), w, m)
    assert xnor(u, v, m) == xnor(v, u, m)
    assert xnor(u, ones, m) == u
    assert xnor(u, u, m) == ones
    assert 0 <= xnor(u, v, m) <= ones


@given(vectors(3))
def test_failing_bits_are_what_makes_a_test_fail(case: tuple[int, ...]) -> None:
    """Flipping bits of f(x XOR y) in a passing test makes exactly those bits fail."""
    m, u, v, flip = case
    passing = xnor(u, v, m)
    # The complement is the ideal extractor's answer.
    assert failing_bits(complement(u, m), complement(v, m), complement(u ^ v, m), m) == 0
    assert failing_bits(u, v, passing ^ flip, m) == flip
    assert is_linear_test(u, v, passing ^ flip, m) == (flip == 0)


def test_printed_bounds() -> None:
    """The bounds equal the figures of section 3 (.936, .765) and of the five-test protocol (.746)."""
    assert round(rejection_bound(0.1, 10), 3) == 0.936
    assert round(rejection_bound(0.05, 10), 3) == 0.765
    assert round(rejection_bound(0.1, 5), 3) == 0.746
    assert failure_bound(FAR) == 0.375
    assert failure_bound(0.26) == 2 / 9
    assert rejection_bound(0.1, 0) == 0 == rejection_bound(0, 7)


@pytest.mark.parametrize("epsilon", [-0.1, 1.1])
def test_invalid_distance_or_number_of_tests_is_an_error(epsilon: float) -> None:
    """A distance outside [0, 1] and a negative number of tests raise ValueError."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        failure_bound(epsilon)
    with pytest.raises(ValueError, match="-1"):
        rejection_bound(0.1, -1)


@given(st.integers(1, 4), st.data())
def test_combinations_are_counted_as_by_enumeration(m: int, data: st.DataObject) -> None:
    """Counting by different vectors gives the same result as enumerating all combinations."""
    lists = [data.draw(st.lists(st.integers(0, 2**m - 1), max_size=11)) for _ in range(3)]
    one, two, three = lists
    passing, total = passing_combinations(Counter(one), Counter(two), Counter(three), m)
    combinations = list(itertools.product(one, two, three))
    assert total == len(combinations)
    assert passing == sum(is_linear_test(x, y, z, m) for x, y, z in combinations)


def test_draws_are_uniform_with_replacement() -> None:
    """Pairs repeat, are uniform over all pairs of vectors, and are the same for the same seed."""
    pairs = draws(random.Random(1), 2, 4000)
    assert len(set(pairs)) == 16
    assert chisquare(list(Counter(pairs).values())).pvalue > 0.001
    assert pairs == draws(random.Random(1), 2, 4000)
    assert draws(random.Random(1), 0, 2) == [(0, 0), (0, 0)]


# Tests without replacement


@cache
def profiles(m: int) -> frozenset[tuple[int, int]]:
    """Return (distance in vectors, number of failing tests) of every function of m entities with f(0) = 1...1.

    Adding a homomorphism changes neither, so f is the ideal extractor on the vectors with one bit.
    """
    free = [x for x in range(1, 1 << m) if x & (x - 1)]
    values = np.array(list(itertools.product(range(1 << m), repeat=len(free))))
    tables = np.zeros((len(values), 1 << m), dtype=np.int64)
    tables[:, free] = values
    linear = np.array(list(homomorphisms(m))) ^ (np.arange(1 << m) ^ ((1 << m) - 1))
    distances = np.min([(tables != g).sum(axis=1) for g in linear], axis=0)
    failing = np.sum([tables[:, x] ^ tables[:, y] != tables[:, x ^ y] for x, y in every_test(m)], axis=0)
    return frozenset(zip(distances.tolist(), failing.tolist(), strict=True))


def passes(m: int, n: int, failing: int) -> float:
    """Return the exact probability that ``n`` tests without replacement pass."""
    return math.comb(different_tests(m) - failing, n) / math.comb(different_tests(m), n)


@pytest.mark.parametrize(("m", "count"), [(1, 0), (2, 1), (3, 7), (4, 35), (6, 651)])
def test_every_test_occurs_once(m: int, count: int) -> None:
    """Every set {x, y, x XOR y} of different vectors other than 0 is one test, listed once and drawn once."""
    vectors = range(1, 1 << m)
    sets = {frozenset((x, y, x ^ y)) for x in vectors for y in vectors if x != y}
    for pairs in (list(every_test(m)), different_draws(random.Random(1), m, 10**6)):
        assert [frozenset((x, y, x ^ y)) in sets for x, y in pairs] == [True] * count
        assert len({frozenset((x, y, x ^ y)) for x, y in pairs}) == len(sets) == different_tests(m) == count


def test_draws_without_replacement_are_uniform() -> None:
    """Every ordered selection of tests is equally likely, and a seed gives the same selection."""
    rng = random.Random(3)
    drawn = [different_draws(rng, 3, 2) for _ in range(4200)]
    times = Counter(tuple(frozenset((x, y, x ^ y)) for x, y in pairs) for pairs in drawn)
    assert len(times) == 42
    assert chisquare(list(times.values())).pvalue > 0.001
    assert different_draws(random.Random(5), 6, 9) == different_draws(random.Random(5), 6, 20)[:9]


@pytest.mark.parametrize("m", [2, 3])
def test_no_function_has_fewer_failing_tests(m: int) -> None:
    """Of all functions at distance k or more, none has fewer failing tests than stated; at k = 1, one has as many."""
    farthest = max(distance for distance, _ in profiles(m))
    assert farthest == (1 << m) - m - 1
    for k in range(farthest + 1):
        lowest = min(failing for distance, failing in profiles(m) if distance >= k)
        assert lowest >= fewest_failing(m, k)
        assert lowest == fewest_failing(m, k) or k > 1


def test_no_one_bit_function_has_fewer_failing_tests() -> None:
    """The same for all 2,048 functions of four entities to one bit, up to linear ones, and it is tight up to 1/6."""
    free = [x for x in range(1, 16) if x & (x - 1)]
    found = set()
    for code in range(1 << len(free)):
        table = [0] * 16
        for place, x in enumerate(free):
            table[x] = code >> place & 1
        linear = ([(x & a).bit_count() & 1 for x in range(16)] for a in range(16))
        distance = min(sum(u != v for u, v in zip(table, g, strict=True)) for g in linear)
        found.add((distance, sum(table[x] ^ table[y] != table[x ^ y] for x, y in every_test(4))))
    for k in range(max(found)[0] + 1):
        lowest = min(failing for distance, failing in found if distance >= k)
        assert lowest >= fewest_failing(4, k)
        assert lowest == fewest_failing(4, k) or k > 2


@pytest.mark.parametrize("m", [4, 5, 6, 9])
def test_bound_is_the_theorem_in_whole_numbers(m: int) -> None:
    """Failing tests are the share of Theorem 3.1, divided by the share of draws that can fail."""
    informative = (2**m - 1) * (2**m - 2) / 4**m
    for k in range(1, 2**m // 6 + 1):
        assert fewest_failing(m, k) / different_tests(m) == pytest.approx(
            failure_bound(k / 2**m) / informative
        )


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 0.05), (0.1, 0.1), (0.05, 0.05), (0.2, 0.2), (0.3, 0.01)]
)
@pytest.mark.parametrize("m", [2, 3])
def test_far_functions_pass_as_rarely_as_stated(m: int, epsilon: float, delta: float) -> None:
    """Of all functions, those at distance epsilon or more pass with probability at most delta; linear ones always."""
    n, k = needed_tests(m, epsilon, delta), vectors_away(epsilon, m)
    for vectors, failing in profiles(m):
        if vectors == 0:
            assert passes(m, n, failing) == 1
        elif vectors >= epsilon * 2**m:
            assert passes(m, n, failing) <= all_pass(m, n, k) + 1e-12 <= delta + 2e-12
    assert n == 1 or all_pass(m, n - 1, k) > delta


def test_fewer_tests_are_needed_than_with_replacement() -> None:
    """Vacuous tests, repeated tests and distances that no function has are not paid for."""
    needed = [needed_tests(m, 0.1, 0.05) for m in (1, 2, 3, 4, 5, 6, 12)]
    assert needed == [0, 1, 4, 7, 8, 10, 11]
    with_replacement = math.ceil(math.log(0.05) / math.log(1 - failure_bound(0.1)))
    assert with_replacement == 11


@pytest.mark.parametrize("n", [0, 1, 4, 7])
def test_expected_vectors_are_those_of_all_selections(n: int) -> None:
    """The mean over all selections of n of the seven tests of three entities."""
    selections = list(itertools.combinations(every_test(3), n))
    sizes = [len({z for x, y in pairs for z in (x, y, x ^ y)}) for pairs in selections]
    assert expected_vectors(3, n) == pytest.approx(sum(sizes) / len(sizes))


def test_one_function_has_its_own_bound() -> None:
    """Over one function, the pooled bound is that of the function, for every distance."""
    for m, n in ((2, 1), (3, 2), (4, 7), (6, 10)):
        pooled = pooled_bound([Passed(m, n)])
        for epsilon in (0.02, 0.1, 0.2, 0.25):
            assert pooled.all_pass(epsilon) == pytest.approx(all_pass(m, n, vectors_away(epsilon, m)))
        assert pooled.all_pass(1.0) == 0
        assert pooled.all_pass(pooled.epsilon(0.3)) <= 0.3 < pooled.all_pass(pooled.epsilon(0.3) - 1 / 256)


@pytest.mark.parametrize("tests", [(1, 2), (2, 2, 1), (3, 1, 0), (4, 4, 4)])
def test_pooled_bound_holds_for_all_functions(tests: tuple[int, ...]) -> None:
    """No functions of three entities at a mean distance of epsilon or more pass all tests more often than stated."""
    pooled = pooled_bound(Passed(3, n) for n in tests)
    chance = {(profile, n): passes(3, n, profile[1]) for profile in profiles(3) for n in tests}
    best: dict[int, float] = {}
    for chosen in itertools.product(profiles(3), repeat=len(tests)):
        total = sum(distance for distance, _ in chosen)
        product = math.prod(chance[profile, n] for profile, n in zip(chosen, tests, strict=True))
        best[total] = max(best.get(total, 0.0), product)
    for epsilon in (0.01, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6):
        worst = max((p for total, p in best.items() if total >= epsilon * 8 * len(tests)), default=0.0)
        assert worst <= pooled.all_pass(epsilon) + 1e-12
    assert best[1] == pytest.approx(pooled.all_pass(1 / 8 / len(tests)))


def test_pooled_bound_is_the_worst_distribution() -> None:
    """The knapsack finds the worst distribution of distances, by enumeration; known linear functions have none."""
    known = pooled_bound([Passed(2, 1), Passed(3, 7, is_known=True)])
    assert (known.all_pass(0.01), pooled_bound([Passed(4, 35)]).all_pass(0.01)) == (0, 0)
    assert known.epsilon(0.05) <= 0.01
    functions = (Passed(2, 1), Passed(4, 3), Passed(5, 2), Passed(3, 1, is_known=True))
    pooled = pooled_bound(functions)
    options = [[(k / 2**f.m, all_pass(f.m, f.tests, k)) for k in range(2**f.m - f.m)] for f in functions[:3]]
    for epsilon in (0.01, 0.03, 0.1, 0.2, 0.3, 0.44, 0.5):
        worst = max(
            (
                math.prod(p for _, p in chosen)
                for chosen in itertools.product(*options)
                if sum(d for d, _ in chosen) >= 4 * epsilon
            ),
            default=0.0,
        )
        assert pooled.all_pass(epsilon) == pytest.approx(worst)
