"""``llmprops completion``: completion of commands and options in a shell."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from functools import partial

from pytest_llmprops.cli.kit import Groups
from pytest_llmprops.core.errors import MissingExtra


def add(groups: Groups, top: argparse.ArgumentParser) -> None:
    """Add ``completion``, for all commands of ``top``."""
    completion = groups.add_parser(
        "completion",
        help="print a script that completes commands and options in a shell",
        description="Print the script. For bash: llmprops completion bash >"
        " ~/.local/share/bash-completion/completions/llmprops",
    )
    completion.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    completion.set_defaults(command=partial(_completion, top))


def _completion(top: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if importlib.util.find_spec("shtab") is None:
        raise MissingExtra("llmprops completion", package="shtab", extra="completion")
    print(importlib.import_module("shtab").complete(top, shell=options.shell))
    return 0
