"""The figures printed in the papers, which reports show next to a run's own.

The file that a benchmark's registration names (``printed_results``) has only figures from a paper's text or tables.
Results that a paper shows only in a plot are not included. ``note`` says if a printed figure is doubtful or contradicts
another one.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from pytest_llmprops.benchmark_registry import benchmark_names, find_registration
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.data.files import DataFolder, builtin_data, data_folder
from pytest_llmprops.records.rows import SummaryRow
from pytest_llmprops.records.run import ProtocolMetadata

COLUMNS = (
    "paper", "table", "model", "task", "metric", "value", "n", "note", "language", "k", "setting",
)  # fmt: skip

#: the list of all tables and figures of the papers, in the built-in data
TABLES = "published_results/tables.csv"
TABLE_COLUMNS = (
    "id", "stored", "title", "shows", "command", "rows", "report", "needs", "state", "reason", "test",
)  # fmt: skip
STATES = ("exact", "runs", "cannot")


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table, figure or numbered result of a paper.

    :param id: ``PAPER/PLACE``, such as ``htest/table-6``.
    :param stored: the ``table`` of its printed figures (:class:`PublishedResult`); empty if none are stored.
    :param shows: what it shows.
    :param command: the command that measures it. Several are separated by ``&&``; ``llmprops papers`` runs those that
        are all ``llmprops run``, and after them those with the word ``RUN``, which stands for the folder of each run.
    :param rows: the fields of a printed figure that make the rows of its table, separated by spaces.
    :param report: titles of report tables and names of report figures, separated by semicolons; ``*`` matches any text.
    :param needs: data, people, hardware or services that the command needs.
    :param state: ``exact``: a test recomputes the printed figures; ``runs``: the command measures the same figures for
        another model; ``cannot``: ``reason`` says why not.
    :param test: the test that recomputes the printed figures, or a part of them.
    """

    id: str
    stored: str
    title: str
    shows: str
    command: str
    rows: str
    report: str
    needs: str
    state: str
    reason: str
    test: str

    @property
    def paper(self) -> str:
        """The name of the benchmark."""
        return self.id.partition("/")[0]

    @property
    def results(self) -> tuple[PublishedResult, ...]:
        """The printed figures, in the order of the benchmark's file."""
        return find(paper=self.paper, table=self.stored) if self.stored else ()


@dataclass(frozen=True, slots=True)
class PublishedResult:
    """One printed figure.

    :param paper: name of the benchmark.
    :param table: ``6`` for Table 6, else the section (``section 5.1``).
    :param model: the paper's name for the model, baseline or group of people.
    :param task: the benchmark's task; ``average`` is the mean over H-TEST's ten tasks. Results about a data set or an
        annotation have separate tasks (``dataset``, ``rules``, ``concepts``, ``precision``, ``recall``, ``decision``).
    :param metric: shares are fractions in [0, 1] and ``difference`` is a fraction in [-1, 1]. Correlations, kappas,
        counts and ratios are as printed.
    :param n: number of cases behind the value, None if the paper does not say.
    :param note: information that a reader needs; empty if there is none.
    :param language: ISO 639-1 code, empty for several languages together.
    :param k: number of few-shot examples, None if there are none or the paper does not say.
    :param setting: group, corpus or variant within the task; empty for the plain result.
    """

    paper: str
    table: str
    model: str
    task: str
    metric: str
    value: float
    n: int | None
    note: str
    language: str
    k: int | None
    setting: str


def load_published(paper: str) -> tuple[PublishedResult, ...]:
    """Return all printed results of a benchmark's paper, in the order of its file.

    The result is empty for a benchmark without printed results and for one that is not installed.

    :raises DataError: for a malformed row.
    """
    if paper not in benchmark_names():
        return ()
    registration = find_registration(paper)
    if not registration.printed_results:
        return ()
    return read_published(data_folder(registration) / registration.printed_results)


@cache
def load_tables() -> tuple[PaperTable, ...]:
    """Return all tables, figures and numbered results of the papers, in the order of the papers.

    :raises DataError: if a state is unknown, or ``cannot`` has no reason.
    """
    rows = DataFolder(builtin_data(), "builtin").csv(TABLES, required=TABLE_COLUMNS)
    tables = tuple(PaperTable(**{name: row[name] for name in TABLE_COLUMNS}) for row in rows)
    for table in tables:
        if table.state not in STATES or (table.state == "cannot" and not table.reason):
            raise DataError(
                f"{TABLES}, {table.id}: state {table.state!r}; use {', '.join(STATES)}, and give a reason"
            )
    return tables


@lru_cache(maxsize=16)
def read_published(file: Path) -> tuple[PublishedResult, ...]:
    """Read a file of printed results.

    :raises DataError: with the row, if a row is malformed.
    """
    rows = DataFolder(file.parent, "builtin").csv(file.name, required=COLUMNS)
    return tuple(_result(row, f"{file}, row {number}") for number, row in enumerate(rows, start=2))


def find(paper: str, **wanted: str | int | None) -> tuple[PublishedResult, ...]:
    """Return the printed results of a paper whose fields have these values; None matches any value.

    Model names match regardless of case, spaces, hyphens and underscores: ``gpt-3.5`` matches ``GPT 3.5``.
    """

    def fits(result: PublishedResult, name: str, value: str | int) -> bool:
        own = getattr(result, name)
        return bool(_model_key(own) == _model_key(str(value)) if name == "model" else own == value)

    filters = [(name, value) for name, value in wanted.items() if value is not None]
    return tuple(
        result
        for result in load_published(paper)
        if all(fits(result, name, value) for name, value in filters)
    )


def _model_key(model: str) -> str:
    return re.sub(r"[\s_-]+", "", model).casefold()


def _result(row: dict[str, str], where: str) -> PublishedResult:
    try:
        value = float(row["value"])
        n = int(row["n"]) if row["n"] else None
        k = int(row["k"]) if row["k"] else None
    except ValueError as error:
        raise DataError(f"{where}: {error}; value must be a number, n and k whole numbers or empty") from None
    if not math.isfinite(value):
        raise DataError(f"{where}: value {row['value']!r} is not finite; leave the row out")
    return PublishedResult(
        paper=row["paper"], table=row["table"], model=row["model"], task=row["task"], metric=row["metric"],
        value=value, n=n, note=row["note"], language=row["language"], k=k, setting=row["setting"],
    )  # fmt: skip


#: maximum number of published models per row
MOST = 3


@cache
def _accuracies(paper: str) -> tuple[PublishedResult, ...]:
    return tuple(r for r in load_published(paper) if r.metric == "accuracy" and not r.setting)


def ranked(benchmark: str, task: str, language: str, protocol: ProtocolMetadata) -> list[PublishedResult]:
    """Return the paper's accuracies for a task and language, one per model, best first.

    For H-TEST, only results with the run's number of examples count. All of them are read from text, so a run that is
    scored by likelihood has none.
    """
    if protocol.is_by_likelihood:
        return []
    k = protocol.settings.get("k")
    results = [
        r
        for r in _accuracies(benchmark)
        if r.task == task
        and r.language in ("", language)
        and (r.k is None or r.k == k)
        and "doubtful" not in r.note
    ]
    best: dict[str, PublishedResult] = {}
    for result in results:
        best.setdefault(result.model, result)
    return sorted(best.values(), key=lambda result: -result.value)


def beside(row: SummaryRow, protocol: ProtocolMetadata) -> str:
    """Return the best results of :func:`ranked` as one text; empty without any."""
    printed = ranked(row.benchmark, row.task, row.language, protocol)[:MOST]
    return ", ".join(f"{r.model} {100 * r.value:.1f}" for r in printed)
