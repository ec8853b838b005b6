"""Rules that require high accuracy on a task whose best accuracy is below 1."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_llmprops.core.items import Placed
from pytest_llmprops.core.registration import BenchmarkFacts
from pytest_llmprops.core.run_facts import RunFacts
from pytest_llmprops.runs.benchmark_facts import facts_of
from pytest_llmprops.runs.gate_file import Gate

#: requirements that treat more correct items as better
_HIGHER = ("min_accuracy", "no_regression", "max_drop")


def misplaced(gate: Gate, places: Iterable[Placed], *runs: RunFacts) -> list[str]:
    """Return one line for each rule that treats higher accuracy as better on a task with another target.

    :param places: records or cases.
    :param runs: ``run.json`` of the run and its baseline; they have the accuracy targets of the tasks.
    """
    tasks = {(p.benchmark, p.task, p.language, p.source): p for p in places}
    known: dict[str, BenchmarkFacts | None] = {}
    lines: dict[str, str] = {}
    for (benchmark, task, *_), place in tasks.items():
        if benchmark not in known:
            known[benchmark] = facts_of(benchmark, *runs)
        facts = known[benchmark]
        if facts is None or task not in facts.accuracy_targets:
            continue
        for rule in gate.rules:
            requirements = [name for name in rule.checks if name in _HIGHER]
            if requirements and rule.matches(place):
                lines[rule.name] = (
                    f"rule '{rule.name}': {requirements[0]} on {benchmark} {task}, whose accuracy is best at"
                    f" {facts.accuracy_targets[task]:g}, not higher: name another task, or a metric (within, max)"
                )
    return list(lines.values())
