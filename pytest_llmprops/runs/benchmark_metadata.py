"""The facts about its benchmarks in a run record. They let a record be judged where a benchmark is not installed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import TypeVar

from pytest_llmprops.benchmark_registry import installed_facts
from pytest_llmprops.core.items import Placed
from pytest_llmprops.core.registration import BenchmarkMetadata
from pytest_llmprops.records.run import RunMetadata

P = TypeVar("P", bound=Placed)


def facts_of(benchmark: str, *runs: RunMetadata) -> BenchmarkMetadata | None:
    """Return the facts about a benchmark from the first of these runs that has them.

    If none has them, return the installed benchmark's facts; None if it is not installed.

    :param runs: ``run.json`` of each run.
    """
    for facts in runs:
        if benchmark in facts.benchmarks:
            return facts.benchmarks[benchmark]
    return installed_facts(benchmark)


def headline(places: Iterable[P], *runs: RunMetadata) -> list[P]:
    """Return the places that count in the headline figures of their benchmarks: not those of controls.

    Places of tasks without a ranking (``Benchmark.unranked``) never count.

    :param places: rows of ``summary``, or other objects with a benchmark and a task.
    :param runs: ``run.json`` of the runs that the places are from; see :func:`facts_of`.
    """
    places = list(places)
    tasks: dict[str, list[str]] = {}
    for place in places:
        tasks.setdefault(place.benchmark, []).append(place.task)
    counted: set[tuple[str, str]] = set()
    for name, members in tasks.items():
        facts = facts_of(name, *runs) or BenchmarkMetadata.unknown(name)
        counted |= {(name, task) for task in facts.headline_tasks(members) if task not in facts.unranked}
    return [place for place in places if (place.benchmark, place.task) in counted]


TasksByAnswer = Callable[[str], Collection[str]]


def tasks_by_answer(*runs: RunMetadata) -> TasksByAnswer:
    """Return a function from a benchmark to its tasks that depend on the answer; empty for an unknown benchmark.

    :param runs: ``run.json`` of the runs that are compared; see :func:`facts_of`.
    """

    @cache
    def tasks(benchmark: str) -> Collection[str]:
        facts = facts_of(benchmark, *runs)
        return () if facts is None else facts.tasks_by_answer

    return tasks


IsWeighted = Callable[[str], bool]


def cluster_weighted(*runs: RunMetadata) -> IsWeighted:
    """Return a function that says whether each cluster of a benchmark counts once (``Benchmark.weighting``).

    :param runs: ``run.json`` of the runs that are read or compared. It is enough if one of them says so.
    """

    @cache
    def is_weighted(benchmark: str) -> bool:
        recorded = [run.benchmarks[benchmark] for run in runs if benchmark in run.benchmarks]
        installed = None if recorded else installed_facts(benchmark)
        facts = recorded if installed is None else [installed]
        return any(fact.weighting == "cluster" for fact in facts)

    return is_weighted


def unknown_benchmarks(benchmarks: Iterable[str], *runs: RunMetadata) -> list[str]:
    """Return one note for each benchmark that neither the records nor this installation knows."""
    return [
        f"{name}: run.json does not say which of its tasks are controls or have an accuracy target, and {name} is not"
        " installed; all tasks are judged alike"
        for name in dict.fromkeys(benchmarks)
        if facts_of(name, *runs) is None
    ]


def title_of(benchmark: str, *runs: RunMetadata) -> str:
    """Return a benchmark's name as a heading."""
    return (facts_of(benchmark, *runs) or BenchmarkMetadata.unknown(benchmark)).title
