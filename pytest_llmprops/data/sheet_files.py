"""Annotation sheets on the disk: CSV as spreadsheet programs read and write it, saved whole or not at all.

Written are a byte-order mark (so that a spreadsheet takes the file for UTF-8), CRLF and the usual quoting. Read is
what Excel and LibreOffice make of that: semicolons or tabs for commas, other line ends, empty columns and lines
at the end, shorter lines.

A cell that a spreadsheet would run as a formula gets an apostrophe in front; reading takes it away.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pytest_llmprops.core.encoding import utf8
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.data.whole_files import write_text

BOM = "\ufeff"
DELIMITERS = (",", ";", "\t")
#: what begins a formula in Excel, LibreOffice or Google Sheets, full-width forms included
_FORMULA = re.compile("'*[=+\\-@\t\r\uff1d\uff0b\uff0d\uff20]")


@dataclass(frozen=True, slots=True)
class SheetRecord:
    """A line of a table: its place in the file, from 1, and its cells by column."""

    line: int
    cells: dict[str, str]


@dataclass(frozen=True, slots=True)
class Table:
    """A sheet as it stands in its file.

    :param preamble: a first line ``sep=;``, which Excel understands, or nothing.
    """

    columns: tuple[str, ...]
    records: tuple[SheetRecord, ...]
    delimiter: str = ","
    preamble: str = ""


def escaped(text: str) -> str:
    """``text`` as a cell that no spreadsheet runs: ``=1+1`` becomes ``'=1+1``."""
    return f"'{text}" if _FORMULA.match(text) else text


def unescaped(cell: str) -> str:
    """Inverse of :func:`escaped`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell, 1) else cell


def sheet_text(table: Table) -> str:
    """The text of a sheet's file, cells escaped."""
    buffer = io.StringIO()
    if table.preamble:
        buffer.write(f"{table.preamble}\r\n")
    writer = csv.writer(buffer, delimiter=table.delimiter, lineterminator="\r\n")
    writer.writerow(table.columns)
    for record in table.records:
        writer.writerow([escaped(record.cells.get(column, "")) for column in table.columns])
    return BOM + buffer.getvalue()


def read_table(path: Path, key: str) -> Table:
    """A sheet, whatever program saved it; cells without their escape.

    :param key: a column that every such sheet has; it tells which character parts the columns.
    :raises DataError: in one line, for no such file, other bytes than UTF-8, a header without ``key``, broken
        quoting, a cell without a column.
    """
    try:
        text = text_of(path, "put it back under this name")
    except DataError as error:
        told = str(error)
        raise DataError(f"{told}, in a spreadsheet as 'CSV UTF-8'" if "not UTF-8" in told else told) from None
    preamble = ""
    if text[:4].casefold() == "sep=":
        preamble, text = re.split("\r\n|\n|\r", text + "\n", maxsplit=1)
    start = re.match("[^\r\n]*", text)
    head = start[0] if start else ""
    delimiter = next((mark for mark in DELIMITERS if key in _split(head, mark)), "")
    if not delimiter:
        raise DataError(f"{path}: line 1: no column '{key}'; keep the header, save as CSV UTF-8")
    return _table(path, text, delimiter, preamble)


def text_of(path: Path, otherwise: str) -> str:
    """The UTF-8 text of a file. :raises DataError: it cannot be read, ``otherwise`` says what to do; or no UTF-8."""
    try:
        return utf8(path.read_bytes(), str(path))
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; {otherwise}") from None


def _table(path: Path, text: str, delimiter: str, preamble: str) -> Table:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    before = 1 if preamble else 0
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
                    what = f"column '{twice[0]}' stands twice" if twice[0] else "a column has no name"
                    raise DataError(f"{path}: line {here}: {what}; rename it")
            elif len(fields) > len(columns):
                raise DataError(
                    f"{path}: line {here}: {len(fields)} cells, the header has {len(columns)}; remove the others"
                )
            elif any(fields):
                filled = [*fields, *[""] * (len(columns) - len(fields))]
                records.append(SheetRecord(here, dict(zip(columns, map(unescaped, filled), strict=True))))
    except csv.Error as error:
        raise DataError(f"{path}: line {start}: {error}; correct the quoting") from None
    return Table(tuple(columns), tuple(records), delimiter, preamble)


def _split(line: str, delimiter: str) -> list[str]:
    return [field.strip().strip('"') for field in line.split(delimiter)]


def write_new(out: Path, files: Mapping[str, str], *, taken: Iterable[str]) -> list[Path]:
    """Write sheets and their key into a folder that has none; the files.

    :param taken: patterns of names that must not be there yet.
    :raises UsageError: the folder has such files, or cannot be written.
    """
    try:
        if any(any(out.glob(pattern)) for pattern in taken):
            raise UsageError(f"{out}: has sheets already, maybe filled ones; choose another folder")
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            write_text(out / name, text)
    except OSError as error:
        raise UsageError(
            f"{out}: cannot be written ({error.strerror or error}); choose another folder"
        ) from None
    return [out / name for name in files]


@contextlib.contextmanager
def only_one(path: Path, otherwise: str) -> Iterator[None]:
    """Keep a file to this process until the block ends, or the process, however it ends.

    The lock is a file beside it, since saving replaces the file itself; it goes away with the lock. Where the
    system has no file locks nothing is kept.

    :param otherwise: what to say and do where another process has it.
    :raises UsageError: another process has it, or the folder cannot be written.
    """
    name = path.with_name(f".{path.name}.lock")
    try:
        file = _locked(name)
    except BlockingIOError:
        raise UsageError(f"{path}: {otherwise}") from None
    except OSError as error:
        raise UsageError(
            f"{path}: its folder cannot be written ({error.strerror or error}); copy the sheet elsewhere"
        ) from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            name.unlink()
        file.close()


def _locked(name: Path) -> IO[str]:
    """The open file ``name``, which is this process's alone. :raises BlockingIOError: it is another's."""
    while True:
        file = name.open("w")
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had it before may have removed it in between.
            if name.exists() and os.path.samestat(os.fstat(file.fileno()), name.stat()):
                return file
        except ImportError:
            return file
        except BaseException:
            file.close()
            raise
        file.close()
