"""``llmprops view``: a local page that follows runs, lists them, and opens and compares their reports."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_llmprops.cli.kit import Groups
from pytest_llmprops.core.errors import MissingExtra, UsageError
from pytest_llmprops.reports.view import missing_package


def add(groups: Groups) -> None:
    """Add ``view``."""
    view = groups.add_parser(
        "view",
        help="open a local page that follows runs, and opens and compares their reports",
        description="Serve a page on 127.0.0.1 until Ctrl-C: runs as they go, reports, comparisons, review marks.",
    )
    view.add_argument(
        "run",
        nargs="?",
        metavar="RUN|DIR",
        help="run to open, or folder with runs (default: reports/runs and baselines)",
    )
    view.add_argument("--port", type=int, default=0, metavar="N", help="port (default: a free one)")
    view.add_argument("--no-browser", action="store_true", help="print the address, but open no browser")
    view.set_defaults(command=_view)


def _view(options: argparse.Namespace) -> int:
    if package := missing_package():
        raise MissingExtra("llmprops view", package=package, extra="view")
    from pytest_llmprops.reports.view.serving import Shown, serve
    from pytest_llmprops.runs.catalog import BASELINES, find_run
    from pytest_llmprops.runs.record import DEFAULT_ROOT

    usual = (DEFAULT_ROOT, BASELINES)
    shown = Shown(usual)
    if options.run is not None:
        folder = Path(options.run).expanduser()
        if folder.is_dir() and not (folder / "run.json").exists():
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
