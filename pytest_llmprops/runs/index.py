"""An index of many runs, kept up to date: only files that changed are read again."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from pytest_llmprops.core.errors import DataError
from pytest_llmprops.runs.catalog import Listed
from pytest_llmprops.runs.integrity import AGAIN, REQUESTS, VERDICTS
from pytest_llmprops.runs.reader import is_being_written, read_facts, state_of
from pytest_llmprops.runs.searches import FILE as SEARCHES

RUN_JSON = "run.json"
#: the files of a record that reports read
FILES = (RUN_JSON, VERDICTS, REQUESTS, SEARCHES)


class FileIdentity(NamedTuple):
    """What distinguishes a file from any later one of the same name, without reading it."""

    device: int
    inode: int
    size: int
    mtime_ns: int


def file_identity(path: Path) -> FileIdentity | None:
    """Return the identity of a file; None if it is missing or not accessible."""
    try:
        status = path.stat()
    except OSError:
        return None
    return FileIdentity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def record_identity(folder: Path) -> tuple[FileIdentity | None, ...]:
    """Return the identity of a record's files, in the order of :data:`FILES`. It changes with each change of one."""
    return tuple(file_identity(folder / name) for name in FILES)


class RunIndex:
    """The runs in some folders. Of a record, only ``run.json`` is read, and again only after it changed.

    :param places: folders whose subfolders are runs; they may be missing.
    """

    def __init__(self, places: Iterable[Path]) -> None:
        self._places = tuple(places)
        self._listed: dict[Path, tuple[FileIdentity, Listed]] = {}

    def refresh(self, seconds: float = float("inf")) -> tuple[list[Listed], bool]:
        """Return all runs, the last written first, and whether all of them were read in ``seconds``.

        A run that cannot be read is listed with its problem. The state of a run is ``complete``, ``incomplete`` or
        ``being written``; the summary of one that has not finished is that of ``run.json``, so usually empty.
        """
        begun = time.monotonic()
        listed: dict[Path, tuple[FileIdentity, Listed]] = {}
        is_complete = True
        for identity, folder in self._folders():
            known = self._listed.get(folder)
            if known is None or known[0] != identity:
                if time.monotonic() - begun < seconds:
                    known = (identity, _read(folder))
                else:
                    is_complete = False
            if known is not None:
                listed[folder] = (known[0], _with_state(known[1]))
        self._listed = listed
        return [run for _, run in listed.values()], is_complete

    def _folders(self) -> Sequence[tuple[FileIdentity, Path]]:
        found: dict[Path, FileIdentity] = {}
        for folder in (folder for place in self._places for folder in _subfolders(place)):
            identity = file_identity(folder / RUN_JSON)
            if identity is not None:
                found[folder] = identity
        return sorted(((identity, folder) for folder, identity in found.items()), key=_newest_first)


def _newest_first(entry: tuple[FileIdentity, Path]) -> tuple[int, str]:
    identity, folder = entry
    return -identity.mtime_ns, str(folder)


def _subfolders(place: Path) -> list[Path]:
    try:
        return [folder for folder in place.iterdir() if not folder.name.startswith(".")]
    except OSError:
        return []


def _read(folder: Path) -> Listed:
    try:
        facts = read_facts(folder)
    except DataError as error:
        return Listed(folder, None, "unreadable", str(error))
    except (TypeError, KeyError, AttributeError) as error:
        return broken(folder, error)
    return Listed(folder, facts, state_of(facts, writing=False))


def broken(folder: Path, error: Exception) -> Listed:
    """Return what is listed of a run with a field of a type that no version writes, on which ``error`` was raised."""
    problem = f"{folder / RUN_JSON}: is damaged ({type(error).__name__}: {error}); {AGAIN}"
    return Listed(folder, None, "unreadable", problem)


def _with_state(run: Listed) -> Listed:
    """Return the run with its current state, which changes without a change of ``run.json`` if it is killed."""
    if run.facts is None or run.facts.finished is not None:
        return run
    return Listed(run.folder, run.facts, state_of(run.facts, is_being_written(run.folder)))
