"""Position bias: positions chosen, tests of uniformity, and accuracy over runs in different orders.

The order of the variations is uniform for each item and run. A model that ignores the order therefore chooses each of
k positions with probability 1/k, for any accuracy (Barua et al., appendix B.4, figures 5 and 6). Orders are balanced
over items and runs (:mod:`~pytest_llmprops.benchmarks.dtails.items`), so the counts of such a model vary less than
those of independent choices, and the tests flag it at most as often as stated.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

#: Family-wise error rate: the probability of flagging an order-invariant model.
ALPHA = 0.05
#: Minimum difference of a position's share from 1/k. Smaller differences are not flagged, even if significant.
DEVIATION = 0.05
#: Minimum choices per position; with fewer, the p-value of the chi-square test is a poor approximation.
FEWEST = 5
#: The rule by which a model is flagged, for the summary.
RULE = (
    f"not order-invariant: some place is chosen at least {DEVIATION:.2f} more or less often than 1/k, and places are"
    f" not uniform at {ALPHA} (chi-square, exact binomial for 2; Holm over numbers of variations)"
)


@dataclass(frozen=True, slots=True)
class Positions:
    """How often each position in a list of ``len(counts)`` variations was chosen."""

    counts: tuple[int, ...]

    @property
    def n(self) -> int:
        return sum(self.counts)

    @property
    def rates(self) -> tuple[float, ...]:
        """The share of each position; all NaN without choices."""
        return tuple(count / self.n if self.n else math.nan for count in self.counts)

    @property
    def deviation(self) -> float:
        """The largest difference of a share from 1/k; NaN without choices."""
        return max(abs(rate - 1 / len(self.counts)) for rate in self.rates) if self.n else math.nan

    def p_value(self) -> float:
        """Return the p-value of "all positions are equally likely": exact binomial for two, chi-square for more.

        NaN without choices, and for more than two positions with fewer than :data:`FEWEST` choices per position.
        """
        if not self.n or (len(self.counts) > 2 and self.n < FEWEST * len(self.counts)):
            return math.nan
        from scipy.stats import binomtest, chisquare

        if len(self.counts) == 2:
            return float(binomtest(self.counts[0], self.n).pvalue)
        return float(chisquare(self.counts).pvalue)


def run_values(run: int, position: int | None, right: bool) -> dict[str, float]:
    """Return a verdict's values of one run (from 1): ``run1_right`` (0 or 1) and ``run1_position``.

    :param position: Position chosen, from 0; stored from 1. None (no variation could be read) is stored as 0.
    """
    return {
        f"run{run}_right": float(right),
        f"run{run}_position": 0.0 if position is None else float(position + 1),
    }


def runs_of(values: Mapping[str, float]) -> int:
    """Return the number of runs in a verdict's values."""
    count = 0
    while f"run{count + 1}_right" in values:
        count += 1
    return count


def positions(verdicts: Iterable[Mapping[str, float]]) -> dict[int, Positions]:
    """Return the positions chosen over all items and runs, by number of variations in ascending order.

    :param verdicts: The values of records: ``variations`` (their number) and :func:`run_values`. A run without a
        choice is not counted.
    """
    counts: dict[int, list[int]] = {}
    for values in verdicts:
        size = int(values.get("variations", 0))
        for run in range(1, runs_of(values) + 1):
            place = int(values[f"run{run}_position"])
            if 0 < place <= size:
                counts.setdefault(size, [0] * size)[place - 1] += 1
    return {size: Positions(tuple(counts[size])) for size in sorted(counts)}


def holm_p_values(by_size: Mapping[int, Positions]) -> dict[int, float]:
    """Return the p-values of :meth:`Positions.p_value`, Holm-adjusted over the numbers of variations with one."""
    from pytest_llmprops.core.paired import holm

    raw = {size: places.p_value() for size, places in by_size.items()}
    tested = {size: p for size, p in raw.items() if not math.isnan(p)}
    return dict(zip(tested, holm(list(tested.values())), strict=True))


def order_dependent(by_size: Mapping[int, Positions]) -> tuple[int, ...]:
    """Return the numbers of variations at which the model is not order-invariant by :data:`RULE`."""
    adjusted = holm_p_values(by_size)
    return tuple(
        size for size, p in adjusted.items() if p < ALPHA and by_size[size].deviation >= DEVIATION - 1e-12
    )


def position_group(place: int, size: int) -> str:
    """Return the ``group`` of a ``position_rate``: ``1of2`` for the first of two (``place`` counts from 1)."""
    return f"{place}of{size}"


def run_accuracies(verdicts: Iterable[Mapping[str, float]]) -> tuple[float, ...]:
    """Return the accuracy of each run in [0, 1], over the items that have this run."""
    right: list[list[float]] = []
    for values in verdicts:
        for run in range(runs_of(values)):
            if run == len(right):
                right.append([])
            right[run].append(values[f"run{run + 1}_right"])
    return tuple(math.fsum(one) / len(one) for one in right)


def mean_and_deviation(accuracies: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the mean and sample standard deviation (n - 1) over runs; None if undefined.

    The paper's figure 2 shows mean ± standard deviation over 3 runs and does not say which standard deviation.
    """
    if not accuracies:
        return None, None
    return statistics.fmean(accuracies), statistics.stdev(accuracies) if len(accuracies) > 1 else None
