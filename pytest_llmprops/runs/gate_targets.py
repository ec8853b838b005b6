"""Tasks whose accuracy is best at another value than 1: a rule that asks for more of it would be wrong."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_llmprops.benchmarks import BUILT_IN, find_benchmark
from pytest_llmprops.core.items import Placed
from pytest_llmprops.runs.gate_file import Gate

#: requirements that take more correct items for better
_HIGHER = ("min_accuracy", "no_regression", "max_drop")


def misplaced(gate: Gate, places: Iterable[Placed]) -> list[str]:
    """One line for each rule that takes accuracy for better where it is not.

    :param places: records, or the places of cases.
    """
    tasks = {(p.benchmark, p.task, p.language, p.source): p for p in places}
    found: dict[str, str] = {}
    for (benchmark, task, *_), place in tasks.items():
        targets = find_benchmark(benchmark).accuracy_targets if benchmark in BUILT_IN else {}
        if task not in targets:
            continue
        for rule in gate.rules:
            asked = [name for name in rule.checks if name in _HIGHER]
            if asked and rule.matches(place):
                found[rule.name] = (
                    f"rule '{rule.name}': {asked[0]} on {benchmark} {task}, whose accuracy is best at"
                    f" {targets[task]:g}, not higher: name another task, or a metric (within, max)"
                )
    return list(found.values())
