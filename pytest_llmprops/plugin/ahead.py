"""Evaluation ahead of pytest: what a process begins to evaluate once the cases are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_llmprops.engine.evaluator import Case
from pytest_llmprops.engine.planning import batch_of, turn_of
from pytest_llmprops.plugin.cases import Cases
from pytest_llmprops.plugin.collection import Collection
from pytest_llmprops.plugin.evaluation import Evaluation, Unit
from pytest_llmprops.plugin.options import RunOptions

if TYPE_CHECKING:
    from pytest_llmprops.plugin.sequential import SequentialSchedule


def stop_over_budget(
    selected: Sequence[Case], settings: RunOptions, cases: Cases, evaluation: Evaluation
) -> None:
    """Stop the run before its first call when the plan of the selected cases is above a limit."""
    if settings.max_calls is None and settings.max_cost is None:
        return
    from pytest_llmprops.plugin.plan import over_budget

    called = [case for case in selected if case.model not in evaluation.in_process_labels]
    reason = over_budget(called, settings, cases, evaluation.engine.count_stored)
    if reason:
        evaluation.engine.stop(reason)


def begin_alone(items: Sequence[pytest.Item], collection: Collection, evaluation: Evaluation) -> None:
    """Begin to evaluate in a run without workers; a sequential gate begins its blocks itself."""
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
    """Begin to evaluate in a worker, which reports one batch of the cases.

    :param worker: its number, from 0. :param workers: how many there are.
    """
    schedule = collection.schedule
    share = batch_of if schedule is None else turn_of
    batches: dict[int, list[Unit]] = {}
    for position, item in enumerate(items):
        unit = collection.unit_of(item)
        if unit is not None:
            batches.setdefault(share(position, len(items), workers), []).append(unit)
    if schedule is not None:
        _divide(schedule, batches, evaluation)
        return
    evaluation.expect(batches)
    # The scheduler will give this worker the batch of its number; no need to wait until it does.
    evaluation.begin(worker)


def _divide(schedule: SequentialSchedule, batches: dict[int, list[Unit]], evaluation: Evaluation) -> None:
    shares = {unit.key: n for n, units in batches.items() for unit in units if isinstance(unit, Case)}
    schedule.divide(shares, evaluation.engine)
