"""Tables and text within the width of a terminal."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Sequence
from unicodedata import east_asian_width

from pytest_llmprops.core.numbers import MISSING

Table = Sequence[Sequence[str]]
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
