"""``llmprops lab htest``: generated items, the study with people, fine-tuning."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_llmprops.cli.kit import (
    Groups,
    add_annotation,
    add_seed_and_number,
    add_settings,
    print_table,
    recorded,
    settings_in,
    subcommands,
    wrote,
)
from pytest_llmprops.core.errors import LLMPropsError
from pytest_llmprops.data.whole_files import replacing

if TYPE_CHECKING:
    from pytest_llmprops.reports.kit.blocks import Table


def _add_generate(commands: Groups) -> None:
    command = commands.add_parser(
        "generate", help="generate items (use them with --llm-data DIR), or with --chat fine-tuning files"
    )
    add_seed_and_number(command, number=200)
    add = command.add_argument
    add("--task", action="append", metavar="TASK", help="generate only this task; repeatable")
    data_help = (
        "also exclude the items of this folder (published or generated), as built-in items are; repeatable"
    )
    add("--data", type=Path, action="append", default=[], metavar="DIR", help=data_help)
    chat_help = "write one file per task in the chat format of fine-tuning APIs, without Letter Geometry"
    add("--chat", action="store_true", help=chat_help)
    command.set_defaults(command=_generate)


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add ``generate``, ``annotate`` and ``train``."""
    commands = subcommands(parser)
    _add_generate(commands)
    _add_people(commands)
    _add_train(commands)


def _add_people(commands: Groups) -> None:
    annotate = add_annotation(
        commands,
        about="write the examples for people who look for the rule of each task (table 7); with --score, count the"
        " rules that they identified",
        description="Write for each annotator a page to print (annotator_1.txt ...) and a sheet (annotator_1.csv ...),"
        " and key.json, which has the rules. In at most three minutes per list, an annotator says what tells group A"
        " from group B; write this into the column rule. Somebody who knows the key then writes yes or no into the"
        " column correct.",
    )
    k_help = "number of examples per task, one for each annotator (default: 4 14 28 50, as in the paper)"
    annotate.add_argument("--k", type=int, nargs="+", default=[4, 14, 28, 50], metavar="N", help=k_help)
    data_help = "folder with htest/*_dev.jsonl, such as the published data (default: the built-in examples)"
    annotate.add_argument("--data", type=Path, metavar="DIR", help=data_help)
    annotate.set_defaults(command=_annotate)


def _annotate(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.htest.tools.annotation import (
        examples_in,
        read_sheets,
        result_rows,
        write_sheets,
    )

    if not options.score:
        examples = examples_in(options.data)
        return wrote(write_sheets(options.folder, examples, seed=options.seed, ks=options.k))
    people = read_sheets(options.folder)
    print_table(result_rows(people))
    for person in people:
        missed = ", ".join(task for task, is_identified in person.rules.items() if not is_identified)
        if missed:
            print(f"{person.name}: not identified: {missed}")
    return 0


def _add_train(commands: Groups) -> None:
    from pytest_llmprops.benchmarks.htest.tools.training import DEFAULTS

    command = commands.add_parser(
        "train",
        help="fine-tune a local model on each task, and measure all tasks before and after (table 8, figure 6)",
        description="Measure the model, train an adapter (LoRA) on new items of each task, measure each adapter, and"
        " write table.csv and the figure next to the paper's figures. Each adapter is a model folder: measure"
        " it with --model hf:DIR. Repeat the command to continue after a stop. For a model behind an API, see"
        " generate --chat.",
    )
    add = command.add_argument
    add("--model", required=True, metavar="SPEC", help="hf:FOLDER_OR_REPO of a chat or base model")
    task_help = "train on this task only; repeatable (default: all ten)"
    add("--task", action="append", metavar="TASK", help=task_help)
    add("--items", type=int, default=1000, metavar="N", help="training items per task (default: 1000)")
    seeds_help = "trainings on each task, from the setting seed on; each has its own items (default: 1)"
    add("--seeds", type=int, default=1, metavar="N", help=seeds_help)
    add("--rank", type=int, default=16, metavar="N", help="rank of the adapter's matrices (default: 16)")
    data_help = (
        "measure the published items of this folder, and train on none of them (default: the built-in items)"
    )
    add("--data", type=Path, metavar="DIR", help=data_help)
    add("--limit", type=int, metavar="N", help="measure N items per task (default: all)")
    k_help = "number of examples in the prompts that measure (default: 50)"
    add("--k", type=int, choices=(4, 14, 28, 50), default=50, help=k_help)
    add("--out", type=Path, required=True, metavar="DIR", help="folder to write into")
    add_settings(command, DEFAULTS)
    command.set_defaults(command=_train)


def _train(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.htest.tools.training import DEFAULTS, FineTuning, run_experiment

    experiment = FineTuning(
        options.model,
        options.task or (),
        options.seeds,
        options.items,
        options.rank,
        exclude=_excluded([options.data] if options.data else []),
        data=str(options.data.resolve()) if options.data else "",
        limit=options.limit,
        k=options.k,
    )
    settings = settings_in(options, DEFAULTS).checked()

    runs = run_experiment(experiment, settings, options.out)
    table = _write_tables(runs, options.out)
    heads = tuple(name for name, _ in table.columns)
    print_table([heads, *(tuple(cell.text for cell in row) for row in table.rows)])
    print(table.note)
    return 0


def _write_tables(runs: Sequence[Path], out: Path) -> Table:
    """Write Table 8 and Figure 6 from the runs, and return the table. Accuracies in ``table.csv`` are fractions."""
    from pytest_llmprops.benchmarks.htest.report import conditions, training_figure, training_table
    from pytest_llmprops.reports.kit.figures import draw
    from pytest_llmprops.reports.kit.series import Measured, series_of
    from pytest_llmprops.reports.page.build import figure_files, write_file

    rows = conditions(Measured("htest", series_of([recorded(str(run)) for run in runs])))
    table, figure = training_table(rows), training_figure(rows)
    with replacing(out / "table.csv") as draft, draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([name for name, _ in table.columns])
        writer.writerows([c.text if c.value is None else c.value for c in row] for row in table.rows)
    for path, content in figure_files(out, {figure.name: draw(figure.draw)}).items():
        write_file(path, content)
    return table


def _generate(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.htest.tools.generation import export_train, generate_set

    write = export_train if options.chat else generate_set
    exclude = _excluded(options.data)
    return wrote(write(options.out, seed=options.seed, n=options.n, exclude=exclude, tasks=options.task))


def _excluded(folders: Sequence[Path]) -> set[str]:
    """Return the texts of all H-TEST items in folders of data."""
    from pytest_llmprops.benchmarks.htest.items import text_of
    from pytest_llmprops.data.files import DataFolder

    exclude: set[str] = set()
    for root in folders:
        folder = DataFolder(root, "published")
        paths = [f"htest/{path.name}" for path in sorted(Path(root, "htest").glob("*.jsonl"))]
        if not paths:
            raise LLMPropsError(f"{root}: no items to exclude; --data needs a folder with htest/*.jsonl")
        for path in paths:
            exclude |= {text_of(row, f"{path}: row {n}") for n, row in enumerate(folder.jsonl(path), 1)}
    return exclude
