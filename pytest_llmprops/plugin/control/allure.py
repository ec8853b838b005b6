"""Cases and runs in the results that allure-pytest writes; registered only with ``--alluredir``.

allure-pytest creates one result per case and passes it to a logger when the case is over. This module replaces the
logger in every process that runs cases. The new logger adds title, labels, steps and attachments before the result is
written. Calls run before their case does, so their steps are added at the end, with the measured times.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import allure_commons
import pytest
from allure_commons.logger import AllureFileLogger
from allure_commons.model2 import (
    ATTACHMENT_PATTERN,
    Attachment,
    Label,
    Parameter,
    Status,
    StatusDetails,
    TestStepResult,
)
from allure_commons.utils import md5

from pytest_llmprops.core.faults import fault_line
from pytest_llmprops.core.texts import visible
from pytest_llmprops.core.verdicts import evidence_texts
from pytest_llmprops.engine.evaluation.evaluator import Case, CaseGroup, GroupOutcome, Outcome, Unit
from pytest_llmprops.plugin.cases.light_items import FOUND, OUTCOME, SEARCHED, UNIT
from pytest_llmprops.plugin.cases.markers import searched_by
from pytest_llmprops.plugin.control.controller import Controller
from pytest_llmprops.plugin.control.recording import Recording
from pytest_llmprops.plugin.session import LLMSession
from pytest_llmprops.reports.allure import case as allure_case
from pytest_llmprops.reports.allure import run
from pytest_llmprops.runs.record import RunRecord, counterexample_text

#: labels that allure-pytest derives from the file's folder
_SUITES = {"parentSuite", "suite", "subSuite"}
_VERDICT = "verdict"


@dataclass
class Current:
    """The case that pytest runs now; without an outcome it was skipped before its evaluation."""

    item: pytest.Item
    unit: Unit | None
    outcome: Outcome | GroupOutcome | None = None
    #: pytest reports the wrong verdict as an expected failure
    is_expected: bool = False


class AllureCases:
    """Completes the Allure results of the cases that this process runs."""

    def __init__(self, session: LLMSession, folder: Path) -> None:
        self._session = session
        self._folder = folder
        self._current: Current | None = None
        self._replaced: Any = None
        self._logger: CaseLogger | None = None
        #: (model, benchmark, task, language) of the passed cases that were written with attachments
        self._shown: set[tuple[str, ...]] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        manager = allure_commons.plugin_manager
        for plugin in manager.get_plugins():
            if type(plugin) is AllureFileLogger:
                # Both would write each result.
                manager.unregister(plugin)
                self._replaced = plugin
                self._logger = CaseLogger(self, self._folder)
                manager.register(self._logger)
                return

    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self, config: pytest.Config) -> None:
        if self._logger is not None:
            # allure-pytest unregisters its logger by name.
            allure_commons.plugin_manager.unregister(self._logger)
            allure_commons.plugin_manager.register(self._replaced)
            self._logger = None

    def pytest_runtest_logstart(self) -> None:
        self._current = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        # The teardown drops the outcome; only the finished report says whether a failure was expected.
        unit, outcome = item.stash.get(UNIT, None), item.stash.get(OUTCOME, None)
        report = yield
        if unit is not None or SEARCHED in item.stash:
            if self._current is None:
                self._current = Current(item, unit)
            self._current.outcome = outcome or self._current.outcome
            self._current.is_expected |= hasattr(report, "wasxfail") and report.outcome == "skipped"
        return report

    def complete(self, result: Any) -> None:
        """Add title, labels, steps and attachments to the ``result`` of the case that just ended."""
        current, self._current = self._current, None
        if current is None:
            return
        unit = current.unit
        if unit is None:
            self._complete_search(result, current.item)
            return
        case, name = (unit.cases[0], unit.name) if isinstance(unit, CaseGroup) else (unit, unit.item.id)
        outcome = current.outcome or Outcome(case, stopped="skipped")
        record = None if isinstance(outcome, GroupOutcome) else outcome.record()
        if current.is_expected:
            result.status = Status.SKIPPED
        title = name if isinstance(unit, CaseGroup) else allure_case.title(case.benchmark, case.item, name)
        result.name = self._of_model(title, case)
        # Allure's history identifies a case by these and the function's name, so they do not hold the item's text.
        result.parameters = [Parameter("item", name), Parameter("model", case.model)]
        if self._session.settings.allure_identity == "item":
            result.parameters[1].excluded = True
            # For Allure 2, which does not compute it.
            result.historyId = md5(result.fullName, name)  # type: ignore[no-untyped-call]
        result.labels = _labels(result.labels, allure_case.labels(case.benchmark, case.item, case.model))
        doc = getattr(getattr(current.item, "function", None), "__doc__", None) or ""
        result.description = None
        calls = (
            ()
            if isinstance(outcome, GroupOutcome) or self._session.settings.attach == "none"
            else outcome.calls
        )
        asked = (call.request for call in calls if call.role == "subject")
        result.descriptionHtml = allure_case.description(
            case.benchmark, case.item, doc, record, next(asked, None)
        )
        _set_message(result, outcome)
        if isinstance(outcome, GroupOutcome):
            if outcome.failures and self._session.settings.attach != "none":
                total = sum(number for status, number in outcome.counts.items() if status != "correct")
                failures = allure_case.failures(outcome.failures, total, outcome.group.noun)
                result.attachments.insert(0, self._attachment(failures))
            samples = outcome.samples
        else:
            samples = [outcome]
        attach = bool(samples) and self._attaches(result, case, is_stopped=outcome.stopped is not None)
        for sample in samples:
            # The steps of an item's samples are inside one step per sample.
            holder = result if sample is outcome else _sample_step(sample, result.start)
            self._add_calls(holder, sample, attach=attach)
            if holder is not result:
                result.steps.append(holder)
                result.stop = max(result.stop or 0, holder.stop or 0)

    def _complete_search(self, result: Any, item: pytest.Item) -> None:
        case, found, name = item.stash[SEARCHED], item.stash.get(FOUND, None), searched_by(item)
        result.name = self._of_model(f"{case.item.id} · {f'{name} ' if name else ''}search", case)
        result.labels = _labels(result.labels, allure_case.labels(case.benchmark, case.item, case.model))
        shown = found and (found.counterexample or found.not_repeated)
        if shown and found and self._session.settings.attach != "none":
            evidence = evidence_texts(shown["evidence"])
            texts = [counterexample_text(found), *(f"{key}:\n{text}" for key, text in evidence)]
            kind = "counterexample" if found.counterexample else "not repeated"
            text = allure_case.bounded("\n\n".join(texts))
            result.attachments.append(self._attachment(allure_case.Attachment(kind, text)))

    def _of_model(self, title: str, case: Case) -> str:
        return title if len(self._session.cases.models) == 1 else f"{title} · {case.model}"

    def _add_calls(self, holder: Any, outcome: Outcome, *, attach: bool) -> None:
        """Add the calls of a sample as steps, and with ``attach`` its verdict, to a result or to the sample's step."""
        case = outcome.case
        steps = [
            allure_case.step(
                call.role,
                case.model if call.role == "subject" else _helper(call.role, case, self._session),
                call.request,
                call.reply,
                call.error,
                attach=attach,
            )
            for call in outcome.calls
        ]
        if holder.start is not None:
            calls_end = holder.start + round(1000 * sum(step.seconds for step in steps))
            holder.stop = max(holder.stop or 0, calls_end)
            time = holder.start
            for step in steps:
                holder.steps.append(self._step(step, time))
                time += round(1000 * step.seconds)
        if attach and outcome.verdict is not None:
            text = allure_case.verdict_text(outcome.record())
            holder.attachments.insert(0, self._attachment(allure_case.Attachment(_VERDICT, text)))

    def not_written(self, error: OSError) -> None:
        """Note once in the summary that results are missing; the run continues."""
        note = f"Allure: {self._folder}: {error.strerror or error}; some results are missing"
        if note not in self._session.cases.notes:
            self._session.cases.notes.append(note)

    def _attaches(self, result: Any, case: Case, *, is_stopped: bool) -> bool:
        """Return True if the result gets the prompts, the replies and the verdict."""
        mode = self._session.settings.attach
        if mode != "failures":
            return mode == "all"
        if is_stopped:
            return False
        if result.status != Status.PASSED:
            return True
        group = (case.model, case.benchmark.name, case.item.task, case.item.language)
        first = group not in self._shown
        self._shown.add(group)
        return first or allure_case.in_sample(self._session.settings.seed, case.item.id)

    def _step(self, step: allure_case.Step, start: int) -> Any:
        return TestStepResult(
            name=step.name,
            status=Status.PASSED if step.passed else Status.BROKEN,
            statusDetails=StatusDetails(message=step.message) if step.message else None,
            parameters=[Parameter(name, value) for name, value in step.parameters],
            attachments=[self._attachment(a) for a in step.attachments],
            start=start,
            stop=start + round(1000 * step.seconds),
        )

    def _attachment(self, attachment: allure_case.Attachment) -> Any:
        # Each attachment is a separate file: Allure shows a file that two cases share in only one of them.
        name = ATTACHMENT_PATTERN.format(prefix=uuid.uuid4(), ext="txt")
        (self._folder / name).write_text(attachment.text, encoding="utf-8", errors="replace")
        return Attachment(name=attachment.name, source=name, type="text/plain")


def _sample_step(outcome: Outcome, start: int | None) -> Any:
    """Return the empty step of one of an item's samples."""
    passed = outcome.verdict is not None and bool(outcome.verdict)
    status = Status.PASSED if passed else Status.BROKEN if outcome.verdict is None else Status.FAILED
    name = f"sample {outcome.case.sample}: {outcome.record().status}"
    return TestStepResult(name=name, status=status, start=start, stop=start)


def _helper(role: str, case: Case, session: LLMSession) -> str:
    cases = session.cases
    label = cases.helpers.labels(type(case.benchmark)).get(role)
    return cases.model_specs()[label].label if label is not None else role


def _labels(existing: Sequence[Any], added: Sequence[tuple[str, str]]) -> list[Any]:
    """Return the test's labels without suites, and the ``added`` labels that it does not have."""
    kept = [label for label in existing if label.name not in _SUITES]
    names = {label.name for label in kept} - {"tag"}
    return [*kept, *(Label(name, value) for name, value in added if name not in names)]


def _set_message(result: Any, outcome: Outcome | GroupOutcome) -> None:
    """Set the message of a case that did not pass: one line, which begins with the kind of failure."""
    details = result.statusDetails
    if details is None or outcome.stopped is not None:
        return
    if outcome.fault is not None:
        details.message = allure_case.message(allure_case.FAULT, fault_line(outcome.fault))
    elif outcome.error is not None:
        details.message, details.trace = allure_case.message("backend error", outcome.error.message), None
    elif not outcome.verdict and "\n" not in (details.trace or ""):
        # The trace holds the verdict's line.
        details.message, details.trace = details.trace or details.message, None
    elif result.status in (Status.FAILED, Status.BROKEN):
        details.message = allure_case.message(allure_case.EXPECTATION, details.message or "")
    if details.trace:
        # pytest shows the values of an assertion, such as the reply.
        details.trace = visible(details.trace)


class CaseLogger(AllureFileLogger):
    """Allure's file logger; completes results, and leaves out containers that hold only our fixtures."""

    def __init__(self, cases: AllureCases, folder: Path) -> None:
        super().__init__(folder)  # type: ignore[no-untyped-call]
        self._cases = cases

    @allure_commons.hookimpl
    def report_result(self, result: Any) -> None:
        try:
            self._cases.complete(result)
            super().report_result(result)  # type: ignore[no-untyped-call]
        except OSError as error:
            self._cases.not_written(error)

    @allure_commons.hookimpl
    def report_container(self, container: Any) -> None:
        # Such a file, one per case, would hold no information.
        fixtures = {f.name.partition("::")[0] for f in (*container.befores, *container.afters)}
        if not fixtures <= {_VERDICT, "search"}:
            super().report_container(container)  # type: ignore[no-untyped-call]


class AllureRun:
    """Writes the files of the whole run, in the controller."""

    def __init__(self, recording: Recording, folder: Path) -> None:
        self._recording = recording
        self._folder = folder
        self._earlier = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._earlier = sum(1 for _ in self._folder.glob("*-result.json"))
        if self._earlier:
            self._recording.notes.append(
                f"Allure: {self._folder}: the report will include {self._earlier} results of earlier runs;"
                " --clean-alluredir removes them"
            )

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        record = self._recording.record
        if record is not None:
            self._write(record)

    def _write(self, record: RunRecord) -> None:
        files = run.run_files(
            record.facts,
            self._recording.in_order,
            record.folder,
            notes=self._recording.notes,
            earlier=self._earlier,
        )
        try:
            for name in (run.GATE, run.GATE_TEXT):
                # An earlier run's decision does not apply to this one.
                (self._folder / name).unlink(missing_ok=True)
            for name, text in files.items():
                (self._folder / name).write_text(text, encoding="utf-8", errors="replace")
        except OSError as error:
            self._recording.notes.append(f"Allure: {self._folder}: {error.strerror or error}")


def register_allure(config: pytest.Config, session: LLMSession, controller: Controller | None) -> None:
    """Register the parts for Allure that this process needs."""
    folder = Path(config.getoption("allure_report_dir"))
    folder = folder if folder.is_absolute() else Path.cwd() / folder
    config.pluginmanager.register(AllureCases(session, folder), "llmprops-allure")
    if controller is not None:
        config.pluginmanager.register(AllureRun(controller.recording, folder), "llmprops-allure-run")
