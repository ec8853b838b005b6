"""``llmprops runs``: list, show, export, merge, promote and import recorded runs."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from pytest_llmprops.benchmark_registry import registrations
from pytest_llmprops.cli.kit import RUN, Groups, add_group, add_registered, wrote
from pytest_llmprops.core.errors import LLMPropsError


def add(groups: Groups) -> None:
    """Add ``list``, ``show``, ``export``, ``merge``, ``promote`` and the ``import-NAME`` of each benchmark with one."""
    commands = add_group(groups, "runs", "list, show, export, merge, promote and import recorded runs")
    listing = commands.add_parser("list", help="list the runs under reports/runs and baselines, newest first")
    listing.set_defaults(command=_list)
    _add_show(commands)
    _add_export(commands)
    _add_merge(commands)
    _add_promote(commands)
    for registration in registrations():
        if registration.run_import is not None:
            add_registered(commands, f"import-{registration.name}", registration.run_import)


def _add_show(commands: Groups) -> None:
    show = commands.add_parser("show", help="show the facts and the summary of one run")
    show.add_argument("run", metavar="RUN", help=RUN)
    show.add_argument(
        "--json", action="store_true", help="print run.json, with the summary recomputed from the verdicts"
    )
    show.set_defaults(command=_show)


def _add_export(commands: Groups) -> None:
    export = commands.add_parser("export", help="export runs as one table, in Parquet or CSV")
    export.add_argument("runs", nargs="+", metavar="RUN", help=RUN)
    export.add_argument("--parquet", type=Path, metavar="FILE", help="write Parquet; - is standard output")
    export.add_argument("--csv", type=Path, metavar="FILE", help="write CSV; - is standard output")
    export.add_argument(
        "--table",
        # The table names of runs/export.py; importing it here would slow down --help.
        choices=("verdicts", "summary", "metrics", "requests", "searches"),
        default="verdicts",
        help="content of the table (default: verdicts)",
    )
    export.set_defaults(command=_export)


def _add_merge(commands: Groups) -> None:
    merge = commands.add_parser("merge", help="merge the shards of a run (--llm-shard) into one run")
    merge.add_argument("runs", nargs="+", metavar="RUN", help=RUN)
    merge.add_argument("--out", type=Path, required=True, metavar="DIR", help="new folder of the merged run")
    merge.set_defaults(command=_merge)


def _add_promote(commands: Groups) -> None:
    promote = commands.add_parser(
        "promote", help="copy a run to baselines/NAME, to use it with --llm-baseline NAME"
    )
    promote.add_argument("run", metavar="RUN", help=RUN)
    promote.add_argument("name", metavar="NAME", help="name of the baseline")
    promote.add_argument("--replace", action="store_true", help="replace the baseline of this name")
    promote.add_argument("--without-replies", action="store_true", help="leave out prompts and replies")
    promote.add_argument("--allow-incomplete", action="store_true", help="accept an incomplete run")
    promote.set_defaults(command=_promote)


def _list(options: argparse.Namespace) -> int:
    from pytest_llmprops.reports.runs_table import list_lines
    from pytest_llmprops.reports.tables import terminal_width
    from pytest_llmprops.runs.catalog import BASELINES, list_runs
    from pytest_llmprops.runs.record import DEFAULT_ROOT

    runs = list_runs()
    if not runs:
        print(f"no runs under {DEFAULT_ROOT} or {BASELINES}", file=sys.stderr)
        return 0
    print("\n".join(list_lines(runs, terminal_width())))
    return 0


def _show(options: argparse.Namespace) -> int:
    from pytest_llmprops.reports.runs_table import show_lines
    from pytest_llmprops.reports.tables import terminal_width
    from pytest_llmprops.runs.catalog import find_run
    from pytest_llmprops.runs.reader import read_run

    run = read_run(find_run(options.run))
    if options.json:
        # ASCII only: escaped texts of a model cannot control the terminal.
        print(json.dumps(run.facts.to_json(), indent=1))
        for note in run.notes:
            print(f"llmprops: note: {note}", file=sys.stderr)
        return 0
    print("\n".join(show_lines(run, terminal_width())))
    return 0


def _export(options: argparse.Namespace) -> int:
    if options.parquet is None and options.csv is None:
        raise LLMPropsError("give the file to write with --parquet FILE or --csv FILE")
    from pytest_llmprops.runs.catalog import find_run
    from pytest_llmprops.runs.export import tables, write_csv, write_parquet
    from pytest_llmprops.runs.reader import read_run

    runs = [read_run(find_run(text)) for text in options.runs]
    for run in runs:
        for note in run.notes:
            print(f"llmprops: note: {run.run_id}: {note}", file=sys.stderr)
    if options.parquet is not None:
        write_parquet(tables(runs, options.table), options.parquet)
    if options.csv is not None:
        write_csv(tables(runs, options.table), options.csv)
    return wrote(path for path in (options.parquet, options.csv) if path is not None)


def _merge(options: argparse.Namespace) -> int:
    from pytest_llmprops.runs.catalog import find_run
    from pytest_llmprops.runs.merge import merge
    from pytest_llmprops.runs.reader import read_run

    merged = merge([read_run(find_run(text)) for text in options.runs], options.out)
    for note in merged.notes:
        print(f"llmprops: note: {note}", file=sys.stderr)
    return wrote([merged.folder])


def _promote(options: argparse.Namespace) -> int:
    from pytest_llmprops.runs.catalog import find_run, promote

    target = promote(
        find_run(options.run),
        options.name,
        replace=options.replace,
        replies=not options.without_replies,
        allow_incomplete=options.allow_incomplete,
    )
    return wrote([target])
