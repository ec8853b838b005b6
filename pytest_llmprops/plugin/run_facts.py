"""The final facts of ``run.json``, from the verdicts, the broker's report and the collection."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.broker_report import BrokerReport, ModelUse
from pytest_llmprops.core.records import SearchRecord, VerdictRecord
from pytest_llmprops.core.run_facts import ModelFacts, RunFacts
from pytest_llmprops.core.worker_messages import CollectionFacts
from pytest_llmprops.plugin.helpers import HELPER
from pytest_llmprops.runs.benchmark_facts import cluster_weighted
from pytest_llmprops.runs.record import RunRecord
from pytest_llmprops.runs.searches import search_counts
from pytest_llmprops.runs.summary import metric_rows, remarks_on, summary_rows


def in_order(records: Iterable[VerdictRecord], collection: CollectionFacts) -> list[VerdictRecord]:
    """Return the verdicts in the order of the suites; workers report in any order.

    :param records: one verdict of each item and sample.
    """
    places = {tuple(group): place for place, group in enumerate(collection.groups)}
    return sorted(records, key=lambda r: places.get(r.group, 0))


def final_facts(
    record: RunRecord,
    verdicts: Sequence[VerdictRecord],
    report: BrokerReport,
    collection: CollectionFacts,
    *,
    is_whole: bool,
    not_needed: int,
    benchmarks: Mapping[str, Benchmark],
    default_roles: Collection[str] = (),
    searches: Sequence[SearchRecord] = (),
) -> tuple[RunFacts, list[str]]:
    """Return the record's facts, completed with those that are known only at the end.

    Return also one line for each metric or remark that the code of a benchmark could not compute.

    :param is_whole: the run was neither interrupted nor stopped.
    :param benchmarks: by name; the metrics and remarks of others are missing.
    :param not_needed: number of cases that a sequential gate did not need.
    :param default_roles: roles of default helpers, which are recorded only if they served a request.
    """
    uses = report.models
    served = {label.removeprefix(HELPER) for label, use in uses.items() if use.served_as}
    models = {label: _used(model, uses.get(label)) for label, model in record.facts.models.items()}
    helpers = {
        role: _used(helper, uses.get(f"{HELPER}{role}"))
        for role, helper in record.facts.helpers.items()
        if role not in default_roles or role in served
    }
    recorded = {*models, *(f"{HELPER}{role}" for role in helpers)}
    deviations = {
        label: use.deviations for label, use in uses.items() if label in recorded and use.deviations
    }
    calls = report.counters
    if calls.unpriced:
        # Without the calls of unknown price, the sum is not the cost of the run.
        calls = replace(calls, cost_usd=None)
    metrics, problems = metric_rows(verdicts, benchmarks)
    remarks, more_problems = remarks_on(verdicts, benchmarks)
    expected, done = collection.cases, len(verdicts)
    is_shard = record.facts.options.get("shard") is not None
    sequential = collection.sequential
    if sequential is not None:
        # An interrupted or stopped run has cases without a verdict that the gate may still need.
        ended = is_whole and not_needed > 0 and done + not_needed >= expected
        sequential = replace(sequential, ended=ended)
    facts = replace(
        record.facts,
        # A run that only searches is complete without verdicts, and a shard may have no items.
        complete=bool(expected or searches or is_shard) and done == expected and is_whole,
        expected=expected,
        models=models,
        helpers=helpers,
        benchmarks=collection.benchmarks,
        protocols=collection.protocols,
        data=collection.data,
        not_served=collection.not_served,
        selection=collection.selection,
        deviations=deviations,
        calls=calls,
        # An interrupted process may have collected nothing.
        summary=summary_rows(
            verdicts, cluster_weighted(replace(record.facts, benchmarks=collection.benchmarks))
        ),
        metrics=metrics,
        remarks=remarks,
        searches=search_counts(searches),
        sequential=sequential,
    )
    return facts, [*problems, *more_problems]


def _used(model: ModelFacts, use: ModelUse | None) -> ModelFacts:
    """Return ``model`` with the facts of its use."""
    if use is None:
        return model
    return replace(
        model,
        identity=use.identity,
        pinned=use.pinned,
        served_as=use.served_as,
        old_replies=use.old_replies,
    )
