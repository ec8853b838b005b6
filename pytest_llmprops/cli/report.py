"""``llmprops report``: a report on recorded runs, as HTML, Markdown and figures."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_llmprops.cli.kit import BASELINE, RUN, Groups, wrote


def add(groups: Groups) -> None:
    """Add ``report``."""
    report = groups.add_parser(
        "report",
        help="write report.html (self-contained), report.md and figures",
        description="Write report.html, report.md, figures/*.svg and figures/*.png for one or more runs.",
    )
    report.add_argument("runs", nargs="+", metavar="RUN", help=RUN)
    report.add_argument("--baseline", metavar="RUN", help=BASELINE)
    report.add_argument(
        "--gate",
        type=Path,
        metavar="FILE",
        help="gate file: decide on each run as llmprops gate does, and show it",
    )
    report.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="new folder, or folder of an earlier report"
    )
    report.add_argument(
        "--pdf",
        action="store_true",
        help="also print decision.pdf, a decision sheet of one page, with Chromium or Chrome",
    )
    report.set_defaults(command=_report)


def _report(options: argparse.Namespace) -> int:
    from pytest_llmprops.reports.page.build import write_report
    from pytest_llmprops.runs.catalog import find_run

    baseline = None if options.baseline is None else find_run(options.baseline)
    folders = [find_run(run) for run in options.runs]
    return wrote(write_report(folders, options.out, baseline, options.gate, pdf=options.pdf))
