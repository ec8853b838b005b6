"""Where a function of one number is 0. To import scipy's search takes longer than a small run."""

from __future__ import annotations

from collections.abc import Callable


def root(function: Callable[[float], float], low: float, high: float, *, tolerance: float) -> float:
    """Return where a continuous function is 0, with about as many evaluations as Brent's method.

    Chandrupatla (1997), Advances in Engineering Software 28, 145-149: inverse quadratic interpolation where the three
    last points allow it, and bisection elsewhere.

    :param low, high: two points at which the function has different signs, or is 0.
    :param tolerance: the largest error.
    :raises ValueError: if the signs are the same.
    """
    a, b = high, low
    f_a, f_b = function(a), function(b)
    if f_a * f_b > 0:
        raise ValueError(f"the function has the same sign at {low} and {high}: {f_b} and {f_a}")
    share = 0.5
    while f_a != 0 and f_b != 0 and abs(b - a) > tolerance:
        x = a + share * (b - a)
        f_x = function(x)
        if (f_x > 0) == (f_a > 0):
            c, f_c = a, f_a
        else:
            c, f_c, b, f_b = b, f_b, a, f_a
        a, f_a = x, f_x
        share = 0.5
        if f_a != f_b and _is_smooth((a - b) / (c - b), (f_a - f_b) / (f_c - f_b)):
            share = f_a / (f_b - f_a) * f_c / (f_b - f_c)
            share += (c - a) / (b - a) * f_a / (f_c - f_a) * f_b / (f_c - f_b)
        # A step below the tolerance would not end the search.
        least = min(0.5, tolerance / (2 * abs(b - a))) if b != a else 0.5
        share = min(1 - least, max(least, share))
    return a if abs(f_a) < abs(f_b) else b


def _is_smooth(xi: float, phi: float) -> bool:
    """Return whether the inverse quadratic through three points is monotonic between them."""
    return phi**2 < xi and (1 - phi) ** 2 < 1 - xi
