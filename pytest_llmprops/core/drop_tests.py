"""Tests of a drop: one-sided p-values of "the candidate is not worse".

scipy is imported where it is used, because most runs compare nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, overload

from pytest_llmprops.core.pairs import ROUNDING, Pairs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats: TypeAlias = NDArray[np.float64]

#: for up to 14 clusters all sign flips are enumerated; for more, this many are drawn
SIGN_FLIPS = 2**14


class DropTest(NamedTuple):
    """One-sided p-value of "the candidate is not worse", and the name of the test."""

    p: float
    method: str


@overload
def mcnemar_drop(losses: int, gains: int) -> float: ...
@overload
def mcnemar_drop(losses: ArrayLike, gains: ArrayLike) -> Floats: ...


def mcnemar_drop(losses: ArrayLike, gains: ArrayLike) -> float | Floats:
    """Return the p-value of the one-sided exact McNemar test of a drop.

    It is P(Bin(losses + gains, 1/2) >= losses), and 1 if there are neither losses nor gains.

    The conditional test of McNemar (1947); see Fagerland, Lydersen & Laake (2014), section 4. Broadcasts over
    arrays of counts.
    """
    import numpy as np
    from scipy.special import bdtrc

    lost, gained = np.asarray(losses, dtype=np.int64), np.asarray(gains, dtype=np.int64)
    p = bdtrc(lost - 1, lost + gained, 0.5)
    return p if np.ndim(p) else float(p)


def sign_flip_drop(cluster_differences: Sequence[float], *, seed: int = 0) -> float:
    """Return the p-value of a one-sided sign-flip permutation test of a drop, on each cluster's sum of differences.

    If the models are equally good, both signs of a cluster's difference are equally likely (Good 2005,
    *Permutation, Parametric and Bootstrap Tests of Hypotheses*, section 3.2). The p-value is the share of sign
    patterns whose sum is at least the observed one. Up to 14 clusters that differ, all patterns are counted. For
    more clusters, 16,384 patterns are drawn; the observed one is among them, so that p is never 0.
    """
    import numpy as np
    from scipy.stats import monte_carlo_test, permutation_test

    sums = np.array([d for d in cluster_differences if abs(d) >= ROUNDING])
    if len(sums) < 2:  # scipy requires two
        return 0.5 if sums.sum() > 0 else 1.0

    def total(values: Floats, axis: int) -> Floats:
        # Equal sums must tie although their rounding errors differ: scipy's tolerance is relative to the sum.
        rounded: Floats = np.round(values.sum(axis=axis), 9)
        return rounded

    if 2 ** len(sums) <= SIGN_FLIPS:
        exact = permutation_test(
            (sums,), total, permutation_type="samples", alternative="greater", n_resamples=SIGN_FLIPS
        )
        return float(exact.pvalue)
    rng = np.random.default_rng(seed)

    def flipped(size: tuple[int, ...]) -> Floats:
        return np.where(rng.integers(0, 2, size, dtype=np.bool_), sums, -sums)

    # permutation_test draws from the same null distribution but is 30 times slower: it shuffles index arrays.
    drawn = monte_carlo_test(
        sums, flipped, total, alternative="greater", n_resamples=SIGN_FLIPS - 1, batch=1 + 10**6 // len(sums)
    )
    return float(drawn.pvalue)


def drop_test(pairs: Pairs) -> DropTest:
    """Test for a drop: exact McNemar for independent binary pairs, otherwise sign flips of clusters (or items)."""
    if pairs.binary and not pairs.clustered:
        return DropTest(mcnemar_drop(pairs.losses, pairs.gains), "exact McNemar")
    p = sign_flip_drop([math.fsum(differences) for differences in pairs.by_cluster()])
    return DropTest(p, "sign-flip permutation over clusters" if pairs.clustered else "sign-flip permutation")


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for multiple tests (Holm 1979), in their order.

    :raises ValueError: if a p-value is outside [0, 1].
    """
    if any(not 0 <= p <= 1 for p in p_values):
        raise ValueError(f"p-values must be in [0, 1], not {list(p_values)}")
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted
