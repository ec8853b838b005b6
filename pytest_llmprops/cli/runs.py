"""Commands on recorded runs: ``runs``, ``compare`` and ``gate``."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from pytest_llmprops.cli.kit import (
    BASELINE,
    RUN,
    Groups,
    add_group,
    recorded,
    show_notes,
    wrote,
)
from pytest_llmprops.core.errors import BackendError, LLMPropsError, UsageError
from pytest_llmprops.records.files import json_schema, plain
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.reports.tables import terminal_width


def add_compare(groups: Groups) -> None:
    """Add ``compare``."""
    about = "compare recorded runs and list the items that flipped"
    command = groups.add_parser("compare", help=about, description=about)
    command.add_argument("runs", nargs="+", metavar="RUN", help=RUN)
    command.add_argument("--baseline", metavar="RUN", help=BASELINE)
    command.add_argument(
        "--all-pairs",
        action="store_true",
        help="compare every pair of runs, not only the baseline with each other run",
    )
    command.add_argument("--full", action="store_true", help="print whole replies, not only one line of each")
    command.add_argument(
        "--limit",
        type=int,
        default=20,
        metavar="N",
        help="number of flipped items to show per direction (default: 20)",
    )
    command.add_argument("--markdown", type=Path, metavar="FILE", help="also write Markdown to FILE")
    command.add_argument("--json", action="store_true", help="print everything as JSON, including every item")
    command.set_defaults(command=_compare)


def _compare(options: argparse.Namespace) -> int:
    from pytest_llmprops.reports.compare import markdown, terminal_lines, to_json
    from pytest_llmprops.runs.compare import compare, with_baseline_first
    from pytest_llmprops.runs.export import write_whole

    if options.limit < 0:
        raise UsageError(f"--limit {options.limit}: must not be negative")
    baseline = None if options.baseline is None else recorded(options.baseline)
    runs = with_baseline_first(list(map(recorded, options.runs)), baseline)
    comparison = compare(runs, all_pairs=options.all_pairs)
    if options.markdown is not None:
        text = markdown(comparison, limit=options.limit, full=options.full)
        write_whole(options.markdown, lambda new: new.write_text(text, encoding="utf-8", errors="replace"))
    if options.json:
        # ASCII only: escaped replies cannot control the terminal.
        print(json.dumps(to_json(comparison), indent=1))
    else:
        lines = terminal_lines(comparison, terminal_width(), limit=options.limit, full=options.full)
        print("\n".join(lines))
    return 0


def add_gate(groups: Groups) -> None:
    """Add ``gate``."""
    about = "apply a gate to a recorded run; exit code 0: pass, 1: fail, 6: inconclusive, 7: invalid"
    gate = groups.add_parser("gate", help=about, description=about)
    gate.add_argument("run", nargs="?", metavar="RUN", help="run folder, run id or name of a promoted run")
    which = gate.add_mutually_exclusive_group(required=True)
    which.add_argument("--gate", type=Path, metavar="FILE", help="gate file")
    which.add_argument(
        "--plan",
        type=Path,
        metavar="FILE",
        help="gate file of a run to come: print how often it passes an unchanged model, and worse ones",
    )
    gate.add_argument(
        "--baseline", metavar="RUN", help="baseline: a run folder, a run id or the name of a promoted run"
    )
    gate.add_argument("--details", action="store_true", help="also print the tests and their p-values")
    gate.add_argument("--json", action="store_true", help="print the decision as JSON")
    gate.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE",
        help="append the decision, and each task's accuracy before and after, as Markdown to FILE, for example"
        " $GITHUB_STEP_SUMMARY",
    )
    gate.add_argument(
        "--churn",
        type=float,
        default=0.03,
        metavar="SHARE",
        help="with --plan and a baseline without repeats: share of the items that an unchanged model loses between two"
        " runs, and gains (default: 0.03)",
    )
    gate.set_defaults(command=_gate)


def _plan(options: argparse.Namespace) -> int:
    from pytest_llmprops.reports.gate import forecast_lines
    from pytest_llmprops.runs.gate.decide import impossible_rules
    from pytest_llmprops.runs.gate.file import on_headline_tasks, read_gate
    from pytest_llmprops.runs.gate.forecast import builtin_items, forecast

    if options.run is not None:
        raise UsageError("llmprops gate --plan takes no RUN; name the baseline with --baseline RUN")
    if not 0 <= options.churn <= 0.4:
        raise UsageError(f"--churn {options.churn:g}: must be from 0 to 0.4")
    gate = read_gate(options.plan)
    if options.baseline is None:
        items = builtin_items(gate)
        counts = Counter(item.benchmark for item in items)
        facts = RunMetadata("", selection={name: {"items": n, "of": n} for name, n in counts.items()})
    else:
        baseline = recorded(options.baseline)
        facts, items = baseline.facts, list(baseline.records)
    gate.check_matches(items)
    plan = forecast(gate, items, facts, churn=options.churn)
    impossible = impossible_rules(on_headline_tasks(gate, items, facts), items, facts)
    print("\n".join(forecast_lines(gate, plan, facts, impossible, terminal_width())))
    return 0


def _gate(options: argparse.Namespace) -> int:
    if options.plan is not None:
        return _plan(options)
    if options.run is None:
        raise UsageError("llmprops gate --gate FILE needs the RUN to decide on")
    from pytest_llmprops.records.gate import exit_code
    from pytest_llmprops.reports.compare import changes_markdown
    from pytest_llmprops.reports.gate import gate_lines, gate_markdown
    from pytest_llmprops.runs.compare import compare
    from pytest_llmprops.runs.gate.decide import decide, with_computed_metrics
    from pytest_llmprops.runs.gate.file import NEEDS_BASELINE, read_gate

    gate = read_gate(options.gate)
    run = with_computed_metrics(gate, recorded(options.run))
    baseline = recorded(options.baseline) if options.baseline else None
    if baseline is None and gate.needs_baseline:
        raise UsageError(f"{options.gate}: {NEEDS_BASELINE} --baseline RUN")
    result = decide(gate, run.facts, run.records, baseline, problems=run.problems)
    if options.markdown is not None:
        changes = () if baseline is None else changes_markdown(compare([baseline, run]))
        text = gate_markdown(result, changes=changes)
        with open(options.markdown, "a", encoding="utf-8") as file:
            file.write(text)
    if options.json:
        # An escape of the console would not be JSON. A text in memory has no encoding.
        is_unicode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
        print(json.dumps(plain(result), ensure_ascii=not is_unicode, indent=1))
    else:
        notes = [f"note: {note}" for r in (run, baseline) if r is not None for note in r.notes]
        print("\n".join([*gate_lines(result, terminal_width(), details=options.details), *notes]))
    return exit_code(result)


def add_runs(groups: Groups) -> None:
    """Add ``list``, ``show``, ``export``, ``merge``, ``import`` and ``promote``."""
    commands = add_group(groups, "runs", "list, show, export, merge, promote and import recorded runs")
    listing = commands.add_parser("list", help="list the runs under reports/runs and baselines, newest first")
    listing.set_defaults(command=_list)

    show = commands.add_parser("show", help="show the facts and the summary of one run")
    show.add_argument("run", metavar="RUN", help=RUN)
    show.add_argument(
        "--json", action="store_true", help="print run.json, with the summary recomputed from the verdicts"
    )
    show.set_defaults(command=_show)

    export = commands.add_parser("export", help="export runs as one table, in Parquet or CSV")
    export.add_argument("runs", nargs="*", metavar="RUN", help=RUN)
    export.add_argument("--schema", action="store_true", help="print the JSON Schema of a run record")
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

    merge = commands.add_parser("merge", help="merge the shards of a run (--llm-shard) into one run")
    merge.add_argument("runs", nargs="+", metavar="RUN", help=RUN)
    merge.add_argument("--out", type=Path, required=True, metavar="DIR", help="new folder of the merged run")
    merge.set_defaults(command=_merge)

    promote = commands.add_parser(
        "promote", help="copy a run to baselines/NAME, to use it with --llm-baseline NAME"
    )
    promote.add_argument("run", metavar="RUN", help=RUN)
    promote.add_argument("name", metavar="NAME", help="name of the baseline")
    promote.add_argument("--replace", action="store_true", help="replace the baseline of this name")
    promote.add_argument("--without-replies", action="store_true", help="leave out prompts and replies")
    promote.add_argument("--allow-incomplete", action="store_true", help="accept an incomplete run")
    promote.set_defaults(command=_promote)

    about = "import results of another tool as a run that gate, compare, report and site judge like any other"
    results = commands.add_parser("import", help=about, description=about)
    formats = "JSON Lines or CSV with id and score; results of inspect_ai, lm-evaluation-harness or promptfoo"
    results.add_argument("file", type=Path, metavar="FILE", help=formats)
    results.add_argument("--model", required=True, metavar="NAME", help="name of the model in tables")
    for option, about in (
        ("--benchmark", "name of the benchmark (default: the task in the file, or the name of the file)"),
        ("--score", "column, scorer or METRIC,FILTER to read, if FILE has several"),
    ):
        results.add_argument(option, default="", metavar="NAME", help=about)
    lowest = "lowest correct score, if there are others than 0 and 1"
    results.add_argument("--threshold", type=float, metavar="X", help=lowest)
    folder = "folder of the run (default: reports/runs/imported-BENCHMARK-MODEL)"
    results.add_argument("--out", type=Path, metavar="DIR", help=folder)
    results.set_defaults(command=_import)


def _list(options: argparse.Namespace) -> int:
    from pytest_llmprops.reports.terminal import list_lines
    from pytest_llmprops.runs.catalog import BASELINES, list_runs
    from pytest_llmprops.runs.record import DEFAULT_ROOT

    runs = list_runs()
    if not runs:
        print(f"no runs under {DEFAULT_ROOT} or {BASELINES}", file=sys.stderr)
        return 0
    print("\n".join(list_lines(runs, terminal_width())))
    return 0


def _show(options: argparse.Namespace) -> int:
    from pytest_llmprops.reports.terminal import show_lines

    run = recorded(options.run)
    if options.json:
        # ASCII only: escaped texts of a model cannot control the terminal.
        print(json.dumps(plain(run.facts), indent=1))
        show_notes(run.notes)
    else:
        print("\n".join(show_lines(run, terminal_width())))
    return 0


def _export(options: argparse.Namespace) -> int:
    if options.schema:
        print(json.dumps(json_schema(), indent=1))
        return 0
    if not options.runs:
        raise LLMPropsError("give the runs to export: llmprops runs export RUN --csv FILE")
    if options.parquet is None and options.csv is None:
        raise LLMPropsError("give the file to write with --parquet FILE or --csv FILE")
    from pytest_llmprops.runs.export import tables, write_csv, write_parquet

    runs = list(map(recorded, options.runs))
    for run in runs:
        show_notes(run.notes, f"{run.run_id}: ")
    if options.parquet is not None:
        write_parquet(tables(runs, options.table), options.parquet)
    if options.csv is not None:
        write_csv(tables(runs, options.table), options.csv)
    return wrote(path for path in (options.parquet, options.csv) if path is not None)


def _merge(options: argparse.Namespace) -> int:
    from pytest_llmprops.runs.merge import merge

    folder, notes = merge(list(map(recorded, options.runs)), options.out)
    show_notes(notes)
    return wrote([folder])


def _import(options: argparse.Namespace) -> int:
    from pytest_llmprops.data.files import builtin_data
    from pytest_llmprops.models.secrets import Secrets
    from pytest_llmprops.runs.import_results import import_results

    secrets = Secrets.of_run({}, ())
    packaged = builtin_data() / options.file
    run = import_results(
        packaged if packaged.is_file() and not options.file.exists() else options.file,
        options.model,
        benchmark=options.benchmark,
        score=options.score,
        threshold=options.threshold,
        out=options.out,
        clean=lambda text: secrets.error(BackendError(text)).message,
    )
    return wrote([run])


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
