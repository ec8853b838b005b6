"""``llmprops compare``: recorded runs in one table, and the items on which they differ."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pytest_llmprops.cli.kit import BASELINE, RUN, Groups
from pytest_llmprops.core.errors import UsageError

ABOUT = "compare recorded runs and list the items that flipped"


def add(groups: Groups) -> None:
    """Add ``compare``."""
    command = groups.add_parser("compare", help=ABOUT, description=ABOUT)
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
    from pytest_llmprops.reports.tables import terminal_width
    from pytest_llmprops.runs.catalog import find_run
    from pytest_llmprops.runs.compare import compare, with_baseline_first
    from pytest_llmprops.runs.export import write_whole
    from pytest_llmprops.runs.reader import read_run

    if options.limit < 0:
        raise UsageError(f"--limit {options.limit}: must not be negative")
    baseline = None if options.baseline is None else read_run(find_run(options.baseline))
    runs = with_baseline_first([read_run(find_run(text)) for text in options.runs], baseline)
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
