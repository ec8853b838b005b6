"""Helpers for backends that load files: hashes of files and checks of parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.models.spec import ModelSpec

_hashes: dict[tuple[str, int, int], str] = {}


def file_sha256(file: Path) -> str:
    """Return the sha256 of a file. The process caches it as long as the file's size and date stay the same."""
    stat = file.stat()
    key = (str(file), stat.st_size, stat.st_mtime_ns)
    if key not in _hashes:
        with file.open("rb") as stream:
            _hashes[key] = hashlib.file_digest(stream, "sha256").hexdigest()
    return _hashes[key]


def files_sha256(files: Iterable[Path]) -> str:
    """Return one sha256 over the names and contents of several files, independent of their order."""
    lines = sorted(f"{file.name} {file_sha256(file)}" for file in files)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def whole_number(spec: ModelSpec, key: str, default: int, *, minimum: int) -> int:
    """Return a parameter as a whole number, or ``default`` if it is absent.

    :raises UsageError: if the value is not a whole number of at least ``minimum``.
    """
    value = spec.number(key)
    if value is None:
        return default
    if not value.is_integer() or value < minimum:
        raise UsageError(
            f"--model {spec.text}: {key} must be a whole number of at least {minimum}, not {spec.params[key]}"
        )
    return int(value)
