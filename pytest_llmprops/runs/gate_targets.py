"""Tasks whose accuracy is best at another value than 1: a rule that asks for more of it would be wrong."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_llmprops.core.items import Placed
from pytest_llmprops.core.registration import BenchmarkFacts
from pytest_llmprops.core.run_facts import RunFacts
from pytest_llmprops.runs.benchmark_facts import facts_of
from pytest_llmprops.runs.gate_file import Gate

#: requirements that take more correct items for better
_HIGHER = ("min_accuracy", "no_regression", "max_drop")


def misplaced(gate: Gate, places: Iterable[Placed], *runs: RunFacts) -> list[str]:
    """Return one line for each rule that takes accuracy for better where it is not.

    :param places: records, or the places of cases.
    :param runs: ``run.json`` of the run and its baseline, which say what accuracy is best on which task.
    """
    tasks = {(p.benchmark, p.task, p.language, p.source): p for p in places}
    known: dict[str, BenchmarkFacts | None] = {}
    found: dict[str, str] = {}
    for (benchmark, task, *_), place in tasks.items():
        if benchmark not in known:
            known[benchmark] = facts_of(benchmark, *runs)
        facts = known[benchmark]
        if facts is None or task not in facts.accuracy_targets:
            continue
        for rule in gate.rules:
            asked = [name for name in rule.checks if name in _HIGHER]
            if asked and rule.matches(place):
                found[rule.name] = (
                    f"rule '{rule.name}': {asked[0]} on {benchmark} {task}, whose accuracy is best at"
                    f" {facts.accuracy_targets[task]:g}, not higher: name another task, or a metric (within, max)"
                )
    return list(found.values())
