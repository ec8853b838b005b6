"""The interval of a mean over two crossed factors: seeds of a training, and paradigms of ERAS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from pytest_llmprops.core.statistics import mean_interval


class Estimate(NamedTuple):
    """A mean with its 95% interval; no interval if it cannot be estimated."""

    value: float
    low: float | None = None
    high: float | None = None


def crossed_mean(
    values: Sequence[Sequence[float]],
    *,
    least: float = 0.0,
    most: float = 1.0,
    bounded: bool = True,
    level: float = 0.95,
) -> Estimate:
    """Return the mean over seeds and paradigms; its interval is for other seeds and other paradigms.

    Both are random factors of a two-way layout with one value per cell. The variance of the mean is that of Cornfield
    and Tukey (1956), ``(MS seeds + MS paradigms - MS residual) / cells``, but not below what one factor alone gives;
    its degrees of freedom are Satterthwaite's. With one seed, only paradigms vary, and the other way round.

    :param values: one row per seed, one column per paradigm.
    :param least: the smallest possible mean. :param most: the largest possible mean.
    :param bounded: the values themselves are in these limits. Then the interval is at least as wide as that of the mean
        over paradigms of bounded values (``core/bounded_mean.py``), so that equal values do not give width 0.
    """
    table = np.asarray(values, dtype=float)
    seeds, paradigms = table.shape
    mean = float(table.mean())
    by_seed, by_paradigm = table.mean(1), table.mean(0)
    low = high = None
    if table.size > 1 and (seeds > 1 or paradigms > 1):
        error, freedom = _error(table, by_seed, by_paradigm)
        width = float(stats.t.ppf((1 + level) / 2, freedom)) * error if error > 0 else 0.0
        low, high = max(least, mean - width), min(most, mean + width)
    if bounded and paradigms > 1:
        names = [str(number) for number in range(paradigms)]
        # Rounding may put a mean of values at a limit slightly beyond it.
        wide = mean_interval(list(np.clip(by_paradigm, least, most)), names, level, least=least, most=most)
        low = wide.low if low is None else min(low, wide.low)
        high = wide.high if high is None else max(high, wide.high)
    return Estimate(mean, low, high)


def _error(table: np.ndarray, by_seed: np.ndarray, by_paradigm: np.ndarray) -> tuple[float, float]:
    """Return the standard error of the mean, and its degrees of freedom."""
    seeds, paradigms = table.shape
    mean = table.mean()
    squares = {}
    if seeds > 1:
        squares["seeds"] = (paradigms * float(((by_seed - mean) ** 2).sum()) / (seeds - 1), seeds - 1)
    if paradigms > 1:
        squares["paradigms"] = (
            seeds * float(((by_paradigm - mean) ** 2).sum()) / (paradigms - 1),
            paradigms - 1,
        )
    if len(squares) == 1:
        [(square, freedom)] = squares.values()
        return (square / table.size) ** 0.5, freedom
    free = (seeds - 1) * (paradigms - 1)
    rest = float(((table - by_seed[:, None] - by_paradigm + mean) ** 2).sum()) / free
    largest, freedom = max(squares.values())
    total = sum(square for square, _ in squares.values()) - rest
    if total <= largest:
        return (largest / table.size) ** 0.5, freedom
    parts = sum(square**2 / df for square, df in (*squares.values(), (rest, free)))
    return (total / table.size) ** 0.5, max(1.0, total**2 / parts)
