"""The manifest of published data: the repository, commit, path and hash of each file.

The manifest has facts about public files but none of their content. Its ``file`` column is the layout of the folder
for ``--llm-data``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path, PurePosixPath

from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.strict_json import short
from pytest_llmprops.data.files import DataFolder
from pytest_llmprops.data.location import builtin_data
from pytest_llmprops.data.manifest_entry import ManifestEntry

COLUMNS = ("file", "repository", "commit", "upstream_path", "bytes", "sha256", "licence")

_SHAPES = {
    "repository": (re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/(?!\.{1,2}$)[A-Za-z0-9_.-]+"), "owner/name"),
    "commit": (re.compile(r"[0-9a-f]{40}"), "40 hexadecimal digits"),
    "sha256": (re.compile(r"[0-9a-f]{64}"), "64 hexadecimal digits"),
    "bytes": (re.compile(r"[0-9]{1,15}"), "a whole number of at most 15 digits"),
}


def read_manifest(path: Path | None = None) -> tuple[ManifestEntry, ...]:
    """Read a manifest, by default the packaged one.

    :raises DataError: with file and row, for missing columns, a malformed value, a path outside the folder, or a file
        that is listed twice.
    """
    return _read(path if path is not None else builtin_data() / "manifest.tsv")


@lru_cache(maxsize=8)
def _read(path: Path) -> tuple[ManifestEntry, ...]:
    rows = DataFolder(path.parent, "builtin").tsv_literal(path.name, required=COLUMNS)
    entries = tuple(_entry(row, f"{path}, row {number}") for number, row in enumerate(rows, start=2))
    seen: set[str] = set()
    for entry in entries:
        if entry.file in seen:
            raise DataError(f"{path}: {entry.file} is listed twice; keep one row per file")
        seen.add(entry.file)
    return entries


def _entry(row: dict[str, str], where: str) -> ManifestEntry:
    for column, (shape, words) in _SHAPES.items():
        if not shape.fullmatch(row[column]):
            raise DataError(f"{where}: {column} {short(row[column])} is not {words}")
    for column in ("file", "upstream_path"):
        # pull writes to `file`, so a manifest must not name a path outside the folder.
        if not is_inside(row[column]):
            raise DataError(f"{where}: {column} {row[column]!r} is not a relative path inside its folder")
    return ManifestEntry(
        file=row["file"],
        repository=row["repository"],
        commit=row["commit"],
        upstream_path=row["upstream_path"],
        bytes=int(row["bytes"]),
        sha256=row["sha256"],
        licence=row["licence"],
    )


def is_inside(path: str) -> bool:
    """Return whether a ``/``-separated path is relative and stays in its folder on every operating system."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or "\\" in path or ":" in parts[0]:
        return False
    return ".." not in parts and str(PurePosixPath(path)) == path
