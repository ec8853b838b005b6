"""What people read about runs: ``readings``, ``report``, ``view`` and ``site``."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_llmprops.cli.kit import BASELINE, RUN, Groups, recorded, wrote
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.reports import PAGES, SERVER, check_packages
from pytest_llmprops.reports.tables import terminal_width


def add_readings(groups: Groups) -> None:
    """Add ``readings``."""
    readings = groups.add_parser(
        "readings",
        help="show how the replies of a run were read, and a sample to check",
        description="Show for each suite which rules read the replies, why replies could not be read, and a sample."
        " Mark the sample in llmprops view RUN: then this command also prints the corrected accuracy.",
    )
    readings.add_argument("run", metavar="RUN", help=RUN)
    readings.add_argument(
        "--sample",
        type=int,
        default=40,
        metavar="N",
        help="number of replies to show per suite and model (default: 40; 0: only the counts)",
    )
    readings.set_defaults(command=_readings)


def _readings(options: argparse.Namespace) -> int:
    from pytest_llmprops.reports.readings import reading_lines
    from pytest_llmprops.runs.readings import read_reviews
    from pytest_llmprops.runs.replies import read_requests

    if options.sample < 0:
        raise UsageError(f"--sample {options.sample}: must not be negative")
    run = recorded(options.run)
    reviews = read_reviews(run.folder, run.run_id)
    lines = reading_lines(run, read_requests(run.folder), reviews, options.sample, terminal_width())
    print("\n".join(lines))
    return 0


def add_report(groups: Groups) -> None:
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
    folders = list(map(find_run, options.runs))
    return wrote(write_report(folders, options.out, baseline, options.gate, pdf=options.pdf))


def add_site(groups: Groups) -> None:
    """Add ``site``."""
    site = groups.add_parser(
        "site",
        help="write a static site on all runs of a team",
        description="Write a static site on all runs in some folders: what changed, leaderboard, accuracy over time,"
        " gate decisions and reports. A second call only adds what changed.",
    )
    site.add_argument(
        "places", nargs="+", type=Path, metavar="DIR", help="folder with run records, at any depth"
    )
    site.add_argument(
        "--out", type=Path, required=True, metavar="SITE", help="new folder, or folder of an earlier site"
    )
    site.add_argument(
        "--reports",
        choices=("latest", "all", "none"),
        default="latest",
        help="runs whose own report, with prompts and replies, is included: those that the leaderboard shows"
        " (default), all, or none",
    )
    site.set_defaults(command=_site)


def _site(options: argparse.Namespace) -> int:
    from pytest_llmprops.reports.site.build import write_site

    return wrote([write_site(options.places, options.out, options.reports)])


def add_view(groups: Groups) -> None:
    """Add ``view``."""
    view = groups.add_parser(
        "view",
        help="open the site's page on this machine, with the progress of running runs",
        description="Serve the page of llmprops site on 127.0.0.1 until Ctrl-C. It follows runs live, and has reports"
        " and review marks.",
    )
    view.add_argument(
        "run",
        nargs="?",
        metavar="RUN|DIR",
        help="run whose report is opened, or folder with runs (default: reports/runs and baselines)",
    )
    view.add_argument("--port", type=int, default=0, metavar="N", help="port (default: a free one)")
    view.add_argument("--no-browser", action="store_true", help="print the address, but open no browser")
    view.set_defaults(command=_view)


def _view(options: argparse.Namespace) -> int:
    check_packages("llmprops view", (*SERVER, *PAGES))
    from pytest_llmprops.reports.site.app import Shown, serve
    from pytest_llmprops.runs.catalog import BASELINES, find_run
    from pytest_llmprops.runs.record import DEFAULT_ROOT

    usual = (DEFAULT_ROOT, BASELINES)
    folder = Path(options.run or "").expanduser()
    if options.run is None:
        shown = Shown(usual)
    elif folder.is_dir() and not (folder / "run.json").exists():
        shown = Shown((folder,))
    elif folder.parent != Path() and not folder.exists():
        raise UsageError(f"{folder}: there is no such folder; give a run, or a folder with runs")
    else:
        run = find_run(options.run)
        siblings = run.absolute().parent
        is_usual = siblings in [place.absolute() for place in usual]
        shown = Shown(usual if is_usual else (siblings,), run)
    serve(shown, options.port, lambda line: print(line, flush=True), opens_browser=not options.no_browser)
    return 0
