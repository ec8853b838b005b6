"""The difference between two series on the items that both have."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.runs.compare import pair_records

#: two-sided, so that a verdict agrees with its 95% interval
ALPHA = 0.025


@dataclass(frozen=True, slots=True)
class Difference:
    """Accuracy of the second less that of the first on ``n`` common items, with its 95% interval.

    :param detectable: the smallest drop that so many items would have shown with 80% power; None where
        there is none.
    """

    change: float
    low: float
    high: float
    n: int
    detectable: float | None

    @property
    def better(self) -> bool:
        """The whole interval is above 0."""
        return self.low > 0

    @property
    def worse(self) -> bool:
        """The whole interval is below 0."""
        return self.high < 0

    @property
    def verdict(self) -> str:
        """``better``, ``worse``, or what such a sample could have shown."""
        if self.better or self.worse:
            return "better" if self.better else "worse"
        return f"no clear difference ({self.reach})"

    @property
    def reach(self) -> str:
        """What "no clear difference" is worth."""
        if self.detectable is None:
            return f"{self.n:,} items cannot show any drop"
        return f"{self.n:,} items would show a drop of {100 * self.detectable:.1f} points"


def compare(first: Iterable[VerdictRecord], second: Iterable[VerdictRecord]) -> Difference | None:
    """Compare two lists of records; None when they have no answered item in common."""
    from pytest_llmprops.core.comparison import Pairs, detectable_drop_of, drop_interval

    found = pair_records(first, second).pairs
    if not found:
        return None
    pairs = Pairs(
        tuple(p.baseline for p in found), tuple(p.candidate for p in found), tuple(p.cluster for p in found)
    )
    low, high, _ = drop_interval(pairs)
    reach = detectable_drop_of(pairs, alpha=ALPHA)
    return Difference(-pairs.drop, -high, -low, pairs.n, reach if math.isfinite(reach) else None)
