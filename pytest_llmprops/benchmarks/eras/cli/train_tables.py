"""``llmprops eras train table1 | table2``: reproduce a table of the paper, from training to the table."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_llmprops.benchmarks.eras.cli.train import add_training_options, training_settings
from pytest_llmprops.cli.kit import Groups
from pytest_llmprops.core.strict_json import JSON

_BASE = "google-bert/bert-base-chinese"


def add_commands(group: Groups) -> None:
    """Add ``eras train table1`` and ``table2`` to the commands of ``llmprops eras train``."""
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
        type=Path,
        metavar="DIR",
        help="ERAS items: published data or a generated set (default: the built-in items)",
    )
    command.add_argument("--limit", type=int, metavar="N", help="measure N pairs per paradigm (default: all)")
    add_training_options(command)


def _arguments(options: argparse.Namespace) -> list[str]:
    words = []
    if options.eras is not None:
        words += ["--llm-source", "published", "--llm-data", str(options.eras.resolve())]
    return words if options.limit is None else [*words, "--llm-limit", str(options.limit)]


def _table1(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.tools.training.experiment import (
        Experiment,
        run_experiment,
        segmenters,
    )
    from pytest_llmprops.benchmarks.eras.tools.training.segmenter_run import SMALL, SMALL_SETTINGS

    settings = training_settings(options, SMALL_SETTINGS if options.base == SMALL else None)
    models = segmenters(options.data, options.base, options.only)
    named: dict[str, JSON] = {"data": str(options.data), "base": options.base}
    experiment = Experiment(1, models, options.seeds, named, _arguments(options))
    run_experiment(experiment, settings, options.out, plan=options.plan)
    return 0


def _table2(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.tools.training.experiment import (
        Experiment,
        classifiers,
        run_experiment,
    )

    models = classifiers(options.data, options.base, options.wwm_base, options.cws, options.only)
    named: dict[str, JSON] = {
        name: str(getattr(options, name)) for name in ("data", "base", "wwm_base", "cws")
    }
    experiment = Experiment(2, models, options.seeds, named, _arguments(options))
    run_experiment(experiment, training_settings(options), options.out, plan=options.plan)
    return 0
