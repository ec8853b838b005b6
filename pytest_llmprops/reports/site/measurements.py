"""The runs of a site, and what each model of a run measured on a benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path

from pytest_llmprops.core.registration import BenchmarkMetadata
from pytest_llmprops.records.rows import SummaryRow
from pytest_llmprops.records.run import ModelMetadata, RunMetadata
from pytest_llmprops.reports.kit.blocks import file_name, visible
from pytest_llmprops.reports.kit.series import Measured, Series, Share
from pytest_llmprops.runs.benchmark_metadata import tasks_by_answer
from pytest_llmprops.runs.comparable import comparable_groups
from pytest_llmprops.runs.reader import Run


@dataclass(frozen=True, eq=False)
class SiteRun:
    """One run of the site.

    :param key: changes with the record. :param facts: None if ``run.json`` cannot be read.
    :param problem: why the run does not count in tables; empty if it does.
    :param shares: accuracy over the headline tasks by model and benchmark.
    :param copies: names of promoted copies.
    """

    folder: Path
    key: str
    facts: RunMetadata | None
    problem: str = ""
    shares: Mapping[tuple[str, str], Share] = field(default_factory=dict)
    copies: tuple[str, ...] = ()

    @property
    def run_id(self) -> str:
        """The id of the run; the name of its folder if ``run.json`` cannot be read."""
        return self.folder.name if self.facts is None else self.facts.run_id

    @property
    def started(self) -> str:
        """When the run started, in UTC (ISO 8601); empty if it is unknown."""
        return "" if self.facts is None else self.facts.started

    @property
    def page_folder(self) -> str:
        """The folder of the run's own report in the site."""
        return f"runs/{file_name(self.run_id)[:80]}-{self.key[:8]}"


@dataclass(frozen=True, eq=False)
class Measurement:
    """One model of one run on one benchmark.

    :param share: accuracy over the headline tasks; None without an answer.
    """

    run: SiteRun
    model: str
    benchmark: str
    share: Share | None = None

    @property
    def facts(self) -> RunMetadata:
        """``run.json`` of the run."""
        assert self.run.facts is not None
        return self.run.facts

    @property
    def model_facts(self) -> ModelMetadata:
        """What the run recorded about the model."""
        return self.facts.models.get(self.model, ModelMetadata())

    @property
    def order(self) -> tuple[str, str]:
        """By time; the id decides between runs that started in the same second."""
        return self.run.started, self.run.run_id

    @property
    def date(self) -> str:
        """The day of the run, in UTC."""
        return self.run.started[:10]

    @property
    def days(self) -> float | None:
        """When the run started, in days since 1970 (UTC); None without a date."""
        try:
            return datetime.fromisoformat(self.run.started).timestamp() / 86_400
        except ValueError:
            return None

    @cached_property
    def measured(self) -> Measured:
        """The input of report functions on this measurement, without verdicts."""
        return measured_of([self])

    @property
    def benchmark_facts(self) -> BenchmarkMetadata:
        """What the run recorded about the benchmark."""
        return self.measured.facts

    @cached_property
    def rows(self) -> list[SummaryRow]:
        """The rows of the summary."""
        return self.measured.rows(self.measured.series[0])

    @property
    def headline_rows(self) -> list[SummaryRow]:
        """The rows that count in the headline figure."""
        return [row for row in self.rows if row.task in self.measured.headline_tasks]

    @property
    def is_judged(self) -> bool:
        """True if a higher accuracy is better: not if it ranks no models, or is best at a target below 1."""
        targets = self.benchmark_facts.accuracy_targets
        return self.share is not None and not all(row.task in targets for row in self.headline_rows)

    @property
    def starred(self) -> str:
        """The model's label as in reports."""
        return self.measured.series[0].starred

    def series(self, index: int, run: Run | None = None) -> Series:
        """Return the series of a report; without verdicts, if ``run`` does not add them."""
        run = run or Run(self.run.folder, self.facts, ())
        return Series(index, self.facts.marked(visible(self.model)), self.model, run)

    @cached_property
    def items_key(self) -> tuple[object, ...]:
        """What distinguishes measurements of the same settings on other items, or with other controls and weights."""
        decided = tasks_by_answer(self.facts)(self.benchmark)
        counts: dict[tuple[str, ...], tuple[int, int]] = {}
        for row in self.rows:
            place = ("" if row.task in decided else row.task, row.language, row.source)
            items, samples = counts.get(place, (0, 0))
            counts[place] = items + row.items, samples + row.samples
        facts = self.benchmark_facts
        return tuple(sorted(counts.items())), facts.weighting, facts.controls, facts.side_tasks


def measurements_of(runs: Iterable[SiteRun]) -> dict[str, list[Measurement]]:
    """Return the measurements of all runs that count by benchmark, oldest first; benchmarks are sorted by name."""
    by_benchmark: dict[str, list[Measurement]] = {}
    for run in runs:
        if run.facts is None or run.problem:
            continue
        for model, benchmark in dict.fromkeys((row.model, row.benchmark) for row in run.facts.summary):
            measurement = Measurement(run, model, benchmark, run.shares.get((model, benchmark)))
            by_benchmark.setdefault(benchmark, []).append(measurement)
    for members in by_benchmark.values():
        members.sort(key=lambda m: (m.order, m.model))
    return dict(sorted(by_benchmark.items()))


def comparable(measurements: Sequence[Measurement], *, deviations: bool) -> list[list[Measurement]]:
    """Return the measurements of one benchmark in groups with the same settings, data and items, in their order.

    :param deviations: other deviations make another group. Tables only mark them with a star.
    """
    if not measurements:
        return []
    facts = [m.facts for m in measurements]
    numbers = comparable_groups(facts, measurements[0].benchmark, deviations=deviations)
    groups: dict[tuple[object, ...], list[Measurement]] = {}
    for number, m in zip(numbers, measurements, strict=True):
        groups.setdefault((number, m.items_key), []).append(m)
    return list(groups.values())


def measured_of(measurements: Sequence[Measurement]) -> Measured:
    """Return the input of report functions on one benchmark, without verdicts."""
    series = tuple(m.series(index) for index, m in enumerate(measurements))
    return Measured(measurements[0].benchmark, series)
