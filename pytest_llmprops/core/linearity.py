"""The algebra of the linearity test (Zeng, Wang & Ibbetson, section 3; Blum, Luby & Rubinfeld 1990).

A vector of {0,1}^m is an ``int`` below 2^m; bit i belongs to entity i. The domain G1 is ({0,1}^m, XOR), the range
G2 is ({0,1}^m, XNOR). f: G1 -> G2 is a homomorphism when f(x XOR y) = f(x) XNOR f(y) for all x, y, which is
f(x) = NOT(A x) for a matrix A over GF(2): XNOR's neutral element is the vector of ones.

A function is held as its table, ``table[x] = f(x)``, of length 2^m. The distance of two functions is the share of
x on which they differ (the paper prints "=" where it means that).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence

#: the distance beyond which Theorem 3.1 has one bound for all functions
FAR = 0.25
#: that bound
FAR_FAILURE = 2 / 9

Table = Sequence[int]


def complement(x: int, m: int) -> int:
    """``x`` with all m bits turned over: the vector of the ideal extractor on R(x) (section 3.1)."""
    return ~x & ((1 << m) - 1)


def xnor(u: int, v: int, m: int) -> int:
    """The operation of G2: bit i is 1 where u and v agree."""
    return complement(u ^ v, m)


def is_linear_test(fx: int, fy: int, fxy: int, m: int) -> bool:
    """Whether one test passes: f(x XOR y) = f(x) XNOR f(y), from the three values."""
    return fxy == xnor(fx, fy, m)


def failing_bits(fx: int, fy: int, fxy: int, m: int) -> int:
    """The bits on which the test fails; 0 when it passes."""
    return fxy ^ xnor(fx, fy, m)


def is_homomorphism(table: Table, m: int) -> bool:
    """Whether every test on the function passes; 4^m tests."""
    return failure_rate(table, m) == 0


def failure_rate(table: Table, m: int) -> float:
    """Probability that a test with uniform x and y fails, counted over all 4^m pairs."""
    pairs = itertools.product(range(1 << m), repeat=2)
    failed = sum(not is_linear_test(table[x], table[y], table[x ^ y], m) for x, y in pairs)
    return failed / (1 << 2 * m)


def homomorphisms(m: int) -> Iterator[tuple[int, ...]]:
    """The tables of all homomorphisms from G1 to G2; there are 2^(m*m), so small m only."""
    for columns in itertools.product(range(1 << m), repeat=m):
        table = [0]
        # A (x + bit j) = A x + column j: each column doubles the table.
        for column in columns:
            table += [value ^ column for value in table]
        yield tuple(complement(value, m) for value in table)


def distance(f: Table, g: Table) -> float:
    """Share of x on which the functions differ, Pr[f(x) != g(x)] for uniform x."""
    return sum(a != b for a, b in zip(f, g, strict=True)) / len(f)


def distance_to_homomorphisms(table: Table, m: int) -> float:
    """Distance of f to the nearest homomorphism, by trying all; small m only."""
    return min(distance(table, g) for g in homomorphisms(m))


def failure_bound(epsilon: float) -> float:
    """Theorem 3.1: least probability that a test fails on a function at distance ``epsilon`` from all homomorphisms.

    3e - 6e^2 up to e = 1/4, beyond that 2/9.

    Read for *every* function that is at least e far, 3e - 6e^2 holds up to e = 1/6 in these groups, where every
    element is its own inverse: one bit of f whose nearest homomorphism were e far would fail that often by itself
    (Bellare, Coppersmith, Håstad, Kiwi & Sudan 1996), so all bits and their sums are closer than e, their nearest
    homomorphisms are sums of each other, and f is closer than 2e to the one that they make, where the theorem's own
    form is at least its value at e.

    :raises ValueError: unless 0 <= epsilon <= 1.
    """
    if not 0 <= epsilon <= 1:
        raise ValueError(f"a distance lies between 0 and 1, not {epsilon}")
    return 3 * epsilon - 6 * epsilon**2 if epsilon <= FAR else FAR_FAILURE


def rejection_bound(epsilon: float, n: int) -> float:
    """Least probability that at least one of ``n`` independent tests fails on a function ``epsilon`` far.

    1 - (1 - 3e + 6e^2)^n for e <= 1/4 (section 3: about .936 at e = .1 and n = 10), 1 - (7/9)^n beyond.

    :raises ValueError: unless 0 <= epsilon <= 1 and n >= 0.
    """
    if n < 0:
        raise ValueError(f"a number of tests cannot be {n}")
    return 1 - (1 - failure_bound(epsilon)) ** n


def passing_combinations(
    samples_x: Mapping[int, int], samples_y: Mapping[int, int], samples_xy: Mapping[int, int], m: int
) -> tuple[int, int]:
    """(passing, all) combinations of one sample of each of the three sentences (section 5.1: 11^3).

    :param samples_x: how often each vector came as f(x); likewise for y and for x XOR y.

    Costs the number of *different* vectors of x times those of y: the third is given by the other two.
    """
    passing = sum(
        times_u * times_v * samples_xy.get(xnor(u, v, m), 0)
        for u, times_u in samples_x.items()
        for v, times_v in samples_y.items()
    )
    return passing, sum(samples_x.values()) * sum(samples_y.values()) * sum(samples_xy.values())


def draws(rng: random.Random, m: int, n: int) -> list[tuple[int, int]]:
    """``n`` pairs (x, y), each drawn uniformly and with replacement from {0,1}^m, as the theorem asks."""
    return [(rng.getrandbits(m), rng.getrandbits(m)) for _ in range(n)]
