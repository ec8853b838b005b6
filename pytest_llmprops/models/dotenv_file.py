"""Environment variables from a ``.env`` file."""

from __future__ import annotations

import os
from pathlib import Path


def read_dotenv() -> str:
    """Set the variables of the first ``.env`` in this folder and those above it, and return one line about it.

    A variable that is set keeps its value. The line names the variables, never their values; it is empty if none was
    set.
    """
    folders = (Path.cwd(), *Path.cwd().parents)
    path = next((folder / ".env" for folder in folders if (folder / ".env").is_file()), None)
    # Importing the package takes longer than looking for the file.
    if path is None:
        return ""
    from dotenv import load_dotenv

    before = set(os.environ)
    load_dotenv(path)
    added = sorted(set(os.environ) - before)
    return f"{', '.join(added)} from {os.path.relpath(path)}" if added else ""
