"""Table 2 of ERAS as metric rows: means over paradigms, with bootstrap intervals over paradigms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_llmprops.benchmarks.eras.implicit import SENTIMENTS, Counts, PairResult, by_paradigm, count, gper
from pytest_llmprops.core.metrics import Metric, Place
from pytest_llmprops.core.statistics import NO_WIDTH, wilson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Name of a metric -> its direction.
DIRECTIONS = {
    "pair_accuracy": "target:0.5",
    "necessity": "lower",
    "sufficiency": "lower",
    "gper": "lower",
    "sentiment_difference": "target:0",
}


def implicit_metrics(
    place: Place, pairs: Sequence[PairResult], *, resamples: int = 2000, seed: int = 0
) -> list[Metric]:
    """Return the quantities of table 2 as metric rows, all as fractions.

    The metrics are ``pair_accuracy`` (target 0.5), ``necessity``, ``sufficiency``, ``gper`` (lower is better) and
    ``sentiment_difference`` (control - test probability, target 0). Each has the groups ``overall``, ``left``,
    ``right`` and the four classes that have pairs. A value is the mean over the paradigms in which it is defined;
    ``gper`` is computed from the means of accuracy and necessity. Group ``pooled`` counts all pairs equally,
    without an interval. Groups ``paradigm NN`` are single paradigms. ``n`` is the number of pairs a value is
    a share of.

    The 95% intervals are percentiles of a bootstrap (``resamples`` resamples of whole paradigms). If all
    paradigms have the same value, a share gets Wilson's interval with one item per paradigm.
    """
    rows: list[Metric] = []
    groups = by_paradigm(pairs)
    counts = {name: count(members) for name, members in groups.items()}
    for group in ("overall", "left", "right", *SENTIMENTS):
        chosen = [
            counts[name]
            for name, members in groups.items()
            if group in ("overall", members[0].branching, members[0].sentiment)
        ]
        if chosen or group == "overall":
            rows += _mean_rows(place, group, chosen, resamples, seed)
    if counts:
        rows += _plain_rows(place, "pooled", count(pairs))
    for name, paradigm_counts in counts.items():
        rows += _plain_rows(place, f"paradigm {name}", paradigm_counts)
    return rows


def _numbers(counts: Counts) -> dict[str, tuple[float | None, int]]:
    """Return metric name -> (value, number of pairs it is a share of)."""
    return {
        "pair_accuracy": (counts.accuracy, counts.pairs),
        "necessity": (counts.necessity, counts.studied_wrong),
        "sufficiency": (counts.sufficiency, counts.hits),
        "gper": (counts.gper, counts.pairs),
        "sentiment_difference": (counts.difference / 100 if counts.pairs else None, counts.pairs),
    }


def _plain_rows(place: Place, group: str, counts: Counts) -> list[Metric]:
    return [
        Metric(*place, name, value, n, group, direction=DIRECTIONS[name])
        for name, (value, n) in _numbers(counts).items()
    ]


def _mean_rows(place: Place, group: str, chosen: Sequence[Counts], resamples: int, seed: int) -> list[Metric]:
    columns = {name: [_numbers(counts)[name] for counts in chosen] for name in DIRECTIONS}
    means = {name: _mean([value for value, _ in column]) for name, column in columns.items()}
    means["gper"] = gper(means["pair_accuracy"], means["necessity"])
    intervals = _intervals(columns, resamples, seed)
    rows = []
    for name, direction in DIRECTIONS.items():
        low, high = intervals[name]
        value = means[name]
        defined = sum(value is not None for value, _ in columns[name])
        if low is not None and high is not None and high - low <= NO_WIDTH:
            # An interval without width would claim certainty.
            low = high = None
        share = name in ("pair_accuracy", "necessity", "sufficiency")
        if low is None and value is not None and share:
            low, high, _ = wilson(value * defined, defined)
        if value is None:
            low = high = None
        rows.append(
            Metric(*place, name, value, sum(n for _, n in columns[name]), group, low, high, direction)
        )
    return rows


def _mean(values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return math.fsum(defined) / len(defined) if defined else None


Column = Sequence[tuple[float | None, int]]


def _intervals(
    columns: Mapping[str, Column], resamples: int, seed: int
) -> dict[str, tuple[float | None, float | None]]:
    """Return percentile intervals of the means under resampling of paradigms; (None, None) without data."""
    import numpy as np

    size = len(columns["pair_accuracy"])
    if not size:
        return dict.fromkeys(columns, (None, None))
    picks = np.random.default_rng(seed).integers(0, size, size=(resamples, size))

    def means(name: str) -> NDArray[np.float64]:
        values = np.array([np.nan if value is None else value for value, _ in columns[name]])
        samples = values[picks]
        defined = np.isfinite(samples)
        # A resample in which the quantity is undefined everywhere has the mean NaN; limits() drops it.
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(defined, samples, 0.0).sum(axis=1) / defined.sum(axis=1))

    resampled = {name: means(name) for name in columns if name != "gper"}
    wrong = 1 - resampled["pair_accuracy"]
    resampled["gper"] = np.where(wrong == 0, 0.0, wrong * resampled["necessity"])

    def limits(values: NDArray[np.float64]) -> tuple[float | None, float | None]:
        values = values[np.isfinite(values)]
        if not len(values):
            return None, None
        low, high = np.quantile(values, [0.025, 0.975])
        return float(low), float(high)

    return {name: limits(values) for name, values in resampled.items()}
