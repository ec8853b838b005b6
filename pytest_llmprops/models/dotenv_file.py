"""Environment variables from a ``.env`` file, if the package python-dotenv is installed."""

from __future__ import annotations

import importlib.util
import os


def read_dotenv() -> str:
    """Set the variables of the first ``.env`` in this folder and those above it, and return one line about it.

    A variable that is set keeps its value. The line names the variables, never their values; it is empty if none was
    set.
    """
    if importlib.util.find_spec("dotenv") is None:
        return ""
    from dotenv import find_dotenv, load_dotenv

    path = find_dotenv(usecwd=True)
    if not path:
        return ""
    before = set(os.environ)
    load_dotenv(path)
    added = sorted(set(os.environ) - before)
    return f"{', '.join(added)} from {os.path.relpath(path)}" if added else ""
