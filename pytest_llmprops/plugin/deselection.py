"""Deselecting cases after pytest's own selection: those above ``--llm-limit``, of other shards, or with a verdict.

The order is ``--llm-size``, pytest's selection (``-k``, ``-m``, node ids, other plugins), ``--llm-limit``,
``--llm-shard``, the verdicts of a resumed run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import pytest

from pytest_llmprops.core.worker_messages import Kept
from pytest_llmprops.engine.evaluator import Case
from pytest_llmprops.engine.groups import CaseGroup
from pytest_llmprops.plugin.case_items import set_unit
from pytest_llmprops.plugin.cases import within_limit
from pytest_llmprops.plugin.evaluation import Unit
from pytest_llmprops.plugin.light_items import module_of
from pytest_llmprops.plugin.markers import searched_by
from pytest_llmprops.plugin.options import RunOptions

#: options of pytest and of allure-pytest that deselect cases
_SELECTING = (
    *("keyword", "markexpr", "deselect", "lf", "stepwise"),
    *(f"allure_{name}" for name in ("severities", "epics", "features", "stories", "ids", "labels")),
)
#: names the file with which allure-pytest selects cases
_TEST_PLAN = "ALLURE_TESTPLAN_PATH"
#: plugins whose ``pytest_collection_modifyitems`` deselects only by the options above, or only marks the items
_WITHOUT_SELECTION = ("_pytest.", "allure_pytest.", "pytest_llmprops.", "_hypothesis_pytestplugin", "xdist.")

#: returns what a pytest item measures (None for others), and its cases, or the one that it searches
Parts = Callable[[pytest.Item], tuple[Unit | None, Sequence[Case]]]


def may_deselect(config: pytest.Config) -> bool:
    """Whether pytest, or a plugin, may select some cases of a test function."""
    hooks = config.hook.pytest_collection_modifyitems.get_hookimpls()
    return (
        any(getattr(config.option, name, None) for name in _SELECTING)
        or _TEST_PLAN in os.environ
        or any("[" in arg for arg in config.args)
        or any(not module_of(impl.plugin).startswith(_WITHOUT_SELECTION) for impl in hooks)
    )


def apply_limit(session: pytest.Session, parts: Parts, settings: RunOptions) -> None:
    """Deselect the cases above ``--llm-limit`` or of other shards, for each benchmark and model.

    A case that is only searched counts like one that is measured.
    """
    by_model: dict[tuple[str, str], dict[str, Case]] = {}
    for item in session.items:
        for case in parts(item)[1]:
            by_model.setdefault((case.benchmark.name, case.model), {}).setdefault(case.item.id, case)
    left: dict[tuple[str, str], set[str]] = {}
    for key, cases in by_model.items():
        benchmark = next(iter(cases.values())).benchmark
        left[key] = {i.id for i in within_limit([c.item for c in cases.values()], benchmark, settings)}
    _keep(session, parts, lambda item, case: case.item.id in left[case.benchmark.name, case.model])


def deselect_done(session: pytest.Session, parts: Parts, kept: Kept) -> None:
    """Deselect the cases and searches that the record of a resumed run has."""

    def is_missing(item: pytest.Item, case: Case) -> bool:
        if parts(item)[0] is not None:
            return case.key not in kept.cases
        return (case.model, case.benchmark.name, case.item.id, searched_by(item)) not in kept.searches

    _keep(session, parts, is_missing)


def _keep(session: pytest.Session, parts: Parts, keeps: Callable[[pytest.Item, Case], bool]) -> None:
    """Deselect the items of which no case is kept; a group keeps its other cases. Other tests stay."""
    remaining: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in session.items:
        unit, cases = parts(item)
        left = tuple(case for case in cases if keeps(item, case))
        if cases and not left:
            others.append(item)
            continue
        remaining.append(item)
        if isinstance(unit, CaseGroup) and len(left) < len(cases):
            set_unit(item, CaseGroup(unit.name, left))
    if others:
        session.items[:] = remaining
        session.config.hook.pytest_deselected(items=others)
