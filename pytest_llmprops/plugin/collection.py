"""The cases of a session as pytest items: parameters of test functions, checks and order of the selection.

Cases are selected by ``--llm-size``, then pytest (``-k``, ``-m``, node ids, other plugins), then ``--llm-limit``,
``--llm-shard`` and the verdicts of a resumed run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pytest

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.verdicts import Group
from pytest_llmprops.engine.evaluation.evaluator import Case, CaseGroup
from pytest_llmprops.plugin.cases import light_items
from pytest_llmprops.plugin.cases.cases import Cases, Selection, within_limit
from pytest_llmprops.plugin.cases.light_items import SEARCHED, UNIT, cases_in, module_of, possible_tasks
from pytest_llmprops.plugin.cases.markers import (
    Unreadable,
    argument_of,
    benchmark_of,
    case_name_of,
    cases_on_command_line,
    class_reference,
    name_of,
    parametrize_skipped,
    searched_by,
    unreadable_item,
    unreadable_of,
)
from pytest_llmprops.plugin.options import RunOptions, shown_only
from pytest_llmprops.records.files import from_plain
from pytest_llmprops.records.messages import (
    AlreadyMeasured,
    CollectionMetadata,
)
from pytest_llmprops.records.run import ProtocolMetadata

if TYPE_CHECKING:
    from pytest_llmprops.plugin.gating import Gating
    from pytest_llmprops.plugin.searching import Searching


#: options of pytest and of allure-pytest that deselect cases
_SELECTING = (
    *("keyword", "markexpr", "deselect", "lf", "stepwise"),
    *(f"allure_{name}" for name in ("severities", "epics", "features", "stories", "ids", "labels")),
)
#: names the file with which allure-pytest selects cases
_TEST_PLAN = "ALLURE_TESTPLAN_PATH"
#: plugins whose ``pytest_collection_modifyitems`` deselects only by the options above, or only marks the items
_WITHOUT_SELECTION = ("_pytest.", "allure_pytest.", "pytest_llmprops.", "_hypothesis_pytestplugin", "xdist.")


def may_deselect(config: pytest.Config) -> bool:
    """Return True if pytest, or a plugin, may select some cases of a test function."""
    hooks = config.hook.pytest_collection_modifyitems.get_hookimpls()
    return (
        any(getattr(config.option, name, None) for name in _SELECTING)
        or _TEST_PLAN in os.environ
        or any("[" in arg for arg in config.args)
        or any(not module_of(impl.plugin).startswith(_WITHOUT_SELECTION) for impl in hooks)
    )


def cases_of(item: pytest.Item) -> tuple[Case, ...]:
    """Return the cases that a pytest item measures, or the one that it searches."""
    searched = item.stash.get(SEARCHED, None)
    return cases_in(item.stash.get(UNIT, None)) if searched is None else (searched,)


def _keep(session: pytest.Session, keeps: Callable[[pytest.Item, Case], bool]) -> None:
    """Deselect the items of which no case is kept; a group keeps its other cases. Other tests stay."""
    remaining: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in session.items:
        unit, cases = item.stash.get(UNIT, None), cases_of(item)
        left = tuple(case for case in cases if keeps(item, case))
        if cases and not left:
            others.append(item)
            continue
        remaining.append(item)
        if isinstance(unit, CaseGroup) and len(left) < len(cases):
            item.stash[UNIT] = CaseGroup(unit.name, left)
    if others:
        session.items[:] = remaining
        session.config.hook.pytest_deselected(items=others)


class Collection:
    """Creates the pytest items of a session, and stores the case of each in its stash.

    :param searching: returns the part that searches for counterexamples; called only if a test function uses it.
    :param kept: what the record of a resumed run has already.
    """

    def __init__(
        self,
        config: pytest.Config,
        settings: RunOptions,
        cases: Cases,
        gating: Gating | None,
        searching: Callable[[], Searching],
        kept: AlreadyMeasured,
    ) -> None:
        self._config, self._settings = config, settings
        self._cases, self._gating, self._searching = cases, gating, searching
        self._kept = kept
        self._is_worker = hasattr(config, "workerinput")
        #: node id of a function with light items -> names of its cases
        self._light: dict[str, list[str]] = {}
        #: node ids of functions that search nothing and get no item, or whose benchmark cannot be read
        self._left_out: dict[str, Unreadable | None] = {}
        #: benchmarks that a function of the session measures
        self._with_verdicts: set[str] = set()
        #: why functions with many cases have ordinary items; empty if they have light ones
        self._ordinary = ""
        #: pytest has selected the cases; false if it refuses the selection, for example because of -k
        self.is_selected = False
        #: the selected cases in pytest's order, known after :meth:`settle`
        self.selected: list[Case] = []
        #: those of them that a resumed run measures; otherwise all
        self.remaining: list[Case] = []
        #: number of pytest items that measure or search
        self._items = 0
        #: benchmark -> the first test file that uses it
        self._test_files: dict[str, str] = {}
        self._has_searches = False
        #: a selected function fails because its benchmark could not be loaded
        self._lacks_benchmark = False

    def parametrize(self, metafunc: pytest.Metafunc, marker: pytest.Mark) -> None:
        """Give the marked function one parameter per case."""
        try:
            benchmark = benchmark_of(marker)
            self._cases.limits_late = self._limits_late()
            selection = self._cases.select(benchmark)
            self._check_class(metafunc, benchmark)
        except UsageError as error:
            # With the name of the function: pytest-xdist shows equal errors of several files once.
            raise pytest.Collector.CollectError(f"{metafunc.definition.nodeid}: {error}") from None
        is_search = argument_of(metafunc) == "search"
        if is_search and self._is_left_out(metafunc, marker, selection):
            self._replace(metafunc, None)
            return
        if not is_search:
            self._with_verdicts.add(name_of(benchmark))
        if isinstance(selection, Unreadable):
            # An error of collection would end the session, also for benchmarks whose data can be read.
            self._replace(metafunc, selection)
            return
        if not selection.cases:
            name = selection.benchmark.name
            has_no_files = name in self._cases.without_files and not selection.not_served
            if has_no_files:
                _skip(metafunc, f"no files of {name}")
            elif self._settings.shard is not None and not selection.not_served:
                _skip(metafunc, f"shard {self._settings.shard} has no items of {name}")
            else:
                names, kinds = ", ".join(selection.not_served), "/".join(selection.kinds_not_served)
                _skip(metafunc, f"not served: {names} cannot answer {kinds} requests")
        elif is_search:
            self._has_searches = True
            try:
                self._searching().parametrize(metafunc, marker, selection)
            except UsageError as error:
                raise pytest.Collector.CollectError(str(error)) from None
        else:
            params = self._params(metafunc, selection)
            metafunc.parametrize("verdict", params, indirect=True, ids=params)

    def _replace(self, metafunc: pytest.Metafunc, unreadable: Unreadable | None) -> None:
        """Replace the function by one item that reports what is unreadable, or by none."""
        self._left_out[metafunc.definition.nodeid] = unreadable
        _skip(metafunc, "")

    def _is_left_out(
        self, metafunc: pytest.Metafunc, marker: pytest.Mark, selection: Selection | Unreadable
    ) -> bool:
        """Return True if a function would search nothing, and neither its name nor ``-k`` asks for the reason.

        By default most benchmarks search nothing, and a skipped case in every run would say so.
        """
        name = metafunc.function.__name__
        asked = "search" in (self._config.getoption("keyword") or "")
        if asked or any(name in arg for arg in self._config.args):
            return False
        if isinstance(selection, Unreadable):
            # The function that measures the benchmark fails.
            return selection.benchmark in self._with_verdicts
        searched, settings = str(marker.kwargs.get("search", "")), selection.protocol.settings
        cases = [case for unit in selection.cases.values() for case in cases_in(unit)]
        try:
            is_searched = any(selection.benchmark.searches(case.item, settings, searched) for case in cases)
        except Exception:
            # The part that searches reports it.
            return False
        return not is_searched and selection.benchmark.name in self._with_verdicts

    def _limits_late(self) -> bool:
        """Return True if the limit applies to what pytest selects. If that is all, fewer pytest items are created."""
        return self._settings.limit is not None and may_deselect(self._config)

    def _check_class(self, metafunc: pytest.Metafunc, benchmark: str | type[Benchmark]) -> None:
        """Note the test file of a benchmark, from which the controller loads its class."""
        name, file = name_of(benchmark), str(metafunc.definition.path)
        self._test_files.setdefault(name, file)
        if self._is_worker and not isinstance(benchmark, str) and "<locals>" in benchmark.__qualname__:
            raise UsageError(
                f"benchmark {name}: the class {benchmark.__qualname__} is made in a function, where workers cannot find"
                " it for its metrics; define it at the top of the file, or run without workers (-n 0)"
            )

    def _params(self, metafunc: pytest.Metafunc, selection: Selection) -> list[str]:
        params = list(selection.cases)
        on_command_line = cases_on_command_line(metafunc)
        if on_command_line is not None:
            # Pytest would create all items and drop the others, at a tenth of a millisecond each.
            params = [param for param in params if param in on_command_line]
        if light_items.can_be_light(metafunc, len(params)):
            hook = light_items.needs_functions(metafunc.definition)
            if hook is None:
                self._light[metafunc.definition.nodeid] = params
                return [light_items.PLACEHOLDER]
            self._ordinary = (
                f"{hook} needs pytest's own functions, so every case has one: slower, more memory"
            )
        return params

    def replaced(self, nodeid: str, items: Any) -> list[pytest.Item] | Any:
        """Replace the one item of a function that has no ordinary cases; return other ``items`` unchanged."""
        if nodeid in self._left_out:
            unreadable = self._left_out[nodeid]
            return [] if unreadable is None else [unreadable_item(items[0], unreadable)]
        params = self._light.pop(nodeid, None)
        if params is None:
            return items
        [template] = items
        cases = self._cases.selections[name_of(benchmark_of(template.get_closest_marker("llmprops")))].cases
        return light_items.light_items(template, {param: cases[param] for param in params})

    def add_keywords(self, items: Iterable[pytest.Item]) -> None:
        """Give each case the keyword ``<benchmark>/<task>``, so that ``-k`` selects by task."""
        for item in items:
            error = unreadable_of(item)
            if error is not None:
                # Whatever task is selected, the error is selected, too.
                item.extra_keyword_matches.update(f"{error.benchmark}/{task}" for task in error.tasks)
                continue
            if UNIT not in item.stash:
                self._find_case(item)
            item.extra_keyword_matches.update(
                f"{case.benchmark.name}/{task}"
                for case in cases_of(item)
                for task in possible_tasks(case.benchmark, case.item)
            )

    def _find_case(self, item: pytest.Item) -> None:
        benchmark, name = case_name_of(item, "verdict") or ("", "")
        selection = self._cases.selections.get(benchmark)
        unit = selection.cases.get(name) if selection else None
        searched = self._searching().case_of(item) if self._has_searches else None
        if unit is not None:
            item.stash[UNIT] = unit
        elif searched is not None:
            item.stash[SEARCHED] = searched

    def only_collects(self, session: pytest.Session) -> bool:
        """Return True if pytest runs no tests: as requested, for a plan, or because of errors."""
        option = self._config.option
        # Workers run the tests that could be collected; the session fails anyway.
        broken = session.testsfailed and not (option.continue_on_collection_errors or self._is_worker)
        return bool(broken or not self.is_selected or shown_only(option, self._settings))

    def settle(self, session: pytest.Session) -> None:
        """Check the selected cases.

        :raises UsageError: if an option or a gate rule does not fit the cases.
        """
        for unreadable in map(unreadable_of, session.items):
            if unreadable is not None and unreadable.is_usage:
                # One line for all functions and benchmarks with the same problem.
                raise UsageError(unreadable.error)
        if self._limits_late():
            self._apply_limit(session)
        # After a collection error, cases may be missing only because they could not be collected.
        is_whole = not session.testsfailed and not self._cases.unreadable
        if is_whole:
            self._cases.check_all_used()
        if not self.only_collects(session) or self._settings.plan:
            self._check_selected(session)
            is_whole = is_whole and not self._cases.unreadable
        if self._gating is not None and session.items and is_whole:
            measured = (case for item in session.items for case in cases_in(item.stash.get(UNIT, None)))
            self._gating.check(list({case.key: case for case in measured}.values()), self._cases)
        self._lacks_benchmark = any(unreadable_of(item) is not None for item in session.items)
        self.selected, self._items = self._measured(session.items)
        self.remaining = self.selected
        if self._kept.cases or self._kept.searches:
            _keep(session, self._is_missing)
            self.remaining, self._items = self._measured(session.items)

    def _apply_limit(self, session: pytest.Session) -> None:
        """Deselect the cases above ``--llm-limit`` or of other shards, for each benchmark and model.

        A case that is only searched counts like one that is measured.
        """
        by_model: dict[tuple[str, str], dict[str, Case]] = {}
        for item in session.items:
            for case in cases_of(item):
                by_model.setdefault((case.benchmark.name, case.model), {}).setdefault(case.item.id, case)
        left: dict[tuple[str, str], set[str]] = {}
        for key, cases in by_model.items():
            benchmark = next(iter(cases.values())).benchmark
            items = within_limit([case.item for case in cases.values()], benchmark, self._settings)
            left[key] = {item.id for item in items}
        _keep(session, lambda item, case: case.item.id in left[case.benchmark.name, case.model])

    def _is_missing(self, item: pytest.Item, case: Case) -> bool:
        """Return True if the record of a resumed run lacks the verdict, or the search."""
        if UNIT in item.stash:
            return case.key not in self._kept.cases
        return (case.model, case.benchmark.name, case.item.id, searched_by(item)) not in self._kept.searches

    def _check_selected(self, session: pytest.Session) -> None:
        """Replace the cases of each benchmark whose check of them fails by one case per test function."""
        measured = (case for item in session.items for case in cases_in(item.stash.get(UNIT, None)))
        failed = self._cases.check_selected(measured)
        if not failed:
            return
        items: list[pytest.Item] = []
        replaced: set[str] = set()
        for item in session.items:
            benchmark = next((case.benchmark.name for case in cases_of(item)), "")
            if benchmark in failed:
                item = unreadable_item(item, failed[benchmark])
                if item.nodeid in replaced:
                    continue
                replaced.add(item.nodeid)
            items.append(item)
        session.items[:] = items
        for name in failed:
            del self._cases.selections[name]

    def _measured(self, items: Iterable[pytest.Item]) -> tuple[list[Case], int]:
        """Return the cases that the items report, and the number of items that measure or search."""
        cases: list[Case] = []
        count = 0
        for item in items:
            cases += cases_in(item.stash.get(UNIT, None))
            count += UNIT in item.stash or SEARCHED in item.stash
        return cases, count

    def facts(self) -> CollectionMetadata:
        """Return the facts of the collection for the run record."""
        cases, keys = self._cases, {case.key for case in self.selected}
        selections = cases.selections
        items = {(case.benchmark.name, case.model, case.item.id) for case in self.selected}
        selected = Counter(benchmark for benchmark, _, _ in items)
        groups = (
            Group(case.model, case.benchmark.name, case.item.task, case.item.language, case.item.source)
            for case in self.selected
        )
        return CollectionMetadata(
            cases=len(keys),
            items=self._items,
            kept=len(keys & self._kept.cases),
            benchmarks=cases.benchmark_facts(),
            protocols={n: from_plain(ProtocolMetadata, s.protocol.to_json()) for n, s in selections.items()},
            data=cases.data_hashes(),
            groups=tuple(dict.fromkeys(groups)),
            notes=tuple(cases.notes),
            ordinary=self._ordinary,
            classes={
                n: class_reference(type(s.benchmark), self._test_files[n]) for n, s in selections.items()
            },
            not_served={n: dict(s.not_served) for n, s in selections.items() if s.not_served},
            selection={n: {"items": selected[n], "of": len(s.available)} for n, s in selections.items()},
            is_whole=not self._lacks_benchmark,
        )


def _skip(metafunc: pytest.Metafunc, reason: str) -> None:
    parametrize_skipped(metafunc, argument_of(metafunc) or "verdict", "not-served", reason)
