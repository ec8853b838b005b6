"""Tables 1 and 2 of ERAS for models that were trained with several seeds, beside the printed rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_llmprops.benchmarks.eras.authors_metrics import AuthorsCounts, authors_counts
from pytest_llmprops.benchmarks.eras.explicit import paradigm_scores
from pytest_llmprops.benchmarks.eras.implicit import SENTIMENTS, by_paradigm, count
from pytest_llmprops.benchmarks.eras.tools.training.crossed import Estimate, crossed_mean
from pytest_llmprops.benchmarks.eras.values import facts_of, pair_result, paradigm_name
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.data.published_results import find

#: Name and group of a number, as in the printed results: ("test_accuracy", "left").
Key = tuple[str, str]
Records = Sequence[VerdictRecord]
_GROUPS = ("overall", "left", "right")
_ACCURACIES = ("test_accuracy", "control_accuracy", "difference")
_RATES = ("gper", "pair_accuracy", "necessity", "sufficiency")
CORPORA = ("ASAP", "ChnSentiCorp")
#: Columns of each table.
COLUMNS: Mapping[int, Sequence[tuple[str, Key]]] = {
    1: (
        *((f"{group} {name.partition('_')[0]}", (name, group)) for group in _GROUPS for name in _ACCURACIES),
        ("F1", ("word_f1", "")),
    ),
    2: (
        *(
            zip(
                ("GPER", "accuracy", "necessity", "sufficiency"), ((name, "") for name in _RATES), strict=True
            )
        ),
        *((f"diff. {group}", ("difference", group)) for group in SENTIMENTS),
        *((corpus, ("sentiment_accuracy", corpus)) for corpus in CORPORA),
    ),
}


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row: the model's name, where its numbers are from, and the numbers."""

    model: str
    source: str
    numbers: Mapping[Key, Estimate]


def table1_numbers(runs: Sequence[Records]) -> dict[Key, Estimate]:
    """Return the numbers of Table 1 of a segmenter.

    :param runs: the explicit verdicts of each seed.
    :raises DataError: if the runs have no paradigm in common.
    """
    scores = []
    branching: dict[str, str] = {}
    for records in runs:
        values = [r.values for r in records if "test" in r.values]
        branching |= {paradigm_name(v): facts_of(v).branching for v in values}
        outcomes = ((paradigm_name(v), bool(v["test"]), bool(v["control"])) for v in values)
        scores.append(
            {s.paradigm: (s.test, s.control, s.control - s.test) for s in paradigm_scores(outcomes)}
        )
    names = _common(scores)
    numbers = {}
    for group in _GROUPS:
        members = [name for name in names if group in ("overall", branching[name])]
        for place, metric in enumerate(_ACCURACIES if members else ()):
            table = [[seed[name][place] for name in members] for seed in scores]
            numbers[metric, group] = crossed_mean(table, least=-1.0 if metric == "difference" else 0.0)
    return numbers


def table2_numbers(runs: Sequence[Records]) -> dict[Key, Estimate]:
    """Return the numbers of Table 2 of a sentiment classifier, as the authors' code computes them.

    Necessity, sufficiency and GPER are ratios of counts over all pairs. Their intervals are those of their linear
    approximations (the delta method), which have one value per seed and paradigm.

    :param runs: the implicit verdicts of each seed.
    :raises DataError: if the runs have no paradigm in common.
    """
    seeds = []
    sentiments: dict[str, str] = {}
    for records in runs:
        pairs = by_paradigm(pair_result(r.values) for r in records if "test" in r.values)
        sentiments |= {name: members[0].sentiment for name, members in pairs.items()}
        seeds.append(
            {
                name: (authors_counts(members), count(members).difference / 100)
                for name, members in pairs.items()
            }
        )
    names = _common(seeds)

    def counted(read: Callable[[AuthorsCounts], float]) -> np.ndarray:
        return np.array([[read(seed[name][0]) for name in names] for seed in seeds], dtype=float)

    accuracy = counted(lambda c: c.correct / c.pairs)
    numbers = {("pair_accuracy", ""): crossed_mean(accuracy.tolist())}
    hits, errors = counted(lambda c: c.error_hits), counted(lambda c: c.errors)
    necessity = _ratio(hits, errors)
    for name, linear in (
        ("necessity", necessity),
        ("sufficiency", _ratio(hits, counted(lambda c: c.hits))),
        ("gper", None if necessity is None else _product(1 - accuracy, necessity)),
    ):
        if linear is not None:
            numbers[name, ""] = crossed_mean(linear.tolist(), bounded=False)
    for group in SENTIMENTS:
        members = [name for name in names if sentiments[name] == group]
        if members:
            table = [[seed[name][1] for name in members] for seed in seeds]
            numbers["difference", group] = crossed_mean(table, least=-1.0)
    return numbers


def _common(seeds: Sequence[Mapping[str, object]]) -> list[str]:
    names = sorted(set(seeds[0]).intersection(*seeds[1:])) if seeds else []
    if not names:
        raise DataError("the runs have no paradigm in common; delete the folder runs and repeat the command")
    return names


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray | None:
    """Return a table with the mean sum(above) / sum(below), and the variance of this ratio."""
    if not below.sum():
        return None
    ratio = above.sum() / below.sum()
    return np.asarray(ratio + (above - ratio * below) / below.mean())


def _product(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return a table with the product of two tables' means as mean, and the variance of this product."""
    a, b = first.mean(), second.mean()
    return np.asarray(a * b + b * (first - a) + a * (second - b))


def seeds_mean(values: Sequence[float]) -> Estimate:
    """Return the mean over seeds of a score on a test file, with the interval over seeds if there are several."""
    return crossed_mean([[value] for value in values], bounded=False)


def printed_rows(table: int, models: Sequence[str]) -> list[TableRow]:
    """Return the paper's rows of these models."""
    rows = []
    for model in models:
        numbers: dict[Key, Estimate] = {}
        for result in find(paper="eras", model=model):
            setting = (
                "" if (result.metric, result.setting) == ("pair_accuracy", "overall") else result.setting
            )
            key = (result.metric, "") if result.metric == "word_f1" else (result.metric, setting)
            if key in dict.fromkeys(key for _, key in COLUMNS[table]):
                numbers[key] = Estimate(result.value)
        rows.append(TableRow(model, "the paper", numbers))
    return rows


def markdown(table: int, rows: Sequence[TableRow]) -> str:
    """Return a table as Markdown, on the paper's scale of 0 to 100."""
    headings = ["model", "from", *(heading for heading, _ in COLUMNS[table])]
    lines = [headings, ["---"] * len(headings)]
    lines += [
        [row.model, row.source, *(_cell(row.numbers.get(key)) for _, key in COLUMNS[table])] for row in rows
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(number: Estimate | None) -> str:
    if number is None:
        return "–"
    text = f"{100 * number.value:.1f}"
    if number.low is None or number.high is None:
        return text
    return f"{text} ({100 * number.low:.1f} to {100 * number.high:.1f})"


def as_csv(table: int, rows: Sequence[TableRow]) -> str:
    """Return a table as CSV: one line per number, as fractions."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["model", "from", "metric", "group", "value", "ci_low", "ci_high"])
    for row in rows:
        for _, key in COLUMNS[table]:
            if key in row.numbers:
                number = row.numbers[key]
                writer.writerow([row.model, row.source, *key, *("" if x is None else x for x in number)])
    return text.getvalue()
