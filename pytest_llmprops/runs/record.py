"""Writing a run record: ``run.json`` and ``verdicts.jsonl``."""

from __future__ import annotations

import datetime
import errno
import hashlib
import json
import os
import platform
import re
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.verdicts import VerdictKey, VerdictRecord
from pytest_llmprops.data.whole_files import replacing
from pytest_llmprops.records.files import FILES, from_plain, line, plain
from pytest_llmprops.records.rows import SearchCounts, SearchRecord
from pytest_llmprops.records.run import GitState, RunMetadata
from pytest_llmprops.runs.integrity import REQUESTS, VERDICTS, file_hashes, problems, run_json
from pytest_llmprops.runs.json_lines import JsonLines, open_record_file

FILE = "searches.jsonl"
#: bytes that are read at once to find a line again
_BLOCK = 1 << 14
#: remark on a counterexample that more calls might have made smaller
CUT_SHORT = "; the calls were spent before it was shrunk further"


def counterexample_text(record: SearchRecord) -> str:
    """Return what the counterexample of a search shows, how often it repeats, and whether it was cut short.

    Without a counterexample, it is what was not repeated.
    """
    text = record.why
    if record.replications:
        text += f"; repeats in {record.replicated} of {record.replications}"
    if record.not_repeated is not None:
        text = f"not repeated: {text}"
    return text + (CUT_SHORT if record.spent else "")


class SearchLog:
    """The searches of one run; each is flushed when it is added."""

    def __init__(self, folder: Path, kept: Sequence[SearchRecord] | None = None) -> None:
        """Begin the file.

        :param kept: the searches that stay in the record of a resumed run; None for a new run.
        """
        self._path = folder / FILE
        self._file: IO[bytes] | None = None
        self._records: dict[tuple[str, str, str, str], SearchRecord] = {}
        if kept is not None and os.path.lexists(self._path):
            with replacing(self._path, sync=True) as draft:
                draft.write_bytes(b"".join(map(line, kept)))
            self._records = {record.key: _without_evidence(record) for record in kept}

    def add(self, record: SearchRecord) -> None:
        """Append a search.

        :raises OSError: on a full disk; earlier lines are complete.
        """
        self._records[record.key] = _without_evidence(record)
        if self._file is None:
            self._file = open_record_file(self._path, "ab")
        self._file.write(line(record))
        self._file.flush()

    @property
    def records(self) -> list[SearchRecord]:
        """One record per item and property; what it found has only its ``why`` and its replications."""
        return list(self._records.values())

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _without_evidence(record: SearchRecord) -> SearchRecord:
    """Return the search without its evidence, of which a long run would collect too much in memory."""
    kept = ("why", "replications", "replicated")
    counterexample, not_repeated = (
        found and {name: value for name, value in found.items() if name in kept}
        for found in (record.counterexample, record.not_repeated)
    )
    return replace(record, counterexample=counterexample, not_repeated=not_repeated)


def search_counts(records: Iterable[SearchRecord]) -> tuple[SearchCounts, ...]:
    """Count the searches of each benchmark, model and property."""
    counts: dict[tuple[str, str, str], SearchCounts] = {}
    for record in records:
        key = record.benchmark, record.model, record.property
        before = counts.get(key, SearchCounts(*key))
        failed = bool(record.error)
        counts[key] = replace(
            before,
            searched=before.searched + (not failed),
            counterexamples=before.counterexamples + (record.counterexample is not None),
            not_repeated=before.not_repeated + (record.not_repeated is not None),
            examples=before.examples + record.examples,
            calls=before.calls + record.calls,
            spent=before.spent + record.spent,
            errors=before.errors + failed,
        )
    return tuple(counts.values())


DEFAULT_ROOT = Path("reports") / "runs"
RECORD_FILES = ("run.json", VERDICTS, REQUESTS)


def new_run_folder(requested: str | None, models: Sequence[str], root: Path) -> Path:
    """Create the folder of a new run: ``requested``, or ``reports/runs/<UTC time>-<model>`` under ``root``.

    :raises UsageError: if the folder cannot be created or already has a run.
    """
    if requested:
        _check_free(requested)
        candidates = [Path(requested)]
    else:
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        name = f"{stamp}-{re.sub(r'[^A-Za-z0-9._=-]+', '_', '+'.join(models))[:60]}"
        candidates = [root / DEFAULT_ROOT / (name if n == 1 else f"{name}-{n}") for n in range(1, 100)]
    for folder in candidates:
        try:
            folder.mkdir(parents=True, exist_ok=bool(requested))
            return folder
        except FileExistsError:
            if requested:
                raise UsageError(f"--llm-run {requested}: is not a folder") from None
        except OSError as error:
            raise unusable(folder, error) from None
    raise UsageError(f"run record {candidates[0]}: too many runs in one second")


def check_run_folder(requested: str | None, root: Path) -> None:
    """Check that :func:`new_run_folder` can create the folder of a new run, without creating it.

    :raises UsageError: as :func:`new_run_folder`.
    """
    folder = Path(requested) if requested else root / DEFAULT_ROOT
    try:
        if requested:
            _check_free(requested)
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    except OSError as error:
        raise unusable(folder, error) from None
    if not existing.is_dir():
        raise UsageError(f"--llm-run {folder}: {existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UsageError(
            f"run record {folder}: no permission to write; give a writable folder with --llm-run DIR"
        )


def _check_free(requested: str) -> None:
    folder = Path(requested)
    check_no_record(folder)
    check_no_links(folder)
    for path in (folder / name for name in (VERDICTS, REQUESTS, FILE)):
        # A run that was killed before its first run.json leaves empty files. The same command then runs.
        if path.is_dir() or (path.exists() and path.stat().st_size):
            raise UsageError(
                f"--llm-run {requested}: has {path.name} but no run.json, so no run can go on there; give a new folder"
            )


def check_no_links(folder: Path) -> None:
    """Check that the files that a run writes in its folder are regular files, if they exist.

    :raises UsageError: with the first link, pipe or device.
    """
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            is_own = entry.name.startswith((*FILES, "replies.sqlite", "."))
            mode = entry.stat(follow_symlinks=False).st_mode
            if is_own and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise UsageError(
                    f"--llm-run {folder}: {entry.name} is not a regular file, so a run does not write it; remove it, or"
                    " give a new folder"
                )


def check_no_record(folder: Path) -> None:
    """Check that no process has begun a record in ``folder``.

    :raises UsageError: if it has a ``run.json``.
    """
    if os.path.lexists(folder / "run.json"):
        raise UsageError(f"--llm-run {folder}: already holds a run; give a new folder")


def unusable(folder: Path, error: OSError) -> UsageError:
    """Return the error of a run that cannot begin because ``folder`` cannot be written."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    fix = "free disk space, or give a folder on another disk" if is_full else "give a writable folder"
    return UsageError(f"run record {folder}: {error.strerror or error}; {fix} with --llm-run DIR")


class RunRecord:
    """The record of a run in progress. Verdicts are flushed one by one; ``run.json`` is replaced atomically.

    The verdicts are not kept in memory, only where the last one of each item and sample begins in the file.
    """

    def __init__(self, folder: Path, facts: RunMetadata, kept: Sequence[VerdictRecord] | None = None) -> None:
        """Begin the record.

        :param kept: the verdicts that stay in the record of a resumed run; None for a new run.
        """
        self.folder = folder
        self.facts = facts
        #: verdicts that a later one on the same item and sample replaced; a gate does not judge such a record
        self.replaced: list[VerdictRecord] = []
        #: number of items and samples that have a verdict
        self.count = 0
        self._places: dict[VerdictKey, int] = {}
        self._digest = hashlib.sha256()
        #: bytes of the file that have complete lines
        self._size = 0
        # First, so that a resumed run that is killed here leaves a record that can be resumed again.
        self.write_facts()
        if kept is not None:
            raw = b"".join(map(line, kept))
            with replacing(folder / VERDICTS, sync=True) as draft:
                draft.write_bytes(raw)
            self._note_all(kept, raw)
        self._verdicts = open_record_file(folder / VERDICTS, "a+b", buffering=0)
        _lock(self._verdicts)

    @property
    def records(self) -> list[VerdictRecord]:
        """The verdicts so far, read from the file; of several on the same item and sample, the last.

        :raises DataError: if another process has changed the file.
        """
        lines = JsonLines(self.folder / VERDICTS, partial(from_plain, VerdictRecord))
        return list({record.key: record for record in lines}.values())

    @property
    def is_changed(self) -> bool:
        """True if the file has other lines than those that were added."""
        try:
            return file_hashes(self.folder, [VERDICTS]).get(VERDICTS) != self._digest.hexdigest()
        except DataError:
            return True

    def add(self, record: VerdictRecord) -> None:
        """Append a verdict. A case that is reported again with the same verdict is not repeated.

        :raises OSError: on a full disk; earlier lines are complete.
        """
        raw, key = line(record), record.key
        before = self._latest(key)
        if before is not None:
            if before == from_plain(VerdictRecord, json.loads(raw)):
                return
            self.replaced.append(before)
        self._append(raw)
        self._note(key, raw)
        self.count += before is None

    def add_lines(self, lines: str, records: Sequence[VerdictRecord] | None = None) -> None:
        """Append the verdicts of a case that has many.

        :param lines: the lines as they are written. :param records: the same verdicts, if the caller has them.
        :raises OSError: on a full disk; earlier lines are complete.
        """
        if records is None:
            rows = json.loads("[" + lines.rstrip("\n").replace("\n", ",") + "]")
            records = [from_plain(VerdictRecord, row) for row in rows]
        if any(self._latest(record.key) is not None for record in records):
            for record in records:
                self.add(record)
            return
        raw = lines.encode("utf-8", "replace")
        self._append(raw)
        self._note_all(records, raw)

    def _latest(self, key: VerdictKey) -> VerdictRecord | None:
        """Return the last verdict with this key; None if there is none, or if it cannot be read any more."""
        place = self._places.get(key)
        if place is not None:
            with suppress(ValueError):
                return from_plain(VerdictRecord, json.loads(self._line_at(place)))
        return None

    def _line_at(self, place: int) -> bytes:
        line = b""
        self._verdicts.seek(place)
        while b"\n" not in line and (more := self._verdicts.read(_BLOCK)):
            line += more
        return line.partition(b"\n")[0]

    def _append(self, raw: bytes) -> None:
        try:
            # A disk that is nearly full takes a part.
            while (written := self._verdicts.write(raw)) < len(raw):
                raw = raw[written:]
        except OSError:
            # A part of a line would be damage once another line follows it.
            with suppress(OSError):
                self._verdicts.truncate(self._size)
            raise

    def _note_all(self, records: Sequence[VerdictRecord], raw: bytes) -> None:
        for record, own in zip(records, raw.splitlines(keepends=True), strict=True):
            self._note(record.key, own)
        self.count += len(records)

    def _note(self, key: VerdictKey, raw: bytes) -> None:
        self._places[key] = self._size
        self._size += len(raw)
        self._digest.update(raw)

    def finished(self, facts: RunMetadata) -> RunMetadata:
        """Return ``facts`` with the current time and the hashes of the record's files, which no one writes any more.

        The hash of the verdicts is that of the lines that were added, so that a change of the file is seen.
        """
        files = {VERDICTS: self._digest.hexdigest(), **file_hashes(self.folder, [REQUESTS])}
        # The clock may have been set back during the run.
        return replace(facts, finished=max(utc_now(), facts.started or ""), files=files)

    def problems(self, facts: RunMetadata, records: Sequence[VerdictRecord]) -> list[str]:
        """Return what is inconsistent in the record of these :meth:`finished` facts and :attr:`records`."""
        return problems(facts, [*self.replaced, *records], records, file_hashes(self.folder))

    def write_facts(self) -> None:
        """Replace ``run.json`` atomically."""
        with replacing(self.folder / "run.json") as draft:
            draft.write_text(run_json(plain(self.facts)), encoding="utf-8", errors="replace")

    def close(self) -> None:
        self._verdicts.close()

    def finish(self, facts: RunMetadata) -> None:
        """Write the final facts with the current time and the hashes of the files, and close the files."""
        self.facts = self.finished(facts)
        try:
            self.write_facts()
        finally:
            # Last, because closing releases the lock. A reader then sees either a locked or a finished record.
            self._verdicts.close()


def _lock(file: IO[bytes]) -> None:
    """Lock ``file`` until it is closed or this process ends.

    Readers hold their shared lock only for an instant. Without file locks, a run that is being written looks like
    one that was killed.
    """
    try:
        import fcntl
    except ImportError:
        return
    with suppress(OSError):
        _take_lock(file, fcntl)


def _take_lock(file: IO[bytes], fcntl: Any) -> None:
    """Lock ``file``. A reader that asks whether the file is locked holds a lock for an instant, so try again.

    :raises BlockingIOError: if another process has locked the file. :raises OSError: without file locks.
    """
    for attempt in range(10):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if attempt == 9:
                raise
            time.sleep(0.01)


def remove_record(folder: Path) -> None:
    """Delete the files of a run that did not begin, and the folder if it is then empty."""
    for name in RECORD_FILES:
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def lock_verdicts(folder: Path) -> IO[bytes] | None:
    """Open the verdicts of a record and lock them until the file is closed, so that no other process resumes it.

    Return None without file locks.

    :raises UsageError: if a process is writing the record, or the file cannot be written.
    """
    try:
        import fcntl
    except ImportError:
        return None
    path = folder / VERDICTS
    try:
        file = open_record_file(path, "ab")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    try:
        _take_lock(file, fcntl)
        # A process that resumes the run has replaced the file that it locked.
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
    except BlockingIOError:
        pass
    except OSError:
        return file
    file.close()
    raise UsageError(f"{folder}: another process is writing this run; wait until it ends")


def first_facts(folder: Path, **facts: Any) -> RunMetadata:
    """Return the facts of a run that starts now in ``folder``; ``facts`` are fields of :class:`RunMetadata`."""
    return replace(RunMetadata(folder.name, started=utc_now(), versions=versions()), **facts)


def utc_now() -> str:
    """Return the current time in ISO 8601, UTC, in seconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that affect results, and the platform. Imports none of them."""
    from importlib.metadata import PackageNotFoundError, version

    result = {"python": platform.python_version(), "platform": sys.platform}
    for package in (
        "pytest-llmprops",
        "pytest",
        "pytest-xdist",
        "openai",
        "litellm",
        "transformers",
        "xllamacpp",
    ):
        with suppress(PackageNotFoundError):
            result[package] = version(package)
    return result


def git_state(folder: Path) -> GitState | None:
    """Return the commit of the repository at ``folder`` and whether it has changes; None outside a repository."""
    try:
        commit = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10
        )
        status = subprocess.run(
            ["git", "-C", str(folder), "status", "--porcelain"], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if commit.returncode:
        return None
    return GitState(commit.stdout.strip(), dirty=bool(status.stdout.strip()))
