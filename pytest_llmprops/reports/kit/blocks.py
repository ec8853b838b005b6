"""What a report is made of, before it is Markdown or HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table.

    :param value: what the column is sorted by; the text where it is None.
    :param low, high: ends of an interval around ``value``, all as shares; drawn as a bar in HTML.
    :param items: a filter of the list of items (``{"task": "rhyme", "status": "wrong"}``) that the cell opens.
    :param page: the :class:`Page` beside the report, by its path, that the cell leads to.
    """

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    items: Mapping[str, str] = field(default_factory=dict)
    page: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a heading for each column; ``columns`` are (heading, is it a number?) pairs."""

    title: str
    columns: tuple[tuple[str, bool], ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot; ``draw`` gives a matplotlib figure. ``alt`` says in a sentence what is to be seen."""

    name: str
    title: str
    alt: str
    draw: Callable[[], Any]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph; ``tone`` ``warn`` sets it off."""

    text: str
    tone: Literal["plain", "warn"] = "plain"


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks that are closed at first."""

    title: str
    blocks: tuple[Block, ...]


Block = Table | Figure | Note | Fold


@dataclass(frozen=True, slots=True)
class Page:
    """A further HTML file beside the report, that needs nothing else and no script.

    :param path: from the report's folder, ``FOLDER/NAME.html``, of ASCII letters, digits, ``_`` and ``-``.
    :param template: of the folder ``assets``; extends ``beside.html.jinja`` and is given ``content``.
    """

    path: str
    title: str
    template: str
    content: Any


@dataclass(frozen=True, slots=True)
class Section:
    """One benchmark's part of the report.

    :param pages: the pages that its cells lead to. :param key: the benchmark's name.
    :param title, about: as the run's record has them; a benchmark's function leaves these three empty.
    """

    blocks: tuple[Block, ...]
    pages: tuple[Page, ...] = ()
    key: str = ""
    title: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True)
class Headline:
    """One figure of the overview: a model's share on a benchmark, with its 95% interval.

    :param best: the best printed figure for the same. :param rest: refused, unreadable and failed, in words.
    """

    benchmark: str
    title: str
    series: int
    label: str
    value: float
    low: float
    high: float
    n: int
    chance: float | None
    best: tuple[str, float] | None
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report.

    :param title: the finding, in one sentence. :param findings: further ones.
    :param facts: (what, value) pairs under the title.
    :param gates: the gates' results as recorded, with the run's id.
    :param warnings: what is wrong with a run: incomplete, torn, errors.
    :param runs: (title, rows of facts) of each run.
    :param items: what the browser shows of every item (see ``reports/page/items.py``).
    """

    title: str
    findings: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    gates: tuple[tuple[str, Mapping[str, Any]], ...]
    warnings: tuple[str, ...]
    overview: tuple[Headline, ...]
    series: tuple[str, ...]
    sections: tuple[Section, ...]
    runs: tuple[tuple[str, Sequence[tuple[str, str]]], ...]
    items: Mapping[str, Any]
