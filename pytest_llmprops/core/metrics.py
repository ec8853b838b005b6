"""A benchmark's metrics: the rows of ``metrics`` in ``run.json``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from pytest_llmprops.core.records import MetricRow, VerdictRecord
from pytest_llmprops.core.statistics import clopper_pearson


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
    groups: dict[Place, list[VerdictRecord]] = {}
    for record in records:
        if record.status != "error":
            groups.setdefault((record.task, record.language, record.source), []).append(record)
    return groups


def rate(place: Place, name: str, hits: Sequence[bool], direction: str, *, group: str = "") -> Metric:
    """Return the share of true values with its Clopper-Pearson interval; its value is None if ``hits`` is empty."""
    if not hits:
        return Metric(*place, name, None, 0, group, direction=direction)
    interval = clopper_pearson(sum(hits), len(hits))
    value = sum(hits) / len(hits)
    return Metric(*place, name, value, len(hits), group, interval.low, interval.high, direction)
