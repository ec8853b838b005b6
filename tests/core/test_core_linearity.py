"""The algebra of the linearity test: laws, counting, and Theorem 3.1 on functions of known distance."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, chisquare

from pytest_llmprops.core.linearity import (
    FAR,
    complement,
    draws,
    failing_bits,
    failure_bound,
    passing_combinations,
    rejection_bound,
    xnor,
)
from tests.support.linear_functions import (
    distance,
    distance_to_homomorphisms,
    failure_rate,
    homomorphisms,
    is_homomorphism,
    is_linear_test,
)


@st.composite
def vectors(draw: st.DrawFn, count: int) -> tuple[int, ...]:
    """(m, count vectors of m bits); shrinks to m = 1 and zeros."""
    m = draw(st.integers(1, 12))
    return (m, *(draw(st.integers(0, 2**m - 1)) for _ in range(count)))


@st.composite
def tables(draw: st.DrawFn) -> tuple[int, list[int]]:
    """(m, a function of m bits to m bits as a table); shrinks to m = 1 and the constant 0."""
    m = draw(st.integers(1, 3))
    return m, draw(st.lists(st.integers(0, 2**m - 1), min_size=2**m, max_size=2**m))


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


@given(vectors(2))
def test_ideal_extractor_passes_always(case: tuple[int, ...]) -> None:
    """The complement, which is the ideal extractor's answer, passes the test for all x and y."""
    m, x, y = case
    assert is_linear_test(complement(x, m), complement(y, m), complement(x ^ y, m), m)
    assert failing_bits(complement(x, m), complement(y, m), complement(x ^ y, m), m) == 0


@given(vectors(3))
def test_failing_bits_are_what_makes_a_test_fail(case: tuple[int, ...]) -> None:
    """Flipping bits of f(x XOR y) in a passing test makes exactly those bits fail."""
    m, u, v, flip = case
    passing = xnor(u, v, m)
    assert failing_bits(u, v, passing ^ flip, m) == flip
    assert is_linear_test(u, v, passing ^ flip, m) == (flip == 0)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_homomorphisms_are_complete(m: int) -> None:
    """The 2^(m*m) tables are all different and pass every test. For m = 2, no other function passes every test."""
    functions = list(homomorphisms(m))
    assert len(functions) == len(set(functions)) == 2 ** (m * m)
    assert all(is_homomorphism(table, m) for table in functions)
    assert tuple(complement(x, m) for x in range(2**m)) in functions
    if m == 2:
        every = itertools.product(range(4), repeat=4)
        assert {table for table in every if is_homomorphism(table, 2)} == set(functions)


@given(tables())
def test_theorem_at_the_exact_distance(case: tuple[int, list[int]]) -> None:
    """Counted over all pairs, a function fails at least as often as Theorem 3.1 says for its distance."""
    m, table = case
    assert failure_rate(table, m) >= failure_bound(distance_to_homomorphisms(table, m)) - 1e-12


@pytest.mark.simulation
def test_theorem_holds_beyond_the_exact_distance() -> None:
    """Up to 1/6, no function at distance epsilon or more fails less often than the bound at epsilon.

    The functions: all from two bits to two bits, and every seventh from four bits to one bit.
    """
    cases = [(list(table), 2) for table in itertools.product(range(4), repeat=4)]
    one_bit = [[(code >> x & 1) for x in range(16)] for code in range(0, 2**16, 7)]
    rates = [(distance_to_homomorphisms(table, m), failure_rate(table, m)) for table, m in cases]
    linear = [[(x & mask).bit_count() & 1 ^ 1 for x in range(16)] for mask in range(16)]
    for table in one_bit:
        failed = sum(table[x ^ y] ^ table[x] ^ table[y] ^ 1 for x in range(16) for y in range(16))
        rates.append((min(distance(table, g) for g in linear), failed / 256))
    for epsilon in (0.05, 0.1, 1 / 6):
        far = [rate for far_by, rate in rates if far_by >= epsilon]
        assert far
        assert min(far) >= failure_bound(epsilon)


@pytest.mark.parametrize(
    ("flips", "epsilon"),
    [({1: 0b101}, 1 / 8), ({1: 0b101, 6: 0b101}, 2 / 8), ({1: 0b001, 6: 0b010, 3: 0b111}, 3 / 8)],
)
def test_simulated_tests_fail_often_enough(flips: dict[int, int], epsilon: float) -> None:
    """Random tests of an ideal extractor that is changed on some points fail as often as the theorem says.

    One, two or three of eight points are changed. The distance is computed from all 512 homomorphisms. Binomial tests
    compare 4,000 random tests with the bound and with the exact rate.
    """
    m = 3
    table = [complement(x, m) for x in range(8)]
    for x, flip in flips.items():
        table[x] ^= flip
    assert distance_to_homomorphisms(table, m) == epsilon
    n = 4000
    failed = sum(
        not is_linear_test(table[x], table[y], table[x ^ y], m) for x, y in draws(random.Random(5), m, n)
    )
    assert binomtest(failed, n, failure_bound(epsilon), alternative="less").pvalue > 0.001
    assert binomtest(failed, n, failure_rate(table, m)).pvalue > 0.001


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
