"""Drift: did a model change whose name stayed the same? Consecutive runs that may be compared, item by item."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from pytest_llmprops.core.comparison import PairedResult, judged_together
from pytest_llmprops.core.numbers import percent
from pytest_llmprops.reports.kit.blocks import point_range, points, visible
from pytest_llmprops.reports.kit.generic import described
from pytest_llmprops.reports.kit.series import Measured
from pytest_llmprops.reports.page.findings import difference
from pytest_llmprops.reports.site.measurements import Measurement, SiteRun, comparable
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
        fields = self._used[key]
        return None if fields is None else PairedResult(**fields)

    def _compare(self, first: Measurement, second: Measurement) -> dict[str, Any] | None:
        one, other = first.series(0, self._read), second.series(1, self._read)
        measured = Measured(second.benchmark, (one, other))
        result = difference(measured, one, other, measured.headline_tasks)
        return None if result is None else asdict(result)

    def to_json(self) -> dict[str, Any]:
        """Return the results that were used, sorted."""
        return dict(sorted(self._used.items()))


@dataclass(frozen=True, slots=True)
class Step:
    """Two consecutive runs of one model on one benchmark.

    :param result: None if they have no item in common, or the later one did not ask again.
    :param conclusion: in the words of reports, after Holm's correction over all steps of the site.
    :param served: the model names that the server reported, if they changed or are several; otherwise empty.
    :param identity: how the recorded version changed; empty if it did not.
    :param stored: share of the later run's replies that the store answered.
    """

    before: Measurement
    after: Measurement
    title: str
    result: PairedResult | None
    conclusion: str
    change: str
    served: str
    identity: str
    stored: str

    @property
    def is_change(self) -> bool:
        """True if a test shows a change."""
        return self.result is not None and self.result.conclusion in ("drop", "gain")


@dataclass(frozen=True, slots=True)
class Drift:
    """The steps of one model, newest first."""

    model: str
    steps: tuple[Step, ...]


def drift_of(by_benchmark: Mapping[str, Sequence[Measurement]], comparisons: Comparisons) -> list[Drift]:
    """Return the steps of every model with two comparable runs of a benchmark. Models are sorted by name."""
    steps = [
        _step(before, after, comparisons)
        for measurements in by_benchmark.values()
        for model in sorted({m.model for m in measurements})
        for group in comparable([m for m in measurements if m.model == model], deviations=True)
        for before, after in pairwise(group)
    ]
    tested = [step.result for step in steps if step.result is not None]
    together = iter(judged_together(tested))
    judged = [step if step.result is None else _judged(step, next(together)) for step in steps]
    models: dict[str, list[Step]] = {}
    for step in sorted(judged, key=lambda s: (s.after.order, s.title), reverse=True):
        models.setdefault(step.after.model, []).append(step)
    return [Drift(visible(model), tuple(models[model])) for model in sorted(models)]


def _step(before: Measurement, after: Measurement, comparisons: Comparisons) -> Step:
    calls = after.facts.calls
    # A run that only replays stored replies says nothing about the model today.
    is_replay = calls.requests > 0 and calls.cache_hits >= calls.requests
    result = None if is_replay else comparisons.result(before, after)
    why = "not asked again: every reply is from the store" if is_replay else "no common items"
    stored = percent(calls.cache_hits / calls.requests) if calls.requests and calls.cache_hits else ""
    return Step(
        before, after, after.benchmark_facts.title, result, "" if result else why, "", *same_models(before, after),
        stored,
    )  # fmt: skip


def _judged(step: Step, result: PairedResult) -> Step:
    change = f"{points(result.difference)} ({point_range(result.low, result.high)})"
    return replace(step, result=result, conclusion=described(result), change=change)


def same_models(before: Measurement, after: Measurement) -> tuple[str, str]:
    """Return how the served model and the recorded version changed; empty texts if they did not."""
    return _served(before, after), _identity(before, after)


def _served(before: Measurement, after: Measurement) -> str:
    names = [m.model_facts.served_as or () for m in (before, after)]
    if names[0] == names[1] and len(names[0]) < 2:
        return ""
    return visible(" → ".join(", ".join(part) or "not reported" for part in names))


def _identity(before: Measurement, after: Measurement) -> str:
    models = [m.model_facts for m in (before, after)]
    if models[0].identity == models[1].identity:
        return ""
    changed = [model.identity if isinstance(model.identity, Mapping) else {} for model in models]
    names = [n for n in {**changed[0], **changed[1]} if changed[0].get(n) != changed[1].get(n)]
    parts = [f"{n} {_short(changed[0].get(n))} → {_short(changed[1].get(n))}" for n in names]
    return visible(", ".join(parts)) or "another version"


def _short(value: object) -> str:
    return "(none)" if value is None else str(value)[:40]


def sentence(drifts: Sequence[Drift]) -> str:
    """Return the finding over all models, without a full stop."""
    steps = [step for drift in drifts for step in drift.steps]
    tested = [step for step in steps if step.result is not None]
    changed = [step for step in tested if step.is_change]
    if not steps:
        return "No model has two comparable runs yet"
    if not tested:
        return "No model was asked again"
    of = f"{len(tested):,} comparison{'' if len(tested) == 1 else 's'} of consecutive runs"
    if not changed:
        unclear = sum(step.result is not None and step.result.conclusion == "inconclusive" for step in tested)
        return f"No clear change in {of}" + (f"; {unclear:,} inconclusive" if unclear else "")
    models = sorted({visible(step.after.model) for step in changed})
    named = f"{', '.join(models[:-1])} and {models[-1]}" if len(models) > 1 else models[0]
    if len(models) > 3:
        named = f"{len(models)} models"
    return (
        f"{named} changed: {len(changed):,} of {of} show{'s' if len(changed) == 1 else ''} a drop or a gain"
    )
