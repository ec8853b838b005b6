"""What McNemar's test on so many pairs could have shown. Losses, gains and drop are defined in
``core/comparison.py``, which has the same for clusters. scipy is imported where it is used.
"""

from __future__ import annotations

import math
from functools import lru_cache

#: counts may be sums of fractions, exact but for this share
ROUNDING = 1e-9

#: precision of a detectable drop
PRECISION = 1e-5

#: probability left out at either end of the number of flips
_TAIL = 1e-10


def detectable_drop(losses: float, gains: float, n: int, *, alpha: float, power: float = 0.80) -> float:
    """Smallest true drop that a one-sided exact McNemar test on ``n`` pairs would have found with this power.

    Model: flips that go either way are churn, at a rate of m = (min(losses, gains) + 1/2) / (n + 1) in each
    direction. Under a true drop d a pair is lost with probability m + d, gained with m, else tied; so d is at
    most 1 - 2m. The power is exact: the number of flips is binomial (n, 2m + d), and given it the number of
    losses is binomial with (m + d) / (2m + d), rejected from the test's critical value on (the unconditional
    power of the conditional test, Connor 1987, *Biometrics* 43, 207-211). It grows with d.

    :returns: a fraction in (0, 1], or ``math.inf`` where even the largest possible drop would not be found so often.
    :raises ValueError: unless losses, gains >= 0, losses + gains <= n, n > 0 and 0 < alpha < power < 1.
    """
    if n <= 0 or min(losses, gains) < 0 or losses + gains > n * (1 + ROUNDING):
        raise ValueError(f"detectable_drop cannot have {losses} losses and {gains} gains among {n} pairs")
    if not 0 < alpha < power < 1:
        raise ValueError(f"detectable_drop needs 0 < alpha < power < 1, not {alpha} and {power}")
    return _detectable_drop(min(losses, gains), n, alpha, power)


@lru_cache(maxsize=1024)
def _detectable_drop(churned: float, n: int, alpha: float, power: float) -> float:
    from scipy.optimize import brentq

    churn = (churned + 0.5) / (n + 1)
    largest = 1 - 2 * churn
    if largest <= 0 or mcnemar_power(largest, churn, n, alpha) < power:
        return math.inf
    root = brentq(lambda d: mcnemar_power(d, churn, n, alpha) - power, 0.0, largest, xtol=PRECISION)
    return float(root)


def mcnemar_power(drop: float, churn: float, n: int, alpha: float) -> float:
    """Probability that the one-sided exact McNemar test rejects at ``alpha``, where a pair is lost with probability
    churn + drop and gained with churn. The numbers of flips that are summed over hold all but 2e-10 of it."""
    import numpy as np
    from scipy.stats import binom

    flip_rate = min(1.0, 2 * churn + drop)
    first, last = (int(binom.ppf(p, n, flip_rate)) for p in (_TAIL, 1 - _TAIL))
    flips = np.arange(first, last + 1)
    critical = binom.isf(alpha, flips, 0.5)  # rejected where losses are above it
    rejected = binom.sf(critical, flips, min(1.0, (churn + drop) / flip_rate))
    return float(np.sum(binom.pmf(flips, n, flip_rate) * rejected))
