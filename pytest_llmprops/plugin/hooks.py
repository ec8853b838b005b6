"""The hooks of every process that runs cases."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.texts import terminal_line
from pytest_llmprops.plugin.light_items import LightItem
from pytest_llmprops.plugin.markers import unreadable_of
from pytest_llmprops.plugin.reporting import complete_report, from_plain, run_light, shorten_failure, to_plain
from pytest_llmprops.plugin.session import (
    MANY_CASES,
    MESSAGES,
    LLMSession,
    freeze_objects,
    garbage_collection_paused,
)

#: the suites of this package
_SUITES = Path(importlib.import_module("pytest_llmprops.suites").__path__[0]).resolve()


def drop_unused_hypothesis(config: pytest.Config) -> None:
    """Unregister the plugin of hypothesis if nothing has imported it: its summary would do so at the end."""
    if "hypothesis" not in sys.modules:
        config.pluginmanager.unregister(name="hypothesispytest")


class CaseHooks:
    """Passes each hook on to a part of the session."""

    def __init__(self, session: LLMSession) -> None:
        self._session = session
        #: places in benchmarks of the exceptions whose traceback was shown
        self._shown: set[str] = set()
        self._expect_failures = session.settings.failures == "xfail"

    @pytest.hookimpl
    def pytest_pycollect_makemodule(
        self, module_path: Path, parent: pytest.Collector
    ) -> pytest.Module | None:
        # Outside pytest's root folder, a node id would depend on how the suite is named on the command line.
        if module_path.parent != _SUITES:
            return None
        module: pytest.Module = pytest.Module.from_parent(
            parent, path=module_path, nodeid=f"{_SUITES.name}/{module_path.name}"
        )
        return module

    @pytest.hookimpl(wrapper=True)
    def pytest_pycollect_makeitem(self, collector: pytest.Collector, name: str) -> Generator[None, Any, Any]:
        with garbage_collection_paused():
            items = yield
            return self._session.replace_by_light(f"{collector.nodeid}::{name}", items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        # Before pytest selects the items that match -k.
        self._session.collection.add_keywords(items)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> Generator[None, Any, Any]:
        # Errors of the selection are reported before the first call.
        self._session.settle(session)
        result = yield
        # After the trial call: the modules of the SDK, which stay, are ignored in the collections at the end.
        freeze_objects()
        self._session.begin(session)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        result = yield
        if session.config.option.collectonly or self._session.settings.plan:
            self._report_unreadable(session)
        elif len(session.items) >= MANY_CASES:
            # Otherwise pytest and Python look at all verdicts several times at the end, seconds each.
            freeze_objects()
        return result

    def _report_unreadable(self, session: pytest.Session) -> None:
        """Fail a session that runs no cases, in which the setup of a case would report unreadable data."""
        lines = [one.error for one in map(unreadable_of, session.items) if one is not None]
        session.testsfailed += len(lines)
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            for line in dict.fromkeys(lines):
                reporter.write_line(f"ERROR: {terminal_line(line)}", red=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        unreadable = unreadable_of(item)
        if unreadable is not None:
            pytest.fail(unreadable.error, pytrace=False)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        if isinstance(item, LightItem):
            return run_light(item, expect_failures=self._expect_failures)
        return None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        line = shorten_failure(item, call, self._shown)
        report = yield
        complete_report(item, call, report, line, expect_failures=self._expect_failures)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_report_to_serializable(self, report: Any) -> Generator[None, Any, Any]:
        data = yield
        if isinstance(report, pytest.TestReport):
            to_plain(data)
        return data

    @pytest.hookimpl(wrapper=True)
    def pytest_report_from_serializable(self) -> Generator[None, Any, Any]:
        report = yield
        if isinstance(report, pytest.TestReport):
            from_plain(report)
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None or session.config.getoption("dist", "no") == "no":
            drop_unused_hypothesis(session.config)
        if output is None:
            return
        reason = session.shouldfail or session.shouldstop
        if reason:
            self._session.verdicts.stop_workers(str(reason))
        output[MESSAGES] = self._session.summary().to_json()
