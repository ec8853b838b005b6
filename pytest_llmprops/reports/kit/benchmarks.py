"""How a benchmark gets its part of the report.

A benchmark's module defines ``REPORT``, a :class:`BenchmarkReport`, and is named in :data:`MODULES`, or by an
entry point of the group ``pytest_llmprops.reports`` whose name is the benchmark's. Any other benchmark gets
:func:`~pytest_llmprops.reports.kit.generic.section`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.reports.kit.blocks import Section
from pytest_llmprops.reports.kit.series import Measured

ENTRY_POINTS = "pytest_llmprops.reports"
MODULES = {
    "dtails": "pytest_llmprops.benchmarks.dtails.report.section",
    "eras": "pytest_llmprops.benchmarks.eras.report.section",
    "homophones": "pytest_llmprops.benchmarks.homophones.report.section",
    "htest": "pytest_llmprops.benchmarks.htest.report.section",
    "oracle": "pytest_llmprops.benchmarks.oracle.report.section",
}


@dataclass(frozen=True)
class BenchmarkReport:
    """What a report says about one benchmark.

    :param title: its name in headings. :param noun: what a model gets right, in a sentence:
        "gpt-4o answers 90.0% of *homophones*". :param verb: what stands before the share there.
    :param section: from all that was measured to the benchmark's section.
    :param apart: tasks that do not count into the benchmark's one figure: controls, or tests of another kind.
    :param chance: share that guessing gets, by task; ``""`` stands for the others.
    :param targets: tasks on which another accuracy than 1 is best: no model is better there for more.
    :param published: task of the printed results that stand beside the one figure (``average``).
    """

    title: str
    noun: str
    section: Callable[[Measured], Section]
    apart: frozenset[str] = frozenset()
    chance: Mapping[str, float] = field(default_factory=dict)
    targets: Mapping[str, float] = field(default_factory=dict)
    published: str = ""
    verb: str = "answers"

    def chance_of(self, task: str = "") -> float | None:
        """What guessing gets on a task, or on all of them."""
        return self.chance.get(task, self.chance.get(""))

    def main(self, measured: Measured) -> list[str]:
        """Tasks that count into the one figure; all, where only others were run."""
        tasks = list(dict.fromkeys(place[0] for place in measured.places))
        return [task for task in tasks if task not in self.apart] or tasks


def report_of(benchmark: str) -> BenchmarkReport:
    """The :class:`BenchmarkReport` of a benchmark; a generic one where it has none of its own.

    :raises UsageError: when an entry point's object is something else.
    """
    if benchmark in MODULES:
        found = importlib.import_module(MODULES[benchmark]).REPORT
    else:
        points = list(entry_points(group=ENTRY_POINTS, name=benchmark))
        if not points:
            from pytest_llmprops.reports.kit.generic import section

            return BenchmarkReport(benchmark, benchmark, section)
        found = points[0].load()
    if not isinstance(found, BenchmarkReport):
        raise UsageError(f"entry point {ENTRY_POINTS}: {benchmark} must be a BenchmarkReport, not {found!r}")
    return found
