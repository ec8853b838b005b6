"""Table 2 of ERAS as metric rows: means over paradigms, with intervals over paradigms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_llmprops.benchmarks.eras.directions import IMPLICIT_TASK
from pytest_llmprops.benchmarks.eras.implicit import SENTIMENTS, Counts, PairResult, by_paradigm, count, gper
from pytest_llmprops.core.metrics import Metric, Place
from pytest_llmprops.core.statistics import mean_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: in a narrower bootstrap interval, resampling changed only rounding errors
NO_WIDTH = 1e-9


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

    The 95% intervals are those of the mean of bounded numbers, one per paradigm
    (:func:`~pytest_llmprops.core.statistics.mean_interval`). For ``gper``, which is a product of two means, they are
    percentiles of a bootstrap (``resamples`` resamples of whole paradigms), which are too short for few paradigms.
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
        Metric(*place, name, value, n, group, direction=IMPLICIT_TASK[name])
        for name, (value, n) in _numbers(counts).items()
    ]


def _mean_rows(place: Place, group: str, chosen: Sequence[Counts], resamples: int, seed: int) -> list[Metric]:
    columns = {name: [_numbers(counts)[name] for counts in chosen] for name in IMPLICIT_TASK}
    means = {name: _mean([value for value, _ in column]) for name, column in columns.items()}
    means["gper"] = gper(means["pair_accuracy"], means["necessity"])
    rows = []
    for name, direction in IMPLICIT_TASK.items():
        value = means[name]
        limits: tuple[float | None, float | None] = (None, None)
        defined = [number for number, _ in columns[name] if number is not None]
        if name == "gper":
            limits = _gper_limits(columns, resamples, seed)
        elif defined:
            least = -1.0 if name == "sentiment_difference" else 0.0
            limits = mean_interval(defined, [str(n) for n in range(len(defined))], least=least)[:2]
        n = sum(number for _, number in columns[name])
        rows.append(Metric(*place, name, value, n, group, *limits, direction=direction))
    return rows


def _mean(values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return math.fsum(defined) / len(defined) if defined else None


Column = Sequence[tuple[float | None, int]]


def _gper_limits(
    columns: Mapping[str, Column], resamples: int, seed: int
) -> tuple[float | None, float | None]:
    """Return the percentile interval of gper under resampling of paradigms; (None, None) if it has no width."""
    import numpy as np

    size = len(columns["pair_accuracy"])
    if not size:
        return None, None
    picks = np.random.default_rng(seed).integers(0, size, size=(resamples, size))

    def means(name: str) -> NDArray[np.float64]:
        values = np.array([np.nan if value is None else value for value, _ in columns[name]])
        samples = values[picks]
        defined = np.isfinite(samples)
        # A resample in which the quantity is undefined everywhere has the mean NaN, and is dropped below.
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(defined, samples, 0.0).sum(axis=1) / defined.sum(axis=1))

    wrong = 1 - means("pair_accuracy")
    resampled = np.where(wrong == 0, 0.0, wrong * means("necessity"))
    resampled = resampled[np.isfinite(resampled)]
    if not len(resampled):
        return None, None
    low, high = np.quantile(resampled, [0.025, 0.975])
    # An interval without width would claim certainty.
    return (float(low), float(high)) if high - low > NO_WIDTH else (None, None)
