"""Annotation sheets of DTAiLS read back: a sheet, and the study that filled sheets and their key make."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pytest_llmprops.benchmarks.dtails.tools.annotation import questions as asked
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.strict_json import strict_json
from pytest_llmprops.data.sheet_files import Table, read_table, text_of

KEY, FORMAT = "key.json", "dtails-key 1"


@dataclass(frozen=True, slots=True)
class Line:
    """A question of a sheet: its number, its line in the file, and its cells by column."""

    number: int
    line: int
    question: asked.Question
    cells: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A sheet as it stands in its file, checked but for its answers."""

    task: str
    language: str
    table: Table
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Original:
    """What the original translation of a sentence has: the place of its variation from 0, and what goes with it."""

    label: int
    target: str = ""
    pos: str = ""


@dataclass(frozen=True, slots=True)
class Study:
    """What annotators were asked, and what they answered.

    :param of: the model whose rules were judged, or the source of the sentences.
    :param answers: by sheet and question: cells by column, in their one form, with options counted from 1 in
        the order of the question here.
    """

    task: str
    language: str
    of: str
    questions: Mapping[str, asked.Question]
    originals: Mapping[str, Original]
    answers: Mapping[str, Mapping[str, Mapping[str, str]]]


def read_sheet(path: Path) -> Sheet:
    """A sheet, filled or not.

    :raises DataError: in one line with file, line and fix, for a file that is no sheet, a question without its
        texts, a number that is none or stands twice. Answers are not looked at.
    """
    table = read_table(path, "question")
    try:
        task = asked.task_of(table.columns)
    except DataError as error:
        raise DataError(f"{path}: line 1: {error}") from None
    seen: dict[int, int] = {}
    lines = []
    for record in table.records:
        text = record.cells["question"].strip()
        if not (text.isascii() and text.isdecimal() and len(text) < 7):
            _fail(path, record.line, f"question {text[:20]!r} is no number; give it its number back")
        number = int(text)
        if number in seen:
            _fail(path, record.line, f"question {number} stands on line {seen[number]} too; remove one")
        seen[number] = record.line
        try:
            question = asked.question_of(record.cells, task)
        except DataError as error:
            _fail(path, record.line, f"question {number}: {error}")
        lines.append(Line(number, record.line, question, record.cells))
    if not lines:
        raise DataError(f"{path}: there are no questions; put the lines of the sheet back")
    return Sheet(task, lines[0].cells["language"].strip(), table, tuple(lines))


def read_study(folder: Path, *, without: Collection[str] = ()) -> Study:
    """The filled sheets in ``folder``, all that ``key.json`` names.

    :param without: names of sheets to leave out.
    :raises DataError: in one line with file, line and fix: a missing or damaged key or sheet, a text that was
        changed, a question that is missing or not answered, an answer that is none.
    :raises UsageError: ``without`` names another file, or all of them.
    """
    where = folder / KEY
    study, orders = _key(where)
    for name in without:
        if name not in orders:
            raise UsageError(f"--without {name}: no sheet of {where}; there are {', '.join(orders)}")
    left = [name for name in orders if name not in without]
    if not left:
        raise UsageError("--without leaves no sheet; leave out fewer")
    answers = {name: _filled(folder / name, orders[name], study, where) for name in left}
    return Study(study.task, study.language, study.of, study.questions, study.originals, answers)


def _key(where: Path) -> tuple[Study, dict[str, list[tuple[str, tuple[int, ...]]]]]:
    text = text_of(where, "give the folder of filled sheets with the key that was written with them")
    try:
        key: dict[str, Any] = strict_json(text)
        if key["format"] != FORMAT or key["task"] not in asked.TASKS:
            raise ValueError
        questions = {
            name: asked.Question(**(fields | {"options": tuple(fields["options"])}))
            for name, fields in key["questions"].items()
        }
        originals = {name: Original(**fields) for name, fields in key["originals"].items()}
        orders = {
            name: [(question, tuple(order)) for question, order in lines]
            for name, lines in key["sheets"].items()
        }
        for name, lines in orders.items():
            if Path(name).name != name or {question for question, _ in lines} != set(questions):
                raise ValueError
            if any(sorted(order) != list(range(len(questions[q].options))) for q, order in lines):
                raise ValueError
        for name, question in questions.items():
            texts = (question.concept, question.text, question.about, *question.options)
            if question.kind not in asked.KINDS[key["task"]] or not all(type(text) is str for text in texts):
                raise ValueError
            if key["task"] == asked.SELECTION and originals[name].label not in range(len(question.options)):
                raise ValueError
        study = Study(key["task"], str(key["language"]), str(key["of"]), questions, originals, {})
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise DataError(f"{where}: not a key that `llmprops dtails annotate` wrote; restore it") from None
    if not orders or not questions:
        raise DataError(f"{where}: names no sheets or questions; restore it")
    return study, orders


def _filled(
    path: Path, order: Sequence[tuple[str, tuple[int, ...]]], study: Study, where: Path
) -> dict[str, Mapping[str, str]]:
    """The answers of one sheet by question."""
    sheet = read_sheet(path)
    if sheet.task != study.task:
        raise DataError(
            f"{path}: a sheet of the task {sheet.task}, {where} is of {study.task}; put the right one"
        )
    found: dict[str, Mapping[str, str]] = {}
    open_lines = []
    for line in sheet.lines:
        if not 1 <= line.number <= len(order):
            _fail(
                path, line.line, f"question {line.number} is not one of 1 to {len(order)}; restore its number"
            )
        name, places = order[line.number - 1]
        if not line.question.same_as(study.questions[name].shown(places)):
            _fail(
                path,
                line.line,
                f"question {line.number}: its texts were changed; copy the line from a fresh sheet",
            )
        answers = answers_of(path, line)
        if not asked.is_answered(line.question, answers):
            open_lines.append((line, next(c for c in line.question.required if not answers[c])))
        found[name] = asked.unshuffled(line.question, answers, places)
    missing = [number for number, (name, _) in enumerate(order, 1) if name not in found]
    if missing:
        raise DataError(
            f"{path}: question {missing[0]} is missing ({len(missing)} in all); put its line back"
        )
    if open_lines:
        line, column = open_lines[0]
        _fail(
            path,
            line.line,
            f"question {line.number}: {column} is empty ({len(open_lines)} of {len(order)} questions are open);"
            " finish the sheet",
        )
    return found


def answers_of(path: Path, line: Line) -> dict[str, str]:
    """The answers on a line by column, in their one form; empty where there is none.

    :raises DataError: an answer that is none; names file, line, question and what to write.
    """
    try:
        return {
            column: asked.read_answer(line.question, column, line.cells[column])
            for column in line.question.columns
        }
    except DataError as error:
        _fail(path, line.line, f"question {line.number}: {error}")


def _fail(path: Path, line: int, what: str) -> NoReturn:
    raise DataError(f"{path}: line {line}: {what}") from None
