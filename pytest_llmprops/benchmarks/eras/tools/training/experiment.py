"""``llmprops eras train table1 | table2``: train the paper's models with several seeds, and measure them."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_llmprops.benchmarks.eras.items import EXPLICIT, IMPLICIT
from pytest_llmprops.benchmarks.eras.tools.training.checkpoints import RECORD, begin, write_record
from pytest_llmprops.benchmarks.eras.tools.training.crossed import Estimate
from pytest_llmprops.benchmarks.eras.tools.training.paper_tables import (
    CORPORA,
    Key,
    TableRow,
    as_csv,
    markdown,
    printed_rows,
    seeds_mean,
    table1_numbers,
    table2_numbers,
)
from pytest_llmprops.benchmarks.eras.tools.training.segmenter_run import SegmenterOptions, train_segmenter
from pytest_llmprops.benchmarks.eras.tools.training.sentiment_run import SentimentOptions, train_sentiment
from pytest_llmprops.benchmarks.eras.tools.training.settings import Settings
from pytest_llmprops.core.errors import LLMPropsError, UsageError
from pytest_llmprops.core.strict_json import JSON, parsed_json
from pytest_llmprops.data.whole_files import write_text
from pytest_llmprops.models.registry import parse_spec
from pytest_llmprops.runs.reader import read_facts, read_run

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
    """Measure a model on ERAS with pytest in a process of its own, or complete a run that was stopped.

    :raises LLMPropsError: if pytest does not measure it, with pytest's last line.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "pytest.ini", "--pyargs"]
    command += ["pytest_llmprops.suites.test_eras", "--model", f"hf:{model.resolve()}"]
    command += ["--llm-run", str(run.resolve()), *(["--llm-resume"] if (run / "run.json").is_file() else [])]
    # Neither the settings nor the conftest.py of the folder in which the command is run may change the measurement.
    with tempfile.TemporaryDirectory() as empty:
        (Path(empty) / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        done = subprocess.run(
            [*command, *arguments], cwd=empty, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )  # fmt: skip
    # Status 1: some pairs are wrong.
    if done.returncode not in (0, 1) or not is_measured(run):
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        line = next(
            (line for line in lines if line.startswith("ERROR: ")), lines[-1] if lines else "no output"
        )
        raise LLMPropsError(f"{run}: pytest ended with status {done.returncode}: {line.strip()[:300]}")


def is_measured(run: Path) -> bool:
    """Return whether a run is recorded completely."""
    return (run / "run.json").is_file() and read_facts(run).complete


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
    begin(out, {**description, "settings": settings.record()})
    for model in experiment.models:
        for seed in _seeds(experiment, settings):
            place = f"{model.slug}-seed{seed}"
            folder, run = out / "models" / place, out / "runs" / place
            if not is_measured(run):
                say(f"{model.name}, seed {seed}: training")
                model.train(replace(settings, seed=seed), folder, False, say)
                # The weights of a training must be freed before the next one starts.
                gc.collect()
                say(f"{model.name}, seed {seed}: measuring on ERAS")
                measured_by(folder, run, _arguments(experiment, model))
            if experiment.table == 2:
                _write_accuracies(folder, run)
        _write_tables(experiment, settings, out)
    write_record(out, {**description, "settings": settings.record()}, complete=True)
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
