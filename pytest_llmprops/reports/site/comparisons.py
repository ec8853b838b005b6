"""Comparisons of two measurements. Each is made once and kept with the site."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from pytest_llmprops.core.comparison import PairedPower, PairedResult
from pytest_llmprops.reports.kit.series import Measured
from pytest_llmprops.reports.page.findings import difference
from pytest_llmprops.reports.site.measurements import Measurement, SiteRun
from pytest_llmprops.runs.reader import Run


class Comparisons:
    """Compares measurements on the headline tasks of their benchmark, as reports do.

    :param known: :meth:`to_json` of an earlier build. :param read: returns a run with its verdicts.
    """

    def __init__(self, known: Mapping[str, Any], read: Callable[[SiteRun], Run]) -> None:
        self._known, self._read = known, read
        self._used: dict[str, Any] = {}

    def result(self, first: Measurement, second: Measurement) -> PairedResult | None:
        """Compare the second with the first; None without common answered items."""
        sides = [f"{m.run.key}/{m.model}" for m in (first, second)]
        key = "|".join([*sides, second.benchmark])
        if key not in self._used:
            self._used[key] = self._known[key] if key in self._known else self._compare(first, second)
        return _result(self._used[key])

    def _compare(self, first: Measurement, second: Measurement) -> dict[str, Any] | None:
        one, other = first.series(0, self._read), second.series(1, self._read)
        measured = Measured(second.benchmark, (one, other))
        result = difference(measured, one, other, measured.headline_tasks)
        return None if result is None else asdict(result)

    def to_json(self) -> dict[str, Any]:
        """Return the results that were used, sorted."""
        return dict(sorted(self._used.items()))


def _result(fields: Mapping[str, Any] | None) -> PairedResult | None:
    return None if fields is None else PairedResult(**{**fields, "power": PairedPower(**fields["power"])})
