"""The columns of the tables of results: terminal, report, ``llmprops view``, team site and Allure have the same.

To add a column, add it to :data:`COLUMNS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_llmprops.core.field_types import RecordStatus
from pytest_llmprops.core.numbers import count
from pytest_llmprops.records.rows import SummaryRow

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
