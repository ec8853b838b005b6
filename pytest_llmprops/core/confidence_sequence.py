"""Bounds on the mean of a finite population that hold at every sample size at once.

``population`` values in [0, 1] are drawn one by one, uniformly and without replacement. After any number of
draws, looked at as often as one likes, :func:`betting_bounds` holds the mean of the whole population with
probability at least 1 - alpha, so a run may stop whenever they settle a question.

The construction is testing by betting: Waudby-Smith & Ramdas, "Estimating means of bounded random variables by
betting", JRSS B 86(1), 2024 (arXiv 2010.09686), section 5, after their "Confidence sequences for sampling without
replacement", NeurIPS 2020 (arXiv 2006.04347). If the population's mean were m, draw t would have, given all
before it, the mean ``m_t = (N m - S_(t-1)) / (N - t + 1)``, and a gambler who stakes ``bet_t >= 0`` on more than
that multiplies a capital of 1 by ``1 + bet_t (x_t - m_t)``: a fair game while ``bet_t`` was fixed before x_t was
seen. By Ville's inequality the capital ever reaches 1 / alpha with probability at most alpha; where it does, m is
too low. The other side is the same game on 1 - x.

**The bets.** The capital is spread evenly over a few gamblers. After t draws a mean is known as well as after
``v = t / (1 - t / N)`` draws with replacement; gambler j is the one best prepared for v_j (10, about 30,
about 90, ... up to 2 N, which is two thirds of the population) and stakes

    bet_t = sqrt(2 log(4 / alpha) / (v_j s²_(t-1))) · N / (N - t + 1),  at most 0.75 / m_t,

with s² the variance of the earlier draws, shrunk to 1/4 with the weight of one draw. The last factor follows
the drift of m_t: a wrong m is the further from the remaining draws, the fewer remain. No bet depends on m but
through the cap, hence each capital falls in m, and a search for its root inverts the test exactly.

Why these. Bounds were simulated for N = 200, 1,000 and 5,000 (binary, means 0.5, 0.05 and 0.95; coded differences
with 1%, 5% and 20% discordant) at t = 20 to 3 N / 4. The paper's single predictable plug-in bet is
tighter before t = 50 and up to twice as wide late. A mixture of constant fractions of the largest stake is 10%
wider on average. Bets on the estimated mean less m (GRAPA) are about as tight, but not monotone in m. Leaving out the
variance costs up to a quarter where few pairs are discordant; leaving out N / (N - t + 1), up to 9% at N / 2 and
16% at 3 N / 4. With the last v_j at N, bounds are 1% to 2% tighter early and about 10% wider at 3 N / 4. Caps from
0.65 to 0.85 and other spacings of v_j move the average by about 1%; a cap of 0.5 costs 15% at t = 20.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: no gambler stakes more than this share of the bet that could ruin them
CAP = 0.75
#: the v (see above) that the boldest gambler is prepared for, and the ratio from one gambler to the next
FIRST_TARGET, TARGET_RATIO = 10.0, 3.0
#: sums of draws are floats: a mean counts as impossible only where it misses by more than this
SLACK = 1e-9
#: means that can be the bound: this many to each 1 / N, between which the mean of a binary population steps
CELLS = 1000


class Bounds(NamedTuple):
    """``low <= high``: where the mean of the whole population lies."""

    low: float
    high: float


def betting_bounds(
    values: Sequence[float] | NDArray[np.float64],
    population: int,
    *,
    alpha: float,
    side: Literal["both", "lower", "upper"] = "both",
) -> Bounds:
    """The mean of the population, with probability at least 1 - alpha at all sample sizes at once.

    Bounds only narrow as draws are added, and after the last draw both are the mean itself. With ``side="lower"``
    or ``"upper"`` all of alpha is spent on that bound and the other is the certain one: what the mean would be if
    all remaining values were 0, or 1. The search ends within 0.001 / population and rounds outwards.

    Where a low and a high bound contradict each other (only in samples that belong to alpha) both are given as
    the point halfway between them.

    :param values: the values drawn so far, in the order drawn; each in [0, 1].
    :param population: the size of the population, N.
    :param alpha: the error rate, of both sides together.
    :raises ValueError: for a value outside [0, 1], more values than the population, alpha outside (0, 1),
        a population below 1, an unknown side.
    """
    if side not in ("both", "lower", "upper"):
        raise ValueError(f"side is both, lower or upper, not {side!r}")
    drawn = _checked(values, population, alpha)
    if drawn.ndim > 1:
        raise ValueError(f"values must be one sequence of draws, not an array of shape {drawn.shape}")
    total = math.fsum(drawn)
    if len(drawn) == population:
        return Bounds(total / population, total / population)
    low, high = total / population, (total + population - len(drawn)) / population
    spent = alpha / 2 if side == "both" else alpha
    if len(drawn) and side != "upper":
        low = _lower_bound(drawn, population, spent, low, high)
    if len(drawn) and side != "lower":
        certain = Bounds(total / population, high)
        high = 1 - _lower_bound(1 - drawn, population, spent, 1 - certain.high, 1 - certain.low)
    if low > high:
        return Bounds((low + high) / 2, (low + high) / 2)
    return Bounds(low, high)


def _checked(
    values: Sequence[float] | NDArray[np.float64], population: int, alpha: float
) -> NDArray[np.float64]:
    drawn = np.asarray(values, dtype=np.float64)
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, not {alpha}")
    if population < 1:
        raise ValueError(f"a population has at least 1 value, not {population}")
    if drawn.ndim == 0:
        raise ValueError(f"values must be a sequence of draws, not the single value {drawn}")
    if drawn.shape[-1] > population:
        raise ValueError(f"{drawn.shape[-1]} values were drawn from a population of {population}")
    wrong = drawn[~((drawn >= 0) & (drawn <= 1))]
    if wrong.size:
        raise ValueError(f"every value must lie in [0, 1], not {wrong[0]}; rescale the values first")
    return drawn


@dataclass(frozen=True, slots=True, eq=False)
class Bets:
    """The bets on a sequence of draws, and what was known before each draw.

    :param drawn: the draws in order along the last axis; many samples at once if there are more axes.
    :param before: the sum of the earlier draws, of the same shape.
    :param left: the number of values that were left, shape (draws,).
    :param stakes: the bets, shape (..., gambler, draws).
    """

    drawn: NDArray[np.float64]
    before: NDArray[np.float64]
    left: NDArray[np.float64]
    stakes: NDArray[np.float64]
    population: int

    @classmethod
    def on(cls, values: Sequence[float] | NDArray[np.float64], population: int, *, alpha: float) -> Bets:
        """Return the bets on these draws.

        :raises ValueError: as :func:`betting_bounds`.
        """
        drawn = _checked(values, population, alpha)
        earlier = np.arange(drawn.shape[-1], dtype=np.float64)
        left = population - earlier
        after = np.cumsum(drawn, axis=-1)
        # Squared distance of each draw from the mean up to and including it, as in the paper's section 3.2.
        squares = (drawn - (after + 0.5) / (earlier + 2)) ** 2
        variance = (0.25 + np.cumsum(squares, axis=-1) - squares) / (earlier + 1)
        stakes = _strength(population, alpha)[:, None] * (population / left / np.sqrt(variance))[..., None, :]
        return cls(drawn, after - drawn, left, stakes, population)

    def log_capital(self, mean: float) -> NDArray[np.float64]:
        """Return the log of the gamblers' mean capital after each draw, for bets on more than ``mean``.

        If the population's mean is ``mean`` or less, the capital ever reaches 1 / alpha with probability at most
        alpha. Where the draws already exclude ``mean``, the value has no meaning.
        """
        # Below 0 only for means that the draws exclude, and by rounding.
        null = np.maximum((self.population * mean - self.before) / self.left, 1e-300)
        stakes = np.minimum(self.stakes, (CAP / null)[..., None, :])
        logs = np.cumsum(np.log1p(stakes * (self.drawn - null)[..., None, :]), axis=-1)
        largest = logs.max(axis=-2, keepdims=True)
        shares = np.exp(logs - largest).sum(axis=-2) / logs.shape[-2]
        capital: NDArray[np.float64] = largest[..., 0, :] + np.log(shares)
        return capital


@lru_cache(maxsize=256)
def _strength(population: int, alpha: float) -> NDArray[np.float64]:
    """Return the part of each gambler's bets that does not depend on the draws."""
    last = max(FIRST_TARGET, 2.0 * population)
    steps = math.ceil(math.log(last / FIRST_TARGET, TARGET_RATIO))
    targets = np.geomspace(FIRST_TARGET, last, steps + 1)
    # 4 rather than 1: sharing among several gamblers raises what each has to win.
    return np.asarray(np.sqrt(2 * math.log(4 / alpha) / targets))


def _lower_bound(drawn: NDArray[np.float64], population: int, alpha: float, low: float, high: float) -> float:
    """Return the largest mean in [low, high] that is found too low, or ``low``; both ends are certain bounds."""
    bets = Bets.on(drawn, population, alpha=alpha)
    # One grid for every sample size, so that rounding cannot widen the bounds from one look to the next.
    cells = CELLS * population

    def excess(cell: int) -> float:
        # The mean is too low from 0 on. Any earlier draw may have decided: the bound is the best of all so far.
        return float(bets.log_capital(cell / cells).max()) - math.log(1 / alpha) - SLACK

    below, above = math.floor(low * cells), math.ceil(high * cells)
    at_above = excess(above)
    if at_above >= 0:
        return high
    # Where the draws exclude the mean, the value is huge and says only that the mean is too low.
    at_below = min(excess(below), math.log(1 / alpha))
    if at_below < 0:
        return low
    # The log capital is nearly linear in the mean, so false position takes half as many evaluations as a bisection.
    # Both end at the same cell, because the capital falls in the mean.
    previous = 0
    while above - below > 1:
        width = above - below
        middle = below + min(max(round(width * at_below / (at_below - at_above)), 1), width - 1)
        at_middle = excess(middle)
        side = 1 if at_middle >= 0 else -1
        if side > 0:
            below, at_below = middle, at_middle
        else:
            above, at_above = middle, at_middle
        # If the same end moves again, the other one counts less (the Illinois rule), or it would never move.
        if side == previous:
            if side > 0:
                at_above /= 2
            else:
                at_below /= 2
        previous = side
    return max(low, below / cells)
