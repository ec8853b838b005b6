"""Tables 1 and 2 of trained models: numbers with intervals over seeds and paradigms, next to the paper's rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from statistics import fmean
from typing import NamedTuple

import numpy as np
from scipy import stats

from pytest_llmprops.benchmarks.eras.explicit import paradigm_scores
from pytest_llmprops.benchmarks.eras.implicit import SENTIMENTS, by_paradigm, count, is_tie
from pytest_llmprops.benchmarks.eras.judging import facts_of, pair_result, paradigm_name
from pytest_llmprops.benchmarks.eras.metrics import AuthorsCounts, authors_counts
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.numbers import counted
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.statistics import mean_interval
from pytest_llmprops.data.published_results import find


class Estimate(NamedTuple):
    """A mean with its 95% interval; no interval if it cannot be estimated."""

    value: float
    low: float | None = None
    high: float | None = None


def crossed_mean(
    values: Sequence[Sequence[float]],
    *,
    least: float = 0.0,
    most: float = 1.0,
    bounded: bool = True,
    level: float = 0.95,
) -> Estimate:
    """Return the mean over seeds and paradigms; its interval is for other seeds and other paradigms.

    Both are random factors of a two-way layout with one value per cell. The variance of the mean is that of Cornfield
    and Tukey (1956), ``(MS seeds + MS paradigms - MS residual) / cells``, but not below what one factor alone gives;
    its degrees of freedom are Satterthwaite's. With one seed, only paradigms vary, and the other way round.

    :param values: one row per seed, one column per paradigm.
    :param least: the smallest possible mean. :param most: the largest possible mean.
    :param bounded: the values themselves are in these limits. Then the interval is at least as wide as that of the mean
        over paradigms of bounded values (``core/bounded_mean.py``), so that equal values do not give width 0.
    """
    table = np.asarray(values, dtype=float)
    seeds, paradigms = table.shape
    mean = float(table.mean())
    by_seed, by_paradigm = table.mean(1), table.mean(0)
    low = high = None
    if table.size > 1 and (seeds > 1 or paradigms > 1):
        error, freedom = _error(table, by_seed, by_paradigm)
        width = float(stats.t.ppf((1 + level) / 2, freedom)) * error if error > 0 else 0.0
        low, high = max(least, mean - width), min(most, mean + width)
    if bounded and paradigms > 1:
        names = [str(number) for number in range(paradigms)]
        # Rounding may put a mean of values at a limit slightly beyond it.
        wide = mean_interval(list(np.clip(by_paradigm, least, most)), names, level, least=least, most=most)
        low = wide.low if low is None else min(low, wide.low)
        high = wide.high if high is None else max(high, wide.high)
    return Estimate(mean, low, high)


def _error(table: np.ndarray, by_seed: np.ndarray, by_paradigm: np.ndarray) -> tuple[float, float]:
    """Return the standard error of the mean, and its degrees of freedom."""
    seeds, paradigms = table.shape
    mean = table.mean()
    squares = {}
    if seeds > 1:
        squares["seeds"] = (paradigms * float(((by_seed - mean) ** 2).sum()) / (seeds - 1), seeds - 1)
    if paradigms > 1:
        squares["paradigms"] = (
            seeds * float(((by_paradigm - mean) ** 2).sum()) / (paradigms - 1),
            paradigms - 1,
        )
    if len(squares) == 1:
        [(square, freedom)] = squares.values()
        return (square / table.size) ** 0.5, freedom
    free = (seeds - 1) * (paradigms - 1)
    rest = float(((table - by_seed[:, None] - by_paradigm + mean) ** 2).sum()) / free
    largest, freedom = max(squares.values())
    total = sum(square for square, _ in squares.values()) - rest
    if total <= largest:
        return (largest / table.size) ** 0.5, freedom
    parts = sum(square**2 / df for square, df in (*squares.values(), (rest, free)))
    return (total / table.size) ** 0.5, max(1.0, total**2 / parts)


#: Name and group of a number, as in the printed results: ("test_accuracy", "left").
Key = tuple[str, str]
Records = Sequence[VerdictRecord]
#: The share of pairs whose two sentences have equal scores.
TIES: Key = ("tie_rate", "")
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
        ("ties", TIES),
        *((f"diff. {group}", ("difference", group)) for group in SENTIMENTS),
        *((corpus, ("sentiment_accuracy", corpus)) for corpus in CORPORA),
    ),
}


@dataclass(frozen=True, slots=True)
class Origin:
    """What the numbers of a row are based on; None and empty if it is not known.

    :param source: whose numbers they are: ``here`` or ``the paper``.
    :param items: source of the ERAS items, with the script if it is traditional.
    :param pairs: pairs that each model was measured on. With several seeds, the smallest number.
    :param base: what the training started from. :param lines: lines and reviews that each model was trained on.
    :param seeds: number of trained models.
    """

    source: str
    items: str
    pairs: int | None
    base: str
    lines: int | None
    seeds: int | None

    def words(self) -> str:
        """Return the parts that are known, for a figure."""
        counts = ((self.pairs, "pair"), (self.lines, "line"), (self.seeds, "seed"))
        pairs, lines, seeds = (None if n is None else counted(n, name) for n, name in counts)
        return ", ".join(filter(None, (self.items, pairs, self.base, lines, seeds)))


PAPER = "the paper"
#: What the paper's numbers are based on (section 2). It states neither lines nor seeds.
PAPER_ITEMS = Origin(PAPER, "the authors'", 203_944, "", None, None)
#: The bases of sections 3.1 and 4.1.
_BERT, _WWM = (replace(PAPER_ITEMS, base=name) for name in ("bert-base-chinese", "chinese-bert-wwm-ext"))
#: Rows of Table 2 without a training.
_UNTRAINED = ("RoBERTa-110M", "RoBERTa-330M", "Megatron-1.3B", "Humans")


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row: the model's name, what its numbers are based on, and the numbers."""

    model: str
    origin: Origin
    numbers: Mapping[Key, Estimate]

    @property
    def is_own(self) -> bool:
        """True for a model that was trained here."""
        return self.origin.source != PAPER


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
    approximations (the delta method), which have one value per seed and paradigm. A tie is correct for the accuracy,
    and an error for necessity and sufficiency. If all pairs of a seed are ties, there is only the share of ties: the
    scores do not depend on the sentence, and a GPER of 0 would say nothing.

    :param runs: the implicit verdicts of each seed.
    :raises DataError: if the runs have no paradigm in common.
    """
    seeds = []
    ties: list[dict[str, float]] = []
    sentiments: dict[str, str] = {}
    for records in runs:
        pairs = by_paradigm(pair_result(r.values) for r in records if "test" in r.values)
        sentiments |= {name: members[0].sentiment for name, members in pairs.items()}
        ties.append({n: fmean(is_tie(p.scores) for p in members) for n, members in pairs.items()})
        seeds.append(
            {
                name: (authors_counts(members), count(members).difference / 100)
                for name, members in pairs.items()
            }
        )
    names = _common(seeds)
    tied = {TIES: crossed_mean([[seed[name] for name in names] for seed in ties])}
    if any(set(seed.values()) == {1.0} for seed in ties):
        return tied

    def tabled(read: Callable[[AuthorsCounts], float]) -> np.ndarray:
        return np.array([[read(seed[name][0]) for name in names] for seed in seeds], dtype=float)

    accuracy = tabled(lambda c: c.correct / c.pairs)
    numbers = tied | {("pair_accuracy", ""): crossed_mean(accuracy.tolist())}
    hits, errors = tabled(lambda c: c.error_hits), tabled(lambda c: c.errors)
    necessity = _ratio(hits, errors)
    for name, linear in (
        ("necessity", necessity),
        ("sufficiency", _ratio(hits, tabled(lambda c: c.hits))),
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
        origin = _WWM if model.startswith("WWM") else _BERT
        rows.append(TableRow(model, PAPER_ITEMS if model in _UNTRAINED else origin, numbers))
    return rows


def markdown(table: int, rows: Sequence[TableRow]) -> str:
    """Return a table as Markdown, on the paper's scale of 0 to 100."""
    headings = ["model", *_ORIGIN, *(heading for heading, _ in COLUMNS[table])]
    lines = [headings, ["---"] * len(headings)]
    lines += [
        [
            row.model,
            *map(_fact, astuple(row.origin)),
            *(_cell(row.numbers.get(key)) for _, key in COLUMNS[table]),
        ]
        for row in rows
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


#: Heads of the columns of an :class:`Origin`.
_ORIGIN = ("from", *(f.name for f in fields(Origin)[1:]))


def _fact(value: str | int | None) -> str:
    return f"{value:,}" if isinstance(value, int) else value or "–"


def _cell(number: Estimate | None) -> str:
    if number is None:
        return "–"
    # Adding 0 makes -0.0 a plain 0.0.
    text = f"{round(100 * number.value, 1) + 0.0:.1f}"
    if number.low is None or number.high is None:
        return text
    return f"{text} ({100 * number.low:.1f} to {100 * number.high:.1f})"


def as_csv(table: int, rows: Sequence[TableRow]) -> str:
    """Return a table as CSV: one line per number, as fractions."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["model", *_ORIGIN, "metric", "group", "value", "ci_low", "ci_high"])
    for row in rows:
        for _, key in COLUMNS[table]:
            if key in row.numbers:
                number = row.numbers[key]
                facts = (*astuple(row.origin), *key, *number)
                writer.writerow([row.model, *("" if x is None else x for x in facts)])
    return text.getvalue()


def figure5_rows(rows: Sequence[TableRow], corpus: str) -> list[TableRow]:
    """Return the rows of Figure 5: your models, then all of the paper's, that have an accuracy on a corpus.

    :param rows: the rows of Table 2. :param corpus: one of :data:`CORPORA`.
    """
    printed = printed_rows(2, list(dict.fromkeys(result.model for result in find(paper="eras", table="2"))))
    own = [row for row in rows if row.is_own]
    return [row for row in (*own, *printed) if ("sentiment_accuracy", corpus) in row.numbers]


def figure5_csv(rows: Sequence[TableRow]) -> str:
    """Return the numbers of Figure 5 as CSV, as fractions: one line per model and corpus.

    :param rows: the rows of Table 2.
    """
    names = ("sentiment_accuracy", "gper", "pair_accuracy", "tie_rate")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    heads = (f"{name}{part}" for name in names for part in ("", "_low", "_high"))
    writer.writerow(["corpus", "model", *_ORIGIN, *heads])
    for corpus in CORPORA:
        for row in figure5_rows(rows, corpus):
            facts: list[str | float | None] = [corpus, row.model, *astuple(row.origin)]
            for name in names:
                group = corpus if name == "sentiment_accuracy" else ""
                facts += row.numbers.get((name, group), (None, None, None))
            writer.writerow(["" if fact is None else fact for fact in facts])
    return text.getvalue()
