"""The start of evaluation, after collection and before pytest runs the first case."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_llmprops.engine.planning import batch_of, turn_of
from pytest_llmprops.plugin.collection import Collection
from pytest_llmprops.plugin.evaluation import Evaluation, Unit


def begin_alone(items: Sequence[pytest.Item], collection: Collection, evaluation: Evaluation) -> None:
    """Begin to evaluate all cases in a run without workers; a sequential gate starts each block later."""
    if collection.schedule is None:
        evaluation.expect({0: [unit for item in items if (unit := collection.unit_of(item))]})
        evaluation.begin()
        evaluation.let_settle()


def begin_in_worker(
    items: Sequence[pytest.Item],
    collection: Collection,
    evaluation: Evaluation,
    *,
    worker: int,
    workers: int,
) -> None:
    """Begin to evaluate this worker's share of the cases.

    :param worker: number of the worker, from 0. :param workers: number of workers.
    """
    schedule = collection.schedule
    share_of = batch_of if schedule is None else turn_of
    shares: dict[int, list[Unit]] = {}
    for position, item in enumerate(items):
        unit = collection.unit_of(item)
        if unit is not None:
            shares.setdefault(share_of(position, len(items), workers), []).append(unit)
    if schedule is not None:
        numbers = {unit.key: n for n, units in shares.items() for unit in units}
        schedule.divide(numbers, evaluation.engine)
        return
    evaluation.expect(shares)
    # The scheduler will give this worker the share of its number.
    evaluation.begin(worker)
