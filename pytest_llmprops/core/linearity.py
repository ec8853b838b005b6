"""The algebra of the linearity test (Zeng, Wang & Ibbetson, section 3; Blum, Luby & Rubinfeld 1990).

A vector of {0,1}^m is an ``int`` below 2^m; bit i belongs to entity i. The domain G1 is ({0,1}^m, XOR), the range
G2 is ({0,1}^m, XNOR). f: G1 -> G2 is a homomorphism when f(x XOR y) = f(x) XNOR f(y) for all x, y, which is
f(x) = NOT(A x) for a matrix A over GF(2): XNOR's neutral element is the vector of ones.

The distance between two functions is the share of x on which they differ. (The paper's formula has "=" there by
mistake.)
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

#: distance beyond which Theorem 3.1 has one bound for all functions
FAR = 0.25
#: that bound
FAR_FAILURE = 2 / 9


def complement(x: int, m: int) -> int:
    """Return ``x`` with all m bits flipped: the vector of the ideal extractor on R(x) (section 3.1)."""
    return ~x & ((1 << m) - 1)


def xnor(u: int, v: int, m: int) -> int:
    """Return u XNOR v, the operation of G2: bit i is 1 if u and v agree on it."""
    return complement(u ^ v, m)


def failing_bits(fx: int, fy: int, fxy: int, m: int) -> int:
    """Return the bits on which the test f(x XOR y) = f(x) XNOR f(y) fails; 0 if it passes."""
    return fxy ^ xnor(fx, fy, m)


def failure_bound(epsilon: float) -> float:
    """Return the lowest failure probability of a test on a function ``epsilon`` away from all homomorphisms.

    Theorem 3.1: 3e - 6e^2 up to e = 1/4, and 2/9 beyond.

    The theorem is about functions at distance exactly e. In these groups, every element is its own inverse, and
    3e - 6e^2 is also a bound for every function at distance *at least* e, up to e = 1/6. The argument:

    - A single bit of f at distance e from its nearest homomorphism fails that often on its own (Bellare, Coppersmith,
      Håstad, Kiwi & Sudan 1996). Otherwise all bits and their sums are closer than e.
    - Then their nearest homomorphisms are sums of each other, and f is closer than 2e to the combined homomorphism.
    - At such a distance, the bound of the theorem is at least its value at e.

    :raises ValueError: unless 0 <= epsilon <= 1.
    """
    if not 0 <= epsilon <= 1:
        raise ValueError(f"a distance must be between 0 and 1, not {epsilon}")
    return 3 * epsilon - 6 * epsilon**2 if epsilon <= FAR else FAR_FAILURE


def rejection_bound(epsilon: float, n: int) -> float:
    """Return the lowest probability that one of ``n`` independent tests fails on a function at distance ``epsilon``.

    1 - (1 - 3e + 6e^2)^n for e <= 1/4 (section 3: about .936 at e = .1 and n = 10), and 1 - (7/9)^n beyond.

    :raises ValueError: unless 0 <= epsilon <= 1 and n >= 0.
    """
    if n < 0:
        raise ValueError(f"the number of tests must be at least 0, not {n}")
    return 1 - (1 - failure_bound(epsilon)) ** n


def passing_combinations(
    samples_x: Mapping[int, int], samples_y: Mapping[int, int], samples_xy: Mapping[int, int], m: int
) -> tuple[int, int]:
    """Count the combinations of one sample per sentence: (passing, all) (section 5.1: 11^3).

    The cost is the number of *different* vectors of x times that of y, because they determine the third vector.

    :param samples_x: vector -> number of samples with f(x) equal to it; the same for y and for x XOR y.
    """
    passing = sum(
        times_u * times_v * samples_xy.get(xnor(u, v, m), 0)
        for u, times_u in samples_x.items()
        for v, times_v in samples_y.items()
    )
    return passing, sum(samples_x.values()) * sum(samples_y.values()) * sum(samples_xy.values())


def draws(rng: random.Random, m: int, n: int) -> list[tuple[int, int]]:
    """Draw ``n`` pairs (x, y) uniformly and with replacement from {0,1}^m, as the theorem requires."""
    return [(rng.getrandbits(m), rng.getrandbits(m)) for _ in range(n)]


def is_informative(x: int, y: int) -> bool:
    """Return True if a test can fail on a function with f(0) = 1...1: x and y are different and not 0.

    With x = 0, y = 0 or x = y, the equation of the test only says f(0) = 1...1. Of uniform draws, all are such tests at
    m = 1, 62.5% at m = 2 and 34% at m = 3.
    """
    return x != y and x != 0 and y != 0


def informative_draws(rng: random.Random, m: int, n: int) -> list[tuple[int, int]]:
    """Draw ``n`` informative pairs (x, y), uniformly and with replacement; none if m < 2, where none exists.

    If f(0) = 1...1, only informative tests fail. They therefore fail at least as often as uniform tests, and
    :func:`rejection_bound` is a bound for them too.
    """
    if m < 2:
        return []
    pairs = []
    for _ in range(n):
        x, y = rng.randrange(1, 1 << m), rng.randrange(1, (1 << m) - 1)
        pairs.append((x, y + (y >= x)))
    return pairs


# Bounds for tests of linearity that are drawn without replacement from one or more functions.
#
# The functions are those of ``linearity``, with f(0) = 1...1. A *test* is then a set {x, y, x XOR y} of three
# different vectors that are not 0, because the order does not matter. There are (2^m - 1)(2^m - 2) / 6 of
# them, and f is a homomorphism exactly if all of them pass. Distances are counted in vectors: k is the
# distance k / 2^m.

#: distances of a pooled bound are rounded up to multiples of 1/256, which is exact up to 8 entities
_GRID = 256


def different_tests(m: int) -> int:
    """Return the number of tests of m entities."""
    return ((1 << m) - 1) * ((1 << m) - 2) // 6


def different_draws(rng: random.Random, m: int, n: int) -> list[tuple[int, int]]:
    """Draw ``n`` tests (x, y), uniformly and without replacement; all tests in random order if there are fewer."""

    def new() -> Iterator[tuple[int, int]]:
        drawn: set[frozenset[int]] = set()
        while len(drawn) < different_tests(m):
            [(x, y)] = informative_draws(rng, m, 1)
            if (test := frozenset((x, y, x ^ y))) not in drawn:
                drawn.add(test)
                yield x, y

    return list(islice(new(), n))


def every_test(m: int) -> Iterator[tuple[int, int]]:
    """Yield every test (x, y) once."""
    for x in range(1, 1 << m):
        for y in range(x + 1, 1 << m):
            if x ^ y > y:
                yield x, y


def vectors_away(epsilon: float, m: int) -> int:
    """Return the lowest distance of at least ``epsilon`` that a function of m entities can have, in vectors."""
    return math.ceil(epsilon * (1 << m))


def fewest_failing(m: int, k: int) -> int:
    """Return a lower bound on the number of failing tests of a function at distance *at least* k from linear.

    It is k (2^(m-1) - k) for k <= 2^m / 6, which is Theorem 3.1 in whole numbers. Beyond, it is the bound for the
    largest such k. The proof:

    1. Let f differ from a homomorphism g on a set B of b vectors. A test with exactly one vector in B fails. Every
       vector is in 2^(m-1) - 1 tests, and every pair of vectors in one. So at least b (2^(m-1) - 1) - b (b - 1) =
       b (2^(m-1) - b) tests fail. This is at least the bound if k <= b <= 2^(m-1) - k.
    2. For a sum c.f of bits of f at distance b from linear, the share of all pairs (x, y) that fail is at least
       b / 2^m (Bellare, Coppersmith, Håstad, Kiwi & Sudan 1996), and six pairs are one test: at least b 2^m / 6 tests
       fail. For b > 2^(m-1) - k >= 2^m / 3, this is at least 4^m / 18, the highest value of the bound. With 1, the
       bound holds if any sum of bits is at distance k or more.
    3. Otherwise, each sum of bits differs from its nearest g_c on fewer than k vectors. Then g_c + g_d = g_(c+d),
       because they differ on fewer than 3k <= 2^(m-1) vectors, and different ones differ on 2^(m-1). So the g_c are
       the sums of bits of one homomorphism g. A vector at which f differs from g counts in half of the 2^m sums, so
       there are fewer than 2k <= 2^(m-1) - k of them, and 1 applies.
    """
    if k <= 0:
        return 0
    k = min(k, (1 << m) // 6)
    return max(1, k * ((1 << m - 1) - k))


def all_pass(m: int, n: int, k: int) -> float:
    """Return an upper bound on the probability that ``n`` tests pass on a function at distance at least k.

    The tests are drawn without replacement, so the probability is hypergeometric.
    """
    tests, failing = different_tests(m), fewest_failing(m, k)
    return math.prod(max(0, tests - failing - i) / (tests - i) for i in range(min(n, tests)))


def needed_tests(m: int, epsilon: float, delta: float) -> int:
    """Return the lowest number of tests that all pass with probability at most ``delta`` on an epsilon-far function."""
    k = vectors_away(epsilon, m)
    every = different_tests(m)
    return next((n for n in range(every) if all_pass(m, n, k) <= delta), every)


def expected_vectors(m: int, n: int) -> float:
    """Return the expected number of different vectors, other than 0, in ``n`` tests drawn without replacement."""
    tests = different_tests(m)
    others = tests - ((1 << m - 1) - 1)
    return ((1 << m) - 1) * (1 - math.comb(others, n) / math.comb(tests, n))


@dataclass(frozen=True, slots=True)
class Passed:
    """A function of m entities whose ``tests`` tests all passed.

    :param is_known: whether the function is known for every vector, and linear.
    """

    m: int
    tests: int
    is_known: bool = False

    def options(self) -> Iterator[tuple[int, float]]:
        """Yield distances, in steps of the grid, with the bound on the probability that the tests pass.

        Of distances with the same bound, only the farthest matters: a homomorphism can be chosen to agree at 0 and
        at m independent vectors.
        """
        yield 0, 1.0
        farthest = (1 << self.m) - self.m - 1
        if self.is_known or farthest < 1:
            return
        last = min(max(1, (1 << self.m) // 6), farthest)
        for k in range(1, last + 1):
            passes = all_pass(self.m, self.tests, k)
            if passes > 0:
                yield math.ceil((farthest if k == last else k) * _GRID / (1 << self.m)), passes


@dataclass(frozen=True, slots=True)
class PooledBound:
    """What accepting several functions says about the mean of their distances from linear.

    :param costs: total distance, in steps of the grid -> -log of the highest probability that all tests of all
        functions pass at this total distance or more.
    """

    functions: int
    costs: Sequence[float]

    def all_pass(self, epsilon: float) -> float:
        """Return an upper bound on the probability that all tests pass if the mean distance is at least ``epsilon``."""
        return math.exp(-self.costs[min(self._steps(epsilon), len(self.costs) - 1)])

    def epsilon(self, delta: float) -> float:
        """Return the lowest mean distance at which all tests pass with probability at most ``delta``."""
        step = next(step for step, cost in enumerate(self.costs) if math.exp(-cost) <= delta)
        return step / _GRID / self.functions

    def _steps(self, epsilon: float) -> int:
        return math.ceil(epsilon * self.functions * _GRID)


def pooled_bound(functions: Iterable[Passed]) -> PooledBound:
    """Return the bound over functions with independently drawn tests, in the worst case.

    The probability that all tests pass is the product over the functions. The worst case distributes the total
    distance over the functions so that the product is highest; a knapsack over the options of each function finds it.
    Many small distances are found more easily than one large one, so the worst case has a few functions that are far.
    """
    import numpy as np

    costs = np.zeros(1)
    count = 0
    for function in functions:
        count += 1
        options = [(steps, -math.log(passes)) for steps, passes in function.options()]
        longest = max(steps for steps, _ in options)
        total = np.full(len(costs) + longest, np.inf)
        for steps, cost in options:
            # At most ``steps`` of the distance: a lower total is never harder to reach than a higher one.
            reached = np.concatenate((np.full(steps, costs[0]), costs)) + cost
            total[: len(reached)] = np.minimum(total[: len(reached)], reached)
        costs = total
    return PooledBound(count, (*costs.tolist(), math.inf))
