"""The fixture ``verdict``: waits for the outcome of an item's case, or for the end of the run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_llmprops.core.errors import BackendError, LLMPropsError, RunStopped
from pytest_llmprops.core.verdicts import Verdict
from pytest_llmprops.engine.evaluator import CaseGroup, GroupOutcome, GroupVerdict, Outcome
from pytest_llmprops.engine.planning import batch_of, turn_of
from pytest_llmprops.plugin.collection import Collection
from pytest_llmprops.plugin.evaluation import Evaluation, Unit, properties
from pytest_llmprops.plugin.light_items import NOT_NEEDED, set_outcome

if TYPE_CHECKING:
    from pytest_llmprops.plugin.gating import SequentialSchedule


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


#: why pytest skips a case that a sequential gate does not need
DECIDED = "gate decided"


class Verdicts:
    """Waits for verdicts; skips the cases that a sequential gate does not need.

    :param unit_of: returns the case or group of a pytest item.
    """

    def __init__(self, evaluation: Evaluation, unit_of: Callable[[pytest.Item], Unit | None]) -> None:
        self._evaluation, self._unit_of = evaluation, unit_of
        #: the blocks of a sequential gate; set after collection
        self.schedule: SequentialSchedule | None = None
        #: called with the outcome of each item's first sample, except for cases of several items
        self.on_outcome: Callable[[Outcome], None] | None = None

    def wait(self, item: pytest.Item) -> Verdict | GroupVerdict:
        """Return the verdict on the item's case or group; called in the item's setup.

        :raises BackendError: if a call failed.
        """
        unit = self._unit_of(item)
        assert unit is not None
        outcome = self._outcome(item, unit)
        set_outcome(item, outcome)
        if self.on_outcome is not None:
            first = outcome.samples[:1] if isinstance(outcome, GroupOutcome) else [outcome]
            for measured in first:
                self.on_outcome(measured)
        if outcome.stopped is not None:
            self._evaluation.skip_rest(item, outcome.stopped)
        failure = outcome.error or outcome.fault
        if failure is not None:
            raise failure
        assert outcome.verdict is not None
        item.user_properties += properties(unit, outcome.verdict)
        return outcome.verdict

    def _outcome(self, item: pytest.Item, unit: Unit) -> Outcome | GroupOutcome:
        schedule = self.schedule
        if schedule is None:
            return self._wait(unit, begin=True)
        self._require(item, unit, schedule)
        outcome = schedule.pop_outcome(unit) or self._wait(unit, begin=False)
        # If the broker has ended, the next block reports it.
        with contextlib.suppress(BackendError):
            schedule.record(outcome)
        return outcome

    def _wait(self, unit: Unit, *, begin: bool) -> Outcome | GroupOutcome:
        if isinstance(unit, CaseGroup):
            return self._evaluation.wait_for_group(unit)
        return self._evaluation.wait(unit, begin=begin)

    def _require(self, item: pytest.Item, unit: Unit, schedule: SequentialSchedule) -> None:
        """Skip the item if the gate does not need it or the run is over."""
        try:
            is_needed = schedule.reach(unit, self._evaluation.engine)
        except (BackendError, RunStopped) as error:
            self._evaluation.skip_rest(item, str(error))
        if not is_needed:
            item.stash[NOT_NEEDED] = unit
            pytest.skip(DECIDED)

    def stop_workers(self, reason: str) -> None:
        """Stop the other workers of a sequential gate, which would wait for this worker's verdicts."""
        if self.schedule is not None:
            with contextlib.suppress(LLMPropsError, TimeoutError):
                self._evaluation.engine.stop(reason)
