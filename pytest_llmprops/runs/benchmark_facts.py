"""What a record says of its benchmarks, so that it can be judged where they are not installed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Any

from pytest_llmprops.benchmarks import installed_facts
from pytest_llmprops.core.registration import BenchmarkFacts

Facts = Mapping[str, Any]


def recorded_facts(facts: Facts, benchmark: str) -> BenchmarkFacts | None:
    """Return what ``run.json`` says of a benchmark; None in a record of before schema 2.

    :raises DataError: for a value of the wrong type.
    """
    value = (facts.get("benchmarks") or {}).get(benchmark)
    return None if value is None else BenchmarkFacts.from_json(benchmark, value)


def facts_of(benchmark: str, *runs: Facts) -> BenchmarkFacts | None:
    """Return what the first of these runs that knows the benchmark says of it.

    If no run does, the installed benchmark's facts; None if there is none.

    :param runs: ``run.json`` of each run. :raises DataError: for a value of the wrong type.
    """
    for facts in runs:
        if (found := recorded_facts(facts, benchmark)) is not None:
            return found
    return installed_facts(benchmark)


TasksByAnswer = Callable[[str], Collection[str]]


def tasks_by_answer(*runs: Facts) -> TasksByAnswer:
    """Return the function from a benchmark to its tasks that are known from the answer only; none of an unknown one.

    :param runs: ``run.json`` of the runs that are compared; see :func:`facts_of`.
    """

    @cache
    def tasks(benchmark: str) -> Collection[str]:
        facts = facts_of(benchmark, *runs)
        return () if facts is None else facts.tasks_by_answer

    return tasks


def unknown_benchmarks(benchmarks: Iterable[str], *runs: Facts) -> list[str]:
    """Return one note for each benchmark that neither the records nor this installation knows."""
    return [
        f"{name}: run.json does not say which of its tasks are controls or have an accuracy target, and {name} is not"
        " installed; all tasks are judged alike"
        for name in dict.fromkeys(benchmarks)
        if facts_of(name, *runs) is None
    ]


def title_of(benchmark: str, *runs: Facts) -> str:
    """Return a benchmark's name as a heading."""
    return (facts_of(benchmark, *runs) or BenchmarkFacts.unknown(benchmark)).title
