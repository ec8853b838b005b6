"""Write blind sheets for annotators of DTAiLS (Barua et al., sections 2.1, 2.2 and 3).

``annotator_1.csv`` ... are for annotators. ``key.json`` is for the researcher: it has the question on each line, the
order of its options, and the original translation's variation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from pytest_llmprops.benchmarks.dtails.items import expert_rows
from pytest_llmprops.benchmarks.dtails.rows import Row
from pytest_llmprops.benchmarks.dtails.rules import parse_rules_file
from pytest_llmprops.benchmarks.dtails.tools.annotation import questions as sheet_questions
from pytest_llmprops.benchmarks.dtails.tools.annotation.study import FORMAT, KEY, Original
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.data.files import DataFolder, builtin_data
from pytest_llmprops.data.sheet_files import SheetRecord, Table, sheet_text, text_of, write_new

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
    out: Path,
    rows: Sequence[Row],
    language: str,
    source: str,
    *,
    annotators: int = ANNOTATORS,
    seed: int = 0,
    delimiter: str = ",",
) -> list[Path]:
    """Write the sheets of study 2 and their key. :raises UsageError: See :func:`_write`."""
    questions = sheet_questions.selection_questions(rows)
    by_name = {f"r{row.number:04d}": row for row in rows}
    originals = {
        name: Original(by_name[name].label, by_name[name].target, by_name[name].pos) for name in questions
    }
    return _write(
        out, sheet_questions.SELECTION, language, source, questions, originals, annotators, seed, delimiter
    )


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
    questions = sheet_questions.rules_questions(file)
    return _write(
        out, sheet_questions.RULES, language, file.model, questions, {}, annotators, seed, delimiter
    )


def _write(
    out: Path,
    task: str,
    language: str,
    of: str,
    questions: Mapping[str, sheet_questions.Question],
    originals: Mapping[str, Original],
    annotators: int,
    seed: int,
    delimiter: str,
) -> list[Path]:
    """Write ``annotator_1.csv`` ... and ``key.json``; return the files, the key last.

    :raises UsageError: There are no annotators, or the folder already has sheets or cannot be written.
    """
    if annotators < 1:
        raise UsageError("--annotators must be at least 1")
    columns = sheet_questions.header(task, max(len(question.options) for question in questions.values()))
    orders: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
    files: dict[str, str] = {}
    for annotator in range(1, annotators + 1):
        name = _SHEETS.replace("*", str(annotator))
        orders[name] = sheet_questions.arranged(questions, seed=seed, annotator=annotator)
        records = tuple(
            SheetRecord(number + 1, sheet_questions.cells(number, language, questions[question].shown(order)))
            for number, (question, order) in enumerate(orders[name], 1)
        )
        files[name] = sheet_text(Table(columns, records, delimiter))
    key = {"format": FORMAT, "task": task, "language": language, "of": of, "seed": seed, "sheets": orders}
    key["questions"] = {name: asdict(question) for name, question in questions.items()}
    key["originals"] = {name: asdict(original) for name, original in originals.items()}
    files[KEY] = json.dumps(key, ensure_ascii=False) + "\n"
    return write_new(out, files, taken=(KEY, _SHEETS))
