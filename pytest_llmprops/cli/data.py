"""``llmprops data``: download published data."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_llmprops.cli.kit import Groups, add_group


def add(groups: Groups) -> None:
    """Add ``data pull``."""
    commands = add_group(groups, "data", "download the published data")
    pull = commands.add_parser("pull", help="download the authors' files and check them against the manifest")
    pull.add_argument(
        "files", nargs="*", metavar="FILE", help="file, folder or pattern from the manifest (default: all)"
    )
    pull.add_argument("--dest", type=Path, required=True, metavar="DIR", help="folder to download into")
    pull.add_argument(
        "--base-url", metavar="URL", help="URL template of a mirror, with {repository}, {commit} and {path}"
    )
    pull.set_defaults(command=_pull)


def _pull(options: argparse.Namespace) -> int:
    from pytest_llmprops.data.pull import BASE_URL, pull

    return pull(options.dest, files=options.files or None, base_url=options.base_url or BASE_URL)
