"""The difference between two series on the items that both have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pytest_llmprops.core.numbers import count, size_in_points
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.runs.pairs import judge_pairs, pair_records

if TYPE_CHECKING:
    from pytest_llmprops.core.comparison import PairedResult


def compare(
    first: Iterable[VerdictRecord], second: Iterable[VerdictRecord], *, by_cluster: bool = False
) -> PairedResult | None:
    """Compare the second list of records with the first; return None if they have no answered item in common.

    :param by_cluster: each cluster counts once, with the mean of its items.
    """
    return judge_pairs(pair_records(first, second).pairs, lambda benchmark: by_cluster)


def described(result: PairedResult) -> str:
    """Return the conclusion in words; without a clear difference, with the smallest detectable drop."""
    if result.conclusion in ("drop", "gain"):
        return result.conclusion
    return f"{result.conclusion} ({reach(result)})"


def reach(result: PairedResult) -> str:
    """Return the smallest detectable drop in words."""
    nouns = "clusters" if result.noun == "cluster" else "items"
    if result.detectable is None:
        return f"{count(result.pairs)} {nouns} cannot show any drop"
    return f"{count(result.pairs)} {nouns} would show a drop of {size_in_points(result.detectable)}"
