"""``llmprops lab capitals``: list the items of the data file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add ``capitals list``."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="list countries with their capital and largest city")
    listing.add_argument("--different", action="store_true", help="only countries where the two differ")
    listing.set_defaults(command=_list)


def _list(options: argparse.Namespace) -> int:
    file = Path(__file__).parent / "cities.jsonl"
    for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
        if not options.different or row["capital"] != row["largest"]:
            print(f"{row['country']}\t{row['capital']}\t{row['largest']}")
    return 0
