"""What ``run.json`` holds when a run is over: from the verdicts, the broker's report and the collection."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.metrics import Record
from pytest_llmprops.core.records import SearchRecord
from pytest_llmprops.plugin.cases import load_benchmark
from pytest_llmprops.plugin.helpers import HELPER
from pytest_llmprops.runs.record import RunRecord
from pytest_llmprops.runs.searches import search_counts
from pytest_llmprops.runs.summary import metric_rows, summary_rows


def in_order(records: Iterable[Record], facts: Mapping[str, Any]) -> list[Record]:
    """The verdicts in the order of the suites; workers report in any order.

    A case that was reported twice counts once, as whoever reads the record counts it.

    :param facts: what :meth:`~pytest_llmprops.plugin.session.LLMSession.facts` knows of the collection.
    """
    latest = {r.key: r for r in records}
    places = {tuple(group): place for place, group in enumerate(facts.get("groups", ()))}
    return sorted(latest.values(), key=lambda r: places.get(r.group, 0))


def last_facts(
    record: RunRecord,
    verdicts: Sequence[Record],
    report: Mapping[str, Any],
    facts: Mapping[str, Any],
    *,
    whole: bool,
    unneeded: int,
    default_roles: Collection[str] = (),
    searches: Sequence[SearchRecord] = (),
) -> dict[str, Any]:
    """The facts known only at the end.

    :param report: the broker's. :param whole: the run was neither interrupted nor stopped.
    :param unneeded: cases that a sequential gate did not need.
    :param default_roles: helpers that nobody named: recorded where they served something.
    :param searches: those that were made, as :class:`~pytest_llmprops.runs.searches.SearchLog` has them.
    """
    models = record.facts["models"]
    served = {label.removeprefix(HELPER) for label, found in report["models"].items() if found["served_as"]}
    helpers = {r: h for r, h in record.facts["helpers"].items() if r not in default_roles or r in served}
    deviations = {}
    for label, found in report["models"].items():
        role = label.removeprefix(HELPER)
        if label != role and role not in helpers:
            continue
        (helpers[role] if label != role else models[label]).update(
            {k: found[k] for k in ("identity", "pinned", "served_as")}
        )
        if found["deviations"]:
            deviations[label] = found["deviations"]
    counters = dict(report["counters"])
    if counters.get("unpriced"):
        # A sum that leaves out calls of unknown price would be read as the price.
        counters["cost_usd"] = None
    # Workers collected; here their benchmarks are known by class.
    benchmarks = {name: load_benchmark(c) for name, c in facts.get("classes", {}).items()}
    metrics = {name: benchmark.metrics for name, benchmark in benchmarks.items()}
    expected, done = facts.get("cases", 0), len(verdicts)
    last = {
        # Searches have no verdicts; a run of nothing else is whole without.
        "complete": bool(expected or searches) and done == expected and whole,
        "expected": expected,
        "models": models,
        "helpers": helpers,
        "benchmarks": facts.get("benchmarks", {}),
        "protocols": facts.get("protocols", {}),
        "data": facts.get("data", {}),
        "not_served": facts.get("not_served", {}),
        "deviations": deviations,
        "calls": counters,
        "summary": summary_rows(verdicts),
        "metrics": metric_rows(verdicts, metrics),
        "remarks": _remarks(verdicts, benchmarks),
    }
    if searches:
        last["searches"] = [counts.to_json() for counts in search_counts(searches)]
    if facts.get("sequential"):
        # Whoever interrupts a run, or stops it, leaves cases that are neither done nor known as unneeded.
        ended = whole and unneeded > 0 and done + unneeded >= expected
        last["sequential"] = {**facts["sequential"], "ended": ended}
    return last


def _remarks(verdicts: Sequence[Record], benchmarks: Mapping[str, Benchmark]) -> list[dict[str, str]]:
    groups: dict[tuple[str, str], list[Record]] = {}
    for verdict in verdicts:
        groups.setdefault((verdict.model, verdict.benchmark), []).append(verdict)
    return [
        {"model": model, "benchmark": name, "text": text}
        for (model, name), members in groups.items()
        if name in benchmarks
        for text in benchmarks[name].remarks(members)
    ]
