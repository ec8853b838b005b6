"""``llmprops site``: one static folder on all runs of a team."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_llmprops.cli.kit import Groups, wrote


def add(groups: Groups) -> None:
    """Add ``site``."""
    site = groups.add_parser(
        "site",
        help="write a static site on all runs of a team",
        description="Write a static site on all runs in some folders: leaderboard, trends, the history of each item,"
        " drift and gate decisions. A second call only adds what changed.",
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
