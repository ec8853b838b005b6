"""``llmprops eras train table1 | table2``: train with several seeds, measure, and print the table with intervals."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

from pytest_llmprops.benchmark_registry import find_registration
from pytest_llmprops.benchmarks.eras.items import EXPLICIT, IMPLICIT, load_items, sentences_in_script
from pytest_llmprops.benchmarks.eras.tools.training.segmenter import SMALL, SegmenterOptions, train_segmenter
from pytest_llmprops.benchmarks.eras.tools.training.sentiment import SentimentOptions, train_sentiment
from pytest_llmprops.benchmarks.eras.tools.training.tables import (
    CORPORA,
    Estimate,
    Key,
    Origin,
    TableRow,
    as_csv,
    markdown,
    printed_rows,
    seeds_mean,
    table1_numbers,
    table2_numbers,
)
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.strict_json import JSON, parsed_json
from pytest_llmprops.data.files import DataFolder, builtin_data
from pytest_llmprops.data.whole_files import write_text
from pytest_llmprops.models.registry import parse_spec
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.training.checkpoints import RECORD, begin, write_record
from pytest_llmprops.training.run import free_memory, is_measured, measure_suite
from pytest_llmprops.training.task import Settings

Say = Callable[[str], object]
#: Function from the folder of a model, that of its run and the arguments of pytest; it measures the model.
Measure = Callable[[Path, Path, Sequence[str]], None]


@dataclass(frozen=True, slots=True)
class Model:
    """A row of a table: a model to train.

    :param name: as in the printed table. :param slug: part of folder names.
    :param train: train it with settings into a folder, or continue there; ``plan`` only prints.
    :param base: what the training starts from.
    :param script: the ERAS setting ``script`` that it is measured with.
    """

    name: str
    slug: str
    train: Callable[[Settings, Path, bool, Say], None]
    base: str = ""
    script: str = "simplified"


@dataclass(frozen=True, slots=True)
class Experiment:
    """A table of the paper to reproduce.

    :param table: 1 or 2. :param models: its rows. :param seeds: number of trainings of each model.
    :param options: data, bases and items of the models, which a later command must repeat.
    :param arguments: further arguments of pytest, which choose the ERAS items.
    :param show: gets the table's number and rows whenever the table is written, for figures.
    """

    table: int
    models: Sequence[Model]
    seeds: int
    options: Mapping[str, JSON] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    show: Callable[[int, Sequence[TableRow]], object] | None = None


#: ``--eras`` for the items of this package
BUILTIN = "builtin"
_TEMPLATES = ("eras/templates.json", "eras/key_word_locations.json")


def chosen_items(given: str | None, say: Say) -> str:
    """Return the folder of the ERAS items, or :data:`BUILTIN`, and say which ones are measured.

    By default, these are the published templates of the folder in ``LLMPROPS_DATA``. Without them, they are the
    built-in frames.

    :param given: the value of ``--eras``; None without it.
    :raises UsageError: if the given folder does not exist.
    """
    if given == BUILTIN:
        return BUILTIN
    if given is not None:
        if not Path(given).is_dir():
            raise UsageError(
                f"--eras {given}: no such folder; `llmprops data pull eras --dest DIR` makes one"
            )
        return str(Path(given).resolve())
    data = os.environ.get("LLMPROPS_DATA", "")
    if data and all((Path(data) / name).is_file() for name in _TEMPLATES):
        say(f"items: the published templates in {data}")
        return str(Path(data).resolve())
    where = f"LLMPROPS_DATA={data} has none" if data else "LLMPROPS_DATA is not set"
    say(
        f"items: this project's built-in frames, because there are no published templates: {where}."
        " `llmprops data pull eras --dest DIR` downloads them; then give --eras DIR"
    )
    return BUILTIN


def item_arguments(items: str) -> list[str]:
    """Return the arguments of pytest for the items of :func:`chosen_items`."""
    if items == BUILTIN:
        return ["--llm-source", "builtin"]
    return ["--llm-source", "published", "--llm-data", items]


#: Sentences of a large set whose characters are checked.
_MOST_CHECKED = 4000


def measured_sentences(items: str, script: str) -> list[str]:
    """Return the ERAS sentences that a model is measured on, to check that it knows their characters.

    :param items: see :func:`chosen_items`. :param script: the ERAS setting ``script``.
    :raises DataError: if the items cannot be read. :raises UsageError: if the converter is missing.
    """
    tools = find_registration("eras").tools
    if items == BUILTIN:
        folder = DataFolder(builtin_data(), BUILTIN, tools)
    else:
        folder = DataFolder(items, DataFolder(items, "published").source_for("eras"), tools)
    loaded = load_items(folder)
    pairs = (item.fields["pair"] for item in loaded.items if item.task == EXPLICIT)
    sentences = (text for pair in pairs for text in sentences_in_script(pair, script, loaded.context))
    return list(islice(sentences, _MOST_CHECKED))


#: Table 1's corpora: name in the table, start of the files' names, script of the test sentences (section 3.1).
_SEGMENTERS = (
    ("AS (hant)", "as", "chinese-converter"),
    ("CityU (yue)", "cityu", "chinese-converter"),
    ("PKU", "pku", "simplified"),
    ("MSR", "msr", "simplified"),
)


def segmenters(data: Path, base: str, only: Sequence[str] = (), items: str = BUILTIN) -> list[Model]:
    """Return the models of Table 1.

    :param data: a folder with the files of SIGHAN 2005, at any depth.
    :param only: starts of the files' names (``pku``); empty for all four.
    :param items: the items to measure on, see :func:`chosen_items`.
    :raises UsageError: if a file is missing.
    """
    unknown = set(only) - {prefix for _, prefix, _ in _SEGMENTERS}
    if unknown:
        raise UsageError(f"--only {', '.join(sorted(unknown))}: give as, cityu, pku or msr")
    return [
        Model(name, prefix, _segmenter(data, base, prefix, (items, script)), base, script)
        for name, prefix, script in _SEGMENTERS
        if not only or prefix in only
    ]


def _segmenter(
    data: Path, base: str, prefix: str, measured: tuple[str, str]
) -> Callable[[Settings, Path, bool, Say], None]:
    training = _file(data, f"{prefix}_training.utf8")
    # The AS file is named as_testing_gold.utf8.
    gold = _file(data, f"{prefix}_test_gold.utf8", f"{prefix}_testing_gold.utf8")
    options = SegmenterOptions(data=str(training), base=base, tests=[gold])

    def train(settings: Settings, out: Path, plan: bool, say: Say) -> None:
        checked = replace(options, measured=measured_sentences(*measured))
        train_segmenter(checked, settings, out, plan=plan, say=say)

    return train


def classifiers(
    data: Path, base: str, wwm_base: str, cws: str = "", only: Sequence[str] = (), items: str = BUILTIN
) -> list[Model]:
    """Return the four models of Table 2.

    :param data: a folder with labelled files and ``msr_training.utf8``, at any depth.
    :param cws: segmented file for joint training, if not ``msr_training.utf8``.
    :param only: names of models such as ``wwm-cws``; empty for all four.
    :param items: the items to measure on, see :func:`chosen_items`.
    :raises UsageError: if a file is missing.
    """
    if SMALL in (base, wwm_base):
        raise UsageError("--base small: only segmenters have it; give a pre-trained encoder")
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
        options = SentimentOptions([data], base=model_base, cws=segmented)
        models.append(Model(name, slug, _classifier(options, items), model_base))
    if not models:
        raise UsageError(f"--only {', '.join(only)}: give sentiment-only, wwm, cws or wwm-cws")
    return models


def _classifier(options: SentimentOptions, items: str) -> Callable[[Settings, Path, bool, Say], None]:
    def train(settings: Settings, out: Path, plan: bool, say: Say) -> None:
        checked = replace(options, measured=measured_sentences(items, "simplified"))
        train_sentiment(checked, settings, out, plan=plan, say=say)

    return train


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
    with the models that are measured with all seeds, and what ``experiment.show`` makes of the same rows.

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
    fixed = ["-k", task, "--llm-protocol", "paper", "--llm-set", f"eras.script={model.script}"]
    return [*fixed, *experiment.arguments]


def _write_tables(experiment: Experiment, settings: Settings, out: Path) -> None:
    rows = []
    task, numbers_of = (EXPLICIT, table1_numbers) if experiment.table == 1 else (IMPLICIT, table2_numbers)
    done = []
    for model in experiment.models:
        places = [f"{model.slug}-seed{seed}" for seed in _seeds(experiment, settings)]
        if not all(is_measured(out / "runs" / place) for place in places):
            continue
        records = [[r for r in read_run(out / "runs" / p).records if r.task == task] for p in places]
        folders = [out / "models" / place for place in places]
        numbers = numbers_of(records) | _scores(experiment.table, folders)
        rows.append(TableRow(model.name, _origin(model, records, folders), numbers))
        done.append(model.name)
    rows += printed_rows(experiment.table, done)
    intervals = (
        "Intervals (95%) are for other seeds and other paradigms."
        if experiment.seeds > 1
        else "Intervals (95%) are for other paradigms; with one seed, they leave out how trainings differ."
    )
    notes = f"\nPercent. {intervals} {_NOTES[experiment.table]}\n"
    write_text(out / "table.md", markdown(experiment.table, rows) + notes)
    write_text(out / "table.csv", as_csv(experiment.table, rows))
    if experiment.show is not None:
        experiment.show(experiment.table, rows)


_CARDS = (
    "Lines: lines and reviews trained on, without those that were held out or left out. The models' folders have cards"
    " with data, settings and versions."
)
_NOTES = {
    1: _CARDS,
    2: "Ties: pairs whose two sentences have equal scores. As in the authors' code, a tie is correct for the accuracy,"
    " and an error for necessity and sufficiency. If all pairs of a seed are ties, the scores do not depend on the"
    f" sentence, and the other numbers are left out. {_CARDS}",
}


def _origin(model: Model, runs: Sequence[Sequence[VerdictRecord]], folders: Sequence[Path]) -> Origin:
    sources = "; ".join(dict.fromkeys(record.source for records in runs for record in records))
    script = "" if model.script == "simplified" else f", traditional ({model.script})"
    trained = [_record(folder).get("training") for folder in folders]
    lines = [t["lines"] for t in trained if isinstance(t, dict) and isinstance(t.get("lines"), int)]
    return Origin(
        source="here",
        items=sources + script,
        pairs=min(sum("test" in record.values for record in records) for records in runs),
        base=model.base,
        lines=round(fmean(lines)) if len(lines) == len(folders) else None,
        seeds=len(runs),
    )


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
    return [row for row in _record(folder).get("scores", []) if isinstance(row, dict)]


def _record(folder: Path) -> Mapping[str, Any]:
    record: Mapping[str, Any] = parsed_json((folder / RECORD).read_text(encoding="utf-8"))
    return record


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
