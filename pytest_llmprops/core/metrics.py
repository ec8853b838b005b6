"""Rows of the run record's ``summary`` and ``metrics``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.statistics import wilson

Record = VerdictRecord


@dataclass(frozen=True, slots=True)
class Metric:
    """One named number of a benchmark, task, language and source.

    ``direction`` is ``higher``, ``lower``, ``target:X`` or ``none``. ``value`` is None where it is
    undefined (nothing to average over).
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

    def to_json(self, model: str, benchmark: str) -> dict[str, Any]:
        """The row as it stands in ``run.json``."""
        return {"model": model, "benchmark": benchmark, **asdict(self)}


Place = tuple[str, str, str]


def by_place(records: Iterable[Record]) -> dict[Place, list[Record]]:
    """Records that are no errors, by (task, language, source), in order of first appearance."""
    groups: dict[Place, list[Record]] = {}
    for record in records:
        if record["status"] != "error":
            groups.setdefault((record["task"], record["language"], record["source"]), []).append(record)
    return groups


def rate(place: Place, name: str, hits: Sequence[bool], direction: str, *, group: str = "") -> Metric:
    """A share with its Wilson interval; None without anything to average over."""
    if not hits:
        return Metric(*place, name, None, 0, group, direction=direction)
    interval = wilson(sum(hits), len(hits))
    value = sum(hits) / len(hits)
    return Metric(*place, name, value, len(hits), group, interval.low, interval.high, direction)
