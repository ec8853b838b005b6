"""The metrics of DTAiLS, computed from the values of verdicts.

*Position bias*: the order of the variations is uniform for each item and run. A model that ignores the order therefore
chooses each of k positions with probability 1/k, for any accuracy (Barua et al., appendix B.4, figures 5 and 6). Orders
are balanced over items and runs (:func:`~pytest_llmprops.benchmarks.dtails.items.slots`), so the counts of such a model
vary less than those of independent choices, and the tests flag it at most as often as stated.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_llmprops.benchmarks.dtails.items import SELECT
from pytest_llmprops.core.metrics import Metric, Place, by_place, rate
from pytest_llmprops.core.numbers import percent
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.statistics.intervals import clopper_pearson
from pytest_llmprops.statistics.paired import holm

Values = Mapping[str, float]
#: The language of rows over all languages. Position bias is a property of the model, not of a language.
ALL = "all"
#: Minimum number of choices for a comparison with the most frequent variation.
_FEWEST = 20

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


def runs_of(values: Values) -> int:
    """Return the number of runs in a verdict's values."""
    count = 0
    while f"run{count + 1}_right" in values:
        count += 1
    return count


def positions(verdicts: Iterable[Values]) -> dict[int, Positions]:
    """Return the positions chosen over all items and runs, by number of variations in ascending order.

    :param verdicts: The values of records: ``variations`` (their number), ``run1_position`` ... A run without a
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


def run_accuracies(verdicts: Iterable[Values]) -> tuple[float, ...]:
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


def metric_rows(records: Sequence[VerdictRecord]) -> Iterator[Metric]:
    """Yield rows for every task, language and source, and positions over all languages of a source."""
    places = by_place(records)
    by_source: dict[str, list[Values]] = {}
    for place, members in places.items():
        values = [r.values for r in members]
        yield from _baseline(place, values)
        if place[0] == SELECT:
            asked = [v for v in values if runs_of(v)]
            yield from _selected(place, values, asked)
            by_source.setdefault(place[2], []).extend(asked)
        else:
            yield from _translated(place, values)
    for source, values in by_source.items():
        if len([place for place in places if place[0] == SELECT and place[2] == source]) > 1:
            yield from _positions((SELECT, ALL, source), values)


def remarks(records: Sequence[VerdictRecord]) -> Iterator[str]:
    """Yield warnings: choices no better than the most frequent variation, or that depend on the order."""
    selected = [r for r in records if r.task == SELECT and r.status != "error"]
    values = [r.values for r in selected]
    baselines = [v["frequency_baseline"] for v in values if "frequency_baseline" in v]
    if len(baselines) == len(selected) >= _FEWEST:
        baseline, right = sum(baselines) / len(baselines), sum(r.status == "correct" for r in selected)
        # Two standard deviations: guessing the most frequent variation reaches this by chance.
        margin = 2 * math.sqrt(baseline * (1 - baseline) / len(selected))
        if right / len(selected) <= baseline + margin:
            share = percent(right / len(selected))
            yield (
                f"warning: {share} of {len(selected)} choices are right; always taking the most frequent variation gets"
                f" {percent(baseline)}"
            )
    by_size = positions(v for v in values if runs_of(v))
    for size in order_dependent(by_size):
        shares = ", ".join(f"{share:.0%}" for share in by_size[size].rates)
        yield f"warning: {RULE}; of {size} variations: {shares} of {by_size[size].n} choices"


def _baseline(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    known = next((v for v in values if "frequency_baseline" in v), None)
    if known is not None:
        # In-sample: over the language's whole file, even if only part of it was asked.
        yield Metric(*place, "frequency_baseline", known["frequency_baseline"], int(known["frequency_n"]))


def _selected(place: Place, values: Sequence[Values], asked: Sequence[Values]) -> Iterator[Metric]:
    yield from _positions(place, asked)
    accuracies = run_accuracies(asked)
    mean, deviation = mean_and_deviation(accuracies)
    if len(accuracies) > 1:
        yield Metric(*place, "accuracy_mean", mean, len(accuracies), direction="higher")
        yield Metric(*place, "accuracy_sd", deviation, len(accuracies))
    # If a model's own rules could not be read, no choice was asked for, so no retry was possible.
    runs = [(v, f"run{n}_") for v in asked if v.get("rules_read", 1.0) for n in range(1, runs_of(v) + 1)]
    scored = [bool(v[run + "normalised_right"]) for v, run in runs if run + "normalised_right" in v]
    if scored:
        # Nothing was written, so nothing was read or asked again.
        yield rate(place, "normalised_accuracy", scored, "higher")
        return
    yield rate(place, "retry_rate", [bool(v[run + "retried"]) for v, run in runs], "lower")
    unread = [not v["rules_read"] for v in values if "rules_read" in v]
    if unread:
        yield rate(place, "rules_failed_rate", unread, "lower")


def _positions(place: Place, asked: Sequence[Values]) -> Iterator[Metric]:
    by_size = positions(asked)
    adjusted = holm_p_values(by_size)
    dependent = order_dependent(by_size)
    for size, places in by_size.items():
        for number, count in enumerate(places.counts, 1):
            limits, group = clopper_pearson(count, places.n), position_group(number, size)
            share, target = count / places.n, f"target:{1 / size:.6g}"
            yield Metric(*place, "position_rate", share, places.n, group, limits.low, limits.high, target)
        group = f"of{size}"
        if size in adjusted:
            yield Metric(*place, "position_p", adjusted[size], places.n, group)
            invariant = float(size not in dependent)
            yield Metric(*place, "order_invariant", invariant, places.n, group, direction="higher")


def _translated(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    read = [v for v in values if "chosen" in v]
    yield rate(place, "found_rate", [bool(v["chosen"]) for v in read], "higher")
    yield rate(place, "substring_rate", [bool(v["substring"]) for v in read], "none")
    # Words were needed only where no form occurs in the translation.
    split = [bool(v["parser"]) for v in read if "parser" in v]
    if split:
        yield rate(place, "parser_rate", split, "none")
