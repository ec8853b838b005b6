"""Registration of the plugin's parts, and the hooks of processes that run cases; imported only with ``--model``."""

from __future__ import annotations

import dataclasses
import gc
import importlib
import os
import re
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmark_registry import benchmark_names
from pytest_llmprops.core.errors import LLMPropsError
from pytest_llmprops.core.strict_json import is_unicode
from pytest_llmprops.engine.store.location import default_store
from pytest_llmprops.models.spec import read_dotenv
from pytest_llmprops.plugin.cases.light_items import LightItem
from pytest_llmprops.plugin.cases.markers import unreadable_of
from pytest_llmprops.plugin.cases.reporting import complete_report, run_light, shorten_failure
from pytest_llmprops.plugin.options import resolve_options, shown_only
from pytest_llmprops.plugin.process import drop_unused_hypothesis, prepare_process
from pytest_llmprops.plugin.session import MESSAGES, LLMSession
from pytest_llmprops.records.files import text
from pytest_llmprops.runs.recorded_command import FROM_RECORD

#: the suites of this package
_SUITES = Path(importlib.import_module("pytest_llmprops.suites").__path__[0]).resolve()


class CaseHooks:
    """Passes each hook on to a part of the session."""

    def __init__(self, session: LLMSession) -> None:
        self._session = session
        #: places in benchmarks of the exceptions whose traceback was shown
        self._shown: set[str] = set()
        self._is_gated = session.settings.gate is not None
        self._has_begun = not session.is_worker

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
        items = yield
        return self._session.collection.replaced(f"{collector.nodeid}::{name}", items)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None, object, object]:
        # Before pytest selects the items that match -k.
        self._session.collection.add_keywords(items)
        result = yield
        self._session.collection.is_selected = True
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> Generator[None, Any, Any]:
        # pytest also calls this hook while it raises the error of a wrong path or of -k '('.
        if self._session.collection.is_selected:
            # Errors of the selection are reported before the first call.
            self._session.settle(session)
        elif self._session.is_worker:
            self._session.settle(session, sys.exception())
        result = yield
        # The collector need not look at the items and modules again, which stay.
        gc.freeze()
        if not self._session.is_worker:
            self._session.begin(session)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        result = yield
        if shown_only(session.config.option, self._session.settings):
            self._report_unreadable(session)
        return result

    def _report_unreadable(self, session: pytest.Session) -> None:
        """Fail a session that runs no cases, in which the setup of a case would report unreadable data."""
        lines = [one.error for one in map(unreadable_of, session.items) if one is not None]
        session.testsfailed += len(lines)
        if lines:
            from pytest_llmprops.plugin.control.terminal import write_lines

            write_lines(session.config, [f"ERROR: {line}" for line in dict.fromkeys(lines)], red=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        unreadable = unreadable_of(item)
        if unreadable is not None:
            pytest.fail(unreadable.error, pytrace=False)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        if not self._has_begun:
            # Earlier, the controller may not have decided that the run starts.
            self._has_begun = True
            self._session.begin(item.session)
        if isinstance(item, LightItem):
            return run_light(item, has_phases=self._session.has_phases)
        return None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        line = shorten_failure(item, call, self._shown)
        report = yield
        complete_report(item, call, report, line, is_gated=self._is_gated)
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[MESSAGES] = text(self._session.summary())
            drop_unused_hypothesis(session.config)


def start(config: pytest.Config) -> LLMSession:
    """Create the session and register the hooks that this process needs.

    :raises pytest.UsageError: if an option cannot be used.
    """
    config.add_cleanup(prepare_process())
    worker_input = getattr(config, "workerinput", None)
    # Workers inherit the environment.
    dotenv = read_dotenv() if worker_input is None else ""
    if config.getoption("llm_baseline") or config.getini("llm_baseline"):
        from pytest_llmprops.plugin.gating import select_as_baseline

        try:
            select_as_baseline(config)
        except LLMPropsError as error:
            raise pytest.UsageError(str(error)) from None
    settings = resolve_options(config)
    _check_markers(config)
    if FROM_RECORD in os.environ:
        from pytest_llmprops.plugin.recorded_settings import confirm_recorded

        confirm_recorded(config, settings)
    if settings.engine == "batch" and worker_input is None:
        from pytest_llmprops.plugin.resuming import resumes_batches

        if resumes_batches(settings):
            # The same command continues its record. Workers get the option from the configuration.
            config.option.llm_resume = True
            settings = dataclasses.replace(settings, resume=True)
    try:
        if settings.store is None and settings.cache != "off":
            # Fail early if the user has no folder for it.
            default_store()
        session = LLMSession(config, settings, worker_input)
        session.dotenv = dotenv
    except LLMPropsError as error:
        raise pytest.UsageError(str(error)) from None
    register = config.pluginmanager.register
    register(CaseHooks(session), "llmprops-session")
    controller = None
    if worker_input is None:
        from pytest_llmprops.plugin.control.controller import Controller
        from pytest_llmprops.plugin.control.preflight import PlanOnly, Preflight

        shows = shown_only(config.option, settings)
        if shows:
            # No case is run, so workers would be idle.
            config.option.dist = "no"
        if config.getoption("dist", "no") != "no":
            _check_workers(config)
        controller = Controller(config, session)
        preflight = Preflight(config, controller)
        preflight.check()
        if settings.plan:
            register(PlanOnly(session.cases, session.evaluation), "llmprops-plan")
        elif controller.is_distributed:
            from pytest_llmprops.plugin.control.workers import Distributed, limit_workers

            session.workers = limit_workers(config, has_batches=settings.engine == "batch")
            register(Distributed(controller, preflight), "llmprops-distributed")
        # Before the controller, which opens the record.
        register(preflight, "llmprops-preflight")
        register(controller, "llmprops-controller")
        register(controller.terminal, "llmprops-terminal")
    if config.getoption("allure_report_dir", None):
        from pytest_llmprops.plugin.control.allure import register_allure

        register_allure(config, session, controller)
    return session


def _check_markers(config: pytest.Config) -> None:
    """Check that ``-m`` does not name a benchmark, which is no marker unless the user declares one of this name."""
    declared = {re.split(r"[:(]", line)[0].strip() for line in config.getini("markers")}
    named = set(re.findall(r"\w+", config.option.markexpr or "")) - declared
    for name in sorted(named & set(benchmark_names())):
        raise pytest.UsageError(
            f"-m {config.option.markexpr}: {name} is a benchmark, not a marker; select it with -k {name}"
        )


def _check_workers(config: pytest.Config) -> None:
    """Check that workers can reach the broker, and that pytest-xdist can send them the command line and the folders."""
    if sys.platform == "win32":
        raise pytest.UsageError(
            "-n: workers need Unix sockets, which Windows lacks; use -n 0, Linux or macOS"
        )
    invocation = config.invocation_params
    for word in map(str, (*invocation.args, invocation.dir, config.rootpath)):
        if not is_unicode(word):
            shown = word.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            raise pytest.UsageError(f"{shown}: workers need paths in UTF-8; rename it, or use -n 0")
