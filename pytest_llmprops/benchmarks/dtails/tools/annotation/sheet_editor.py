"""Edit one sheet: each answer is saved to the CSV immediately, and kept if it cannot be saved."""

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


class SheetEditor:
    """A sheet that is being filled in. Safe for several threads of one process.

    The file is read again before each save, so changes by other programs are kept. Answers that could not be saved are
    kept and saved with the next answer.

    :raises DataError: The file is not a sheet; see ``read_sheet``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sheet = read_sheet(path)
        self._unsaved: dict[int, dict[str, str]] = {}
        self._lock = Lock()

    def state(self) -> dict[str, Any]:
        """Return all data for the page, from the file; ``error`` says why the file could not be read or saved."""
        with self._lock:
            error = self._save() if self._unsaved else self._refresh()
            sheet = _with_answers(self._sheet, self._unsaved)
            return {
                "sheet": self.path.name,
                "task": sheet.task,
                "code": sheet.language,
                "language": language_name(sheet.language),
                "questions": [_question(line) for line in sheet.lines],
                "error": error,
            }

    def answer(self, number: int, answers: Mapping[str, str]) -> str:
        """Save answers to a question, by column; return an empty text, or why they could not be saved.

        :raises DataError: The question or column does not exist, or an answer is invalid; no answer is kept.
        """
        with self._lock:
            line = next((line for line in self._sheet.lines if line.number == number), None)
            if line is None:
                raise DataError(f"question {number} is not in {self.path.name}")
            unknown = [column for column in answers if column not in line.question.columns]
            if unknown:
                raise DataError(f"question {number} has no column {unknown[0][:20]!r}")
            canonical = {column: read_answer(line.question, column, text) for column, text in answers.items()}
            self._unsaved[number] = self._unsaved.get(number, {}) | canonical
            return self._save()

    def text(self) -> str:
        """Return the sheet's CSV with all answers, including unsaved ones."""
        with self._lock:
            return sheet_text(_with_answers(self._sheet, self._unsaved).table)

    def counts(self) -> tuple[int, int]:
        """Return the number of answered questions, and of all questions."""
        with self._lock:
            lines = _with_answers(self._sheet, self._unsaved).lines
            return sum(is_answered(line.question, _answers(line)[0]) for line in lines), len(lines)

    def close(self) -> str:
        """Save unsaved answers. If that fails, write the sheet to a temporary folder and return a message."""
        with self._lock:
            error = self._save() if self._unsaved else ""
            if not error:
                return ""
            text = sheet_text(_with_answers(self._sheet, self._unsaved).table)
            many = "question" if len(self._unsaved) == 1 else "questions"
            message = f"{len(self._unsaved)} answered {many} could not be saved ({error})"
            try:
                folder = Path(tempfile.mkdtemp(prefix="llmprops-"))
                write_text(folder / self.path.name, text, sync=True)
            except OSError as second:
                return f"{message}, and no copy could be written ({second.strerror or second})"
            return f"{message}; a sheet with all answers is at {folder / self.path.name}"

    def _refresh(self) -> str:
        try:
            self._sheet = read_sheet(self.path)
        except DataError as error:
            return str(error)
        return ""

    def _save(self) -> str:
        try:
            current = read_sheet(self.path)
        except DataError as error:
            return str(error)
        questions = {line.number: line.question for line in current.lines}
        for line in self._sheet.lines:
            question = questions.get(line.number)
            if line.number in self._unsaved and not (question and question.same_as(line.question)):
                return f"{self.path}: question {line.number} is missing or was changed; restore the sheet"
        sheet = _with_answers(current, self._unsaved)
        try:
            write_text(self.path, sheet_text(sheet.table), sync=True)
        except OSError as error:
            why = error.strerror or error
            return f"{self.path}: cannot be written ({why}); free disk space, or check the folder"
        self._sheet, self._unsaved = sheet, {}
        return ""


def _with_answers(sheet: Sheet, answers: Mapping[int, Mapping[str, str]]) -> Sheet:
    """Return the sheet with these answers in place of its own."""
    lines = tuple(
        replace(line, cells={**line.cells, **answers[line.number]}) if line.number in answers else line
        for line in sheet.lines
    )
    records = tuple(SheetRecord(line.line, dict(line.cells)) for line in lines)
    return replace(sheet, lines=lines, table=replace(sheet.table, records=records))


def _answers(line: Line) -> tuple[dict[str, str], str]:
    """Return the answers of a line, and the problem of an invalid one; an invalid answer is left empty."""
    answers, problem = {}, ""
    for column in line.question.columns:
        try:
            answers[column] = read_answer(line.question, column, line.cells[column])
        except DataError as error:
            answers[column], problem = "", str(error)
    return answers, problem


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
