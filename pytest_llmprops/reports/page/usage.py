"""Tokens, seconds and cost of recorded calls, by task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.request_records import RequestRecord
from pytest_llmprops.reports.kit.series import Series


class TaskOfSeries(NamedTuple):
    """One task of one series."""

    series: int
    benchmark: str
    task: str


@dataclass(slots=True)
class Spent:
    """What the calls of one task needed. A call that several items share counts once.

    :param items: number of verdicts. :param seconds: the duration of each call, when it was made.
    :param cost: USD at the recorded prices; None if the price of a called model is unknown.
    """

    items: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: list[float] = field(default_factory=list)
    cost: float | None = 0.0


class Spending:
    """Adds up what calls needed, by series and task."""

    def __init__(self, series: Sequence[Series]) -> None:
        self.by_task: dict[TaskOfSeries, Spent] = {}
        self._seen: dict[int, set[int]] = {id(s.run): set() for s in series}

    def add(self, series: Series, record: VerdictRecord, calls: Sequence[RequestRecord]) -> None:
        """Count the calls of one verdict."""
        place = TaskOfSeries(series.index, record.benchmark, record.task)
        spent = self.by_task.setdefault(place, Spent())
        spent.items += 1
        seen = self._seen[id(series.run)]
        for call in calls:
            if (key := hash(call.key)) in seen:
                continue
            seen.add(key)
            spent.calls += 1
            spent.prompt_tokens += call.usage.prompt_tokens
            spent.completion_tokens += call.usage.completion_tokens
            if call.seconds:
                spent.seconds.append(call.seconds)
            cost = cost_of(series, call)
            spent.cost = None if cost is None or spent.cost is None else spent.cost + cost

    @staticmethod
    def usage(series: Series, call: RequestRecord) -> list[Any]:
        """Return ``[prompt tokens, completion tokens, seconds, USD or None]`` of a call."""
        cost = cost_of(series, call)
        tokens = [call.usage.prompt_tokens, call.usage.completion_tokens]
        return [*tokens, round(call.seconds, 3), None if cost is None else float(f"{cost:.4g}")]


def cost_of(series: Series, call: RequestRecord) -> float | None:
    """Return the cost of a call in USD when it was made, at the run's recorded price; None if that is unknown."""
    facts = series.run.facts
    model = facts.models.get(series.model) if call.role == "subject" else facts.helpers.get(call.role)
    if model is None or model.price is None:
        return None
    return model.price.of(call.usage, call.via)
