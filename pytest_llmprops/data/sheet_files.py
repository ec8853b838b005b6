"""Annotation sheets: CSV files as spreadsheet programs read and write them.

Files are written with a byte-order mark (so that a spreadsheet recognises UTF-8), CRLF and the usual quoting. The
reader also accepts what Excel and LibreOffice save: semicolons or tabs instead of commas, other line ends, empty
columns and lines at the end, and shorter lines.

A cell that a spreadsheet would run as a formula gets an apostrophe in front, which the reader removes.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.texts import one_line, utf8
from pytest_llmprops.data.whole_files import write_text, writing

BOM = "\ufeff"
DELIMITERS = (",", ";", "\t")
#: the start of a formula in Excel, LibreOffice or Google Sheets, including full-width forms
_FORMULA = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")


@dataclass(frozen=True, slots=True)
class SheetRecord:
    """A record of a table: the number of its first line in the file, from 1, and its cells by column."""

    line: int
    cells: dict[str, str]


@dataclass(frozen=True, slots=True)
class Table:
    """The content of a sheet's file."""

    columns: tuple[str, ...]
    records: tuple[SheetRecord, ...]


def escaped(text: str) -> str:
    """Return ``text`` as a cell that no spreadsheet runs as a formula: ``=1+1`` becomes ``'=1+1``."""
    return f"'{text}" if _FORMULA.match(text) else text


def unescaped(cell: str) -> str:
    """Reverse :func:`escaped`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell, 1) else cell


def sheet_text(columns: Sequence[str], rows: Iterable[Mapping[str, str]], delimiter: str = ",") -> str:
    """Return the text of a sheet's file, with escaped cells.

    :param rows: the cells of each row by column; others are empty.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\r\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([escaped(row.get(column, "")) for column in columns])
    return BOM + buffer.getvalue()


def read_table(path: Path, key: str) -> Table:
    """Read a sheet that any spreadsheet program saved, and unescape its cells.

    :param key: a column that the sheet must have; the delimiter is recognised by it.
    :raises DataError: if the file does not exist or is not UTF-8, or for a header without ``key``, broken quoting, or a
        cell without a column.
    """
    try:
        text = text_of(path, "put it back under this name")
    except DataError as error:
        text = str(error)
        raise DataError(f"{text}, in a spreadsheet as 'CSV UTF-8'" if "not UTF-8" in text else text) from None
    before = 0
    if text[:4].casefold() == "sep=":
        # Excel understands such a first line, and writes it.
        before, (_, text) = 1, re.split("\r\n|\n|\r", text + "\n", maxsplit=1)
    start = re.match("[^\r\n]*", text)
    head = start[0] if start else ""
    delimiter = next((mark for mark in DELIMITERS if key in _split(head, mark)), "")
    if not delimiter:
        raise DataError(f"{path}: line 1: no column '{key}'; keep the header, save as CSV UTF-8")
    return _table(path, text, delimiter, before)


def numbered_lines(
    path: Path, key: str, count: int, columns: Iterable[str] = ()
) -> Iterator[tuple[str, int, dict[str, str]]]:
    """Yield the lines of a filled sheet: the place for messages, the line's number, and its cells by column.

    :param key: the column with the numbers from 1 to ``count``, in any order. :param columns: others that it must have.
    :raises DataError: like :func:`read_table`; for a column or a number that is missing, and one that is there twice.
    """
    table = read_table(path, key)
    if missing := [column for column in columns if column not in table.columns]:
        raise DataError(f"{path}: no column '{missing[0]}'; restore the header")
    left = {str(number): number for number in range(1, count + 1)}
    for record in table.records:
        cells = {column: cell.strip() for column, cell in record.cells.items()}
        place = f"{path}: line {record.line}: {key} {one_line(cells[key], 20)}"
        if cells[key] not in left:
            raise DataError(f"{place} is not one of 1 to {count}, or is there twice; restore its number")
        yield place, left.pop(cells[key]), cells
    if left:
        raise DataError(
            f"{path}: {key} {min(left.values())} is missing ({len(left)} in all); restore its line"
        )


def text_of(path: Path, fix: str) -> str:
    """Return the UTF-8 text of a file.

    :param fix: what to do if the file cannot be read, for the message.
    :raises DataError: if the file cannot be read or is not UTF-8.
    """
    try:
        return utf8(path.read_bytes(), str(path))
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; {fix}") from None


def _table(path: Path, text: str, delimiter: str, before: int) -> Table:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    columns: list[str] = []
    records = []
    start = 1 + before
    try:
        for fields in reader:
            here, start = start, reader.line_num + 1 + before
            while fields and not fields[-1].strip():
                fields.pop()
            if not columns:
                columns = [field.strip() for field in fields]
                twice = [name for place, name in enumerate(columns) if not name or name in columns[:place]]
                if twice:
                    problem = f"column '{twice[0]}' is there twice" if twice[0] else "a column has no name"
                    raise DataError(f"{path}: line {here}: {problem}; rename it")
            elif len(fields) > len(columns):
                raise DataError(
                    f"{path}: line {here}: {len(fields)} cells, the header has {len(columns)}; remove the others"
                )
            elif any(fields):
                filled = [*fields, *[""] * (len(columns) - len(fields))]
                records.append(SheetRecord(here, dict(zip(columns, map(unescaped, filled), strict=True))))
    except csv.Error as error:
        raise DataError(f"{path}: line {start}: {error}; correct the quoting") from None
    return Table(tuple(columns), tuple(records))


def _split(line: str, delimiter: str) -> list[str]:
    return [field.strip().strip('"') for field in line.split(delimiter)]


def write_new(out: Path, files: Mapping[str, str], *, taken: Iterable[str]) -> list[Path]:
    """Write sheets and their key into a folder that has none; return the paths.

    :param taken: patterns of file names that must not exist yet.
    :raises UsageError: if the folder has such files or cannot be written.
    """
    with writing(out):
        if any(any(out.glob(pattern)) for pattern in taken):
            raise UsageError(f"{out}: has sheets already, which may be filled in; choose another folder")
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            write_text(out / name, text)
    return [out / name for name in files]
