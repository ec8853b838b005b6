"""The parts of a report, independent of Markdown and HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_llmprops.core.gate_results import GateResult
from pytest_llmprops.core.records import VerdictRecord


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table.

    :param value: the sort key of the column; None: the text.
    :param low: lower limit of an interval around ``value``. Both are shares; HTML shows the interval as a bar.
    :param high: upper limit of the interval.
    :param items: filter of the list of items that the cell opens: ``{"task": "rhyme", "status": "wrong"}``.
    :param page: path of the :class:`Page` that the cell links to.
    """

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    items: Mapping[str, str] = field(default_factory=dict)
    page: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table. ``columns`` are pairs of a heading and whether the column has numbers."""

    title: str
    columns: tuple[tuple[str, bool], ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot; ``draw`` returns a matplotlib figure, and ``alt`` describes it in one sentence."""

    name: str
    title: str
    alt: str
    draw: Callable[[], Any]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph; the tone ``warn`` highlights it."""

    text: str
    tone: Literal["plain", "warn"] = "plain"


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks that are collapsed at first."""

    title: str
    blocks: tuple[Block, ...]


Block = Table | Figure | Note | Fold


@dataclass(frozen=True, slots=True)
class Page:
    """An additional HTML file next to the report; self-contained and without scripts.

    :param path: path in the report's folder, ``FOLDER/NAME.html``: ASCII letters, digits, ``_`` and ``-``.
    :param template: ``PACKAGE:FILE``, a Jinja template next to the modules of a package. It extends
        ``beside.html.jinja`` and uses ``content``, whose texts are escaped.
    :param before: file name of the page before it, if any. :param after: file name of the page after it, if any.
    """

    path: str
    title: str
    template: str
    content: Any
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One benchmark's part of the report.

    :param pages: the pages that its cells link to.
    :param key: the name of the benchmark. Leave ``key``, ``title`` and ``about`` empty; the report sets them.
    :param title: the title from the run record.
    :param about: the introduction from the run record.
    """

    blocks: tuple[Block, ...]
    pages: tuple[Page, ...] = ()
    key: str = ""
    title: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True)
class Headline:
    """One figure of the overview: a model's accuracy on a benchmark, with its 95% interval.

    :param best: model and value of the best published figure. :param rest: refusals, unreadable replies and errors.
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
class Failures:
    """The incorrect items of a benchmark: how many, and the first ones with the label of their series."""

    total: int
    first: tuple[tuple[str, VerdictRecord], ...]


@dataclass(frozen=True, slots=True)
class ItemData:
    """The data of the page's list of items (see ``reports/page/items.py``), compressed, in base64.

    :param index: names, ids and statuses of all rows. :param chunks: the texts of the rows.
    :param failures: by benchmark.
    """

    index: str
    chunks: tuple[str, ...]
    failures: Mapping[str, Failures]


@dataclass(frozen=True, slots=True)
class Upgrade:
    """How many items a candidate lost and gained. Pairs with equal shares of correct samples are right in both if every
    sample is.

    :param series: the indexes of baseline and candidate. :param names: their labels.
    :param apart: items without an answer in one of them.
    """

    series: tuple[int, int]
    names: tuple[str, str]
    lost: int
    gained: int
    wrong: int
    right: int
    apart: int

    def link(self, tab: str) -> dict[str, str]:
        """Return the filter of the page's list that opens a tab (see :class:`Cell`)."""
        return {"tab": tab, "baseline": str(self.series[0]), "candidate": str(self.series[1])}


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report.

    :param title: the main finding, in one sentence. :param findings: further findings.
    :param facts: (name, value) pairs below the title.
    :param gates: the gates' results as recorded, with the run's id.
    :param warnings: problems of the runs: incomplete, damaged, errors.
    :param runs: (title, rows of facts) of each run.
    """

    title: str
    findings: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    gates: tuple[tuple[str, GateResult], ...]
    warnings: tuple[str, ...]
    overview: tuple[Headline, ...]
    series: tuple[str, ...]
    sections: tuple[Section, ...]
    runs: tuple[tuple[str, Sequence[tuple[str, str]]], ...]
    items: ItemData
    upgrade: Upgrade | None = None
