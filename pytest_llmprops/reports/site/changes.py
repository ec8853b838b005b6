"""What changed: each run of a model compared with its run before, as ``llmprops compare`` judges the two."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

from pytest_llmprops.core.numbers import counted
from pytest_llmprops.reports.kit.blocks import point_range, visible
from pytest_llmprops.reports.site.measurements import Measurement, SiteRun, comparable
from pytest_llmprops.statistics.judgement import Change

#: compares the second measurement with the first; None without a common answered item
Compare = Callable[[Measurement, Measurement], Change | None]


@dataclass(frozen=True, slots=True)
class Step:
    """Two consecutive comparable runs of one model on one benchmark.

    :param served: the models that the server reported, if they changed; otherwise empty.
    """

    before: Measurement
    after: Measurement
    result: Change
    served: str

    @property
    def did(self) -> str:
        """What the model did: ``dropped 20 points on H-TEST``."""
        size = f"{100 * abs(self.result.difference):.1f}".removesuffix(".0")
        verb = "dropped" if self.result.difference < 0 else "gained"
        unit = "point" if size == "1" else "points"
        return f"{verb} {size} {unit} on {self.after.benchmark_facts.title}"

    @property
    def limits(self) -> str:
        """The 95% interval of the difference, in points."""
        return point_range(self.result.low, self.result.high)


def steps_of(by_benchmark: Mapping[str, Sequence[Measurement]], compare: Compare) -> list[Step]:
    """Return the steps of all models, newest first.

    Two runs are compared if their settings, data, items and deviations are the same.
    """
    steps = []
    for measurements in by_benchmark.values():
        for model in dict.fromkeys(m.model for m in measurements):
            own = [m for m in measurements if m.model == model]
            for group in comparable(own, deviations=True):
                for before, after in pairwise(group):
                    if after.is_judged and (result := compare(before, after)) is not None:
                        steps.append(Step(before, after, result, served(before, after)))
    return sorted(steps, key=lambda s: (s.after.order, s.after.benchmark, s.after.model), reverse=True)


def served(before: Measurement, after: Measurement) -> str:
    """Return how the model that the server reported changed; empty if it did not."""
    names = [", ".join(m.model_facts.served_as or ()) or "not reported" for m in (before, after)]
    return visible(" → ".join(names)) if names[0] != names[1] else ""


def headline(steps: Sequence[Step], runs: Iterable[SiteRun]) -> str:
    """Return the finding of a site, without a full stop.

    That is the largest drop, or else the largest gain, among the last clear changes of each model on each benchmark.

    :param steps: newest first. :param runs: the runs that count.
    """
    last: dict[tuple[str, str], Step] = {}
    for step in steps:
        if step.result.is_clear:
            last.setdefault((step.after.model, step.after.benchmark), step)
    if last:
        drops = [step for step in last.values() if step.result.difference < 0]
        step = max(drops or last.values(), key=lambda s: abs(s.result.difference))
        newest = max(run.started for run in runs)
        return f"{visible(step.after.model)} {step.did}{_day(step.after.date, newest)}"
    models = {model for run in runs if run.facts for model in run.facts.models}
    if not models:
        return "No complete run yet"
    if steps:
        return f"No clear change in {counted(len(steps), 'comparison')} of {counted(len(models), 'model')}"
    return f"{counted(len(models), 'model')}, none measured twice in the same way"


def _day(text: str, newest: str) -> str:
    """Return `` on 14 November``, with the year if it is not that of the newest run; empty without a date."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return ""
    year = "" if newest.startswith(f"{day.year:04d}") else f" {day.year}"
    return f" on {day.day} {day:%B}{year}"
