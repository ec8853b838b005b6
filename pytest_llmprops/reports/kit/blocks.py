"""The blocks of a report section: texts, tables and figures, and how their values are written.

Replies are untrusted: :func:`visible` spells out invisible characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_llmprops.core.numbers import counted as counted
from pytest_llmprops.core.numbers import interval as interval
from pytest_llmprops.core.numbers import percent as percent
from pytest_llmprops.core.numbers import point_range as point_range
from pytest_llmprops.core.numbers import points as points
from pytest_llmprops.core.numbers import with_interval as with_interval
from pytest_llmprops.core.texts import visible as visible
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.gate import GateResult, MemberChange


def words(name: str) -> str:
    """Return a task's name as words: ``end_punctuation`` as ``end punctuation``."""
    return visible(name).replace("_", " ")


def file_name(name: str) -> str:
    """Return ``name`` as part of a file name, with ASCII letters, digits, ``_`` and ``-`` only."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name)


def file_names(value: str) -> list[str]:
    """Return the names in a comma-separated list of files, without folders: paths are private."""
    return [re.split(r"[\\/]", part.strip())[-1] for part in value.split(",")]


def joined(parts: list[str]) -> str:
    """Return a list in words: ``a, b and c``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


LANGUAGES = {
    "af": "Afrikaans", "ar": "Arabic", "de": "German", "en": "English", "es": "Spanish", "fa": "Farsi",
    "fr": "French", "gl": "Galician", "hi": "Hindi", "hy": "Armenian", "ja": "Japanese", "lv": "Latvian",
    "ta": "Tamil", "te": "Telugu", "zh": "Chinese",
}  # fmt: skip


def language(code: str) -> str:
    """Return the English name of a language code, or the code itself."""
    return LANGUAGES.get(code, visible(code))


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table.

    :param value: the sort key of the column; None: the text.
    :param low: lower limit of an interval around ``value``. Both are shares; HTML shows the interval as a bar.
    :param high: upper limit of the interval.
    :param items: filter of the list of items that the cell opens: ``{"task": "rhyme", "status": "wrong"}``.
    """

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    items: Mapping[str, str] = field(default_factory=dict)


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
class Section:
    """One benchmark's part of the report.

    :param key: the name of the benchmark. Leave it, ``title``, ``about`` and ``finding`` empty; the report sets them.
    :param title: the title from the run record.
    :param about: the introduction from the run record. :param finding: what the report found, in one sentence.
    """

    blocks: tuple[Block, ...]
    key: str = ""
    title: str = ""
    about: str = ""
    finding: str = ""


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
class Report:
    """A whole report.

    :param title: the decision or the main finding, in one sentence.
    :param table: one line per suite, or one line per model; None without a verdict.
    :param facts: (name, value) pairs below the title.
    :param gates: the gates' results as recorded, with the run's id.
    :param warnings: problems of the runs: incomplete, damaged, errors.
    :param runs: (title, rows of facts) of each run.
    :param pair: the series that are baseline and candidate when the page opens; None for a single series.
    :param unshared: the suites that only one of two models has, in a sentence.
    :param changes: the tasks by change between two models, worst first.
    """

    title: str
    table: Table | None
    facts: tuple[tuple[str, str], ...]
    gates: tuple[tuple[str, GateResult], ...]
    warnings: tuple[str, ...]
    series: tuple[str, ...]
    sections: tuple[Section, ...]
    runs: tuple[tuple[str, Sequence[tuple[str, str]]], ...]
    items: ItemData
    pair: tuple[int, int] | None = None
    unshared: str = ""
    changes: Table | None = None

    @property
    def tab(self) -> str:
        """The title of the browser's tab, which shows its first words: the decision and the models."""
        if len(self.gates) != 1 or self.pair is None:
            return self.title
        old, new = (self.series[index] for index in self.pair)
        return f"{self.gates[0][1].decision.upper()} · {new} over {old}"

    def items_of(self, loss: MemberChange) -> dict[str, str]:
        """Return the filter of the page's list that shows the lost items (see :class:`Cell`)."""
        link = {"status": "wrong"}
        if self.pair is not None:
            link = {"tab": "lost", "baseline": str(self.pair[0]), "candidate": str(self.pair[1])}
        place: dict[str, str] = {loss.kind: visible(loss.name)} if loss.kind in ("task", "language") else {}
        return {**link, "benchmark": visible(loss.benchmark), **place}
