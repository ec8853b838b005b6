"""The loop over the cases of a run without workers, which runs lean items in groups.

Pytest calls its hook for the protocol of each item. Five wrappers of pytest around it prepare warnings, assertions and
tracebacks, which a function with nothing except ``assert verdict`` does not use. So this hook is called once for lean
items that follow one another and whose verdicts are ready, and their verdicts are written with one call of the system.
If another plugin may use the protocol of an item (pytest-rerunfailures, pytest-timeout with a timeout), or has its own
loop, pytest's loop runs instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import pytest

from pytest_llmprops.plugin.controller import Controller
from pytest_llmprops.plugin.evaluation import Unit
from pytest_llmprops.plugin.lean_items import OWN, LeanItem, module_of
from pytest_llmprops.plugin.lean_protocol import report_lean, run_lean
from pytest_llmprops.plugin.lean_reports import CorrectCases
from pytest_llmprops.plugin.session import LLMSession

#: maximum number of items per group, which take about 10 ms
MOST = 100


class LeanLoop:
    """Runs lean items in groups."""

    def __init__(self, config: pytest.Config, session: LLMSession, controller: Controller) -> None:
        self._session, self._recording = session, controller.recording
        self._correct = CorrectCases(config, controller.terminal, self._recording)
        self._expect_failures = session.settings.failures == "xfail"
        #: the items of the current group
        self._group: Sequence[LeanItem] = ()

    @pytest.hookimpl
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if not self._runs(session):
            return None
        items, position = session.items, 0
        while position < len(items):
            self._group = self._group_at(items, position)
            item = items[position]
            position += max(1, len(self._group))
            following = items[position] if position < len(items) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
        return True

    def _runs(self, session: pytest.Session) -> bool:
        """Whether this loop runs the session; pytest reports errors of collection."""
        if session.testsfailed or session.config.option.collectonly or self._session.collection.is_sequential:
            return False
        if not any(isinstance(item, LeanItem) for item in session.items):
            return False
        hook = session.config.hook
        impls = [*hook.pytest_runtest_protocol.get_hookimpls()]
        impls += (impl for impl in hook.pytest_runtestloop.get_hookimpls() if not impl.wrapper)
        modules = {module_of(impl.plugin) for impl in impls}
        if "pytest_timeout" in modules and not _has_timeout(session.config):
            # Without one, it only checks the time of the session, after each group.
            modules.discard("pytest_timeout")
        if not all(module.startswith(OWN) for module in modules):
            return False
        dumps_tracebacks = any(impl.plugin_name == "faulthandler" for impl in impls)
        return not (dumps_tracebacks and float(session.config.getini("faulthandler_timeout") or 0.0) > 0)

    def _group_at(self, items: Sequence[pytest.Item], position: int) -> Sequence[LeanItem]:
        """Return the lean items from a position on whose verdicts are ready; empty if another one is there."""
        group: list[LeanItem] = []

        def units() -> Iterator[Unit]:
            for item in items[position : position + MOST]:
                if not isinstance(item, LeanItem) or not item.source.only_asserts or item.has_own_marks:
                    return
                group.append(item)
                yield item.unit

        return group[: self._session.evaluation.fetch_ready(units())]

    def _run(self, item: LeanItem) -> None:
        correct, source = self._correct, item.source
        if correct.is_possible(source) and self._session.evaluation.is_correct(item.unit):
            call = correct.run(item)
            if call is None:
                return
            correct.show()
            report_lean(item, call, expect_failures=self._expect_failures)
        else:
            correct.show()
            run_lean(item, expect_failures=self._expect_failures)
            correct.note_reported(source)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        if not self._group:
            return None
        session = item.session
        with self._recording.together():
            try:
                for one in self._group:
                    self._run(one)
                    if session.shouldfail or session.shouldstop:
                        break
            finally:
                self._correct.show()
        return True


def _has_timeout(config: pytest.Config) -> bool:
    """Whether pytest-timeout may have a timeout for all tests. Lean items have no mark for one."""
    return any((config.getoption("timeout"), os.environ.get("PYTEST_TIMEOUT"), config.getini("timeout")))
