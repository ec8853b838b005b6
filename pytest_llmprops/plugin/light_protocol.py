"""The run protocol of light items: set up, run and report a case without pytest's hooks for fixtures."""

from __future__ import annotations

import bdb
from typing import Any

import pytest

from pytest_llmprops.engine.evaluator import Outcome
from pytest_llmprops.engine.groups import GroupOutcome
from pytest_llmprops.plugin.light_items import LightItem
from pytest_llmprops.plugin.outcomes import failure_line, is_wrong_verdict
from pytest_llmprops.plugin.reporting import attach, case_report

#: what ends the session, and is not the result of an item
RERAISE = (KeyboardInterrupt, pytest.exit.Exception)


def run_light(item: LightItem, *, expect_failures: bool) -> bool | None:
    """Run one light item and log its reports; return None if pytest's own protocol must run it.

    :param expect_failures: report wrong verdicts as expected failures.
    """
    if item.has_own_marks:
        return None
    source = item.source
    if source.phases.ends:
        source.hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    call = pytest.CallInfo.from_call(item.run, when="call", reraise=RERAISE)
    report_light(item, call, expect_failures=expect_failures)
    return True


def report_light(item: LightItem, call: pytest.CallInfo[Any], *, expect_failures: bool) -> None:
    """Log the reports of a light item that was run."""
    source = item.source
    hook, location, phases = source.hook, item.location, source.phases
    if not item.is_set_up:
        call.when = "setup"
    report = _report(item, location, call, item.outcome, expect_failures)
    if report is None:
        # Everything except a verdict is reported as usual, with a traceback.
        report = hook.pytest_runtest_makereport(item=item, call=call)
    hook.pytest_runtest_logreport(report=report)
    if call.excinfo is not None and not (
        hasattr(report, "wasxfail") or isinstance(call.excinfo.value, (pytest.skip.Exception, bdb.BdbQuit))
    ):
        hook.pytest_exception_interact(node=item, call=call, report=report)
    if not report.user_properties:
        # Pytest keeps all reports; a quarter of a million empty lists need 14 MB.
        report.user_properties = source.empty
    if phases.teardown:
        last = _test_report(item, location, "teardown", "passed", call.stop, 0.0)
        hook.pytest_runtest_logreport(report=last)
    item.teardown()
    if phases.ends:
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=location)


def _report(
    item: LightItem,
    location: tuple[str, int | None, str],
    call: pytest.CallInfo[Any],
    outcome: Outcome | GroupOutcome | None,
    expect_failures: bool,
) -> pytest.TestReport | None:
    """Return the report of a verdict; None for everything else."""
    wrong = call.excinfo is not None and outcome is not None and is_wrong_verdict(outcome, call)
    if outcome is None or not (wrong or (call.excinfo is None and call.when == "call")):
        return None
    line = failure_line(outcome) if wrong else None
    result: Any = "passed" if not wrong else "skipped" if expect_failures else "failed"
    report = _test_report(item, location, "call", result, call.start, call.duration, line)
    if line is not None and expect_failures:
        report.wasxfail = line
    attach(report, case_report(outcome, by_model=wrong and not expect_failures))
    return report


def _test_report(
    item: LightItem,
    location: tuple[str, int | None, str],
    when: Any,
    outcome: Any,
    start: float,
    duration: float,
    line: str | None = None,
) -> pytest.TestReport:
    properties = item.__dict__.get("user_properties", item.source.empty)
    report = pytest.TestReport(
        # pytest 9.2 parses a text again, and keeps the result of each case, 300 bytes.
        nodeid=item.nodeid if item.source.id is None else item.id,
        location=location,
        keywords=item.source.keywords,
        outcome=outcome,
        longrepr=line,
        when=when,
        duration=duration,
        start=start,
        stop=start + duration,
        user_properties=properties,
    )
    # Shared, as above.
    report.sections = item.source.empty
    if not properties:
        report.user_properties = item.source.empty
    return report
