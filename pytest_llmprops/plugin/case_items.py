"""The case of a pytest item and, while the item runs, its outcome."""

from __future__ import annotations

import pytest

from pytest_llmprops.engine.evaluator import Case, Outcome
from pytest_llmprops.engine.groups import CaseGroup, GroupOutcome
from pytest_llmprops.plugin.evaluation import Unit
from pytest_llmprops.plugin.light_items import LightItem

UNIT = pytest.StashKey[Unit]()
OUTCOME = pytest.StashKey[Outcome | GroupOutcome]()
#: set on an item that a sequential gate did not need
NOT_NEEDED = pytest.StashKey[Unit]()


def set_unit(item: pytest.Item, unit: Unit) -> None:
    """Make the item report ``unit``."""
    if isinstance(item, LightItem):
        item.unit = unit
    else:
        item.stash[UNIT] = unit


def cases_in(unit: Unit | None) -> tuple[Case, ...]:
    """Return the cases of a unit; an empty tuple for None."""
    if isinstance(unit, CaseGroup):
        return unit.cases
    return () if unit is None else (unit,)


def possible_tasks(case: Case) -> tuple[str, ...]:
    """Return the tasks that a case may have once its answer is known."""
    tasks, task = case.benchmark.tasks_by_answer, case.item.task
    return tuple(sorted(tasks)) if task in tasks else (task,)


def outcome_of(item: pytest.Item) -> Outcome | GroupOutcome | None:
    """Return the outcome of an item whose verdict was waited for."""
    return item.outcome if isinstance(item, LightItem) else item.stash.get(OUTCOME, None)


def set_outcome(item: pytest.Item, outcome: Outcome | GroupOutcome) -> None:
    """Store the outcome in the item until its teardown."""
    if isinstance(item, LightItem):
        item.outcome = outcome
    else:
        item.stash[OUTCOME] = outcome


def drop_outcome(item: pytest.Item) -> None:
    """Remove the outcome, to free the memory of its prompts and replies."""
    if OUTCOME in item.stash:
        del item.stash[OUTCOME]
