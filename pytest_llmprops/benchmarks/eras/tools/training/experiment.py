"""``llmprops eras train table1 | table2``: train with several seeds, measure, and print the table with intervals."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from pytest_llmprops.benchmarks.eras.explicit import paradigm_scores
from pytest_llmprops.benchmarks.eras.implicit import SENTIMENTS, by_paradigm, count
from pytest_llmprops.benchmarks.eras.items import EXPLICIT, IMPLICIT
from pytest_llmprops.benchmarks.eras.judging import facts_of, pair_result, paradigm_name
from pytest_llmprops.benchmarks.eras.metrics import AuthorsCounts, authors_counts
from pytest_llmprops.benchmarks.eras.tools.training.segmenter import SegmenterOptions, train_segmenter
from pytest_llmprops.benchmarks.eras.tools.training.sentiment import SentimentOptions, train_sentiment
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.statistics import mean_interval
from pytest_llmprops.core.strict_json import JSON, parsed_json
from pytest_llmprops.data.published_results import find
from pytest_llmprops.data.whole_files import write_text
from pytest_llmprops.models.registry import parse_spec
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.training.checkpoints import RECORD, begin, write_record
from pytest_llmprops.training.run import free_memory, is_measured, measure_suite
from pytest_llmprops.training.task import Settings


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


Say = Callable[[str], object]
#: Function from the folder of a model, that of its run and the arguments of pytest; it measures the model.
Measure = Callable[[Path, Path, Sequence[str]], None]


@dataclass(frozen=True, slots=True)
class Model:
    """A row of a table: a model to train.

    :param name: as in the printed table. :param slug: part of folder names.
    :param train: train it with settings into a folder, or continue there; ``plan`` only prints.
    :param script: the ERAS setting ``script`` that it is measured with.
    """

    name: str
    slug: str
    train: Callable[[Settings, Path, bool, Say], None]
    script: str = "simplified"


@dataclass(frozen=True, slots=True)
class Experiment:
    """A table of the paper to reproduce.

    :param table: 1 or 2. :param models: its rows. :param seeds: number of trainings of each model.
    :param options: the data and bases of the models, which a later command must repeat.
    :param arguments: further arguments of pytest, which choose the ERAS items.
    """

    table: int
    models: Sequence[Model]
    seeds: int
    options: Mapping[str, JSON] = field(default_factory=dict)
    arguments: Sequence[str] = ()


#: Table 1's corpora: name in the table, start of the files' names, script of the test sentences (section 3.1).
_SEGMENTERS = (
    ("AS (hant)", "as", "chinese-converter"),
    ("CityU (yue)", "cityu", "chinese-converter"),
    ("PKU", "pku", "simplified"),
    ("MSR", "msr", "simplified"),
)


def segmenters(data: Path, base: str, only: Sequence[str] = ()) -> list[Model]:
    """Return the models of Table 1.

    :param data: a folder with the files of SIGHAN 2005, at any depth.
    :param only: starts of the files' names (``pku``); empty for all four.
    :raises UsageError: if a file is missing.
    """
    unknown = set(only) - {prefix for _, prefix, _ in _SEGMENTERS}
    if unknown:
        raise UsageError(f"--only {', '.join(sorted(unknown))}: give as, cityu, pku or msr")
    return [
        Model(name, prefix, _segmenter(data, base, prefix), script)
        for name, prefix, script in _SEGMENTERS
        if not only or prefix in only
    ]


def _segmenter(data: Path, base: str, prefix: str) -> Callable[[Settings, Path, bool, Say], None]:
    training = _file(data, f"{prefix}_training.utf8")
    # The AS file is named as_testing_gold.utf8.
    gold = _file(data, f"{prefix}_test_gold.utf8", f"{prefix}_testing_gold.utf8")
    options = SegmenterOptions(data=str(training), base=base, tests=[gold])
    return lambda settings, out, plan, say: train_segmenter(options, settings, out, plan=plan, say=say)


def classifiers(data: Path, base: str, wwm_base: str, cws: str = "", only: Sequence[str] = ()) -> list[Model]:
    """Return the four models of Table 2.

    :param data: a folder with labelled files and ``msr_training.utf8``, at any depth.
    :param cws: segmented file for joint training, if not ``msr_training.utf8``.
    :param only: names of models such as ``wwm+cws``; empty for all four.
    :raises UsageError: if a file is missing.
    """
    models = []
    for name, model_base, joint in (
        ("Sentiment Only", base, False),
        ("WWM", wwm_base, False),
        ("CWS", base, True),
        ("WWM+CWS", wwm_base, True),
    ):
        slug = name.casefold().replace(" ", "-").replace("+", "-")
        if only and slug not in only:
            continue
        segmented = (cws or str(_file(data, "msr_training.utf8"))) if joint else ""
        models.append(
            Model(name, slug, _classifier(SentimentOptions([data], base=model_base, cws=segmented)))
        )
    if not models:
        raise UsageError(f"--only {', '.join(only)}: give sentiment-only, wwm, cws or wwm-cws")
    return models


def _classifier(options: SentimentOptions) -> Callable[[Settings, Path, bool, Say], None]:
    return lambda settings, out, plan, say: train_sentiment(options, settings, out, plan=plan, say=say)


def _file(folder: Path, *names: str) -> Path:
    for name in names:
        files = sorted(folder.rglob(name))
        if files:
            return files[0]
    raise UsageError(
        f"--data {folder}: no {' or '.join(names)} in this folder or below it; add it, or use --only"
    )


def measure(model: Path, run: Path, arguments: Sequence[str]) -> None:
    """Measure a model on ERAS, or complete a run that was stopped."""
    measure_suite("eras", f"hf:{model.resolve()}", run, arguments)


def run_experiment(
    experiment: Experiment,
    settings: Settings,
    out: Path,
    *,
    plan: bool = False,
    say: Say = print,
    measured_by: Measure = measure,
) -> None:
    """Train and measure all models of a table, or go on where an earlier command was stopped, and write the table.

    ``out`` gets ``models/``, ``runs/`` (for ``llmprops report``), and after each model ``table.md`` and ``table.csv``
    with the models that are measured with all seeds.

    :param plan: print the plan of each model's training, and train nothing.
    :raises UsageError: if the folder has another experiment.
    """
    if experiment.seeds < 1:
        raise UsageError(f"--seeds must be at least 1, not {experiment.seeds}")
    if plan:
        for model in experiment.models:
            say(f"{model.name}, {experiment.seeds} times:")
            model.train(settings, out, True, say)
        return
    description: dict[str, JSON] = {
        "table": experiment.table,
        "models": [model.name for model in experiment.models],
        "seeds": experiment.seeds,
        "arguments": list(experiment.arguments),
        **experiment.options,
    }
    begin(out, {**description, "settings": asdict(settings)})
    for model in experiment.models:
        for seed in _seeds(experiment, settings):
            place = f"{model.slug}-seed{seed}"
            folder, run = out / "models" / place, out / "runs" / place
            if not is_measured(run):
                say(f"{model.name}, seed {seed}: training")
                model.train(replace(settings, seed=seed), folder, False, say)
                free_memory()
                say(f"{model.name}, seed {seed}: measuring on ERAS")
                measured_by(folder, run, _arguments(experiment, model))
            if experiment.table == 2:
                _write_accuracies(folder, run)
        _write_tables(experiment, settings, out)
    write_record(out, {**description, "settings": asdict(settings)}, complete=True)
    say((out / "table.md").read_text(encoding="utf-8"))


def _seeds(experiment: Experiment, settings: Settings) -> range:
    return range(settings.seed, settings.seed + experiment.seeds)


def _arguments(experiment: Experiment, model: Model) -> list[str]:
    task = EXPLICIT if experiment.table == 1 else IMPLICIT
    return ["-k", task, "--llm-set", f"eras.script={model.script}", *experiment.arguments]


def _write_tables(experiment: Experiment, settings: Settings, out: Path) -> None:
    """Write the table of the models that are measured with all seeds."""
    rows = []
    task, numbers_of = (EXPLICIT, table1_numbers) if experiment.table == 1 else (IMPLICIT, table2_numbers)
    done = []
    for model in experiment.models:
        places = [f"{model.slug}-seed{seed}" for seed in _seeds(experiment, settings)]
        if not all(is_measured(out / "runs" / place) for place in places):
            continue
        records = [[r for r in read_run(out / "runs" / p).records if r.task == task] for p in places]
        numbers = numbers_of(records) | _scores(experiment.table, [out / "models" / p for p in places])
        rows.append(TableRow(model.name, f"here, {len(places)} seed{'s' * (len(places) > 1)}", numbers))
        done.append(model.name)
    rows += printed_rows(experiment.table, done)
    intervals = (
        "Intervals (95%) are for other seeds and other paradigms."
        if experiment.seeds > 1
        else "Intervals (95%) are for other paradigms; with one seed, they leave out how trainings differ."
    )
    notes = f"\nPercent. {intervals} The models' folders have cards with data, settings and versions.\n"
    write_text(out / "table.md", markdown(experiment.table, rows) + notes)
    write_text(out / "table.csv", as_csv(experiment.table, rows))


def _scores(table: int, folders: Sequence[Path]) -> dict[Key, Estimate]:
    """Return the scores on test files: F1, or the accuracies on the corpora that the table has."""
    values: dict[Key, list[float]] = {}
    for folder in folders:
        for row in _scored_files(folder):
            file = str(row.get("file"))
            if table == 1 and "f1" in row and file != "held-out part":
                values.setdefault(("word_f1", ""), []).append(float(str(row["f1"])))
            for corpus in CORPORA if table == 2 and "accuracy" in row else ():
                if corpus.casefold() in file.casefold():
                    values.setdefault(("sentiment_accuracy", corpus), []).append(float(str(row["accuracy"])))
    return {key: seeds_mean(numbers) for key, numbers in values.items() if len(numbers) == len(folders)}


def _scored_files(folder: Path) -> Iterable[Mapping[str, JSON]]:
    record = parsed_json((folder / RECORD).read_text(encoding="utf-8"))
    return [row for row in record.get("scores", []) if isinstance(row, dict)]


def _write_accuracies(folder: Path, run: Path) -> None:
    """Write the accuracies on test files where the report looks for them (``llmprops eras sentiment-accuracy``)."""
    label = parse_spec(f"hf:{folder}").label
    rows = [
        {
            "model": label,
            "file": row["file"],
            "accuracy": row["accuracy"],
            "ci_low": row["accuracy_low"],
            "ci_high": row["accuracy_high"],
            "n": row["n"],
        }
        for row in _scored_files(folder)
        if "n" in row
    ]
    if rows:
        write_text(run / "sentiment_accuracy.json", json.dumps(rows, ensure_ascii=False, indent=1) + "\n")
