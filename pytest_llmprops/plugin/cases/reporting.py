"""Pytest's report of a case: one line for a failure, and the typed report that the controller reads.

The typed report is a user property of pytest's report; in a worker, it is a text that pytest-xdist can send. The
process that runs the case adds it. The controller removes it before other plugins see the report, since pytest keeps
every report.
"""

from __future__ import annotations

import ast
import bdb
import linecache
from functools import lru_cache

import pytest

from pytest_llmprops.core.errors import BackendError, LLMPropsError
from pytest_llmprops.core.faults import fault_line, own_traceback, place_of
from pytest_llmprops.core.texts import explained, shortened, terminal_line, visible
from pytest_llmprops.engine.evaluation.evaluator import GroupOutcome, GroupVerdict, Outcome
from pytest_llmprops.plugin.cases.light_items import OUTCOME, LightItem, drop_outcome
from pytest_llmprops.plugin.tracebacks import with_one_frame
from pytest_llmprops.records.files import from_text, text
from pytest_llmprops.records.messages import CaseReport, GroupLines

#: characters of an exception's message that pytest may show
_MOST = 5_000
#: name of the user property
PROPERTY = "llmprops report"


def asserts(error: AssertionError, value: object) -> bool:
    """Return True if ``error`` comes from ``assert NAME``, where ``value`` has this name.

    If the source cannot be read, the answer is yes.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return True
    frame = trace.tb_frame
    asserted = _asserted_names(frame.f_code.co_filename)
    if asserted is None:
        return True
    name = asserted.get(trace.tb_lineno)
    return name is not None and frame.f_locals.get(name, frame.f_globals.get(name)) is value


@lru_cache(maxsize=64)
def _asserted_names(file: str) -> dict[int, str] | None:
    """Return line -> name of each assertion of one name in a file; None if the file cannot be read."""
    lines = linecache.getlines(file)
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return None
    if not lines:
        return None
    return {
        line: node.test.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Name)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def failure_line(outcome: Outcome | GroupOutcome) -> str | None:
    """Return the line that pytest shows for a failed case; None if the case did not fail."""
    if outcome.error is not None:
        return f"backend error: {outcome.error.message}"
    verdict = outcome.verdict
    if verdict is None or verdict:
        return None
    if isinstance(verdict, GroupVerdict):
        return terminal_line(f"{verdict.status}: {verdict.reason}")
    given = shortened(verdict.given, 120)
    answers = f"expected {verdict.expected!r}, given {given!r}"
    return terminal_line(f"{verdict.status}: {explained(answers, verdict.reason)}")


def is_wrong_verdict(outcome: Outcome | GroupOutcome, call: pytest.CallInfo[None]) -> bool:
    """Return True if a case failed only because its verdict is wrong, in ``assert verdict``, not another assertion."""
    if call.excinfo is None or call.when != "call" or outcome.verdict is None or outcome.verdict:
        return False
    error = call.excinfo.value
    return isinstance(error, AssertionError) and asserts(error, outcome.verdict)


def attach(item: pytest.Item, report: pytest.TestReport, message: CaseReport) -> None:
    """Add the typed report to pytest's."""
    value = text(message) if hasattr(item.config, "workerinput") else message
    report.user_properties = [*report.user_properties, (PROPERTY, value)]


def detach(report: pytest.TestReport) -> CaseReport | None:
    """Remove the typed report from pytest's report and return it; None if there is none."""
    for position, (name, value) in enumerate(report.user_properties):
        if name == PROPERTY:
            del report.user_properties[position]
            return value if isinstance(value, CaseReport) else from_text(CaseReport, str(value))
    return None


def shorten_failure(item: pytest.Item, call: pytest.CallInfo[None], seen: set[str]) -> str | None:
    """Make pytest render a failure briefly; a traceback costs milliseconds and lines.

    A failure of the model has one line. So has an exception in the code of a benchmark, except the first one of each
    place, whose traceback begins in the benchmark.

    :param seen: places of the exceptions whose traceback was shown.
    :return: the line that replaces pytest's text for a failed setup; None to keep it.
    """
    outcome = item.stash.get(OUTCOME, None)
    if outcome is None or call.excinfo is None:
        return None
    error = call.excinfo.value
    if error is outcome.fault:
        place, trace = place_of(error), own_traceback(error)
        if trace is not None and place not in seen and not _is_one_line(error):
            seen.add(place)
            call.excinfo = pytest.ExceptionInfo.from_exception(error.with_traceback(trace))
            return None
        line = terminal_line(f"error: {fault_line(error)}")
        whole, cause = error.__traceback__, error.__cause__
        call.excinfo = pytest.ExceptionInfo.from_exception(with_one_frame(error))
        # The record and Allure name the place, too.
        error.__traceback__ = whole
        if trace is None:
            # Only the cause has a place. Otherwise pytest would render it, too.
            error.__cause__ = cause
        return line
    if isinstance(error, BackendError):
        call.excinfo = pytest.ExceptionInfo.from_exception(with_one_frame(error))
        return failure_line(outcome)
    if is_wrong_verdict(outcome, call):
        set_failure_line(item, failure_line(outcome) or "")
    return None


def _is_one_line(error: BaseException) -> bool:
    """Return True if a traceback would not help, or its last line would fill the terminal or change its state."""
    if isinstance(error, LLMPropsError):
        return True
    try:
        text = str(error)
    except Exception:
        return True
    return len(text) > _MOST or visible(text) != text


def set_failure_line(item: pytest.Item, line: str) -> None:
    """Make pytest render ``line`` instead of a failure's traceback."""
    setattr(item, "repr_failure", lambda *args, **options: line)  # noqa: B010


def complete_report(
    item: pytest.Item,
    call: pytest.CallInfo[None],
    report: pytest.TestReport,
    line: str | None,
    *,
    is_gated: bool,
) -> None:
    """Add the typed report of the item's case to pytest's report.

    :param line: the result of :func:`shorten_failure`. :param is_gated: a gate decides about the run.
    """
    outcome = item.stash.get(OUTCOME, None)
    if outcome is None:
        return
    case = outcome.case if isinstance(outcome, Outcome) else outcome.group.cases[0]
    is_wrong = is_wrong_verdict(outcome, call)
    if is_wrong and (is_gated or case.item.task in case.benchmark.controls):
        # A wrong verdict does not fail the session if a gate decides, or the item is a control.
        report.outcome = "skipped"
        report.wasxfail = failure_line(outcome) or ""
    is_own = call.excinfo is not None and call.excinfo.value in (outcome.error, outcome.fault)
    by_model = report.failed and (is_wrong or is_own)
    # One report of the case gets the verdict. If a run stops within a group, the verdicts so far are recorded.
    is_last = call.when == "call" or (call.when == "setup" and report.outcome != "passed")
    if is_last and isinstance(outcome, GroupOutcome) and (outcome.stopped is None or outcome.records):
        group = GroupLines(outcome.status, outcome.counts, outcome.lines)
        attach(item, report, CaseReport(group=group, by_model=by_model))
    elif is_last and isinstance(outcome, Outcome) and outcome.stopped is None:
        attach(item, report, CaseReport(outcome.record(), by_model=by_model))
    elif by_model:
        attach(item, report, CaseReport(by_model=True))
    if line is not None:
        report.longrepr = line
    if call.when == "teardown":
        drop_outcome(item)


#: what ends the session, and is not the result of an item
RERAISE = (KeyboardInterrupt, pytest.exit.Exception)


def run_light(item: LightItem, *, has_phases: bool) -> bool | None:
    """Run one light item and log its reports; return None if pytest's own protocol must run it.

    :param has_phases: a plugin needs the report of its teardown, and its start and end, which a worker would send.
    """
    if item.has_own_marks:
        return None
    hook, nodeid, location = item.ihook, item.nodeid, item.location
    has_ends = has_phases or not hasattr(item.config, "workerinput")
    if has_ends:
        hook.pytest_runtest_logstart(nodeid=nodeid, location=location)
    call = pytest.CallInfo.from_call(item.run, when="call", reraise=RERAISE)
    if not item.funcargs:
        call.when = "setup"
    report = _logged(item, call)
    if call.excinfo is not None and not (
        hasattr(report, "wasxfail") or isinstance(call.excinfo.value, (pytest.skip.Exception, bdb.BdbQuit))
    ):
        hook.pytest_exception_interact(node=item, call=call, report=report)
    if has_phases:
        _logged(item, pytest.CallInfo.from_call(lambda: None, when="teardown"))
    item.teardown()
    if has_ends:
        hook.pytest_runtest_logfinish(nodeid=nodeid, location=location)
    return True


def _logged(item: LightItem, call: pytest.CallInfo[None]) -> pytest.TestReport:
    report: pytest.TestReport = item.ihook.pytest_runtest_makereport(item=item, call=call)
    # pytest keeps every report, and workers send them.
    report.keywords = {}
    item.ihook.pytest_runtest_logreport(report=report)
    return report
