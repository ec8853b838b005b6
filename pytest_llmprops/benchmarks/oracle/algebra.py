"""The algebra of the linearity test (Zeng, Wang & Ibbetson, section 3; Blum, Luby & Rubinfeld 1990).

A vector of {0,1}^m is an ``int`` below 2^m; bit i belongs to entity i. The domain G1 is ({0,1}^m, XOR), the range
G2 is ({0,1}^m, XNOR). f: G1 -> G2 is a homomorphism when f(x XOR y) = f(x) XNOR f(y) for all x, y, which is
f(x) = NOT(A x) for a matrix A over GF(2): XNOR's neutral element is the vector of ones.

The distance between two functions is the share of x on which they differ. (The paper's formula has "=" there by
mistake.)
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from pytest_llmprops.benchmarks.oracle.scheme import Bound
from pytest_llmprops.benchmarks.oracle.settings import OracleSettings

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


def informative_draws(rng: random.Random, m: int, n: int) -> list[tuple[int, int]]:
    """Draw ``n`` informative pairs (x, y), uniformly and with replacement; none if m < 2, where none exists.

    A pair is informative if x and y are different and not 0: otherwise the equation of its test only says f(0) = 1...1.
    Of uniform draws, all are such tests at m = 1, 62.5% at m = 2 and 34% at m = 3.

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


def draw_pairs(settings: OracleSettings, rng: random.Random, m: int) -> list[tuple[int, int]]:
    """Draw x and y of the tests of a sentence with m entities, uniformly and with replacement."""
    return (draws if settings.rule == "any" else informative_draws)(rng, m, settings.tests)


#: distances for which a bound is printed (section 3)
EPSILONS = (0.1, 0.05)
#: printed with every acceptance under ``any``
NO_POWER = "the rule any has no power against noise"


def bound_of(settings: OracleSettings) -> Bound:
    """Return the bound of an acceptance under these settings (Theorem 3.1 over the tests of one sentence).

    Under ``any`` there is no bound, because a test is the best of all combinations of samples. If a reply cannot be
    read, f has no value and the test fails. The bound then applies to extractors that are far for every such value.

    The bound of informative draws needs f(0) = 1...1: the answer about the sentence has none of the replacements. The
    synonym generator refuses replacements that are an entity of the answer, or contain one.

    f is the function that the samples of this run determine, one value per vector. Another run's samples may determine
    another function.
    """
    if settings.rule == "any":
        return Bound(f"no bound: best of {settings.samples**3:,} combinations; {NO_POWER}")
    bounds = [_bound(epsilon, rejection_bound(epsilon, settings.tests)) for epsilon in EPSILONS]
    return replace(bounds[0], text="; ".join(bound.text for bound in bounds))


def _bound(epsilon: float, probability: float) -> Bound:
    text = (
        f"an extractor {epsilon:g}-far from linear would have been rejected with probability at least"
        f" {probability:.3f}"
    )
    return Bound(text, epsilon, probability)
