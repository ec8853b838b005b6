"""What the backends that load files share: hashes of files, and checks of their parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.models.spec import ModelSpec

_hashes: dict[tuple[str, int, int], str] = {}


def file_sha256(file: Path) -> str:
    """sha256 of a file, remembered in this process as long as its size and date stay."""
    stat = file.stat()
    key = (str(file), stat.st_size, stat.st_mtime_ns)
    if key not in _hashes:
        with file.open("rb") as stream:
            _hashes[key] = hashlib.file_digest(stream, "sha256").hexdigest()
    return _hashes[key]


def files_sha256(files: Iterable[Path]) -> str:
    """One sha256 over the names and contents of several files, whatever their order."""
    lines = sorted(f"{file.name} {file_sha256(file)}" for file in files)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def whole_number(spec: ModelSpec, key: str, default: int, *, least: int) -> int:
    """A parameter that is a whole number of at least ``least``.

    :raises UsageError: when it is something else.
    """
    value = spec.number(key)
    if value is None:
        return default
    if value != value or value in (float("inf"), -float("inf")) or value != int(value) or value < least:
        raise UsageError(
            f"--model {spec.text}: {key} must be a whole number of at least {least}, is {spec.params[key]}"
        )
    return int(value)
