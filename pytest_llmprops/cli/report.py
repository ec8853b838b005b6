"""``llmprops report``: runs as Markdown, one HTML page and figures."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_llmprops.cli.kit import Groups, wrote


def add(groups: Groups) -> None:
    """Add ``report``."""
    report = groups.add_parser(
        "report",
        help="report.md, report.html (one file, nothing else needed) and figures",
        description="Write report.md, report.html and figures/*.svg and *.png on one or several runs.",
    )
    report.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="a run's folder, or its name under reports/runs or baselines; of two, the first is compared with",
    )
    report.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="a new folder, or one with an earlier report"
    )
    report.set_defaults(command=_report)


def _report(options: argparse.Namespace) -> int:
    from pytest_llmprops.reports.page.build import write_report
    from pytest_llmprops.runs.catalog import find_run

    return wrote(write_report([find_run(run) for run in options.runs], options.out))
