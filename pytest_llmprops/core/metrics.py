"""A benchmark's metrics: the rows of ``metrics`` in ``run.json``.

Several samples of an item are not independent items. Every figure here is a mean over items, each with the share of its
answered samples that are correct.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

from pytest_llmprops.core.field_types import UNANSWERED, Count, Name, Number
from pytest_llmprops.core.items import grouped
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.statistics.intervals import clopper_pearson, mean_interval


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One row of ``metrics`` in ``run.json``: one number of a benchmark in addition to accuracy.

    :param value: None if the metric is undefined.
    :param n: number of observations.
    :param direction: ``higher``, ``lower``, ``target:X`` or ``none``.
    """

    model: Name
    benchmark: Name
    task: Name
    language: Name
    source: Name
    name: Name
    value: Number | None
    n: Count
    group: Name
    ci_low: Number | None
    ci_high: Number | None
    direction: Name

    @property
    def estimate(self) -> tuple[float, float, float] | None:
        """The value and the limits of its interval; None without them."""
        if self.value is None or self.ci_low is None or self.ci_high is None:
            return None
        return self.value, self.ci_low, self.ci_high


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of a benchmark, for one task, language and source.

    :param value: None if it is undefined (nothing to average over).
    :param n: number of observations.
    :param group: distinguishes rows with the same name.
    :param ci_low: lower limit of the 95% interval; None without an interval.
    :param ci_high: upper limit of the 95% interval.
    :param direction: ``higher``, ``lower``, ``target:X`` or ``none``.
    """

    task: str
    language: str
    source: str
    name: str
    value: float | None
    n: int
    group: str = ""
    ci_low: float | None = None
    ci_high: float | None = None
    direction: str = "none"

    def row(self, model: str, benchmark: str) -> MetricRow:
        """Return the row of ``metrics`` in ``run.json``."""
        return MetricRow(model, benchmark, **asdict(self))


Place = tuple[str, str, str]


def by_place(records: Iterable[VerdictRecord]) -> dict[Place, list[VerdictRecord]]:
    """Group records by (task, language, source), in order of first appearance; errors are excluded."""
    return grouped((r for r in records if r.status != "error"), lambda r: (r.task, r.language, r.source))


def rate(place: Place, name: str, hits: Sequence[bool], direction: str, *, group: str = "") -> Metric:
    """Return the share of true values with its Clopper-Pearson interval; its value is None if ``hits`` is empty."""
    if not hits:
        return Metric(*place, name, None, 0, group, direction=direction)
    interval = clopper_pearson(sum(hits), len(hits))
    value = sum(hits) / len(hits)
    return Metric(*place, name, value, len(hits), group, interval.low, interval.high, direction)


#: the metrics that runs with repeats have in addition, and their directions
DIRECTIONS = {"pass@k": "higher", "majority": "higher"}
#: the numbers k for which pass@k is reported, in addition to the number of samples
REPORTED_K = (2, 3, 5, 10, 20, 50, 100)


class ItemSamples(NamedTuple):
    """One item: its cluster, and for each answered sample whether it is correct. Empty if none is answered."""

    cluster: str
    correct: tuple[bool, ...]

    @property
    def share(self) -> float:
        """The share of correct samples; the item must have an answer."""
        return sum(self.correct) / len(self.correct)


def items_of(records: Iterable[VerdictRecord]) -> list[ItemSamples]:
    """Group the records of one model and benchmark by item, in order of first appearance."""
    return [
        ItemSamples(
            samples[0].cluster, tuple(r.status == "correct" for r in samples if r.status not in UNANSWERED)
        )
        for samples in samples_of(records).values()
    ]


def samples_of(records: Iterable[VerdictRecord]) -> dict[tuple[str, str], list[VerdictRecord]]:
    """Return the records of one model and benchmark by source and item, in order of first appearance."""
    return grouped(records, lambda record: (record.source, record.id))


def mean_scores(records: Iterable[VerdictRecord]) -> list[tuple[float, str]]:
    """Return the mean ``score`` of each answered item of one model and benchmark, and the item's cluster."""
    means = []
    for samples in samples_of(records).values():
        scores = [r.score for r in samples if r.score is not None]
        if scores:
            means.append((math.fsum(scores) / len(scores), samples[0].cluster))
    return means


class Variance(NamedTuple):
    """The variance of one sample's score, split into its two parts.

    :param between: variance of the items' expected scores. :param within: mean variance of the samples of an item.
    """

    between: float
    within: float


def variance_of(items: Iterable[ItemSamples]) -> Variance | None:
    """Return the variance components; None without two answered items and an item with two answered samples.

    These are the ANOVA estimates of the one-way random effects model with unequal numbers of samples (Searle, Casella &
    McCulloch, *Variance Components*, 1992, section 3.6). A negative estimate of ``between`` becomes 0.
    """
    answered = [item for item in items if item.correct]
    n, total = len(answered), sum(len(item.correct) for item in answered)
    if n < 2 or total == n:
        return None
    mean = sum(sum(item.correct) for item in answered) / total
    within = math.fsum(len(i.correct) * i.share * (1 - i.share) for i in answered) / (total - n)
    between = math.fsum(len(i.correct) * (i.share - mean) ** 2 for i in answered) / (n - 1)
    size = (total - sum(len(i.correct) ** 2 for i in answered) / total) / (n - 1)
    return Variance(max(0.0, (between - within) / size), within)


def pass_at_k(correct: int, samples: int, k: int) -> float:
    """Return the unbiased estimate of the probability that at least one of k samples is correct.

    ``1 - C(samples - correct, k) / C(samples, k)`` (Chen et al. 2021, arXiv 2107.03374, section 2.1).

    :raises ValueError: unless 0 <= correct <= samples and 1 <= k <= samples.
    """
    if not (0 <= correct <= samples and 1 <= k <= samples):
        raise ValueError(f"pass@k needs 1 <= k <= samples, not k = {k}, {correct} of {samples} correct")
    return 1 - math.comb(samples - correct, k) / math.comb(samples, k)


def repeat_metrics(records: Iterable[VerdictRecord], *, without: Collection[str] = ()) -> list[Metric]:
    """Return ``pass@k`` and ``majority`` of one model on one benchmark; none for places without repeats.

    ``majority`` is the share of items of which more than half of the answered samples are correct; exactly half counts
    one half. An item with fewer than k answered samples is left out of ``pass@k``.

    :param without: tasks for which these metrics have no meaning.
    """
    metrics: list[Metric] = []
    for place, members in by_place(records).items():
        items = items_of(members)
        most = max(len(item.correct) for item in items)
        if most < 2 or place[0] in without:
            continue
        for k in [*(k for k in REPORTED_K if k < most), most]:
            enough = [item for item in items if len(item.correct) >= k]
            values = [pass_at_k(sum(item.correct), len(item.correct), k) for item in enough]
            metrics.append(_mean(place, "pass@k", f"k={k}", values, enough))
        votes = [_vote(item) for item in items]
        metrics.append(_mean(place, "majority", "", votes, items))
    return metrics


def _vote(item: ItemSamples) -> float:
    twice = 2 * sum(item.correct) - len(item.correct)
    return 0.5 if twice == 0 else float(twice > 0)


def _mean(
    place: tuple[str, str, str], name: str, group: str, values: Sequence[float], items: Sequence[ItemSamples]
) -> Metric:
    interval = mean_interval(values, [item.cluster for item in items])
    mean = math.fsum(values) / len(values)
    return Metric(*place, name, mean, len(values), group, interval.low, interval.high, DIRECTIONS[name])


def mean_metrics(repeats: Sequence[Sequence[Metric]]) -> list[Metric]:
    """Return the mean over repeats of a benchmark's metrics, given the metrics of each repeat.

    The interval is the mean of the repeats' limits, so it is as wide as that of one repeat: more samples of the same
    items do not make it narrower. ``n`` is the largest of the repeats. Undefined values are left out.
    """
    rows: dict[tuple[str, ...], list[Metric]] = {}
    for metrics in repeats:
        for metric in metrics:
            key = (metric.task, metric.language, metric.source, metric.name, metric.group, metric.direction)
            rows.setdefault(key, []).append(metric)
    return [_mean_of(members) for members in rows.values()]


def _mean_of(metrics: Sequence[Metric]) -> Metric:
    return replace(
        metrics[0],
        value=_mean_of_known(m.value for m in metrics),
        n=max(m.n for m in metrics),
        ci_low=_mean_of_known(m.ci_low for m in metrics),
        ci_high=_mean_of_known(m.ci_high for m in metrics),
    )


def _mean_of_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
