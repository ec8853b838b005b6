"""What ``run.json`` says about models that are served inside the pytest processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pytest_llmprops.core.worker_messages import InProcessUse
from pytest_llmprops.engine.calls import Counters

#: the report of a session without a broker
NO_CALLS: Mapping[str, Any] = {
    "counters": asdict(Counters()),
    "stopped": None,
    "notes": [],
    "models": {},
}


def add_in_process(
    report: dict[str, Any],
    labels: Iterable[str],
    processes: Sequence[Mapping[str, InProcessUse]],
) -> None:
    """Add models and counters to the broker's ``report``.

    ``calls.in_process`` of the record becomes the number of requests served without a call.

    :param labels: of the models that are served in process.
    :param processes: for each process that ran cases, label -> what it served.
    """
    labels = sorted(labels)
    if not labels:
        return
    models = report["models"] = dict(report["models"])
    counters = report["counters"] = dict(report["counters"])
    for label in labels:
        uses = [process[label] for process in processes if label in process]
        models[label] = {
            # A model without requests was not created and has no identity.
            **{key: getattr(uses[0], key) for key in ("identity", "pinned") if uses},
            "served_as": sorted({name for use in uses for name in use.served_as}),
            "deviations": sorted({text for use in uses for text in use.deviations}),
        }
    everything = [use for process in processes for use in process.values()]
    counters["in_process"] = sum(use.requests for use in everything)
    counters["in_process_seconds"] = round(sum(use.seconds for use in everything), 3)
