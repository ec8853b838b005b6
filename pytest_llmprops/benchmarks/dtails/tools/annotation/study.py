"""Read annotation sheets of DTAiLS: one sheet, or a study from filled sheets and their key."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from pytest_llmprops.benchmarks.dtails.items import expert_rows
from pytest_llmprops.benchmarks.dtails.rows import Row
from pytest_llmprops.benchmarks.dtails.rules import parse_rules_file
from pytest_llmprops.benchmarks.dtails.tools.annotation.questions import (
    KINDS,
    RULES,
    SELECTION,
    TASKS,
    Question,
    arranged,
    cells,
    header,
    is_answered,
    question_of,
    read_answer,
    rules_questions,
    selection_questions,
    task_of,
    unshuffled,
)
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.strict_json import strict_json
from pytest_llmprops.data.files import DataFolder, builtin_data
from pytest_llmprops.data.sheet_files import SheetRecord, Table, read_table, sheet_text, text_of, write_new

KEY, FORMAT = "key.json", "dtails-key 1"


@dataclass(frozen=True, slots=True)
class Line:
    """A question of a sheet: its number, its line in the file, and its cells by column."""

    number: int
    line: int
    question: Question
    cells: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A sheet as it is in its file. Its answers are not checked."""

    task: str
    language: str
    table: Table
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Original:
    """The original translation of a sentence: the index of its variation, its text, and the part of speech."""

    label: int
    target: str = ""
    pos: str = ""


@dataclass(frozen=True, slots=True)
class Study:
    """The questions of a study and the annotators' answers.

    :param of: The model whose rules were judged, or the source of the sentences.
    :param answers: By sheet and question: canonical answers by column, with options numbered from 1 in the order of
        :attr:`questions`.
    """

    task: str
    language: str
    of: str
    questions: Mapping[str, Question]
    originals: Mapping[str, Original]
    answers: Mapping[str, Mapping[str, Mapping[str, str]]]


def read_sheet(path: Path) -> Sheet:
    """Read a sheet, filled in or not, without checking its answers.

    :raises DataError: The file is not a sheet, a question has no text, or a number is invalid or repeated. The message
        is one line with file, line and fix.
    """
    table = read_table(path, "question")
    try:
        task = task_of(table.columns)
    except DataError as error:
        raise DataError(f"{path}: line 1: {error}") from None
    seen: dict[int, int] = {}
    lines = []
    for record in table.records:
        text = record.cells["question"].strip()
        if not (text.isascii() and text.isdecimal() and len(text) < 7):
            _fail(path, record.line, f"question {text[:20]!r} is not a number; restore its number")
        number = int(text)
        if number in seen:
            _fail(path, record.line, f"question {number} is also on line {seen[number]}; remove one")
        seen[number] = record.line
        try:
            question = question_of(record.cells, task)
        except DataError as error:
            _fail(path, record.line, f"question {number}: {error}")
        lines.append(Line(number, record.line, question, record.cells))
    if not lines:
        raise DataError(f"{path}: there are no questions; restore the lines of the sheet")
    return Sheet(task, lines[0].cells["language"].strip(), table, tuple(lines))


def read_study(folder: Path, *, without: Collection[str] = ()) -> Study:
    """Read all filled sheets that ``key.json`` in ``folder`` names.

    :param without: Names of sheets to leave out.
    :raises DataError: The key or a sheet is missing or damaged, a text was changed, a question is missing or not
        answered, or an answer is invalid. The message is one line with file, line and fix.
    :raises UsageError: ``without`` names another file, or all sheets.
    """
    where = folder / KEY
    study, orders = _key(where)
    for name in without:
        if name not in orders:
            raise UsageError(f"--without {name}: not a sheet in {where}; it has {', '.join(orders)}")
    names = [name for name in orders if name not in without]
    if not names:
        raise UsageError("--without leaves out all sheets; keep at least one")
    answers = {name: _sheet_answers(folder / name, orders[name], study, where) for name in names}
    return Study(study.task, study.language, study.of, study.questions, study.originals, answers)


def _key(where: Path) -> tuple[Study, dict[str, list[tuple[str, tuple[int, ...]]]]]:
    text = text_of(where, "use the folder with the filled sheets and their key")
    try:
        key: dict[str, Any] = strict_json(text)
        if key["format"] != FORMAT or key["task"] not in TASKS:
            raise ValueError
        questions = {
            name: Question(**(fields | {"options": tuple(fields["options"])}))
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
            if question.kind not in KINDS[key["task"]] or not all(type(text) is str for text in texts):
                raise ValueError
            if key["task"] == SELECTION and originals[name].label not in range(len(question.options)):
                raise ValueError
        study = Study(key["task"], str(key["language"]), str(key["of"]), questions, originals, {})
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise DataError(f"{where}: not a key by `llmprops dtails annotate`; restore the file") from None
    if not orders or not questions:
        raise DataError(f"{where}: has no sheets or questions; restore the file")
    return study, orders


def _sheet_answers(
    path: Path, order: Sequence[tuple[str, tuple[int, ...]]], study: Study, where: Path
) -> dict[str, Mapping[str, str]]:
    """Return the answers of one sheet by question."""
    sheet = read_sheet(path)
    if sheet.task != study.task:
        raise DataError(
            f"{path}: the sheet is for task {sheet.task}, but {where} is for {study.task}; use the right sheet"
        )
    by_question: dict[str, Mapping[str, str]] = {}
    open_lines = []
    for line in sheet.lines:
        if not 1 <= line.number <= len(order):
            what = f"question {line.number} is not one of 1 to {len(order)}"
            _fail(path, line.line, f"{what}; restore its number")
        name, places = order[line.number - 1]
        if not line.question.same_as(study.questions[name].shown(places)):
            what = f"question {line.number}: its texts were changed"
            _fail(path, line.line, f"{what}; copy the line from an unfilled sheet")
        answers = answers_of(path, line)
        if not is_answered(line.question, answers):
            open_lines.append((line, next(c for c in line.question.required if not answers[c])))
        by_question[name] = unshuffled(line.question, answers, places)
    missing = [number for number, (name, _) in enumerate(order, 1) if name not in by_question]
    if missing:
        raise DataError(f"{path}: question {missing[0]} is missing ({len(missing)} in all); restore its line")
    if open_lines:
        line, column = open_lines[0]
        what = f"{column} is empty ({len(open_lines)} of {len(order)} questions are open)"
        _fail(path, line.line, f"question {line.number}: {what}; finish the sheet")
    return by_question


def answers_of(path: Path, line: Line) -> dict[str, str]:
    """Return the canonical answers on a line by column; empty if not answered.

    :raises DataError: An answer is invalid. The message has file, line, question and what to write.
    """
    try:
        return {
            column: read_answer(line.question, column, line.cells[column]) for column in line.question.columns
        }
    except DataError as error:
        _fail(path, line.line, f"question {line.number}: {error}")


def _fail(path: Path, line: int, what: str) -> NoReturn:
    raise DataError(f"{path}: line {line}: {what}") from None


# Write blind sheets for annotators of DTAiLS (Barua et al., sections 2.1, 2.2 and 3).
#
# ``annotator_1.csv`` ... are for annotators. ``key.json`` is for the researcher: it has the question on each
# line, the order of its options, and the original translation's variation.

ANNOTATORS = 3
_SHEETS = "annotator_*.csv"


def selection_rows(data: Path | None, language: str) -> tuple[tuple[Row, ...], str]:
    """Return the test rows of a language in ``data`` (published or generated), or the built-in rows, and their source.

    :raises DataError: See ``expert_rows``.
    """
    if data is None:
        return expert_rows(DataFolder(builtin_data(), "builtin"), language), "builtin"
    source = DataFolder(data, "published").source_for("dtails")
    return expert_rows(DataFolder(data, source), language), source


def write_selection(
    out: Path, rows: Sequence[Row], language: str, source: str,
    *, annotators: int = ANNOTATORS, seed: int = 0, delimiter: str = ",",
) -> list[Path]:  # fmt: skip
    """Write the sheets of study 2 and their key. :raises UsageError: See :func:`_write`."""
    questions = selection_questions(rows)
    originals = {f"r{row.number:04d}": Original(row.label, row.target, row.pos) for row in rows}
    originals = {name: originals[name] for name in questions}
    study = Study(SELECTION, language, source, questions, originals, {})
    return _write(out, study, annotators, seed, delimiter)


def write_rules(
    out: Path,
    rules: Path,
    language: str,
    *,
    annotators: int = ANNOTATORS,
    seed: int = 0,
    delimiter: str = ",",
) -> list[Path]:
    """Write the sheets of study 1, on the rules of a file, and their key.

    :raises DataError: See ``parse_rules_file``.
    :raises UsageError: The rules are for another language; or see :func:`_write`.
    """
    file = parse_rules_file(text_of(rules, "use a file by `llmprops dtails rules`"), str(rules))
    if file.language != language:
        raise UsageError(
            f"{rules}: rules for '{file.language}', not '{language}'; use the file for '{language}'"
        )
    study = Study(RULES, language, file.model, rules_questions(file), {}, {})
    return _write(out, study, annotators, seed, delimiter)


def _write(out: Path, study: Study, annotators: int, seed: int, delimiter: str) -> list[Path]:
    """Write ``annotator_1.csv`` ... and ``key.json``; return the files, the key last.

    :raises UsageError: There are no annotators, or the folder already has sheets or cannot be written.
    """
    if annotators < 1:
        raise UsageError("--annotators must be at least 1")
    questions = study.questions
    columns = header(study.task, max(len(question.options) for question in questions.values()))
    orders: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
    files: dict[str, str] = {}
    for annotator in range(1, annotators + 1):
        name = _SHEETS.replace("*", str(annotator))
        orders[name] = arranged(questions, seed=seed, annotator=annotator)
        records = tuple(
            SheetRecord(number + 1, cells(number, study.language, questions[question].shown(order)))
            for number, (question, order) in enumerate(orders[name], 1)
        )
        files[name] = sheet_text(Table(columns, records, delimiter))
    key: dict[str, Any] = {"format": FORMAT, "task": study.task, "language": study.language, "of": study.of}
    key |= {"seed": seed, "sheets": orders}
    key["questions"] = {name: asdict(question) for name, question in questions.items()}
    key["originals"] = {name: asdict(original) for name, original in study.originals.items()}
    files[KEY] = json.dumps(key, ensure_ascii=False) + "\n"
    return write_new(out, files, taken=(KEY, _SHEETS))
