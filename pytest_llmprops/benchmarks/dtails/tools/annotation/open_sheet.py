"""One sheet while somebody works on it: each answer goes into the CSV at once, and none is lost when it cannot."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

from pytest_llmprops.benchmarks.dtails.prompts import language_name
from pytest_llmprops.benchmarks.dtails.tools.annotation.questions import is_answered, read_answer
from pytest_llmprops.benchmarks.dtails.tools.annotation.study import Line, Sheet, read_sheet
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.data.sheet_files import SheetRecord, sheet_text
from pytest_llmprops.data.whole_files import write_text


class OpenSheet:
    """A sheet that is being filled, for any number of threads of one process.

    The file is read again before each save, so that what was changed in it elsewhere stays. Answers that could
    not be saved are kept here and go out with the next one that can.

    :raises DataError: the file is no sheet; see ``read_sheet``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sheet = read_sheet(path)
        self._unsaved: dict[int, dict[str, str]] = {}
        self._lock = Lock()

    def state(self) -> dict[str, Any]:
        """Everything the page shows, as it is now in the file; ``error`` says why that could not be read."""
        with self._lock:
            error = self._save() if self._unsaved else self._refresh()
            sheet = _with(self._sheet, self._unsaved)
            return {
                "sheet": self.path.name,
                "task": sheet.task,
                "code": sheet.language,
                "language": language_name(sheet.language),
                "questions": [_question(line) for line in sheet.lines],
                "error": error,
            }

    def answer(self, number: int, answers: Mapping[str, str]) -> str:
        """Take answers to a question, by column, and save them; empty, or why they could not be saved.

        :raises DataError: no such question or column, or an answer that is none; nothing is kept of it.
        """
        with self._lock:
            line = next((line for line in self._sheet.lines if line.number == number), None)
            if line is None:
                raise DataError(f"question {number} is not in {self.path.name}")
            unknown = [column for column in answers if column not in line.question.columns]
            if unknown:
                raise DataError(f"question {number} has no column {unknown[0][:20]!r}")
            given = {column: read_answer(line.question, column, text) for column, text in answers.items()}
            self._unsaved[number] = self._unsaved.get(number, {}) | given
            return self._save()

    def text(self) -> str:
        """The sheet's CSV with all answers, saved or not."""
        with self._lock:
            return sheet_text(_with(self._sheet, self._unsaved).table)

    def counts(self) -> tuple[int, int]:
        """Answered questions, and all."""
        with self._lock:
            lines = _with(self._sheet, self._unsaved).lines
            return sum(is_answered(line.question, _answers(line)[0]) for line in lines), len(lines)

    def close(self) -> str:
        """Save what is not saved yet. What cannot be goes into a file elsewhere, and one line says where."""
        with self._lock:
            error = self._save() if self._unsaved else ""
            if not error:
                return ""
            text = sheet_text(_with(self._sheet, self._unsaved).table)
            many = "question" if len(self._unsaved) == 1 else "questions"
            lost = f"{len(self._unsaved)} answered {many} could not be saved ({error})"
            try:
                folder = Path(tempfile.mkdtemp(prefix="llmprops-"))
                write_text(folder / self.path.name, text, sync=True)
            except OSError as second:
                return f"{lost}, nor elsewhere ({second.strerror or second})"
            return f"{lost}; the sheet with them is {folder / self.path.name}"

    def _refresh(self) -> str:
        try:
            self._sheet = read_sheet(self.path)
        except DataError as error:
            return str(error)
        return ""

    def _save(self) -> str:
        try:
            now = read_sheet(self.path)
        except DataError as error:
            return str(error)
        there = {line.number: line.question for line in now.lines}
        for line in self._sheet.lines:
            question = there.get(line.number)
            if line.number in self._unsaved and not (question and question.same_as(line.question)):
                return f"{self.path}: question {line.number} is gone or is another; put the sheet back"
        sheet = _with(now, self._unsaved)
        try:
            write_text(self.path, sheet_text(sheet.table), sync=True)
        except OSError as error:
            why = error.strerror or error
            return f"{self.path}: cannot be written ({why}); make room, or check the folder"
        self._sheet, self._unsaved = sheet, {}
        return ""


def _with(sheet: Sheet, answers: Mapping[int, Mapping[str, str]]) -> Sheet:
    """The sheet with answers laid over its own."""
    lines = tuple(
        replace(line, cells={**line.cells, **answers[line.number]}) if line.number in answers else line
        for line in sheet.lines
    )
    records = tuple(SheetRecord(line.line, dict(line.cells)) for line in lines)
    return replace(sheet, lines=lines, table=replace(sheet.table, records=records))


def _answers(line: Line) -> tuple[dict[str, str], str]:
    """The answers of a line, and what is wrong with one that somebody typed; that one counts as none."""
    found, problem = {}, ""
    for column in line.question.columns:
        try:
            found[column] = read_answer(line.question, column, line.cells[column])
        except DataError as error:
            found[column], problem = "", str(error)
    return found, problem


def _question(line: Line) -> dict[str, Any]:
    answers, problem = _answers(line)
    question = line.question
    return {
        "number": line.number,
        "kind": question.kind,
        "concept": question.concept,
        "text": question.text,
        "about": question.about,
        "options": list(question.options),
        "required": list(question.required),
        "answers": answers,
        "problem": problem,
    }
