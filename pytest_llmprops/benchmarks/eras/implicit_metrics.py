"""Table 2 of ERAS as metric rows: means over paradigms, with paradigm-bootstrap intervals."""

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

#: name of a metric -> its direction
DIRECTIONS = {
    "pair_accuracy": "target:0.5",
    "necessity": "lower",
    "sufficiency": "lower",
    "gper": "lower",
    "sentiment_difference": "target:0",
}


def implicit_metrics(
    place: Place, pairs: Sequence[PairResult], *, draws: int = 2000, seed: int = 0
) -> list[Metric]:
    """Table 2's quantities as metric rows, fractions all.

    ``pair_accuracy`` (target 0.5), ``necessity``, ``sufficiency``, ``gper`` (lower) and ``sentiment_difference``
    (control - test probability, target 0), each with group ``overall``, ``left``, ``right`` and the four
    classes, as far as there are pairs: means over the paradigms in which the quantity is defined, ``gper``
    from the two means. Group ``pooled`` counts all pairs alike, without an interval. Groups
    ``paradigm NN`` hold single paradigms. ``n`` is the number of pairs that a value is a share of.

    95% intervals are those of a paradigm bootstrap (percentile, ``draws`` resamples of whole paradigms).
    Where all paradigms agree, a share's is Wilson's with each paradigm counted as one item, as elsewhere.
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
            rows += _mean_rows(place, group, chosen, draws, seed)
    if counts:
        rows += _plain_rows(place, "pooled", count(pairs))
    for name, one in counts.items():
        rows += _plain_rows(place, f"paradigm {name}", one)
    return rows


def _numbers(one: Counts) -> dict[str, tuple[float | None, int]]:
    """Name of a metric -> (value, the number of pairs it is a share of)."""
    return {
        "pair_accuracy": (one.accuracy, one.pairs),
        "necessity": (one.necessity, one.studied_wrong),
        "sufficiency": (one.sufficiency, one.hits),
        "gper": (one.gper, one.pairs),
        "sentiment_difference": (one.difference / 100 if one.pairs else None, one.pairs),
    }


def _plain_rows(place: Place, group: str, one: Counts) -> list[Metric]:
    return [
        Metric(*place, name, value, n, group, direction=DIRECTIONS[name])
        for name, (value, n) in _numbers(one).items()
    ]


def _mean_rows(place: Place, group: str, chosen: Sequence[Counts], draws: int, seed: int) -> list[Metric]:
    columns = {name: [_numbers(one)[name] for one in chosen] for name in DIRECTIONS}
    means = {name: _mean([value for value, _ in column]) for name, column in columns.items()}
    means["gper"] = gper(means["pair_accuracy"], means["necessity"])
    intervals = _intervals(columns, draws, seed)
    rows = []
    for name, direction in DIRECTIONS.items():
        low, high = intervals[name]
        value = means[name]
        defined = sum(value is not None for value, _ in columns[name])
        if low is not None and high is not None and high - low <= NO_WIDTH:
            # Resampling changed nothing, which is no certainty.
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
    columns: Mapping[str, Column], draws: int, seed: int
) -> dict[str, tuple[float | None, float | None]]:
    """Percentile intervals of the means when whole paradigms are resampled; (None, None) without any."""
    import numpy as np

    size = len(columns["pair_accuracy"])
    if not size:
        return dict.fromkeys(columns, (None, None))
    picks = np.random.default_rng(seed).integers(0, size, size=(draws, size))

    def means(name: str) -> NDArray[np.float64]:
        values = np.array([np.nan if value is None else value for value, _ in columns[name]])
        drawn = values[picks]
        defined = np.isfinite(drawn)
        # A draw in which the quantity is nowhere defined has no mean, and is left out.
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(defined, drawn, 0.0).sum(axis=1) / defined.sum(axis=1))

    found = {name: means(name) for name in columns if name != "gper"}
    wrong = 1 - found["pair_accuracy"]
    found["gper"] = np.where(wrong == 0, 0.0, wrong * found["necessity"])

    def limits(drawn: NDArray[np.float64]) -> tuple[float | None, float | None]:
        drawn = drawn[np.isfinite(drawn)]
        if not len(drawn):
            return None, None
        low, high = np.quantile(drawn, [0.025, 0.975])
        return float(low), float(high)

    return {name: limits(drawn) for name, drawn in found.items()}
