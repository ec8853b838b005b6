"""Rows of the run record's ``summary`` and ``metrics``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

Record = Mapping[str, Any]


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
