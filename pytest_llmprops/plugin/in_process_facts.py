"""What ``run.json`` says of models that are served inside the pytest processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pytest_llmprops.engine.calls import Counters

#: the report of a session that has no broker
NOTHING_ASKED: Mapping[str, Any] = {
    "counters": asdict(Counters()),
    "stopped": None,
    "notes": [],
    "models": {},
}


def add_in_process(
    report: dict[str, Any],
    known: Mapping[str, Mapping[str, Any]],
    served: Mapping[str, Any] | Sequence[Mapping[str, Any]],
) -> None:
    """Add models and counters to the broker's ``report``.

    :param known: label -> identity and pinned. :param served: label -> what was served, of this process or
        of each worker. ``calls.in_process`` of the record is the number of requests served without a call.
    """
    if not known:
        return
    parts = [served] if isinstance(served, Mapping) else served
    models = report["models"] = dict(report["models"])
    counters = report["counters"] = dict(report["counters"])
    found = [(label, facts) for part in parts for label, facts in part.items()]
    for label, facts in known.items():
        own = [told for name, told in found if name == label]
        models[label] = {
            **facts,
            "served_as": sorted({name for told in own for name in told["served_as"]}),
            "deviations": sorted({text for told in own for text in told["deviations"]}),
        }
    counters["in_process"] = sum(told["requests"] for _, told in found)
    counters["in_process_seconds"] = round(sum(told["seconds"] for _, told in found), 3)
