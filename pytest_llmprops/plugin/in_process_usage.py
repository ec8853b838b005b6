"""Add the models that are served inside the pytest processes to the broker's report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pytest_llmprops.core.broker_report import BrokerReport, ModelUse
from pytest_llmprops.core.worker_messages import InProcessUse


def with_in_process(
    report: BrokerReport,
    labels: Iterable[str],
    processes: Sequence[Mapping[str, InProcessUse]],
) -> BrokerReport:
    """Return the report with the models that were served in process, and their requests.

    :param labels: labels of the models that are served in process.
    :param processes: for each process that ran cases, label -> what it served.
    """
    labels = sorted(labels)
    if not labels:
        return report
    models = dict(report.models)
    for label in labels:
        uses = [process[label] for process in processes if label in process]
        models[label] = ModelUse(
            # A model without requests was not created and has no identity.
            identity=dict(uses[0].identity) if uses else None,
            pinned=uses[0].pinned if uses else None,
            served_as=tuple(sorted({name for use in uses for name in use.served_as})),
            deviations=tuple(sorted({text for use in uses for text in use.deviations})),
        )
    all_uses = [use for process in processes for use in process.values()]
    counters = replace(
        report.counters,
        in_process=sum(use.requests for use in all_uses),
        in_process_seconds=round(sum(use.seconds for use in all_uses), 3),
    )
    return replace(report, counters=counters, models=models)
