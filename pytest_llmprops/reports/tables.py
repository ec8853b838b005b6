"""Tables of results: their columns, and their lines on a terminal and in Markdown.

Terminal, report, ``llmprops view``, team site and Allure have the same columns. To add one, add it to :data:`COLUMNS`.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from unicodedata import east_asian_width

from pytest_llmprops.core.field_types import RecordStatus
from pytest_llmprops.core.numbers import MISSING, count
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.records.rows import SummaryRow

Table = Sequence[Sequence[str]]
_MARKS = re.compile(r"[\\`*_\[\]<>#!|~$&@]|:(?=\/\/|[\w+-]+:)|(?<=www)\.|^[-+](?= )|(?<=^\d)\.(?= )")
#: width of a file or a pipe, where text is not wrapped
UNLIMITED = 200
#: minimum width of a wrapped last column
_LAST_COLUMN = 24


def terminal_width() -> int:
    """Return the number of columns of the terminal, or ``COLUMNS``; :data:`UNLIMITED` for a file or a pipe."""
    return shutil.get_terminal_size((UNLIMITED, 24)).columns


def wrapped(line: str, width: int) -> list[str]:
    """Return a line wrapped at ``width`` columns, indented like it and two more; names and paths stay whole."""
    if width >= UNLIMITED or _columns(line) <= width:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()))
    lines = [indent]
    for word in line.split():
        if lines[-1].strip() and _columns(lines[-1]) + 1 + _columns(word) > width:
            lines.append(f"{indent}  ")
        lines[-1] += f" {word}" if lines[-1].strip() else word
    return lines


def _columns(text: str) -> int:
    """Return the width of a text, of which Chinese and Japanese characters take two columns each."""
    return len(text) if text.isascii() else len(text) + sum(east_asian_width(c) in "WF" for c in text)


def without(
    table: Table, names: Iterable[str], values: Sequence[str] = ()
) -> tuple[list[tuple[str, ...]], list[str]]:
    """Return a table without those of the columns ``names`` that have one value in all rows, and these values.

    :param values: leave out a column only if its value is one of these; otherwise whatever it is.
    """
    head, *rows = table
    constant = {}
    for n, name in enumerate(head):
        cells = {row[n] for row in rows} - ({""} if not values else set())
        if name in names and len(cells) == 1 and (not values or cells <= set(values)):
            constant[n] = cells.pop()
    return [tuple(cell for n, cell in enumerate(row) if n not in constant) for row in table], list(
        constant.values()
    )


def fitted(width: int, *tables: Table) -> list[str]:
    """Return the first table that fits; if none fits, each row of the last one as a block of named cells."""
    for table in tables:
        lines = aligned_table(table)
        if max(map(len, lines)) <= width:
            return lines
    head, *rows = tables[-1]
    names = ("benchmark", "model", "task", "lang", "source")
    first = next((n for n, name in enumerate(head) if name.partition(" (")[0] not in names), len(head))
    lines = []
    for row in rows:
        lines += wrapped("  " + " ".join(filter(None, row[:first])), width)
        cells = zip(head[first:], row[first:], strict=True)
        lines += _block((f"{name} {cell}" for name, cell in cells if cell not in ("", "-")), width)
    return lines


def _block(cells: Iterable[str], width: int) -> list[str]:
    lines: list[str] = []
    for cell in cells:
        if lines and len(lines[-1]) + 2 + len(cell) <= width:
            lines[-1] += f"  {cell}"
        else:
            lines.append(f"    {cell}")
    return lines


def aligned_table(table: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Return the lines of a table with padded columns; columns of numbers are aligned to the right.

    :param width: wrap the text of the last column within this number of columns; None: do not wrap.
    """
    if width is not None and max(map(len, aligned_table(table))) > width:
        return _wrapped_table(table, width)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    right = [all(_numeric(cell) for cell in column[1:]) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        cells = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines


def _wrapped_table(table: Sequence[Sequence[str]], width: int) -> list[str]:
    *columns, texts = zip(*table, strict=True)
    room = width - 2 - sum(max(map(len, column)) + 2 for column in columns)
    lines: list[str] = []
    if room >= _LAST_COLUMN:
        wrapped = [textwrap.wrap(text, room) or [""] for text in texts]
        heads = aligned_table(list(zip(*columns, [parts[0] for parts in wrapped], strict=True)))
        for head, parts in zip(heads, wrapped, strict=True):
            lines += [head, *(" " * (width - room) + part for part in parts[1:])]
        return lines
    # Too narrow for another column: the text is below.
    for head, text in zip(aligned_table(list(zip(*columns, strict=True))), texts, strict=True):
        lines += [head, *textwrap.wrap(text, width, initial_indent=" " * 6, subsequent_indent=" " * 6)]
    return lines


def _numeric(cell: str) -> bool:
    return not cell or cell in ("-", MISSING, "?", "unknown") or cell.lstrip("~<=+−- ")[:1].isdigit()


def plain(text: str, most: int = 4000) -> str:
    """Return ``text`` on one line, escaped for Markdown and HTML: it has no link, image, mention or formatting."""
    entities = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
    return _MARKS.sub(lambda m: entities.get(m[0], f"\\{m[0]}"), one_line(text, most))


def markdown_table(table: Table, numbers: Collection[int] = ()) -> list[str]:
    """Return the lines of a table in Markdown; its first row is the heading, and its cells are Markdown.

    :param numbers: the columns that are aligned to the right.
    """
    rows = ["| " + " | ".join(row) + " |" for row in table]
    rule = "|".join("--:" if n in numbers else "---" for n in range(len(table[0])))
    return [rows[0], f"|{rule}|", *rows[1:]]


def markdown_fold(title: str, lines: Iterable[str]) -> list[str]:
    """Return lines of Markdown that are collapsed at first."""
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>", ""]


#: ``line`` is a line of text, which has only what is not zero: on the team site, and in a report's overview
Place = Literal["terminal", "page", "view", "allure", "line"]
EVERYWHERE: frozenset[Place] = frozenset(("terminal", "page", "view", "allure", "line"))


@dataclass(frozen=True, slots=True)
class Column:
    """One column: a number of one row of the summary, or of several rows together.

    :param key: heading on the terminal, in CSV and in lines. :param title: heading in HTML.
    :param value: returns None if the rows have no such number.
    :param text: writes the value.
    :param status: the status whose verdicts the column counts, if any. Runs that go on have only such columns.
    :param is_size: the accuracy is of this number, so the column is left of it.
    :param of_repeats: only tables of runs with repeats have it.
    """

    key: str
    title: str
    value: Callable[[Sequence[SummaryRow]], float | None]
    text: Callable[[float], str]
    status: RecordStatus | None = None
    is_size: bool = False
    of_repeats: bool = False
    places: frozenset[Place] = EVERYWHERE

    def cell(self, rows: Sequence[SummaryRow], missing: str) -> str:
        """Return the text for rows of the summary."""
        value = self.value(rows)
        return missing if value is None else self.text(value)


def _sum(key: str, *places: Place, status: RecordStatus | None = None, of_repeats: bool = False) -> Column:
    """Return a column that counts; ``key`` is the field of the summary."""
    return Column(
        key,
        key.capitalize(),
        lambda rows: sum(getattr(row, key) for row in rows),
        lambda value: count(int(value)),
        status,
        is_size=status is None,
        of_repeats=of_repeats,
        places=frozenset(places) or EVERYWHERE,
    )


def _variance(key: str, title: str, field: str) -> Column:
    return Column(
        key,
        title,
        # A variance of several tasks together has no meaning.
        lambda rows: getattr(rows[0], field) if len(rows) == 1 else None,
        "{:.3f}".format,
        of_repeats=True,
        places=frozenset(("terminal",)),
    )


COLUMNS: tuple[Column, ...] = (
    _sum("items", "terminal", "page", "allure"),
    _sum("samples", "terminal", "page", of_repeats=True),
    # Other tables have the accuracy, which says how many are correct.
    _sum("correct", "view", status="correct"),
    _sum("wrong", "terminal", "page", "view", "allure", status="wrong"),
    _sum("refused", status="refused"),
    _sum("unparsed", status="unparsed"),
    _sum("untested", status="untested"),
    _sum("errors", status="error"),
    _variance("var items", "Variance between items", "between_items"),
    _variance("var samples", "Variance within items", "within_items"),
)


def columns_of(place: Place, rows: Sequence[SummaryRow]) -> tuple[list[Column], list[Column]]:
    """Return the columns that a table of these rows has left and right of the accuracy."""
    has_repeats, has_untested = any(row.has_repeats for row in rows), any(row.untested for row in rows)
    shown = [
        column
        for column in COLUMNS
        if place in column.places
        and (has_repeats or not column.of_repeats)
        and (has_untested or column.status != "untested")
    ]
    return [c for c in shown if c.is_size], [c for c in shown if not c.is_size]


def line_of(rows: Sequence[SummaryRow]) -> str:
    """Return the numbers that are not zero, except wrong and correct answers: ``3 refused, 1 error``."""
    parts = []
    for column in (c for columns in columns_of("line", rows) for c in columns):
        value = column.value(rows)
        if value:
            is_one = value == 1 and column.status is not None
            parts.append(f"{column.text(value)} {column.status if is_one else column.key}")
    return ", ".join(parts)
