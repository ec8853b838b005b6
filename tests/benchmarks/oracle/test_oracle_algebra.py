"""The algebra of the linearity test: laws, counting, and Theorem 3.1 on functions of known distance."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from pytest_llmprops.benchmarks.oracle.linearity import (
    FAR,
    complement,
    draws,
    failing_bits,
    failure_bound,
    informative_draws,
    passing_combinations,
    rejection_bound,
    xnor,
)
from tests.support.linear_functions import is_linear_test


@st.composite
def vectors(draw: st.DrawFn, count: int) -> tuple[int, ...]:
    """(m, count vectors of m bits); shrinks to m = 1 and zeros."""
    m = draw(st.integers(1, 12))
    return (m, *(draw(st.integers(0, 2**m - 1)) for _ in range(count)))


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


@given(st.integers(1, 4), st.data())
def test_combinations_are_counted_as_by_enumeration(m: int, data: st.DataObject) -> None:
    """Counting by different vectors gives the same result as enumerating all combinations."""
    lists = [data.draw(st.lists(st.integers(0, 2**m - 1), max_size=11)) for _ in range(3)]
    one, two, three = lists
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
