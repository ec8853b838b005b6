"""Does a model choose by place in the list? Positions chosen, tests of uniformity, runs with other orders.

The order of the variations is a fresh uniform shuffle for each item and run. So a model that chooses without
looking at the order chooses each place of k with probability 1/k, independently from item to item and from run to
run, however good it is (Barua et al., appendix B.4, figures 5 and 6).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

#: family-wise error of naming a model that is order-invariant
ALPHA = 0.05
#: a place chosen this much more or less often than 1/k is worth naming; less is not, however sure it is
DEVIATION = 0.05
#: fewer choices a place than this, and the chi-square's p-value is no good approximation
FEWEST = 5
#: what the summary says of a named model's rule
RULE = (
    f"not order-invariant: some place is chosen at least {DEVIATION:.2f} more or less often than 1/k, and places are"
    f" not uniform at {ALPHA} (chi-square, exact binomial for 2; Holm over numbers of variations)"
)


@dataclass(frozen=True, slots=True)
class Positions:
    """How often each place in a list of ``len(counts)`` variations was chosen."""

    counts: tuple[int, ...]

    @property
    def n(self) -> int:
        """Readings that name a variation."""
        return sum(self.counts)

    @property
    def rates(self) -> tuple[float, ...]:
        """Shares of the places, which sum to 1; all NaN when nothing was chosen."""
        return tuple(count / self.n if self.n else math.nan for count in self.counts)

    @property
    def deviation(self) -> float:
        """Largest distance of a share from 1/k; NaN when nothing was chosen."""
        return max(abs(rate - 1 / len(self.counts)) for rate in self.rates) if self.n else math.nan

    def p_value(self) -> float:
        """Of "all places are equally likely": exact binomial for two, chi-square for more.

        NaN without choices, and for more than two places with fewer than :data:`FEWEST` choices a place.
        """
        if not self.n or (len(self.counts) > 2 and self.n < FEWEST * len(self.counts)):
            return math.nan
        from scipy.stats import binomtest, chisquare

        if len(self.counts) == 2:
            return float(binomtest(self.counts[0], self.n).pvalue)
        return float(chisquare(self.counts).pvalue)


def run_values(run: int, position: int | None, right: bool) -> dict[str, float]:
    """What a verdict's values keep of one run (from 1): ``run1_right`` (0, 1) and ``run1_position``.

    :param position: place chosen, from 0; kept counted from 1. None, where no variation could be read, is kept
        as 0.
    """
    return {
        f"run{run}_right": float(right),
        f"run{run}_position": 0.0 if position is None else float(position + 1),
    }


def runs_of(values: Mapping[str, float]) -> int:
    """How many runs a verdict's values hold."""
    count = 0
    while f"run{count + 1}_right" in values:
        count += 1
    return count


def positions(verdicts: Iterable[Mapping[str, float]]) -> dict[int, Positions]:
    """Places chosen over all items and runs, by number of variations in ascending order.

    :param verdicts: the values of records: ``variations`` (their number) and :func:`run_values`. A run in which
        no variation was read counts nowhere.
    """
    counts: dict[int, list[int]] = {}
    for values in verdicts:
        size = int(values.get("variations", 0))
        for run in range(1, runs_of(values) + 1):
            place = int(values[f"run{run}_position"])
            if 0 < place <= size:
                counts.setdefault(size, [0] * size)[place - 1] += 1
    return {size: Positions(tuple(counts[size])) for size in sorted(counts)}


def holm_p_values(found: Mapping[int, Positions]) -> dict[int, float]:
    """The p-values of :meth:`Positions.p_value`, Holm-adjusted over the numbers of variations that have one."""
    from pytest_llmprops.core.comparison import holm

    raw = {size: places.p_value() for size, places in found.items()}
    tested = {size: p for size, p in raw.items() if not math.isnan(p)}
    return dict(zip(tested, holm(list(tested.values())), strict=True))


def order_dependent(found: Mapping[int, Positions]) -> tuple[int, ...]:
    """Numbers of variations at which the model is not order-invariant, by :data:`RULE`; empty: none shown."""
    adjusted = holm_p_values(found)
    return tuple(
        size for size, p in adjusted.items() if p < ALPHA and found[size].deviation >= DEVIATION - 1e-12
    )


def position_group(place: int, size: int) -> str:
    """The ``group`` of a ``position_rate``: ``1of2`` for the first of two (``place`` counts from 1)."""
    return f"{place}of{size}"


def run_accuracies(verdicts: Iterable[Mapping[str, float]]) -> tuple[float, ...]:
    """The accuracy of each run over the items that have it, in the order of runs; fractions in [0, 1]."""
    right: list[list[float]] = []
    for values in verdicts:
        for run in range(runs_of(values)):
            if run == len(right):
                right.append([])
            right[run].append(values[f"run{run + 1}_right"])
    return tuple(math.fsum(one) / len(one) for one in right)


def mean_and_deviation(accuracies: Sequence[float]) -> tuple[float | None, float | None]:
    """Mean and sample standard deviation (n - 1) over runs; None where undefined.

    The paper's figure 2 shows mean ± standard deviation over 3 runs and does not say which deviation.
    """
    if not accuracies:
        return None, None
    return statistics.fmean(accuracies), statistics.stdev(accuracies) if len(accuracies) > 1 else None
